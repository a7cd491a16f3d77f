// Package sql speaks with a running MySQL or MariaDB server about root's
// accounts and the database. What it returns and prints holds no password.
//
// The server runs an image and settings of a tenant's, and whoever may make pods
// in its namespace can answer in its stead: what it sends is bounded, and what it
// says is cut and made printable.
package sql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Root is the account of the connection Secret.
const Root = "root"

// Times that a server has otherwise, in all, however often it sends a byte: HandshakeTime
// to let somebody in, and the other to answer all that a session asks.
const (
	HandshakeTime = 5 * time.Second
	sessionTime   = 30 * time.Second
)

// A Dial connects to an address, such as one inside the cluster by the API
// server's port-forward.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// A Server is where one is reached.
type Server struct {
	// Address is a host and a port.
	Address string
	// Dial is that of package net where it is nil.
	Dial Dial
	// User to log in as; Root where it is empty.
	User string
	// Hidden passwords are in no error, whatever the server says. The one of the
	// login is hidden anyway.
	Hidden []Password
	// Trust says whether it is told the password. Its zero value is nobody.
	Trust Trust

	// Times that it has; nil are those of a server that others should not have to
	// wait for.
	Times *Times
}

// Times of a server: Handshake until somebody is let in, and Session until all is
// answered, from the same moment on.
type Times struct{ Handshake, Session time.Duration }

// Login as the user. The caller closes the session.
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

// Ping the server as the user, which shows whether it accepts the password. No
// statement is run.
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
		out.conn, _ = c.(conn) // The driver's connections are.
		return err
	})
	if err != nil {
		err = out.wrapError(err, doing) // Before it is closed, which is another reason for its end.
		out.Close()
		return nil, err
	}
	g.extendDeadline(start.Add(given.Session))
	return out, nil
}

// config for one connection: the driver changes it where the server has no TLS.
func (s Server) config(p Password, conn net.Conn) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd = s.User, string(p)
	if c.User == "" {
		c.User = Root
	}
	c.Net, c.Addr = "tcp", s.Address
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	// With the guard, whose certificate nobody verifies; with the server, the guard sees to it.
	if c.TLSConfig = "skip-verify"; s.Trust.Anybody {
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

// errPanic is nonsense that the guard lets through.
var errPanic = fmt.Errorf("%w", ErrNonsense)

// protectCall of the driver, whose reading of some packets ends in a panic.
// All of its reading is done by whoever calls it.
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

// A conn is what the driver's connections can do.
type conn interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
}
