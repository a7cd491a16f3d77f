package archive

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
	"github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/datadir"
	"github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/version"
)

// initialSuffix is that of the folder in which a server makes a new database,
// beside the data directory.
const initialSuffix = ".init"

// An Initial is a data volume on which a database is made for the first time: in
// a folder of its own, which becomes the data directory when it is whole.
type Initial struct {
	volume *volume
	path   string
	xr     types.UID
}

// OpenInitial opens the volume of an XR that is mounted at a path, whose data belongs into
// a folder of its root. One process at a time can have it.
func OpenInitial(path, directory string, xr types.UID) (*Initial, error) {
	v, err := openVolume(path, directory)
	if err != nil {
		return nil, err
	}
	return &Initial{volume: v, path: path, xr: xr}, nil
}

// Close the volume.
func (i *Initial) Close() { i.volume.closeVolume() }

// HasOldPassword is true if the data is from a backup, and root's password still the one that it
// was backed up with. Nobody knows that.
func (i *Initial) HasOldPassword() (bool, error) {
	m, err := i.volume.readMarker()
	if err != nil || m == nil {
		return false, err
	}
	return m.Archive != "" && !m.PasswordSet, nil
}

// IsImported is true of data that a server wrote which was not ours.
func (i *Initial) IsImported() (bool, error) {
	m, err := i.volume.readMarker()
	return m != nil && strings.HasPrefix(m.Archive, importPrefix), err
}

// NotePassword says on the volume that root has this instance's password.
func (i *Initial) NotePassword() error {
	m, err := i.volume.readMarker()
	if err != nil {
		return err
	}
	m.PasswordSet = true
	return i.volume.putMarker(*m)
}

// HowDataStopped is how the server stopped that wrote the data directory.
func (i *Initial) HowDataStopped() (datadir.Shutdown, error) {
	dir, err := i.volume.OpenRoot(i.volume.directory)
	if err != nil {
		return datadir.Shutdown{}, err
	}
	defer dir.Close() //nolint:errcheck // Nothing was written.
	return howStopped(dir)
}

// howStopped is how the server stopped that wrote a data directory.
func howStopped(dir *os.Root) (datadir.Shutdown, error) {
	how, err := datadir.HowStopped(dir)
	if err != nil {
		return datadir.Shutdown{}, fmt.Errorf("cannot read how the server stopped: %w", err)
	}
	return how, nil
}

// Data is the data directory.
func (i *Initial) Data() string { return filepath.Join(i.path, i.volume.directory) }

// Folder in which the database is made.
func (i *Initial) Folder() string { return filepath.Join(i.path, i.folderName()) }

// HasData is true if there is a data directory with something in it. What is
// there is the server's to judge: nothing is ever made over it. But a server would take
// another instance's data for its own, its accounts with it: that is an error.
func (i *Initial) HasData() (bool, error) {
	state, err := i.volume.dataState()
	if err != nil || state.empty {
		return false, err
	}
	if err := i.volume.checkOwner(i.xr); err != nil {
		return false, err
	}
	return true, nil
}

// Nothing is nil if the volume never held data. An error says why that is in doubt.
func (i *Initial) Nothing() error { return i.volume.checkNothing() }

// NoteStart of a server of a version on the data, unless that was noted before.
func (i *Initial) NoteStart(serverVersion string) error {
	if i.volume.startedVersion() == serverVersion {
		return nil
	}
	return writeNote(i.volume.Root, startedName, started{Version: serverVersion})
}

// started is what the file startedName has.
type started struct {
	Version string `json:"version"`
}

// startedVersion of the server that was started last; empty where the volume does not say, or not so
// that it can be read: it is one word of several.
func (v *volume) startedVersion() string {
	raw, err := readNote(v.Root, startedName)
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
		err := i.volume.checkUnused(i.folderName())
		if err == nil {
			break
		}
		running := new(datadir.RunningError)
		if !errors.As(err, &running) || time.Now().After(end) {
			return fmt.Errorf("cannot remove what an earlier first start left: %w", err)
		}
	}
	// The marker of one that was never put in place goes first: without that folder it says that somebody has removed a database.
	for _, name := range []string{markerName, markerName + partialSuffix, i.folderName()} {
		if err := i.volume.RemoveAll(name); err != nil {
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
	if err := i.volume.writeMarker(i.folderName(), marker{XR: i.xr}); err != nil {
		return err
	}
	if err := unix.Syncfs(fileDescriptor(i.volume.handle)); err != nil {
		return fmt.Errorf("cannot write the new database to disk: %w", err)
	}
	if err := i.volume.replaceEmpty(i.folderName(), i.volume.directory); err != nil {
		return err
	}
	return syncFolder(i.volume.Root)
}

// checkStopped is nil if the server has stopped, and its files do not say that it was
// cut off.
func (i *Initial) checkStopped() error {
	how, err := i.volume.stoppedIn(i.folderName())
	if err != nil {
		return err
	}
	if how.Known && !how.Clean {
		return exitWith(agent.ExitFailed, "the server of the first start did not stop cleanly: %s", how.Reason)
	}
	return nil
}

func (i *Initial) folderName() string { return i.volume.directory + initialSuffix }
