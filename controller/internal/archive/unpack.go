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

// maxFolders bounds the memory: they get their modes and times at the end.
const maxFolders = 200_000

// syncers is how many files are written through to disk at once, beside the one
// that is being unpacked.
const syncers = 8

// An unpacker writes entries into an empty folder, and never out of it.
type unpacker struct {
	root *os.Root
	// owned is true if files get the owner that the archive names. Only root can.
	owned   bool
	folders []*entry
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
		return nil, u.makeFolder(e)
	case e.isSymlink():
		return nil, u.makeLink(e)
	}
	// Nothing that is there is ever opened: what a link leads to is safe.
	f, err := u.root.OpenFile(e.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, explainTwice(e, err)
	}
	return &unpackedFile{File: f, entry: e, unpacker: u}, nil
}

func (u *unpacker) makeFolder(e *entry) error {
	if len(u.folders) == maxFolders {
		return tooManyFolders()
	}
	u.folders = append(u.folders, e)
	if e.name == "." && len(u.folders) == 1 {
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

func tooManyFolders() error {
	return exit.With(agent.ExitFailed, "the archive has more than %d folders: no restore has room for their modes and times", maxFolders)
}

// explainTwice turns the error of a name that is there already, or whose folder is
// not, into what it says of the archive: it was unpacked into an empty folder.
func explainTwice(e *entry, err error) error {
	if os.IsExist(err) || os.IsNotExist(err) {
		return exit.Damaged("the archive has %.100q twice, or without its folder: %w", e.name, err)
	}
	return err
}

// An unpackedFile is written through to disk while the next one is unpacked.
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

// Close hands the file on; an error comes back from the next beginEntry or from
// finishFolders.
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
		u.noteFailure(f.entry, err)
	})
	return nil
}

// setAttributes of an open file or folder: owner, mode, attributes and time.
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

func (u *unpacker) noteFailure(e *entry, err error) {
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

// waitForWriters of the files that are being written.
func (u *unpacker) waitForWriters() { u.running.Wait() }

// finishFolders gives the folders what they should have, the innermost first, and
// writes them through to disk.
func (u *unpacker) finishFolders() error {
	u.waitForWriters()
	if err := u.firstFailure(); err != nil {
		return err
	}
	for _, e := range slices.Backward(u.folders) {
		if err := u.finishFolder(e); err != nil {
			return fmt.Errorf("cannot write the folder %.100q to disk: %w", e.name, err)
		}
	}
	return nil
}

func (u *unpacker) finishFolder(e *entry) error {
	f, err := u.root.OpenFile(e.name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Sync says what there is to say.
	if err := u.setAttributes(f, e); err != nil {
		return err
	}
	return f.Sync()
}
