package archive

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

// maxDirs limits the memory for directories. Their modes and times are kept in memory, and set after all files are
// written.
const maxDirs = 200_000

// syncers is the maximum number of unpacked files that are flushed to disk in the background at the same time.
const syncers = 8

// An unpacker writes entries to an empty directory, and never writes outside of it.
type unpacker struct {
	root *os.Root
	// owned is true if files get the owner that is stored in the archive. Only root can set an owner.
	owned   bool
	dirs    []*entry
	slots   chan struct{}
	running sync.WaitGroup
	mu      sync.Mutex
	err     error
}

func newUnpacker(root *os.Root) *unpacker {
	return &unpacker{root: root, owned: os.Geteuid() == 0, slots: make(chan struct{}, syncers)}
}

func (u *unpacker) beginEntry(e *entry) (io.WriteCloser, error) {
	if err := u.firstFailure(); err != nil {
		return nil, err
	}
	switch {
	case e.mode.IsDir():
		return nil, u.makeDir(e)
	case e.isSymlink():
		return nil, u.makeLink(e)
	}
	// O_EXCL never opens an existing file, so that nothing is written through a link.
	f, err := u.root.OpenFile(e.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, explainTwice(e, err)
	}
	return &unpackedFile{File: f, entry: e, unpacker: u}, nil
}

func (u *unpacker) makeDir(e *entry) error {
	if len(u.dirs) == maxDirs {
		return tooManyDirs()
	}
	u.dirs = append(u.dirs, e)
	if e.name == "." && len(u.dirs) == 1 {
		return nil
	}
	return explainTwice(e, u.root.Mkdir(e.name, 0o700))
}

func (u *unpacker) makeLink(e *entry) error {
	if err := u.root.Symlink(e.link, e.name); err != nil {
		return explainTwice(e, err)
	}
	if !u.owned {
		return nil
	}
	return u.root.Lchown(e.name, e.uid, e.gid)
}

func tooManyDirs() error {
	return exit.With(agent.ExitFailed,
		"the archive has more than %d directories, too many to restore their modes and times", maxDirs)
}

// explainTwice reports a damaged archive if a name already exists, or if its directory is missing. An intact archive
// cannot cause this, because the target directory was empty at the beginning.
func explainTwice(e *entry, err error) error {
	if os.IsExist(err) || os.IsNotExist(err) {
		return exit.Damaged("the archive contains %.100q twice, or without its directory: %w", e.name, err)
	}
	return err
}

// An unpackedFile is flushed to disk while the next file is unpacked.
type unpackedFile struct {
	*os.File

	entry         *entry
	unpacker      *unpacker
	size, flushed int64
}

func (f *unpackedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.size += int64(n)
	if f.size-f.flushed >= flushBytes {
		flushEarly(f.File, f.flushed, f.size-f.flushed)
		f.flushed = f.size
	}
	return n, err
}

// Close flushes the file in the background. The next beginEntry or finishDirs returns the error of that flush.
func (f *unpackedFile) Close() error {
	u := f.unpacker
	u.slots <- struct{}{}
	u.running.Go(func() {
		defer func() { <-u.slots }()
		err := u.setAttributes(f.File, f.entry)
		if serr := f.Sync(); err == nil {
			err = serr
		}
		if cerr := f.File.Close(); err == nil {
			err = cerr
		}
		u.recordFailure(f.entry, err)
	})
	return nil
}

// setAttributes sets the owner, mode, extended attributes and time of an open file or directory.
func (u *unpacker) setAttributes(f *os.File, e *entry) error {
	if u.owned {
		if err := f.Chown(e.uid, e.gid); err != nil {
			return err
		}
	}
	if err := f.Chmod(e.mode & (fs.ModePerm | fs.ModeSetgid)); err != nil {
		return err
	}
	for name, value := range e.attrs {
		if err := unix.Fsetxattr(datavolume.FileDescriptor(f), name, []byte(value), 0); err != nil {
			return fmt.Errorf("cannot set the attribute %.100q: %w", name, err)
		}
	}
	return u.root.Chtimes(e.name, e.modified, e.modified)
}

func (u *unpacker) recordFailure(e *entry, err error) {
	if err == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = fmt.Errorf("cannot write %.100q to disk: %w", e.name, err)
	}
}

func (u *unpacker) firstFailure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// waitForWriters waits until all files are flushed.
func (u *unpacker) waitForWriters() { u.running.Wait() }

// finishDirs sets the attributes of the directories, the innermost first, and flushes them to disk.
func (u *unpacker) finishDirs() error {
	u.waitForWriters()
	if err := u.firstFailure(); err != nil {
		return err
	}
	for _, e := range slices.Backward(u.dirs) {
		if err := u.finishDir(e); err != nil {
			return fmt.Errorf("cannot write the directory %.100q to disk: %w", e.name, err)
		}
	}
	return nil
}

func (u *unpacker) finishDir(e *entry) error {
	f, err := u.root.OpenFile(e.name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Sync returns the errors that matter.
	if err := u.setAttributes(f, e); err != nil {
		return err
	}
	return f.Sync()
}
