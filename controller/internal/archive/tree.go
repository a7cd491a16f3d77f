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

// A tree is a data directory that is to be archived.
type tree struct {
	*os.Root

	// withoutOutside is true if a person has given up what lies outside of the directory.
	withoutOutside bool
}

// walkEntries visits what an archive holds, sorted, each folder before what is in it.
func (t tree) walkEntries(ctx context.Context, visit func(*entry) error) error {
	return t.visitFolder(ctx, ".", t.statEntry, visit)
}

// visitFolder by what look says of each entry; nil is for what is left out.
func (t tree) visitFolder(ctx context.Context, name string, look func(name string) (*entry, error), visit func(*entry) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e, err := look(name)
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
		if err := t.visitFolder(ctx, path.Join(name, n), look, visit); err != nil {
			return err
		}
	}
	return nil
}

// statEntry looks at an entry; nil is for what is left out.
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
		return nil, fmt.Errorf("%q in the data directory is neither a file nor a folder but %s, which no server puts there: look at it and remove it", name, info.Mode().Type())
	}
	if err != nil {
		return nil, err
	}
	if e.isSymlink() && !staysInside(e.name, e.link) {
		if t.withoutOutside {
			return nil, nil //nolint:nilnil // It would lead to nothing.
		}
		return nil, exit.With(agent.ExitOutside, "%.100q is a symbolic link out of the data directory, to %.100q: what lies there is in no backup. %s", e.name, e.link, howToMoveIn)
	}
	if err := e.checkName(name); err != nil {
		return nil, exit.With(agent.ExitFailed, "%w", errors.Unwrap(err)) // Not the archive is at fault.
	}
	return e, nil
}

// howToMoveIn is tried with MariaDB and MySQL.
const howToMoveIn = "Only the running server can move the table into the data directory (SET SESSION sql_mode = 'NO_DIR_IN_CREATE'; ALTER TABLE the table FORCE, ALGORITHM = COPY) or drop it"

// pointerSuffix of a file in which InnoDB of MariaDB, and of MySQL before 8.0, stores the path of a table's file that lies outside of
// the data directory (DATA DIRECTORY).
const pointerSuffix = ".isl"

// checkPointer refuses a file that points to the file of a table elsewhere: a backup would have the table without its rows.
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
	return exit.With(agent.ExitOutside, "the rows of a table are outside of the data directory, in %.200q, as %.200q says: they are in no backup. %s", strings.TrimSpace(string(place)), e.name, howToMoveIn)
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

// openEntry opens a file of the tree for reading, under the server's own lock where
// there is one, and fails if it is no longer what was seen of it.
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

// openLocked takes no second lock on what is locked throughout: the first would
// refuse it.
func (t tree) openLocked(name string) (*os.File, error) {
	if datadir.Held(name) {
		return t.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	}
	return datadir.OpenLocked(t.Root, name)
}

// checkUnchanged fails if a file is no longer what was seen of it.
func (e *entry) checkUnchanged(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != e.size || !info.ModTime().Equal(e.modified) {
		return fmt.Errorf("%q changed while it was copied: something else writes to the data directory", e.name)
	}
	return nil
}

// readAttributes of the name space user. The file is opened anew: os.Root has no
// other way to ask.
func (t tree) readAttributes(name string) (map[string]string, error) {
	f, err := t.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	return readAttributes(datavolume.FileDescriptor(f))
}
