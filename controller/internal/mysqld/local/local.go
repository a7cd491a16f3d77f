// Package local starts servers of ours, which listen at a socket and to nobody else, and asks them.
package local

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
	mysqldsql "github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

const (
	// pause between two attempts to reach a server.
	pause = 100 * time.Millisecond
	// handshakeTime in all that one has to let somebody in.
	handshakeTime = 5 * time.Second
)

// A Command runs a server's program. Tests have another than exec.Command.
type Command func(program string, args ...string) *exec.Cmd

// Start a server's program, which says on out what it complains of.
func Start(command Command, program string, options []string, out io.Writer) (*process.Process, error) {
	if command == nil {
		command = exec.Command
	}
	p, err := process.Start(command(program, options...), &process.Log{Out: out})
	if err != nil {
		return nil, fmt.Errorf("cannot run %s: %w", program, err)
	}
	return p, nil
}

// Open a server at its socket, as root without a password. It sends so many bytes over one connection at most.
func Open(socket string, maxBytes int, params map[string]string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.Logger, c.Params = "root", "unix", socket, &mysql.NopLogger{}, params
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return mysqldsql.LimitBytes(conn, maxBytes), nil
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// Await the first answer of a server, however long it takes to start. What it is that it ended instead, the caller says.
func Await(ctx context.Context, db *sql.DB, p *process.Process, ended func() error) error {
	for {
		err := ping(ctx, db)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
			return fmt.Errorf("the server does not let anybody in: %w", refused)
		}
		select {
		case <-p.Done:
			return ended()
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// ping that the server has to answer in its time, however often it sends a byte.
func ping(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	return db.PingContext(ctx)
}
