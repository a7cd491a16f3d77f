// Package bootcheck checks whether a server starts on a copy of a data directory, and whether all tables in it are
// intact.
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

// A BootCheck starts a server on a disposable copy of the data. The server changes the copy and is killed at the end.
type BootCheck struct {
	// Dir is the directory that contains the copy. Other files of the server are stored next to the copy.
	Dir string
	// Directory is the name of the copy in Dir.
	Directory string
	// Output receives the progress lines and the errors of the server.
	Output io.Writer

	// command returns the exec.Cmd that starts mysqld. Tests replace it, to run mysqld from the root file system of an
	// image.
	command func(program string, args ...string) *exec.Cmd
}

// A Result describes a copy of the data that has passed the boot check.
type Result struct {
	// Tables is the number of checked tables, including the server's own.
	Tables int
	// Version is the version that the server reports to clients.
	Version string
}

// A BrokenError means that a server cannot use the copy, or a part of it. Other errors of a BootCheck do not mean
// that the copy is broken.
type BrokenError struct{ reason string }

func (e *BrokenError) Error() string { return e.reason }

func newBrokenError(format string, args ...any) error {
	return &BrokenError{fmt.Sprintf(format, args...)}
}

// Run checks the copy with the server of this image. It returns a BrokenError if the copy is broken, and any other
// error if the check could not be completed.
func (t *BootCheck) Run(ctx context.Context) (Result, error) {
	program, _, err := version.Find()
	if err != nil {
		return Result{}, err
	}
	shared := *t
	shared.Output = &output{Writer: t.Output}
	r, err := shared.run(ctx, program)
	if err != nil && ctx.Err() != nil {
		return Result{}, fmt.Errorf("interrupted: %w", ctx.Err()) // The context has ended.
	}
	return r, err
}

func (t *BootCheck) run(ctx context.Context, program string) (Result, error) {
	dir, err := os.OpenRoot(filepath.Join(t.Dir, t.Directory))
	if err != nil {
		return Result{}, fmt.Errorf("cannot open the copy of the data: %w", err)
	}
	defer dir.Close() //nolint:errcheck // Nothing was written.
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

// examine checks the tables and files of the mysqld process that has started on the copy.
func (t *BootCheck) examine(ctx context.Context, db *sql.DB, dir *os.Root, before []string) (Result, error) {
	r := Result{}
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&r.Version); err != nil {
		return Result{}, fmt.Errorf("cannot get the version of the server: %w", err)
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

// boot starts the server. If the first attempt fails with a message that contains the copy's lower_case_table_names,
// it starts the server again with this setting.
func (t *BootCheck) boot(ctx context.Context, program string, dir *os.Root) (*server, error) {
	page, err := datadir.PageSize(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the copy's page size: %w", err)
	}
	a := arguments{dir: t.Dir, directory: t.Directory, pageSize: page, root: os.Geteuid() == 0}
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

// judgeRefusal returns the error for a copy on which the server does not start. The copy is not the cause if the
// server also fails to create a new data directory with the same options.
func (t *BootCheck) judgeRefusal(ctx context.Context, program string, a arguments, refusal error) error {
	err := t.makeNewData(ctx, program, a.control(), initializeOption)
	if err != nil && noInitialize.MatchString(err.Error()) {
		err = t.makeNewData(ctx, program, a.control(), bootstrapOption)
	}
	if err == nil {
		return refusal
	}
	return fmt.Errorf("%s. The backup is not the cause, because the server cannot create a new data directory with "+
		"the same options either: %w", refusal.Error(), err)
}
