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

// lockName is the name of the lock that a session holds while it changes passwords.
const lockName = "crossplane-mysql.rotate"

// lockTimeout is the maximum time to wait for the lock if another session holds it. It is shorter than the timeout of
// a session.
const lockTimeout = 5 * time.Second

// closeTimeout is the timeout for closing a session.
const closeTimeout = time.Second

// A Session is one connection. The driver reads only in the goroutine that calls a method. Package database/sql would
// read in its own goroutines, and a panic there would crash the program.
type Session struct {
	redact.All

	guard *guard
	conn  conn
	// hidden are passwords that are removed from errors.
	hidden []Password
	// version is the version of the server. It is the zero value until the first query.
	version version.Version
}

// Close closes the session. This releases its lock.
func (s *Session) Close() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.conn != nil {
			_ = s.conn.Close() // The server may ignore this.
			s.guard.working.Wait()
		}
	}()
	select {
	case <-done:
	case <-time.After(closeTimeout):
	}
	s.guard.endSession(io.EOF)
}

// Certificate returns the certificate that the server presented, or nil. It was verified, unless the Trust accepts
// any server.
func (s *Session) Certificate() *x509.Certificate {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	return s.guard.shown
}

// Lock excludes all other sessions that call Lock. If a session loses its client, the server finishes its statement
// before it releases the lock. The holder of the lock therefore sees all changes of earlier sessions.
func (s *Session) Lock(ctx context.Context) error {
	got := sql.NullInt64{}
	if err := s.queryRow(ctx, []sql.Scanner{&got}, "SELECT GET_LOCK(?, ?)", lockName,
		int64(lockTimeout/time.Second)); err != nil {
		return s.wrapError(err, "lock the accounts of root")
	}
	if got.Int64 != 1 {
		return ErrLocked
	}
	return nil
}

// Version returns the version that the server reports to clients, as text and parsed.
func (s *Session) Version(ctx context.Context) (string, version.Version, error) {
	text := sql.NullString{}
	if err := s.queryRow(ctx, []sql.Scanner{&text}, "SELECT VERSION()"); err != nil {
		return "", version.Version{}, s.wrapError(err, "read the version of the server")
	}
	v, err := version.Parse(text.String)
	if err != nil {
		return "", version.Version{}, s.wrapError(fmt.Errorf("%w: %w", ErrNonsense, err), "read the version of the "+
			"server")
	}
	s.version = v
	return text.String, v, nil
}

// EnsureDatabase creates the database if it does not exist. It does nothing if the name is empty. It first checks
// whether the database exists, because a read-only server refuses CREATE DATABASE IF NOT EXISTS even for an existing
// database.
func (s *Session) EnsureDatabase(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	if exists, err := s.hasDatabase(ctx, name); exists || err != nil {
		return err
	}
	if err := s.execStatement(ctx, "CREATE DATABASE IF NOT EXISTS "+Quote(name)); err != nil {
		return s.wrapError(err, fmt.Sprintf("create the database %q", name))
	}
	return nil
}

// hasDatabase reports whether the server has a database with this name. The server decides which names are equal.
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

// prepareSession sets a fixed sql_mode, so that statements have the same meaning on all servers. It makes the server
// close an idle session, which releases its lock. It disables the general log and the slow log, because servers do
// not guarantee to hide passwords there. Without the required privilege, the general log stays enabled.
func (s *Session) prepareSession(ctx context.Context) error {
	const doing = "prepare the session"
	if err := s.execStatement(ctx,
		"SET SESSION sql_mode = '', lock_wait_timeout = 10, wait_timeout = 60, long_query_time = 31536000"); err != nil {
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

// knownVersion returns the version of the server. It queries the version only once.
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

// queryRow queries the only row of a result.
func (s *Session) queryRow(ctx context.Context, target []sql.Scanner, query string, args ...any) error {
	n := 0
	err := s.queryRows(ctx, target, func() { n++ }, query, args...)
	if err == nil && n != 1 {
		return fmt.Errorf("%w: it returns %d rows instead of one", ErrNonsense, n)
	}
	return err
}

// queryRows queries a limited number of rows. It calls each after every scanned row.
func (s *Session) queryRows(ctx context.Context, target []sql.Scanner, each func(), query string, args ...any) error {
	return s.protectCall(func() error {
		rows, err := s.conn.QueryContext(ctx, query, named(args))
		if err != nil {
			return err
		}
		if err := scan(rows, target, each); err != nil {
			s.guard.endSession(err) // The driver would otherwise read the remaining rows.
			return err
		}
		return rows.Close()
	})
}

func scan(rows driver.Rows, target []sql.Scanner, each func()) error {
	row := make([]driver.Value, len(rows.Columns()))
	if len(row) != len(target) {
		return fmt.Errorf("%w: it returns %d columns instead of %d", ErrNonsense, len(row), len(target))
	}
	for range maxRows {
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok {
				v = slices.Clone(b) // The driver reuses this memory.
			}
			if err := target[i].Scan(v); err != nil {
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
