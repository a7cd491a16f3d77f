// Package sql connects to a running MySQL or MariaDB server to manage the root accounts and the database. Its results
// and messages contain no passwords.
//
// The server runs with an image and settings that a tenant chose. A user who can create pods in its namespace can
// also impersonate the server. The package therefore limits the size of responses. It truncates strings from the
// server and removes unprintable characters.
package sql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Root is the user name in the connection Secret.
const Root = "root"

// These are the default timeouts. They hold even if the server keeps sending data. HandshakeTime is the timeout of a
// login, and sessionTime the timeout of all queries of a session.
const (
	HandshakeTime = 5 * time.Second
	sessionTime   = 30 * time.Second
)

// A Dial connects to an address. For example, it can use a port-forward of the API server to reach an address in the
// cluster.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// A Server contains the address of a server, and the parameters for connections to it.
type Server struct {
	// Address is a host and a port.
	Address string
	// Dial connects to the server. If it is nil, package net is used.
	Dial Dial
	// User is the user name. If it is empty, Root is used.
	User string
	// Hidden are passwords that are removed from errors, even if the server sends them. The login password is always
	// removed.
	Hidden []Password
	// Trust decides whether the server receives the password. The zero value trusts no server.
	Trust Trust

	// Times are the timeouts. If it is nil, the default timeouts are used.
	Times *Times
}

// Times are the timeouts of a session. Handshake limits the login, and Session limits everything. Both start with the
// connection.
type Times struct{ Handshake, Session time.Duration }

// Login logs in as the user. The caller must close the session.
func (s Server) Login(ctx context.Context, p Password) (*Session, error) {
	out, err := s.openSession(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := out.prepareSession(ctx); err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

// Ping checks whether the server accepts the user's password. It executes no statement.
func (s Server) Ping(ctx context.Context, p Password) error {
	out, err := s.openSession(ctx, p)
	if err != nil {
		return err
	}
	out.Close()
	return nil
}

func (s Server) openSession(ctx context.Context, p Password) (*Session, error) {
	const doing = "log in to the server"
	given := Times{Handshake: HandshakeTime, Session: sessionTime}
	if s.Times != nil {
		given = *s.Times
	}
	start := time.Now()
	ctx, cancel := context.WithDeadline(ctx, start.Add(given.Handshake))
	defer cancel()
	out := &Session{hidden: append([]Password{p}, s.Hidden...)}
	if err := s.Trust.check(); err != nil {
		return nil, out.wrapError(err, doing)
	}
	raw, err := s.dial(ctx)
	if err != nil {
		return nil, out.wrapError(err, doing)
	}
	g, forDriver := startGuard(raw, s.Trust, start.Add(given.Handshake))
	out.guard = g
	err = out.protectCall(func() error {
		connector, err := mysql.NewConnector(s.config(p, forDriver))
		if err != nil {
			return err
		}
		c, err := connector.Connect(ctx)
		out.conn, _ = c.(conn) // All of the driver's connections implement conn.
		return err
	})
	if err != nil {
		err = out.wrapError(err, doing) // Closing the session would change the cause.
		out.Close()
		return nil, err
	}
	g.extendDeadline(start.Add(given.Session))
	return out, nil
}

// config returns the driver's configuration for one connection. The driver modifies it if the server has no TLS.
func (s Server) config(p Password, conn net.Conn) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd = s.User, string(p)
	if c.User == "" {
		c.User = Root
	}
	c.Net, c.Addr = "tcp", s.Address
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	// The driver does not have to verify the guard's certificate, because the guard verifies the server's
	// certificate.
	if c.TLSConfig = "skip-verify"; s.Trust.AnyServer {
		c.TLSConfig = "preferred"
	}
	// IDENTIFIED BY ? cannot be prepared.
	c.InterpolateParams = true
	c.Logger = &mysql.NopLogger{}
	return c
}

func (s Server) dial(ctx context.Context) (net.Conn, error) {
	d := s.Dial
	if d == nil {
		d = (&net.Dialer{}).DialContext
	}
	conn, err := d(ctx, "tcp", s.Address)
	if err != nil {
		return nil, &dialError{err}
	}
	return conn, nil
}

// errPanic is the error for an invalid response that the guard did not detect and that made the driver panic.
var errPanic = fmt.Errorf("%w", ErrNonsense)

// protectCall calls the driver, and recovers from its panics, which some packets cause. The driver reads only in the
// goroutine of the caller.
func (s *Session) protectCall(call func() error) (err error) {
	defer func() {
		if recover() != nil {
			s.guard.endSession(errPanic)
			err = errPanic
		}
	}()
	return call()
}

var (
	_ driver.QueryerContext = conn(nil)
	_ driver.ExecerContext  = conn(nil)
)

// A conn is the interface of the driver's connections.
type conn interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
}
