package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/datadir"
)

// A tree is a data directory to archive.
type tree struct {
	*os.Root

	// withoutOutside is true if a user has allowed the backup to omit data outside of the directory.
	withoutOutside bool
}

// walkEntries visits the entries of an archive in sorted order. It visits each directory before its contents.
func (t tree) walkEntries(ctx context.Context, visit func(*entry) error) error {
	return t.visitDir(ctx, ".", t.statEntry, visit)
}

// visitDir visits the entries below a name. Entries for which find returns nil are omitted.
func (t tree) visitDir(ctx context.Context, name string, find func(name string) (*entry, error),
	visit func(*entry) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e, err := find(name)
	if err != nil || e == nil {
		return err
	}
	if err := visit(e); err != nil || !e.mode.IsDir() {
		return err
	}
	names, err := datavolume.SortedNames(t.Root, name)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := t.visitDir(ctx, path.Join(name, n), find, visit); err != nil {
			return err
		}
	}
	return nil
}

// statEntry returns the entry for a path, or nil if an archive does not contain that file.
func (t tree) statEntry(name string) (*entry, error) {
	info, err := t.Lstat(name)
	if err != nil {
		return nil, err
	}
	if datadir.Skip(name, info.Mode()) {
		return nil, nil //nolint:nilnil // Neither an entry nor an error.
	}
	e, err := fromInfo(name, info)
	if err != nil {
		return nil, err
	}
	if err := t.checkPointer(e); err != nil {
		return nil, err
	}
	switch {
	case info.Mode().IsRegular(), info.IsDir():
		e.attrs, err = t.readAttributes(name)
	case e.isSymlink():
		e.link, err = t.Readlink(name)
	default:
		return nil, fmt.Errorf("%q in the data directory is neither a file nor a directory but %s, %w", name,
			info.Mode().Type(), errUnknownType)
	}
	if err != nil {
		return nil, err
	}
	if e.isSymlink() && !staysInside(e.name, e.link) {
		if t.withoutOutside {
			return nil, nil //nolint:nilnil // A restored link would have no target.
		}
		return nil, exit.With(agent.ExitOutside,
			"%.100q is a symbolic link to %.100q, outside of the data directory, and data there is not backed up. %s", e.name,
			e.link, howToMoveIn)
	}
	if err := e.checkName(name); err != nil {
		return nil, exit.With(agent.ExitFailed, "%w", errors.Unwrap(err)) // The data is at fault, not the archive.
	}
	return e, nil
}

// errUnknownType is the reason for refusing FIFOs and devices.
var errUnknownType = errors.New("which no server creates: inspect and remove it")

// howToMoveIn tells the user how to move a table into the data directory. It was tested with MariaDB and MySQL.
const howToMoveIn = "Only the running server can move the table into the data directory (SET SESSION sql_mode = " +
	"'NO_DIR_IN_CREATE'; ALTER TABLE … FORCE, ALGORITHM = COPY) or drop it"

// pointerSuffix is the suffix of a file that contains the path of a table's file outside of the data directory (DATA
// DIRECTORY). InnoDB writes it in MariaDB, and in MySQL before 8.0.
const pointerSuffix = ".isl"

// checkPointer refuses a file that refers to a table's file elsewhere, because the backup would contain the table
// without its data.
func (t tree) checkPointer(e *entry) error {
	if t.withoutOutside || !e.mode.IsRegular() || path.Ext(e.name) != pointerSuffix {
		return nil
	}
	f, err := t.OpenFile(e.name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	place, err := io.ReadAll(io.LimitReader(f, maxLinkBytes))
	if err != nil {
		return err
	}
	return exit.With(agent.ExitOutside,
		"the rows of a table are stored outside of the data directory, in %.200q, according to %.200q: they are "+
			"not backed up. %s",
		strings.TrimSpace(string(place)), e.name, howToMoveIn)
}

func fromInfo(name string, info fs.FileInfo) (*entry, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("cannot read the owner of %q", name)
	}
	e := &entry{name: name, mode: info.Mode(), uid: int(stat.Uid), gid: int(stat.Gid), modified: info.ModTime()}
	if info.Mode().IsRegular() {
		e.size = info.Size()
	}
	if !info.Mode().IsRegular() {
		e.mode &^= fs.ModeSticky | fs.ModeSetuid
	}
	return e, nil
}

// openEntry opens a file of the tree for reading. It locks a file that a running server would lock. It returns an
// error if the file has changed since it was listed.
func (t tree) openEntry(e *entry) (f *os.File, err error) {
	if datadir.Locked(e.name) {
		f, err = t.openLocked(e.name)
	} else {
		f, err = t.OpenFile(e.name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		return nil, err
	}
	if err := e.checkUnchanged(f); err != nil {
		_ = f.Close() // Nothing was written.
		return nil, err
	}
	return f, nil
}

// openLocked opens a file under the server's lock. If the backup already holds the lock on the file, it does not lock
// the file again, because the second lock would fail.
func (t tree) openLocked(name string) (*os.File, error) {
	if datadir.Held(name) {
		return t.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	}
	return datadir.OpenLocked(t.Root, name)
}

// checkUnchanged returns an error if a file has changed since it was listed.
func (e *entry) checkUnchanged(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != e.size || !info.ModTime().Equal(e.modified) {
		return fmt.Errorf("%q changed during the copy: another process writes to the data directory", e.name)
	}
	return nil
}

// readAttributes returns the extended attributes in the namespace "user". It opens the file again, because os.Root
// has no other access to attributes.
func (t tree) readAttributes(name string) (map[string]string, error) {
	f, err := t.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	return readAttributes(datavolume.FileDescriptor(f))
}
