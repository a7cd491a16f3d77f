// Package bootcheck finds out whether a server starts on a copy of a data directory,
// and finds every table in it whole.
package bootcheck

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/datadir"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// A BootCheck is one of a copy that nobody needs: the server changes it, and is
// killed in the end.
type BootCheck struct {
	// Folder holds the copy. What else the server needs is put beside that.
	Folder string
	// Directory is the copy's name in it.
	Directory string
	// Output takes progress lines, and what the server complains of.
	Output io.Writer

	// command runs a server's program. Tests have another way to.
	command func(program string, args ...string) *exec.Cmd
}

// A Result is what there is to say of a backup that a server can use.
type Result struct {
	// Tables that were checked, also those of the server itself.
	Tables int
	// Version of the server, as it gives it to clients.
	Version string
}

// A BrokenError says that no server can use the copy, or not all of it. Every
// other error of a BootCheck says nothing about the copy.
type BrokenError struct{ reason string }

func (e *BrokenError) Error() string { return e.reason }

func newBrokenError(format string, args ...any) error {
	return &BrokenError{fmt.Sprintf(format, args...)}
}

// Run the boot check, with the server of this image. Its error is a BrokenError, or
// says why it could not be found out whether the copy is broken.
func (t *BootCheck) Run(ctx context.Context) (Result, error) {
	program, _, err := version.Find()
	if err != nil {
		return Result{}, err
	}
	shared := *t
	shared.Output = &output{Writer: t.Output}
	r, err := shared.run(ctx, program)
	if err != nil && ctx.Err() != nil {
		return Result{}, fmt.Errorf("told to stop before the end: %w", ctx.Err()) // Whatever it looked like.
	}
	return r, err
}

func (t *BootCheck) run(ctx context.Context, program string) (Result, error) {
	dir, err := os.OpenRoot(filepath.Join(t.Folder, t.Directory))
	if err != nil {
		return Result{}, fmt.Errorf("cannot open the copy of the data: %w", err)
	}
	defer dir.Close() //nolint:errcheck // Nothing was written through it.
	before, err := tablespaces(dir)
	if err != nil {
		return Result{}, fmt.Errorf("cannot list the files of the copy: %w", err)
	}
	s, err := t.boot(ctx, program, dir)
	if err != nil {
		return Result{}, err
	}
	defer s.Kill()
	db, err := s.openDB()
	if err != nil {
		return Result{}, err
	}
	defer db.Close() //nolint:errcheck // The server is killed anyway.
	r, err := t.examine(ctx, db, dir, before)
	return r, s.causeOf(ctx, err)
}

// examine a server that answers.
func (t *BootCheck) examine(ctx context.Context, db *sql.DB, dir *os.Root, before []string) (Result, error) {
	r := Result{}
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&r.Version); err != nil {
		return Result{}, fmt.Errorf("cannot ask the server for its version: %w", err)
	}
	v, err := version.Parse(r.Version)
	if err != nil {
		return Result{}, err
	}
	if hasDictionary(v) {
		if err := compareFiles(ctx, db, dir, before); err != nil {
			return Result{}, err
		}
	}
	tables, err := listTables(ctx, db)
	if err != nil {
		return Result{}, err
	}
	if err := checkTables(ctx, db, tables, t.Output); err != nil {
		return Result{}, err
	}
	r.Tables = len(tables)
	return r, nil
}

// boot the server, once more if only the copy could say how its names are
// spelled.
func (t *BootCheck) boot(ctx context.Context, program string, dir *os.Root) (*server, error) {
	page, err := datadir.PageSize(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the copy's page size: %w", err)
	}
	a := arguments{folder: t.Folder, directory: t.Directory, pageSize: page, root: os.Geteuid() == 0}
	s, err := t.startServer(ctx, program, a)
	if err == nil {
		return s, nil
	}
	if a.lowerCase = lowerCase(err.Error()); a.lowerCase != "" {
		if s, err = t.startServer(ctx, program, a); err == nil {
			return s, nil
		}
	}
	if isBroken(err) {
		return nil, t.judgeRefusal(ctx, program, a, err)
	}
	return nil, err
}

// judgeRefusal of the copy by a server. If the same program with the same options makes no
// new data directory either, the copy is not what it refuses.
func (t *BootCheck) judgeRefusal(ctx context.Context, program string, a arguments, refusal error) error {
	err := t.makeNewData(ctx, program, a.control(), initializeOption)
	if err != nil && noInitialize.MatchString(err.Error()) {
		err = t.makeNewData(ctx, program, a.control(), bootstrapOption)
	}
	if err == nil {
		return refusal
	}
	return fmt.Errorf("%s. The backup is not to blame: with the same options the server makes no new data directory either: %w", refusal.Error(), err)
}
