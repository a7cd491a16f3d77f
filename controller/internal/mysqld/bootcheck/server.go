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
	// endTimeout is the maximum time for which the check waits until a server that has closed a connection exits.
	endTimeout = 30 * time.Second
	// controlTime is the timeout for the creation of a new data directory in controlDir.
	controlTime = 5 * time.Minute
)

// A server is the mysqld process of a boot check, with the arguments of its command line.
type server struct {
	*process.Process
	arguments
}

// startServer starts the server and waits until it answers. Only the context limits the time, because the recovery of
// a large log takes long.
func (t *BootCheck) startServer(ctx context.Context, program string, a arguments) (*server, error) {
	if err := a.checkSocketPath(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(a.temporaryDir(), 0o700); err != nil {
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

// makeNewData makes mysqld create a new data directory, and removes that directory. An error means that the options,
// and not the copy of the data, prevent mysqld from starting.
func (t *BootCheck) makeNewData(ctx context.Context, program string, a arguments, option string) (err error) {
	if err := os.RemoveAll(a.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(a.dir)) }()
	for _, dir := range []string{filepath.Join(a.dir, a.directory), a.temporaryDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	p, err := local.Start(t.command, program, slices.Concat(a.options(), smallLogs, []string{option}), t.Output)
	if err != nil {
		return err
	}
	defer p.Kill()
	select {
	case <-p.Done:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(controlTime):
		return fmt.Errorf("it did not exit within %s", controlTime)
	}
	if p.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("%s: %s", p.ProcessState, p.Log.Complaints())
}

// These constants limit the data that a server sends over one connection. A server may have a million tables.
const (
	maxBytes = 256 << 20
	maxRows  = 1_000_000
)

// lockWaitTimeout is the lock timeout in seconds. A prepared transaction (XA) in the copy can hold locks until a
// client commits it or rolls it back.
const lockWaitTimeout = "60"

func (s *server) openDB() (*sql.DB, error) {
	return local.Open(s.socket(), maxBytes, map[string]string{"lock_wait_timeout": lockWaitTimeout})
}

func (s *server) awaitAnswer(ctx context.Context) error {
	db, err := s.openDB()
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // Nothing was written.
	return local.Await(ctx, db, s.Process, func() error { return s.ended("did not start with the data") })
}

// causeOf returns the error to report for a failed query. This is the server's exit if the server has exited, and the
// query's own error if it is still running.
func (s *server) causeOf(ctx context.Context, err error) error {
	if err == nil || !mysqldsql.IsUnreachable(err) {
		return err
	}
	doing := "exited while its tables were being listed"
	if c, ok := errors.AsType[*checkError](err); ok {
		doing = "exited while it checked " + c.tables()
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

// ended returns the error for a server that has exited unexpectedly.
func (s *server) ended(doing string) error {
	return judgeEnd(doing, s.End(), s.Log.Complaints())
}

// killed is the state of a killed process, as os.ProcessState describes it.
const killed = "signal: killed"

// judgeEnd determines why a server has exited. The kernel may have killed it because memory ran out, or the kubelet
// because the pod was stopped. Some errors in the log are also not caused by the copy.
func judgeEnd(doing, state, complaints string) error {
	if strings.HasPrefix(state, process.OOMKilled) {
		return fmt.Errorf("the server %s (%s): %s", doing, state, complaints)
	}
	if state == killed {
		return fmt.Errorf("the server was killed, probably because memory ran out, and %s: %s", doing, complaints)
	}
	if notTheCopy.MatchString(complaints) {
		return fmt.Errorf("the server %s (%s), but the backup is not the cause: %s", doing, state, complaints)
	}
	return newBrokenError("the server %s (%s): %s", doing, state, complaints)
}
