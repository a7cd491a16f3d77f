package framework

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/go-sql-driver/mysql"
)

// AccessDenied is MySQL's error number for a wrong password (ER_ACCESS_DENIED_ERROR).
const AccessDenied = 1045

// Dial connects to a server as root. It uses a Go driver, which passes the password unchanged.
func Dial(ctx context.Context, address, password string) (driver.Conn, error) {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.TLSConfig = "root", password, "tcp", address, "preferred"
	c.Timeout, c.ReadTimeout, c.WriteTimeout = Patience, Patience, Patience
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return connector.Connect(ctx)
}

// Login logs in as root and closes the connection.
func Login(ctx context.Context, address, password string) error {
	c, err := Dial(ctx, address, password)
	if err != nil {
		return err
	}
	return c.Close()
}

// ErrorNumber returns the number of a MySQL error, or 0 for any other error.
func ErrorNumber(err error) uint16 {
	if e := new(mysql.MySQLError); errors.As(err, &e) {
		return e.Number
	}
	return 0
}
