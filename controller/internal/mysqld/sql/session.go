package sql

import (
	"context"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// lockName of the lock that one session holds while it changes passwords.
const lockName = "crossplane-mysql.rotate"

// lockTimeout while another session holds the lock. It is shorter than the
// time that a session has.
const lockTimeout = 5 * time.Second

// closeTimeout of a server that is told goodbye.
const closeTimeout = time.Second

// A Session is one connection. All of the driver's reading is done by whoever
// calls a method: package database/sql would read on in goroutines of its own,
// where a panic ends the program.
type Session struct {
	redact.All

	guard *guard
	conn  conn
	// hidden passwords are in no error.
	hidden []Password
	// version of the server, once it was asked for.
	version version.Version
}

// Close the session, which gives its lock back.
func (s *Session) Close() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.conn != nil {
			_ = s.conn.Close() // The server is told; it need not listen.
			s.guard.working.Wait()
		}
	}()
	select {
	case <-done:
	case <-time.After(closeTimeout):
	}
	s.guard.endSession(io.EOF)
}

// Certificate that the server has shown, and that was verified unless anybody is trusted; nil where it showed none.
func (s *Session) Certificate() *x509.Certificate {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	return s.guard.shown
}

// Lock out all other sessions that want the same. A statement of a session that
// lost its client ends before its lock does, so that whoever has the lock sees
// all that was done, and nothing comes late.
func (s *Session) Lock(ctx context.Context) error {
	got := sql.NullInt64{}
	if err := s.queryRow(ctx, []sql.Scanner{&got}, "SELECT GET_LOCK(?, ?)", lockName, int64(lockTimeout/time.Second)); err != nil {
		return s.wrapError(err, "lock the accounts of root")
	}
	if got.Int64 != 1 {
		return ErrLocked
	}
	return nil
}

// Version that the server gives to clients, and what it means.
func (s *Session) Version(ctx context.Context) (string, version.Version, error) {
	text := sql.NullString{}
	if err := s.queryRow(ctx, []sql.Scanner{&text}, "SELECT VERSION()"); err != nil {
		return "", version.Version{}, s.wrapError(err, "ask the server for its version")
	}
	v, err := version.Parse(text.String)
	if err != nil {
		return "", version.Version{}, s.wrapError(fmt.Errorf("%w: %w", ErrNonsense, err), "ask the server for its version")
	}
	s.version = v
	return text.String, v, nil
}

// EnsureDatabase creates the database unless it exists. Without a name there is none to create. A server that is
// read-only refuses CREATE DATABASE IF NOT EXISTS also for a database that exists, so the server is asked first.
func (s *Session) EnsureDatabase(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	if has, err := s.hasDatabase(ctx, name); has || err != nil {
		return err
	}
	if err := s.execStatement(ctx, "CREATE DATABASE IF NOT EXISTS "+Quote(name)); err != nil {
		return s.wrapError(err, fmt.Sprintf("make the database %q", name))
	}
	return nil
}

// hasDatabase reports whether the server has a database of this name, as the server itself compares names.
func (s *Session) hasDatabase(ctx context.Context, name string) (bool, error) {
	statement := sql.NullString{}
	err := s.queryRow(ctx, []sql.Scanner{&sql.NullString{}, &statement}, "SHOW CREATE DATABASE "+Quote(name))
	if err == nil {
		return true, nil
	}
	if err = s.wrapError(err, fmt.Sprintf("find the database %q", name)); hasNumber(err, unknownDatabase) {
		return false, nil
	}
	return false, err
}

// prepareSession: a fixed sql_mode makes texts mean the same everywhere.
// The server ends a session that sleeps, and its lock with it. The general log
// is off, as is the slow one: servers mostly rewrite passwords there, and do not
// promise to. Without the privilege for it the general log stays as the
// administrator wants it.
func (s *Session) prepareSession(ctx context.Context) error {
	const doing = "prepare the session"
	if err := s.execStatement(ctx, "SET SESSION sql_mode = '', lock_wait_timeout = 10, wait_timeout = 60, long_query_time = 31536000"); err != nil {
		return s.wrapError(err, doing)
	}
	err := s.execStatement(ctx, "SET SESSION sql_log_off = 1")
	if err == nil {
		return nil
	}
	if err = s.wrapError(err, doing); hasNumber(err, specificAccessDenied) {
		return nil
	}
	return err
}

// knownVersion of the server, which is asked for once.
func (s *Session) knownVersion(ctx context.Context) (version.Version, error) {
	if s.version != (version.Version{}) {
		return s.version, nil
	}
	_, v, err := s.Version(ctx)
	return v, err
}

func (s *Session) execStatement(ctx context.Context, query string, args ...any) error {
	return s.protectCall(func() error {
		_, err := s.conn.ExecContext(ctx, query, named(args))
		return err
	})
}

// queryRow that is the only one.
func (s *Session) queryRow(ctx context.Context, into []sql.Scanner, query string, args ...any) error {
	n := 0
	err := s.queryRows(ctx, into, func() { n++ }, query, args...)
	if err == nil && n != 1 {
		return fmt.Errorf("%w: it answers with %d rows instead of one", ErrNonsense, n)
	}
	return err
}

// queryRows, not too many, and do something with each once it was scanned.
func (s *Session) queryRows(ctx context.Context, into []sql.Scanner, each func(), query string, args ...any) error {
	return s.protectCall(func() error {
		rows, err := s.conn.QueryContext(ctx, query, named(args))
		if err != nil {
			return err
		}
		if err := scan(rows, into, each); err != nil {
			s.guard.endSession(err) // Or the driver would read all that comes yet.
			return err
		}
		return rows.Close()
	})
}

func scan(rows driver.Rows, into []sql.Scanner, each func()) error {
	row := make([]driver.Value, len(rows.Columns()))
	if len(row) != len(into) {
		return fmt.Errorf("%w: it answers with %d columns instead of %d", ErrNonsense, len(row), len(into))
	}
	for range maxRows {
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok {
				v = slices.Clone(b) // It is the driver's.
			}
			if err := into[i].Scan(v); err != nil {
				return fmt.Errorf("%w: %w", ErrNonsense, err)
			}
		}
		each()
	}
	return ErrTooMuch
}

func named(args []any) []driver.NamedValue {
	out := make([]driver.NamedValue, 0, len(args))
	for i, a := range args {
		out = append(out, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return out
}
