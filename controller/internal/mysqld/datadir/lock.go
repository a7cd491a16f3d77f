package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// A RunningError means that another process has locked a file of the data directory. This is a running server, or
// another Job that copies the data.
type RunningError struct {
	// File is the path of the locked file, relative to the data directory.
	File string
	// PID is the process that holds the lock, or 0 if the kernel does not report it. This is often the case if the
	// process is in another container.
	PID int
}

func (e *RunningError) Error() string {
	holder := "another process"
	if e.PID > 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("%s has locked %s: a server still uses this data, or another copy is running", holder, e.File)
}

// Locks hold locks on the files of a data directory. While they are held, no server can start. They cannot be
// acquired while a server is running.
type Locks struct{ files []*os.File }

// Lock locks all files that a running server locks. The locks are held until Release, or until the process exits.
func Lock(dir *os.Root) (*Locks, error) {
	l := &Locks{}
	for _, directory := range []string{".", redoDir} {
		if err := l.lockDir(dir, directory); err != nil {
			l.Release()
			return nil, err
		}
	}
	return l, nil
}

// Len returns the number of locked files.
func (l *Locks) Len() int { return len(l.files) }

// Release releases the locks, so that a server can start on the data directory.
func (l *Locks) Release() {
	for _, f := range l.files {
		_ = f.Close() // Nothing was written.
	}
	l.files = nil
}

func (l *Locks) lockDir(dir *os.Root, directory string) error {
	names, err := listDir(dir, directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		name = path.Join(directory, name)
		info, lerr := dir.Lstat(name)
		if lerr != nil {
			return lerr
		}
		if !info.Mode().IsRegular() || !Held(name) {
			continue
		}
		f, lerr := OpenLocked(dir, name)
		if lerr != nil {
			return lerr
		}
		l.files = append(l.files, f)
	}
	return err
}

func listDir(dir *os.Root, directory string) ([]string, error) {
	info, err := dir.Lstat(directory)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, nil
	}
	f, err := dir.Open(directory)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	return f.Readdirnames(-1)
}

// OpenLocked opens a file with a lock that conflicts with the lock of a server. Such a lock fails if a server has the
// file open, and prevents a server from opening it. It is an open file description lock. Unlike a server's lock, it
// remains if another part of this process opens and closes the file. On a read-only volume, and for a file that this
// process may only read, only a read lock is possible. It also prevents a server from starting.
func OpenLocked(dir *os.Root, name string) (*os.File, error) {
	kind := int16(unix.F_WRLCK)
	f, err := dir.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) {
		kind = unix.F_RDLCK
		f, err = dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		return nil, err
	}
	if err := setLock(f, name, kind); err != nil {
		_ = f.Close() // Nothing was written.
		return nil, err
	}
	return f, nil
}

func setLock(f *os.File, name string, kind int16) error {
	fd := f.Fd()
	lock := unix.Flock_t{Type: kind}
	err := unix.FcntlFlock(fd, unix.F_OFD_SETLK, &lock)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
		return fmt.Errorf("cannot lock %s: %w", name, err)
	}
	running := &RunningError{File: name}
	holder := unix.Flock_t{Type: kind}
	if unix.FcntlFlock(fd, unix.F_OFD_GETLK, &holder) == nil && holder.Type != unix.F_UNLCK {
		running.PID = max(int(holder.Pid), 0)
	}
	return running
}
