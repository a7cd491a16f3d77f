package bootcheck

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/local"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
	mysqldsql "github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

const (
	// endTimeout of a server that broke off a connection.
	endTimeout = 30 * time.Second
	// controlTime is how long a server may take to make a new data directory.
	controlTime = 5 * time.Minute
)

// A server is a process of the program.
type server struct {
	*process.Process
	arguments
}

// startServer, and wait until it answers. One that recovers a large log takes its
// time: there is no other end to that than the context's.
func (t *BootCheck) startServer(ctx context.Context, program string, a arguments) (*server, error) {
	if err := a.checkSocketPath(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(a.temporaryFolder(), 0o700); err != nil {
		return nil, err
	}
	p, err := local.Start(t.command, program, a.options(), t.Output)
	if err != nil {
		return nil, err
	}
	s := &server{Process: p, arguments: a}
	if err := s.awaitAnswer(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// makeNewData lets the server make a new data directory, which is removed again.
func (t *BootCheck) makeNewData(ctx context.Context, program string, a arguments, how string) (err error) {
	if err := os.RemoveAll(a.folder); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(a.folder)) }()
	for _, folder := range []string{filepath.Join(a.folder, a.directory), a.temporaryFolder()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	p, err := local.Start(t.command, program, slices.Concat(a.options(), smallLogs, []string{how}), t.Output)
	if err != nil {
		return err
	}
	defer p.Kill()
	select {
	case <-p.Done:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(controlTime):
		return fmt.Errorf("it does not end within %s", controlTime)
	}
	if p.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("%s: %s", p.ProcessState, p.Log.Complaints())
}

// Limits on what a server sends over one connection: it may have a million
// tables, and not any number of them.
const (
	maxBytes = 256 << 20
	maxRows  = 1_000_000
)

// lockWaitTimeout in seconds, where a transaction of the copy that was prepared waits
// for somebody to end it (XA).
const lockWaitTimeout = "60"

func (s *server) openDB() (*sql.DB, error) {
	return local.Open(s.socket(), maxBytes, map[string]string{"lock_wait_timeout": lockWaitTimeout})
}

func (s *server) awaitAnswer(ctx context.Context) error {
	db, err := s.openDB()
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // It said nothing of importance.
	return local.Await(ctx, db, s.Process, func() error { return s.ended("does not start on the data") })
}

// causeOf an error of something that the server was asked: it has ended, or
// only that answer was bad.
func (s *server) causeOf(ctx context.Context, err error) error {
	if err == nil || !mysqldsql.IsUnreachable(err) {
		return err
	}
	doing := "ended while it was asked for its tables"
	if c, ok := errors.AsType[*checkError](err); ok {
		doing = "ended while it checked " + c.tables()
	}
	select {
	case <-s.Done:
		return s.ended(doing)
	case <-ctx.Done():
		return err
	case <-time.After(endTimeout):
		return err
	}
}

func isBroken(err error) bool {
	_, ok := errors.AsType[*BrokenError](err)
	return ok
}

// ended is what it says of the copy that the server ended, which it was not told
// to.
func (s *server) ended(doing string) error {
	return judgeEnd(doing, s.End(), s.Log.Complaints())
}

// killed is how a process ended that was killed, as os.ProcessState says it.
const killed = "signal: killed"

// judgeEnd of a server. Who kills is the kernel, for want of memory, or somebody
// who wants the pod to end; and for some complaints the copy is not to blame.
func judgeEnd(doing, how, complaints string) error {
	if strings.HasPrefix(how, process.OOMKilled) {
		return fmt.Errorf("the server %s (%s): %s", doing, how, complaints)
	}
	if how == killed {
		return fmt.Errorf("the server was killed, as the kernel does where memory runs out, and %s: %s", doing, complaints)
	}
	if notTheCopy.MatchString(complaints) {
		return fmt.Errorf("the server %s (%s), for which the backup is not to blame: %s", doing, how, complaints)
	}
	return newBrokenError("the server %s (%s): %s", doing, how, complaints)
}
