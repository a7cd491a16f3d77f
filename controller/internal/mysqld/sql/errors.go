package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Numbers of the server's errors
// (https://dev.mysql.com/doc/mysql-errors/9.7/en/server-error-reference.html).
const (
	tooManyConnections     = 1040
	databaseDenied         = 1044
	accessDenied           = 1045
	unknownDatabase        = 1049
	serverShutdown         = 1053
	hostBlocked            = 1129
	tableDenied            = 1142
	columnDenied           = 1143
	hostNotPrivileged      = 1130
	tooManyUserConnections = 1203
	specificAccessDenied   = 1227
	readOnly               = 1290
	routineDenied          = 1370
	cannotGrant            = 1410
	pluginNotLoaded        = 1524
	accessDeniedNoPassword = 1698
	notValidPassword       = 1819
	mustChangePassword     = 1820
	mustChangeAtLogin      = 1862
	readOnlyMode           = 1836
	accountLocked          = 3118
	contradictsHistory     = 3638
	accountBlocked         = 3955
	mariaDBBlocked         = 4150 // max_password_errors
	mariaDBLocked          = 4151
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

// A talkError is every other one, in words that hold nothing of the server's that
// is long, unprintable or a password.
type talkError struct {
	text  string
	cause error
}

func (e *talkError) Error() string { return e.text }

func (e *talkError) Unwrap() error { return e.cause }

// wrapError of the driver or the guard.
func (s *Session) wrapError(err error, doing string) error {
	err = s.guard.explain(err)
	if e := s.convert(err, doing); e != nil {
		return e
	}
	return &talkError{text: "cannot " + doing + ": " + s.printable(err.Error()), cause: err}
}

// wrapSecret wraps an error of a statement that holds a password.
func (s *Session) wrapSecret(err error, doing string) error {
	err = s.wrapError(err, doing)
	if e, ok := errors.AsType[*Error](err); ok {
		e.Text = ""
	}
	return err
}

// convert the server's own error; nil for all others.
func (s *Session) convert(err error, doing string) *Error {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return nil
	}
	return &Error{Doing: doing, Number: e.Number, State: s.printable(string(e.SQLState[:])), Text: s.printable(e.Message)}
}

// clientHost is where a server names the host of its client, which is another one
// after each restart of the controller.
var clientHost = regexp.MustCompile(`(@|\bHost )'[^'%]*'`)

// printable text without a password, and without the client's address.
func (s *Session) printable(text string) string {
	for _, p := range s.hidden {
		if p != "" {
			text = strings.ReplaceAll(text, string(p), redacted)
		}
	}
	return v1.PrintableText(clientHost.ReplaceAllString(text, "$1'…'"), v1.MaxForeignText)
}

// explain an error of the driver, which does not know why its connection ended.
// Addresses are left out: they change with each connection.
func (g *guard) explain(err error) error {
	if g == nil {
		return err
	}
	if cause := g.endCause(); cause != nil && IsUnreachable(err) {
		err = cause
	}
	switch timeout, ok := errors.AsType[net.Error](err); {
	case ok && timeout.Timeout():
		return ErrSlow
	case isFinal(err):
		return err
	case isOneOf(err, mysql.ErrUnknownPlugin, mysql.ErrOldPassword, mysql.ErrCleartextPassword, mysql.ErrNativePassword):
		return ErrPlugin
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	if IsUnreachable(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNonsense, err)
}

// isFinal is true for an error that says all: the server's own, or one of ours.
func isFinal(err error) bool {
	if _, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return true
	}
	return isOneOf(err, ErrTooMuch, ErrNonsense, ErrUntrusted, ErrNoTLS, errNoTrust, context.Canceled)
}

func isOneOf(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// hasNumber is true for an error of the server that has one of these.
func hasNumber(err error, numbers ...uint16) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(numbers, e.Number)
}

// IsAccessDenied is true if the password is not the account's, or the account takes
// none.
func IsAccessDenied(err error) bool { return hasNumber(err, accessDenied, accessDeniedNoPassword) }

// IsPasswordExpired is true if the password is right and the server demands
// another one before anything else.
func IsPasswordExpired(err error) bool { return hasNumber(err, mustChangePassword, mustChangeAtLogin) }

// IsLocked reports whether a user locked the account, or too many wrong passwords did.
func IsLocked(err error) bool {
	return hasNumber(err, accountLocked, accountBlocked, mariaDBLocked, mariaDBBlocked)
}

// IsBlockedByFailures reports whether too many wrong passwords have locked the account (FAILED_LOGIN_ATTEMPTS, or max_password_errors of MariaDB). The server
// does not look at the password then, and does not count the attempt.
func IsBlockedByFailures(err error) bool { return hasNumber(err, accountBlocked, mariaDBBlocked) }

// IsPluginMissing reports whether the server does not have the plugin of the account, as MySQL 9 does not have
// mysql_native_password.
func IsPluginMissing(err error) bool { return hasNumber(err, pluginNotLoaded) }

// IsWithoutPrivilege reports whether the account is let in and may not do what was asked.
func IsWithoutPrivilege(err error) bool {
	return hasNumber(err, databaseDenied, tableDenied, columnDenied, specificAccessDenied, routineDenied, cannotGrant)
}

// IsHostBlocked is true if too many connections of this host ended before they
// had logged in (max_connect_errors). FLUSH HOSTS or a restart mends it.
func IsHostBlocked(err error) bool { return hasNumber(err, hostBlocked) }

// IsHostNotAllowed is true if no account matches this host.
func IsHostNotAllowed(err error) bool { return hasNumber(err, hostNotPrivileged) }

// IsBusy is true if the server has no connection left, or is stopping.
func IsBusy(err error) bool {
	return hasNumber(err, tooManyConnections, tooManyUserConnections, serverShutdown)
}

// IsReadOnly is true if the server takes no changes.
func IsReadOnly(err error) bool { return hasNumber(err, readOnly, readOnlyMode) }

// IsAgainstPolicy is true if the server has rules for passwords that this one
// breaks.
func IsAgainstPolicy(err error) bool { return hasNumber(err, notValidPassword) }

// IsAgainstHistory is true if the server forbids a password that was used
// before.
func IsAgainstHistory(err error) bool { return hasNumber(err, contradictsHistory) }

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
	return isOneOf(err, ErrSlow, context.DeadlineExceeded, driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, mysql.ErrInvalidConn)
}

// IsMisbehaviour is true if the server sent what no MySQL server sends to who
// asks what is asked here: there may be none behind that address, or one that
// means harm. The less often it is asked again, the better.
func IsMisbehaviour(err error) bool {
	return isOneOf(err, ErrTooMuch, ErrNonsense, ErrPlugin) || IsUntrusted(err)
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
	// ErrSlow: the server had time enough.
	ErrSlow = errors.New("the server takes too long")
	// ErrTooMuch: the server sent more than any answer to what was asked has.
	ErrTooMuch = errors.New("what answers there sends more than a MySQL server would")
	// ErrNonsense: the server sent something else than an answer.
	ErrNonsense = errors.New("what answers there does not speak as a MySQL server does")
	// ErrPlugin: the server wants something else than a password of root, or wants
	// it in clear text.
	ErrPlugin = errors.New("the server does not let root in by a password: give its accounts the plugin caching_sha2_password")
)
