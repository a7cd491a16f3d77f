// Package local starts temporary servers that listen only on a socket, and queries them.
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
	// pause is the time between two attempts to connect to a server.
	pause = 100 * time.Millisecond
	// handshakeTime is the timeout for a login.
	handshakeTime = 5 * time.Second
)

// A Command returns the exec.Cmd that starts a server's program. Tests use it to replace exec.Command.
type Command func(program string, args ...string) *exec.Cmd

// Start starts a server's program. It writes the server's errors to out.
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

// Open returns a connection pool for the server at a socket, with root and no password. It limits the number of bytes
// per connection.
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

// Await waits until the server answers. Only the context limits the time. If the server exits, it returns the error
// of the function ended.
func Await(ctx context.Context, db *sql.DB, p *process.Process, ended func() error) error {
	for {
		err := ping(ctx, db)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
			return fmt.Errorf("the server refuses all logins: %w", refused)
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

// ping pings the server. The timeout also holds if the server sends only single bytes.
func ping(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	return db.PingContext(ctx)
}
