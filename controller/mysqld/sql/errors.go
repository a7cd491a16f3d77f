package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// Numbers of the server's errors
// (https://dev.mysql.com/doc/mysql-errors/9.7/en/server-error-reference.html).
const (
	tooManyConnections     = 1040
	accessDenied           = 1045
	serverShutdown         = 1053
	hostBlocked            = 1129
	hostNotPrivileged      = 1130
	tooManyUserConnections = 1203
	specificAccessDenied   = 1227
	readOnly               = 1290
	accessDeniedNoPassword = 1698
	notValidPassword       = 1819
	mustChangePassword     = 1820
	mustChangeAtLogin      = 1862
	readOnlyMode           = 1836
	accountLocked          = 3118
	contradictsHistory     = 3638
	emptyNotRetained       = 3878
	pluginChanged          = 3894
	accountBlocked         = 3955
)

// An Error is what the server answered to one statement. It has no more of a
// statement with a password in it than the number and the state: the server
// quotes the text that it cannot parse.
type Error struct {
	// Doing says what was tried: cannot …
	Doing  string
	Number uint16
	State  string
	// Text of the server, or "".
	Text string
}

// Error holds no password.
func (e *Error) Error() string {
	out := fmt.Sprintf("cannot %s: error %d (%s)", e.Doing, e.Number, e.State)
	if e.Text != "" {
		out += ": " + e.Text
	}
	return out
}

// wrap an error of the driver.
func wrap(err error, doing string) error {
	if e := convert(err, doing); e != nil {
		return e
	}
	return fmt.Errorf("cannot %s: %w", doing, err)
}

// wrapSecret wraps an error of a statement that holds a password.
func wrapSecret(err error, doing string) error {
	if e := convert(err, doing); e != nil {
		e.Text = ""
		return e
	}
	return fmt.Errorf("cannot %s: %w", doing, err)
}

func convert(err error, doing string) *Error {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return nil
	}
	return &Error{Doing: doing, Number: e.Number, State: string(e.SQLState[:]), Text: e.Message}
}

func is(err error, numbers ...uint16) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(numbers, e.Number)
}

// IsAccessDenied is true if the password is not the account's, or nobody's.
func IsAccessDenied(err error) bool { return is(err, accessDenied, accessDeniedNoPassword) }

// IsPasswordExpired is true if the password is right and the server demands
// another one before anything else.
func IsPasswordExpired(err error) bool { return is(err, mustChangePassword, mustChangeAtLogin) }

// IsLocked is true if somebody locked the account, or too many wrong passwords
// did.
func IsLocked(err error) bool { return is(err, accountLocked, accountBlocked) }

// IsHostBlocked is true if too many connections of this host ended before they
// had logged in (max_connect_errors). FLUSH HOSTS or a restart mends it.
func IsHostBlocked(err error) bool { return is(err, hostBlocked) }

// IsHostNotAllowed is true if no account matches this host.
func IsHostNotAllowed(err error) bool { return is(err, hostNotPrivileged) }

// IsBusy is true if the server has no connection left, or is stopping.
func IsBusy(err error) bool {
	return is(err, tooManyConnections, tooManyUserConnections, serverShutdown)
}

// IsReadOnly is true if the server takes no changes.
func IsReadOnly(err error) bool { return is(err, readOnly, readOnlyMode) }

// IsAgainstPolicy is true if the server has rules for passwords that this one
// breaks.
func IsAgainstPolicy(err error) bool { return is(err, notValidPassword) }

// IsAgainstHistory is true if the server forbids a password that was used
// before.
func IsAgainstHistory(err error) bool { return is(err, contradictsHistory) }

// IsEmptyNotRetained is true if an account has no password that could be
// retained.
func IsEmptyNotRetained(err error) bool { return is(err, emptyNotRetained) }

// IsPluginChanged is true if a password cannot be retained because the plugin
// changes.
func IsPluginChanged(err error) bool { return is(err, pluginChanged) }

// IsUnreachable is true if no answer of the server came, what a client program
// calls error 2003 or 2013. Whether a statement was carried out is then not
// known.
func IsUnreachable(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*dialError](err); ok {
		return true
	}
	return slices.ContainsFunc([]error{
		context.DeadlineExceeded, driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, mysql.ErrInvalidConn,
	}, func(target error) bool { return errors.Is(err, target) })
}

// A dialError is one of a Dial, which may be of any type.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// Errors that are not the server's.
var (
	// ErrRetained: an account retains an old password already. Another one would
	// push it out.
	ErrRetained = errors.New("an account of root retains an old password already")
	// ErrNoAccount: root has no account that logs in with a password.
	ErrNoAccount = errors.New("root has no account that logs in with a password")
	// ErrLocked: another session holds the lock.
	ErrLocked = errors.New("another session is changing the password")
)
