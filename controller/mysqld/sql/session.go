package sql

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/version"
)

// lockName of the lock that one session holds while it changes passwords.
const lockName = "crossplane-mysql.rotate"

// lockPatience with another session that holds the lock. It is shorter than the
// time that an answer may take.
const lockPatience = 5 * time.Second

// closePatience with a server that is told goodbye.
const closePatience = time.Second

// A Session is one connection.
type Session struct {
	db   *sql.DB
	conn *sql.Conn
	// version of the server, once it was asked for.
	version version.Version
}

// Close the session, which gives its lock back.
func (s *Session) Close() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.conn.Close()
		_ = s.db.Close()
	}()
	select {
	case <-done:
	case <-time.After(closePatience):
	}
}

// Lock out all other sessions that want the same. A statement of a session that
// lost its client ends before its lock does, so that whoever has the lock sees
// all that was done, and nothing comes late.
func (s *Session) Lock(ctx context.Context) error {
	got := sql.NullInt64{}
	if err := s.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", lockName, int64(lockPatience/time.Second)).Scan(&got); err != nil {
		return wrap(err, "lock the accounts of root")
	}
	if got.Int64 != 1 {
		return ErrLocked
	}
	return nil
}

// Version that the server gives to clients, and what it means.
func (s *Session) Version(ctx context.Context) (string, version.Version, error) {
	text := ""
	if err := s.conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&text); err != nil {
		return "", version.Version{}, wrap(err, "ask the server for its version")
	}
	v, err := version.Parse(text)
	if err != nil {
		return "", version.Version{}, err
	}
	s.version = v
	return text, v, nil
}

// EnsureDatabase makes the database unless it is there. No name is none.
func (s *Session) EnsureDatabase(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	if err := s.exec(ctx, "CREATE DATABASE IF NOT EXISTS "+Quote(name)); err != nil {
		return wrap(err, fmt.Sprintf("make the database %q", name))
	}
	return nil
}

// prepare the session. A fixed sql_mode makes texts mean the same everywhere.
// The server ends a session that sleeps, and its lock with it. The general log
// is off, as is the slow one: a server that rewrites passwords there is the rule
// and not a promise. Without the privilege for the first of them they are as the
// administrator wants them.
func (s *Session) prepare(ctx context.Context) error {
	const doing = "prepare the session"
	if err := s.exec(ctx, "SET SESSION sql_mode = '', lock_wait_timeout = 10, wait_timeout = 60, long_query_time = 31536000"); err != nil {
		return wrap(err, doing)
	}
	err := s.exec(ctx, "SET SESSION sql_log_off = 1")
	if err == nil {
		return nil
	}
	if err = wrap(err, doing); is(err, specificAccessDenied) {
		return nil
	}
	return err
}

// known is the version, which is asked for once.
func (s *Session) known(ctx context.Context) (version.Version, error) {
	if s.version != (version.Version{}) {
		return s.version, nil
	}
	_, v, err := s.Version(ctx)
	return v, err
}

func (s *Session) exec(ctx context.Context, query string, args ...any) error {
	_, err := s.conn.ExecContext(ctx, query, args...)
	return err
}
