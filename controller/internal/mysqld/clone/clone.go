// Package clone copies the data of a running server. A temporary server of the same image clones it into a directory
// over TLS. A second server starts on the copy, removes the clone account, and stops cleanly. The result is like the
// data directory of a stopped server.
//
//	initialize ─▶ a server without data ─▶ CLONE INSTANCE ─▶ a server on the copy ─▶ checked ─▶ stopped
//
// Neither server accepts network connections (MySQL manual, 7.6.7 The Clone Plugin).
package clone

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	mysqldsql "github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// Names of the directories that a Clone creates in its field Dir.
const (
	// emptyDir contains the data of the cloning server, and copyDir the cloned data.
	emptyDir = "empty"
	copyDir  = "data"
	tmpDir   = "tmp"
)

// A Donor is a running MySQL server to clone, and the account with which it is cloned.
type Donor struct {
	// Host and Port are its address. The file Authorities contains the CA that has signed its certificate.
	Host        string
	Port        int
	Authorities string
	// User is an account that may only clone (BACKUP_ADMIN). It is deleted in the copy.
	User     string
	Password mysqldsql.Password
	// Layout contains the settings with which the donor's data was initialized, such as the page size. Servers on a
	// copy need the same settings.
	Layout mysqldsql.Layout
}

// A Clone copies the data of a running MySQL server (the Donor) with the statement CLONE INSTANCE.
type Clone struct {
	// Dir is a directory that nothing else uses, with enough space for all of the data. Its contents are removed
	// first.
	Dir   string
	Donor Donor
	// KeepUser is true if the account has other uses and must not be deleted in the copy.
	KeepUser bool
	// Output receives the progress lines and the errors of the servers.
	Output io.Writer

	// command returns the exec.Cmd that starts mysqld. Tests replace it, to run mysqld from the root file system of an
	// image.
	command func(program string, args ...string) *exec.Cmd
}

// A Position is the position of a copy in the server's binary log.
type Position struct {
	// File and Offset are the position in the binary log. GTIDs are the executed GTIDs. They are empty or zero if the
	// server writes no binary log.
	File   string
	Offset int64
	GTIDs  string
}

// A Result describes the cloned data: its position in the binary log, and the version of the server.
type Result struct {
	Position

	Version string
}

// Run clones the donor's data into the directory Dir, with the mysqld of this image. It starts from the beginning.
func (c *Clone) Run(ctx context.Context) (Result, error) {
	program, _, err := version.Find()
	if err != nil {
		return Result{}, err
	}
	r, err := c.run(ctx, program)
	if err != nil && ctx.Err() != nil {
		return Result{}, fmt.Errorf("interrupted, and the next run starts from the beginning: %w", ctx.Err())
	}
	return r, err
}

func (c *Clone) run(ctx context.Context, program string) (Result, error) {
	for _, name := range []string{emptyDir, copyDir, tmpDir, "s", "s.pid", "s.lock"} {
		if err := os.RemoveAll(filepath.Join(c.Dir, name)); err != nil {
			return Result{}, err
		}
	}
	if err := os.Mkdir(filepath.Join(c.Dir, tmpDir), 0o700); err != nil {
		return Result{}, err
	}
	if err := c.fetch(ctx, program); err != nil {
		return Result{}, err
	}
	if err := os.RemoveAll(filepath.Join(c.Dir, emptyDir)); err != nil {
		return Result{}, err
	}
	return c.settle(ctx, program)
}

// fetch clones the data with a temporary server that has no data of its own.
func (c *Clone) fetch(ctx context.Context, program string) error {
	p, err := c.start(program, emptyDir, "--initialize-insecure")
	if err != nil {
		return err
	}
	select {
	case <-p.Done:
	case <-ctx.Done():
		p.Kill()
		return ctx.Err()
	}
	if !p.ProcessState.Success() {
		return fmt.Errorf("cannot create a temporary server for the clone (%s): %s", p.End(), p.Log.Complaints())
	}
	s, err := c.serve(ctx, program, emptyDir)
	if err != nil {
		return err
	}
	defer s.Kill()
	d := c.Donor
	address := d.Host + ":" + strconv.Itoa(d.Port)
	for _, statement := range []string{
		"INSTALL PLUGIN clone SONAME 'mysql_clone.so'",
		"SET GLOBAL clone_valid_donor_list = " + quote(address),
		"SET GLOBAL clone_ssl_ca = " + quote(d.Authorities),
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("this image's server cannot clone: %w", err)
		}
	}
	statement := fmt.Sprintf("CLONE INSTANCE FROM %s@%s:%d IDENTIFIED BY %s DATA DIRECTORY = %s REQUIRE SSL", //nolint:gosec // The statement cannot be prepared.
		quote(d.User), quote(d.Host), d.Port, quote(string(d.Password)), quote(filepath.Join(c.Dir, copyDir)))
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go c.printProgress(watching)
	if _, err := s.db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("the clone has failed: %w", s.cause(err))
	}
	return nil
}

// tick is the time between two progress lines.
const tick = 2 * time.Second

// printProgress prints the progress of the clone until the context is canceled. It ignores errors.
func (c *Clone) printProgress(ctx context.Context) {
	db, err := c.openDB()
	if err != nil {
		return
	}
	defer db.Close() //nolint:errcheck // Nothing was written.
	start := time.Now()
	for t := time.NewTicker(tick); ; {
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		p := agent.Progress{Phase: agent.PhaseClone}
		err := db.QueryRowContext(ctx,
			"SELECT COALESCE(SUM(estimate), 0), COALESCE(SUM(data), 0) FROM performance_schema.clone_progress").Scan(&p.Total,
			&p.Done)
		if err != nil || p.Total <= 0 {
			continue
		}
		p.Percent, p.Rate = int(min(100*p.Done/p.Total, 100)), int64(float64(p.Done)/time.Since(start).Seconds())
		fmt.Fprintln(c.Output, p) //nolint:errcheck // A lost line is no reason to fail.
	}
}

// settle starts a server on the copy, which recovers the data. It returns the position of the copy.
func (c *Clone) settle(ctx context.Context, program string) (Result, error) {
	s, err := c.serve(ctx, program, copyDir, "--skip-grant-tables", "--plugin-load=mysql_clone.so")
	if err != nil {
		return Result{}, err
	}
	defer s.Kill()
	r := Result{}
	if err := s.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&r.Version); err != nil {
		return Result{}, s.cause(err)
	}
	var file, gtids sql.NullString
	var offset sql.NullInt64
	err = s.db.QueryRowContext(ctx,
		"SELECT binlog_file, binlog_position, gtid_executed FROM performance_schema.clone_status").Scan(&file, &offset,
		&gtids)
	if err != nil {
		return Result{}, fmt.Errorf("cannot read the binary log position of the copy: %w", s.cause(err))
	}
	r.Position = Position{File: file.String, Offset: offset.Int64, GTIDs: strings.ReplaceAll(gtids.String, "\n", "")}
	if err := s.checkEngines(ctx); err != nil {
		return Result{}, err
	}
	if !c.KeepUser {
		err = s.forget(ctx, c.Donor.User)
	}
	if err != nil {
		return Result{}, err
	}
	return r, s.stop(ctx)
}

// checkEngines returns an error if tables do not use InnoDB. Such tables are empty in a clone.
func (s *server) checkEngines(ctx context.Context) error {
	rows, err := s.db.QueryContext(ctx, mysqldsql.OtherEngines)
	if err != nil {
		return s.cause(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns the error.
	wrong := &mysqldsql.WrongEngineError{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		wrong.Tables = append(wrong.Tables, name)
	}
	if err := rows.Err(); err != nil || len(wrong.Tables) == 0 {
		return err
	}
	return wrong
}

// forget deletes the account that was used for the clone.
func (s *server) forget(ctx context.Context, user string) error {
	for _, statement := range []string{"FLUSH PRIVILEGES", "DROP USER " + quote(user) + "@'%'"} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("cannot delete the clone account in the copy: %w", s.cause(err))
		}
	}
	return nil
}

// stop shuts down a temporary server cleanly, so that its data needs no recovery.
func (s *server) stop(ctx context.Context) error {
	if err := errors.Join(s.db.Close(), s.Stop()); err != nil {
		return err
	}
	select {
	case <-s.Done:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(stopTime):
		return errors.New("the temporary server did not exit")
	}
	if !s.ProcessState.Success() {
		return fmt.Errorf("the temporary server did not stop cleanly (%s): %s", s.End(), s.Log.Complaints())
	}
	return nil
}

// quote returns a quoted SQL string literal. It is used for accounts, hosts, paths and generated passwords.
func quote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
