// Package clone copies the data of a server that runs. A throwaway server of the same image clones it into a folder, over TLS; a
// second one starts on the copy, forgets the account by which it was had, and stops cleanly. What is there then is a data directory
// as a server leaves it that was told to stop.
//
//	initialize ─▶ a server without data ─▶ CLONE INSTANCE ─▶ a server on the copy ─▶ looked at ─▶ stopped
//
// Neither listens to anybody (MySQL manual, 7.6.7 The Clone Plugin).
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

// Folders of a Clone.
const (
	// emptyFolder is the data of the server that clones, and copyFolder what it has cloned.
	emptyFolder = "empty"
	copyFolder  = "data"
	tmpFolder   = "tmp"
)

// A Donor is the server whose data is copied.
type Donor struct {
	// Host and Port of it. The certificate that it shows is of an authority in the file Authorities.
	Host        string
	Port        int
	Authorities string
	// User is an account of its own for this, which may do nothing else (BACKUP_ADMIN), and goes with its copy.
	User     string
	Password mysqldsql.Password
	// Layout of its data, as every server on a copy of it has to be told.
	Layout mysqldsql.Layout
}

// A Clone of a server's data.
type Clone struct {
	// Folder for it, with room for all of the data, which nobody else uses. What is there goes.
	Folder string
	Donor  Donor
	// KeepUser is true if the account is not of this alone, and stays in the copy.
	KeepUser bool
	// Output takes progress lines, and what the servers complain of.
	Output io.Writer

	// command runs the server's program. Tests have another way to.
	command func(program string, args ...string) *exec.Cmd
}

// A Position is what of a server's binary log is in a copy of its data.
type Position struct {
	// File and Offset of the log, and GTIDs; empty, and zero, where it writes none.
	File   string
	Offset int64
	GTIDs  string
}

// A Result is what was copied.
type Result struct {
	Position

	// Folder with the data directory.
	Folder  string
	Version string
}

// Run the clone, with the server of this image.
func (c *Clone) Run(ctx context.Context) (Result, error) {
	program, _, err := version.Find()
	if err != nil {
		return Result{}, err
	}
	r, err := c.run(ctx, program)
	if err != nil && ctx.Err() != nil {
		return Result{}, fmt.Errorf("told to stop before the end; the next run begins anew: %w", ctx.Err())
	}
	return r, err
}

func (c *Clone) run(ctx context.Context, program string) (Result, error) {
	for _, name := range []string{emptyFolder, copyFolder, tmpFolder, "s", "s.pid", "s.lock"} {
		if err := os.RemoveAll(filepath.Join(c.Folder, name)); err != nil {
			return Result{}, err
		}
	}
	if err := os.Mkdir(filepath.Join(c.Folder, tmpFolder), 0o700); err != nil {
		return Result{}, err
	}
	if err := c.fetch(ctx, program); err != nil {
		return Result{}, err
	}
	if err := os.RemoveAll(filepath.Join(c.Folder, emptyFolder)); err != nil {
		return Result{}, err
	}
	return c.settle(ctx, program)
}

// fetch the data, with a server that has none.
func (c *Clone) fetch(ctx context.Context, program string) error {
	p, err := c.start(program, emptyFolder, "--initialize-insecure")
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
		return fmt.Errorf("cannot make a server to clone with (%s): %s", p.End(), p.Log.Complaints())
	}
	s, err := c.serve(ctx, program, emptyFolder)
	if err != nil {
		return err
	}
	defer s.Kill()
	d := c.Donor
	at := d.Host + ":" + strconv.Itoa(d.Port)
	for _, statement := range []string{
		"INSTALL PLUGIN clone SONAME 'mysql_clone.so'",
		"SET GLOBAL clone_valid_donor_list = " + quote(at),
		"SET GLOBAL clone_ssl_ca = " + quote(d.Authorities),
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("this image's server cannot clone: %w", err)
		}
	}
	statement := fmt.Sprintf("CLONE INSTANCE FROM %s@%s:%d IDENTIFIED BY %s DATA DIRECTORY = %s REQUIRE SSL", //nolint:gosec // It cannot be prepared.
		quote(d.User), quote(d.Host), d.Port, quote(string(d.Password)), quote(filepath.Join(c.Folder, copyFolder)))
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go c.printProgress(watching)
	if _, err := s.db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("the clone has failed: %w", s.cause(err))
	}
	return nil
}

// tick is how often it is said how far a clone is.
const tick = 2 * time.Second

// printProgress of the server that clones, until it is told to stop. It is for people: what cannot be read is not said.
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
		err := db.QueryRowContext(ctx, "SELECT COALESCE(SUM(estimate), 0), COALESCE(SUM(data), 0) FROM performance_schema.clone_progress").Scan(&p.Total, &p.Done)
		if err != nil || p.Total <= 0 {
			continue
		}
		p.Percent, p.Rate = int(min(100*p.Done/p.Total, 100)), int64(float64(p.Done)/time.Since(start).Seconds())
		fmt.Fprintln(c.Output, p) //nolint:errcheck // A lost line is no reason to fail.
	}
}

// settle the copy: a server that starts on it finishes what was under way, and says what it has.
func (c *Clone) settle(ctx context.Context, program string) (Result, error) {
	s, err := c.serve(ctx, program, copyFolder, "--skip-grant-tables", "--plugin-load=mysql_clone.so")
	if err != nil {
		return Result{}, err
	}
	defer s.Kill()
	r := Result{Folder: filepath.Join(c.Folder, copyFolder)}
	if err := s.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&r.Version); err != nil {
		return Result{}, s.cause(err)
	}
	var file, gtids sql.NullString
	var offset sql.NullInt64
	err = s.db.QueryRowContext(ctx, "SELECT binlog_file, binlog_position, gtid_executed FROM performance_schema.clone_status").Scan(&file, &offset, &gtids)
	if err != nil {
		return Result{}, fmt.Errorf("the copy does not say what it has: %w", s.cause(err))
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

// checkEngines of all tables: only InnoDB's have rows in a clone.
func (s *server) checkEngines(ctx context.Context) error {
	rows, err := s.db.QueryContext(ctx, mysqldsql.OtherEngines)
	if err != nil {
		return s.cause(err)
	}
	defer rows.Close() //nolint:errcheck // Err says it.
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

// forget the account by which the data was had.
func (s *server) forget(ctx context.Context, user string) error {
	for _, statement := range []string{"FLUSH PRIVILEGES", "DROP USER " + quote(user) + "@'%'"} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("the account of the clone stays in the copy: %w", s.cause(err))
		}
	}
	return nil
}

// stop the server cleanly.
func (s *server) stop(ctx context.Context) error {
	if err := errors.Join(s.db.Close(), s.Stop()); err != nil {
		return err
	}
	select {
	case <-s.Done:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(stopTime):
		return errors.New("the server on the copy does not end")
	}
	if !s.ProcessState.Success() {
		return fmt.Errorf("the server on the copy did not stop cleanly (%s): %s", s.End(), s.Log.Complaints())
	}
	return nil
}

// quote a text for a statement: names of accounts and hosts, paths, and passwords of ours.
func quote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
