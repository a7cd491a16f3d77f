package framework

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/go-sql-driver/mysql"
)

// AccessDenied is the server's number of a wrong password.
const AccessDenied = 1045

// Dial a server and log in as root, with a driver that takes the password as it is.
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

// Login of root, and out again.
func Login(ctx context.Context, address, password string) error {
	c, err := Dial(ctx, address, password)
	if err != nil {
		return err
	}
	return c.Close()
}

// ErrorNumber of the server's error, 0 where it is another one's.
func ErrorNumber(err error) uint16 {
	if e := new(mysql.MySQLError); errors.As(err, &e) {
		return e.Number
	}
	return 0
}
