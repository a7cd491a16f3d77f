package datadir

import (
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// mongoLock is what mongod holds while it runs, with a lock that the others do not
// exclude (flock), and empties when it stops cleanly.
const mongoLock = "mongod.lock"

// Files of FerretDB, which speaks MongoDB's protocol and keeps its data in
// SQLite: databases, and what was written to them and not yet moved into place.
const (
	sqliteFile = ".sqlite"
	sqliteWAL  = ".sqlite-wal"
)

// flocked keeps a file's other kind of lock, for one that is held by it.
func flocked(f *os.File, name string) error {
	if path.Base(name) != mongoLock {
		return nil
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err { //nolint:gosec // A number of the kernel's, and a small one.
	case nil:
		return nil
	case unix.EWOULDBLOCK:
		return &RunningError{File: name}
	default:
		return fmt.Errorf("cannot lock %s: %w", name, err)
	}
}

// howMongoStopped reads whether MongoDB, or what speaks its protocol, stopped
// cleanly. Known is false where the directory is none of theirs.
func howMongoStopped(dir *os.Root) (Shutdown, error) {
	names, err := list(dir, ".")
	if err != nil {
		return Shutdown{}, err
	}
	s := Shutdown{}
	for _, name := range names {
		lock, wal := name == mongoLock, strings.HasSuffix(name, sqliteWAL)
		if !lock && !wal && !strings.HasSuffix(name, sqliteFile) {
			continue
		}
		if !s.Known {
			s = Shutdown{Known: true, Clean: true, Reason: "the server left no sign of work that it did not finish"}
		}
		info, err := dir.Lstat(name)
		if err != nil {
			return Shutdown{}, err
		}
		if (lock || wal) && info.Size() > 0 {
			s.Clean, s.Reason = false, name+" is not empty, as a server leaves it that was killed"
		}
	}
	return s, nil
}
