package bootcheck

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/process"
	mysqldsql "github.com/crossplane-mysql/crossplane-mysql/controller/mysqld/sql"
)

// Times of a server: between two attempts to reach it, and until it has ended
// after it broke off a connection.
const (
	pause      = 100 * time.Millisecond
	endTimeout = 30 * time.Second
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
	command := t.command
	if command == nil {
		command = exec.Command
	}
	p, err := process.Start(command(program, a.options()...), &process.Log{Out: t.Output})
	if err != nil {
		return nil, fmt.Errorf("cannot run %s: %w", program, err)
	}
	s := &server{Process: p, arguments: a}
	if err := s.awaitAnswer(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// handshakeTime in all that a server has to let somebody in.
const handshakeTime = 5 * time.Second

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
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.Logger = "root", "unix", s.socket(), &mysql.NopLogger{}
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return mysqldsql.LimitBytes(conn, maxBytes), nil
	}
	c.Params = map[string]string{"lock_wait_timeout": lockWaitTimeout}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func (s *server) awaitAnswer(ctx context.Context) error {
	db, err := s.openDB()
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // It said nothing of importance.
	for {
		err := s.ping(ctx, db)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
			return fmt.Errorf("the server does not let anybody in: %w", refused)
		}
		select {
		case <-s.Done:
			return s.ended("does not start on the data")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// ping that the server has to answer in its time, however often it sends a byte.
func (s *server) ping(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	return db.PingContext(ctx)
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
	return judgeEnd(doing, s.ProcessState.String(), s.Log.Complaints())
}

// killed is how a process ended that was killed, as os.ProcessState says it.
const killed = "signal: killed"

// judgeEnd of a server. Who kills is the kernel, for want of memory, or somebody
// who wants the pod to end; and for some complaints the copy is not to blame.
func judgeEnd(doing, how, complaints string) error {
	if how == killed {
		return fmt.Errorf("the server was killed, as the kernel does where memory runs out, and %s: %s", doing, complaints)
	}
	if notTheCopy.MatchString(complaints) {
		return fmt.Errorf("the server %s (%s), for which the backup is not to blame: %s", doing, how, complaints)
	}
	return newBrokenError("the server %s (%s): %s", doing, how, complaints)
}
