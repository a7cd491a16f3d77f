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

// initialSuffix is that of the folder in which a server makes a new database,
// beside the data directory.
const initialSuffix = ".init"

// An Initial is a data volume on which a database is made for the first time: in
// a folder of its own, which becomes the data directory when it is whole.
type Initial struct {
	Volume *Volume
	path   string
	xr     types.UID
}

// OpenInitial opens the volume of an XR that is mounted at a path, whose data belongs into
// a folder of its root. One process at a time can have it.
func OpenInitial(path, directory string, xr types.UID) (*Initial, error) {
	v, err := OpenVolume(path, directory)
	if err != nil {
		return nil, err
	}
	return &Initial{Volume: v, path: path, xr: xr}, nil
}

// Close the volume.
func (i *Initial) Close() { i.Volume.CloseVolume() }

// HasOldPassword is true if the data is from a backup, and root's password still the one that it
// was backed up with. Nobody knows that.
func (i *Initial) HasOldPassword() (bool, error) {
	m, err := i.Volume.ReadMarker()
	if err != nil || m == nil {
		return false, err
	}
	return m.Archive != "" && !m.PasswordSet, nil
}

// IsImported is true of data that a server wrote which was not ours.
func (i *Initial) IsImported() (bool, error) {
	m, err := i.Volume.ReadMarker()
	return m != nil && strings.HasPrefix(m.Archive, ImportPrefix), err
}

// NotePassword says on the volume that root has this instance's password.
func (i *Initial) NotePassword() error {
	m, err := i.Volume.ReadMarker()
	if err != nil {
		return err
	}
	m.PasswordSet = true
	return i.Volume.putMarker(*m)
}

// HowDataStopped is how the server stopped that wrote the data directory.
func (i *Initial) HowDataStopped() (datadir.Shutdown, error) {
	dir, err := i.Volume.OpenRoot(i.Volume.directory)
	if err != nil {
		return datadir.Shutdown{}, err
	}
	defer dir.Close() //nolint:errcheck // Nothing was written.
	return HowStopped(dir)
}

// HowStopped is how the server stopped that wrote a data directory.
func HowStopped(dir *os.Root) (datadir.Shutdown, error) {
	how, err := datadir.HowStopped(dir)
	if err != nil {
		return datadir.Shutdown{}, fmt.Errorf("cannot read how the server stopped: %w", err)
	}
	return how, nil
}

// Data is the data directory.
func (i *Initial) Data() string { return filepath.Join(i.path, i.Volume.directory) }

// Folder in which the database is made.
func (i *Initial) Folder() string { return filepath.Join(i.path, i.folderName()) }

// HasData is true if there is a data directory with something in it. What is
// there is the server's to judge: nothing is ever made over it. But a server would take
// another instance's data for its own, its accounts with it: that is an error.
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

// Nothing is nil if the volume never held data. An error says why that is in doubt.
func (i *Initial) Nothing() error { return i.Volume.CheckNothing() }

// NoteStart of a server of a version on the data, unless that was noted before.
func (i *Initial) NoteStart(serverVersion string) error {
	if i.Volume.StartedVersion() == serverVersion {
		return nil
	}
	return writeNote(i.Volume.Root, StartedName, started{Version: serverVersion})
}

// started is what the file StartedName has.
type started struct {
	Version string `json:"version"`
}

// StartedVersion of the server that was started last; empty where the volume does not say, or not so
// that it can be read: it is one word of several.
func (v *Volume) StartedVersion() string {
	raw, err := readNote(v.Root, StartedName)
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

// Clear what an earlier run left, where there is Nothing. Its server may end a moment after it, and is
// waited for: two servers in one folder would make no database.
func (i *Initial) Clear(timeout time.Duration) error {
	for end := time.Now().Add(timeout); ; time.Sleep(timeout / 100) {
		err := i.Volume.checkUnused(i.folderName())
		if err == nil {
			break
		}
		running := new(datadir.RunningError)
		if !errors.As(err, &running) || time.Now().After(end) {
			return fmt.Errorf("cannot remove what an earlier first start left: %w", err)
		}
	}
	// The marker of one that was never put in place goes first: without that folder it says that somebody has removed a database.
	for _, name := range []string{MarkerName, MarkerName + PartialSuffix, i.folderName()} {
		if err := i.Volume.RemoveAll(name); err != nil {
			return fmt.Errorf("cannot remove what an earlier first start left: %w", err)
		}
	}
	return nil
}

// Publish the folder as the data directory, once its server has stopped cleanly.
// From the rename on, and not before, there is a database.
func (i *Initial) Publish() error {
	if err := i.checkStopped(); err != nil {
		return err
	}
	if err := i.Volume.writeMarker(i.folderName(), Marker{XR: i.xr}); err != nil {
		return err
	}
	if err := unix.Syncfs(FileDescriptor(i.Volume.Handle)); err != nil {
		return fmt.Errorf("cannot write the new database to disk: %w", err)
	}
	if err := i.Volume.replaceEmpty(i.folderName(), i.Volume.directory); err != nil {
		return err
	}
	return SyncFolder(i.Volume.Root)
}

// checkStopped is nil if the server has stopped, and its files do not say that it was
// cut off.
func (i *Initial) checkStopped() error {
	how, err := i.Volume.StoppedIn(i.folderName())
	if err != nil {
		return err
	}
	if how.Known && !how.Clean {
		return exit.With(agent.ExitFailed, "the server of the first start did not stop cleanly: %s", how.Reason)
	}
	return nil
}

func (i *Initial) folderName() string { return i.Volume.directory + initialSuffix }
