package datavolume

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/datadir"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// initialSuffix is the suffix of the directory in which a server initializes a new database, next to the data
// directory.
const initialSuffix = ".init"

// An Initial is a data volume on which a database is initialized. This happens in a separate directory, which becomes
// the data directory when it is complete.
type Initial struct {
	Volume *Volume
	path   string
	xr     types.UID
}

// OpenInitial opens and locks the volume at a path. directory is the name of the data directory in its root.
func OpenInitial(path, directory string, xr types.UID) (*Initial, error) {
	v, err := OpenVolume(path, directory)
	if err != nil {
		return nil, err
	}
	return &Initial{Volume: v, path: path, xr: xr}, nil
}

// Close closes and unlocks the volume.
func (i *Initial) Close() { i.Volume.CloseVolume() }

// HasOldPassword reports whether the data was restored and still has the root password of the backed-up server, which
// is unknown.
func (i *Initial) HasOldPassword() (bool, error) {
	m, err := i.Volume.ReadMarker()
	if err != nil || m == nil {
		return false, err
	}
	return m.Archive != "" && !m.PasswordSet, nil
}

// IsImported reports whether the data was imported from a foreign server.
func (i *Initial) IsImported() (bool, error) {
	m, err := i.Volume.ReadMarker()
	return m != nil && strings.HasPrefix(m.Archive, ImportPrefix), err
}

// RecordPassword records on the volume that the root account has this instance's password.
func (i *Initial) RecordPassword() error {
	m, err := i.Volume.ReadMarker()
	if err != nil {
		return err
	}
	m.PasswordSet = true
	return i.Volume.putMarker(*m)
}

// HowDataStopped returns how the last server of the data directory stopped.
func (i *Initial) HowDataStopped() (datadir.Shutdown, error) {
	dir, err := i.Volume.OpenRoot(i.Volume.directory)
	if err != nil {
		return datadir.Shutdown{}, err
	}
	defer dir.Close() //nolint:errcheck // Nothing was written.
	return HowStopped(dir)
}

// HowStopped returns how the last server of a data directory stopped.
func HowStopped(dir *os.Root) (datadir.Shutdown, error) {
	shutdown, err := datadir.HowStopped(dir)
	if err != nil {
		return datadir.Shutdown{}, fmt.Errorf("cannot determine whether the server stopped cleanly: %w", err)
	}
	return shutdown, nil
}

// Data returns the path of the data directory.
func (i *Initial) Data() string { return filepath.Join(i.path, i.Volume.directory) }

// Dir returns the path of the directory in which the database is initialized.
func (i *Initial) Dir() string { return filepath.Join(i.path, i.dirName()) }

// HasData reports whether the data directory contains anything. Such a directory is never overwritten. HasData
// returns an error if the data belongs to another instance, because the server would use that instance's data and
// accounts.
func (i *Initial) HasData() (bool, error) {
	state, err := i.Volume.DataState()
	if err != nil || state.Empty {
		return false, err
	}
	if err := i.Volume.CheckOwner(i.xr); err != nil {
		return false, err
	}
	return true, nil
}

// Nothing returns an error if the volume has no data but shows that it once contained data. See CheckNothing.
func (i *Initial) Nothing() error { return i.Volume.CheckNothing() }

// RecordStart records the version of a server that is started on the data, unless it is already recorded.
func (i *Initial) RecordStart(serverVersion string) error {
	if i.Volume.StartedVersion() == serverVersion {
		return nil
	}
	return writeFile(i.Volume.Root, StartedName, started{Version: serverVersion})
}

// started is the content of the file StartedName.
type started struct {
	Version string `json:"version"`
}

// StartedVersion returns the version of the last started server. It returns "" if the file is missing or
// unreadable, because callers have other sources for the version.
func (v *Volume) StartedVersion() string {
	raw, err := readFile(v.Root, StartedName)
	if err != nil {
		return ""
	}
	s := started{}
	if err := json.Unmarshal(raw, &s); err != nil {
		return ""
	}
	if _, err := version.Parse(s.Version); err != nil {
		return ""
	}
	return s.Version
}

// Clear removes files of an earlier run if the volume contains no data. The server of that run may terminate later than
// the run itself. Clear waits for that server, because an initialization fails while another server uses the directory.
func (i *Initial) Clear(timeout time.Duration) error {
	for end := time.Now().Add(timeout); ; time.Sleep(timeout / 100) {
		err := i.Volume.checkUnused(i.dirName())
		if err == nil {
			break
		}
		running := new(datadir.RunningError)
		if !errors.As(err, &running) || time.Now().After(end) {
			return fmt.Errorf("cannot remove the files of an earlier initialization: %w", err)
		}
	}
	// The marker of incomplete data is removed first. A marker without its directory would mean that a user has removed
	// a database.
	for _, name := range []string{MarkerName, MarkerName + PartialSuffix, i.dirName()} {
		if err := i.Volume.RemoveAll(name); err != nil {
			return fmt.Errorf("cannot remove the files of an earlier initialization: %w", err)
		}
	}
	return nil
}

// Publish renames the directory to the data directory after its server has stopped cleanly. The directory counts as a
// database only after the rename.
func (i *Initial) Publish() error {
	if err := i.checkStopped(); err != nil {
		return err
	}
	if err := i.Volume.writeMarker(i.dirName(), Marker{XR: i.xr}); err != nil {
		return err
	}
	if err := unix.Syncfs(FileDescriptor(i.Volume.Handle)); err != nil {
		return fmt.Errorf("cannot write the new database to disk: %w", err)
	}
	if err := i.Volume.replaceEmpty(i.dirName(), i.Volume.directory); err != nil {
		return err
	}
	return SyncDir(i.Volume.Root)
}

// checkStopped returns an error if the server is still running or did not stop cleanly.
func (i *Initial) checkStopped() error {
	shutdown, err := i.Volume.StoppedIn(i.dirName())
	if err != nil {
		return err
	}
	if shutdown.Known && !shutdown.Clean {
		return exit.With(agent.ExitFailed, "the server that initialized the database did not stop cleanly: %s", shutdown.Reason)
	}
	return nil
}

func (i *Initial) dirName() string { return i.Volume.directory + initialSuffix }
