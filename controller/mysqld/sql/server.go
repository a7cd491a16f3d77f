// Package sql speaks with a running MySQL or MariaDB server about root's
// accounts and the database. What it returns and prints holds no password.
package sql

import (
	"context"
	"database/sql"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Root is the account of the connection Secret.
const Root = "root"

// Times that an answer may take.
const (
	dialTimeout = 5 * time.Second
	readTimeout = 15 * time.Second
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
}

// Login as the user. The caller closes the session.
func (s Server) Login(ctx context.Context, p Password) (*Session, error) {
	db, conn, err := s.connect(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &Session{db: db, conn: conn}
	if err := out.prepare(ctx); err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

// Ping the server as the user, which shows whether it accepts the password. No
// statement is run.
func (s Server) Ping(ctx context.Context, p Password) error {
	db, conn, err := s.connect(ctx, p)
	if err != nil {
		return err
	}
	_ = conn.Close()
	return db.Close()
}

func (s Server) connect(ctx context.Context, p Password) (*sql.DB, *sql.Conn, error) {
	const doing = "log in to the server"
	connector, err := mysql.NewConnector(s.config(p))
	if err != nil {
		return nil, nil, wrap(err, doing)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close()
		return nil, nil, wrap(err, doing)
	}
	return db, conn, nil
}

// config for one connection: the driver changes it where the server has no TLS.
// The server's certificate is its own, so that TLS keeps listeners out, and
// nobody who pretends to be the server.
func (s Server) config(p Password) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd = s.User, string(p)
	if c.User == "" {
		c.User = Root
	}
	c.Net, c.Addr, c.DialFunc = "tcp", s.Address, s.dial
	c.TLSConfig = "preferred"
	c.Timeout, c.ReadTimeout, c.WriteTimeout = dialTimeout, readTimeout, readTimeout
	// IDENTIFIED BY ? cannot be prepared.
	c.InterpolateParams = true
	c.Logger = &mysql.NopLogger{}
	return c
}

func (s Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := s.Dial
	if d == nil {
		d = (&net.Dialer{}).DialContext
	}
	conn, err := d(ctx, network, address)
	if err != nil {
		return nil, &dialError{err}
	}
	return conn, nil
}
