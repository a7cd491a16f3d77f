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

// Error numbers of the server (https://dev.mysql.com/doc/mysql-errors/9.7/en/server-error-reference.html).
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

// An Error is the server's error for one statement. If the statement contained a password, it has only the number and
// the state, because the server quotes text that it cannot parse.
type Error struct {
	// Doing is the operation that failed. It completes the message "cannot …".
	Doing  string
	Number uint16
	State  string
	// Text is the server's message, or "".
	Text string
}

// Error returns a message without passwords.
func (e *Error) Error() string {
	out := fmt.Sprintf("cannot %s: error %d (%s)", e.Doing, e.Number, e.State)
	if e.Text != "" {
		out += ": " + e.Text
	}
	return out
}

// A talkError is an error that is not an error message of the server, such as a network error. Its text is short and
// printable, even if parts of it come from the server, and contains no password.
type talkError struct {
	text  string
	cause error
}

func (e *talkError) Error() string { return e.text }

func (e *talkError) Unwrap() error { return e.cause }

// wrapError adds the failed operation (doing) to an error of the driver or the guard.
func (s *Session) wrapError(err error, doing string) error {
	err = s.guard.explain(err)
	if e := s.convert(err, doing); e != nil {
		return e
	}
	return &talkError{text: "cannot " + doing + ": " + s.printable(err.Error()), cause: err}
}

// wrapSecret is like wrapError for a statement that contains a password. It omits the server's message, which may
// quote it.
func (s *Session) wrapSecret(err error, doing string) error {
	err = s.wrapError(err, doing)
	if e, ok := errors.AsType[*Error](err); ok {
		e.Text = ""
	}
	return err
}

// convert returns an error that the server has sent as an Error. It returns nil for all other errors.
func (s *Session) convert(err error, doing string) *Error {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return nil
	}
	return &Error{Doing: doing, Number: e.Number, State: s.printable(string(e.SQLState[:])), Text: s.printable(e.Message)}
}

// clientHost matches the client's host in a message of the server. The host changes with each restart of the
// controller.
var clientHost = regexp.MustCompile(`(@|\bHost )'[^'%]*'`)

// printable returns printable text without passwords and without the client's address.
func (s *Session) printable(text string) string {
	for _, p := range s.hidden {
		if p != "" {
			text = strings.ReplaceAll(text, string(p), redacted)
		}
	}
	return v1.PrintableText(clientHost.ReplaceAllString(text, "$1'…'"), v1.MaxForeignText)
}

// explain returns why the session was closed, which the driver does not know. It omits addresses, because they change
// with each connection.
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

// isFinal reports whether an error needs no further explanation, because it comes from the server or from this
// package.
func isFinal(err error) bool {
	if _, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return true
	}
	return isOneOf(err, ErrTooMuch, ErrNonsense, ErrUntrusted, ErrNoTLS, errNoTrust, context.Canceled)
}

func isOneOf(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// hasNumber reports whether an error has one of these error numbers.
func hasNumber(err error, numbers ...uint16) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(numbers, e.Number)
}

// IsAccessDenied reports whether the password is wrong, or the account does not accept passwords.
func IsAccessDenied(err error) bool { return hasNumber(err, accessDenied, accessDeniedNoPassword) }

// IsPasswordExpired reports whether the password is correct, but the server requires a new one first.
func IsPasswordExpired(err error) bool { return hasNumber(err, mustChangePassword, mustChangeAtLogin) }

// IsLocked reports whether the account is locked, either by a user or because of too many wrong passwords.
func IsLocked(err error) bool {
	return hasNumber(err, accountLocked, accountBlocked, mariaDBLocked, mariaDBBlocked)
}

// IsBlockedByFailures reports whether the account is locked because of too many wrong passwords
// (FAILED_LOGIN_ATTEMPTS, or max_password_errors of MariaDB). The server then does not check the password and does
// not count the attempt.
func IsBlockedByFailures(err error) bool { return hasNumber(err, accountBlocked, mariaDBBlocked) }

// IsPluginMissing reports whether the server lacks the plugin of the account. For example, MySQL 9 has no
// mysql_native_password.
func IsPluginMissing(err error) bool { return hasNumber(err, pluginNotLoaded) }

// IsWithoutPrivilege reports whether the account lacks the privilege for an operation.
func IsWithoutPrivilege(err error) bool {
	return hasNumber(err, databaseDenied, tableDenied, columnDenied, specificAccessDenied, routineDenied, cannotGrant)
}

// IsHostBlocked reports whether the server blocks this host because too many connections failed before a login
// (max_connect_errors). FLUSH HOSTS or a restart fixes it.
func IsHostBlocked(err error) bool { return hasNumber(err, hostBlocked) }

// IsHostNotAllowed reports whether no account matches this host.
func IsHostNotAllowed(err error) bool { return hasNumber(err, hostNotPrivileged) }

// IsBusy reports whether the server has no free connection, or is stopping.
func IsBusy(err error) bool {
	return hasNumber(err, tooManyConnections, tooManyUserConnections, serverShutdown)
}

// IsReadOnly reports whether the server refuses changes.
func IsReadOnly(err error) bool { return hasNumber(err, readOnly, readOnlyMode) }

// IsAgainstPolicy reports whether the password violates the server's rules.
func IsAgainstPolicy(err error) bool { return hasNumber(err, notValidPassword) }

// IsAgainstHistory reports whether the server refuses a password that was used before.
func IsAgainstHistory(err error) bool { return hasNumber(err, contradictsHistory) }

// IsUnreachable reports whether no answer from the server arrived, as in the client errors 2003 and 2013. It is then
// unknown whether a statement was executed.
func IsUnreachable(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*dialError](err); ok {
		return true
	}
	return isOneOf(err, ErrSlow, context.DeadlineExceeded, driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF,
		io.ErrClosedPipe, mysql.ErrInvalidConn)
}

// IsMisbehaviour reports whether the server sent a response that no MySQL server sends to the product's queries. A
// different or a malicious server may use the address, so the controller should contact it less often.
func IsMisbehaviour(err error) bool {
	return isOneOf(err, ErrTooMuch, ErrNonsense, ErrPlugin) || IsUntrusted(err)
}

// A dialError wraps an error of a Dial function, which may have any type.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// Operations of this package return these errors.
var (
	// ErrRetained means that an account already retains an old password. Another password change would discard it.
	ErrRetained = errors.New("an account of root already has a retained old password")
	// ErrNoAccount means that no root account accepts a password.
	ErrNoAccount = errors.New("root has no account that logs in with a password")
	// ErrLocked means that another session holds the lock for password changes (Session.Lock).
	ErrLocked = errors.New("another session is changing the password")
	// ErrSlow means that the server did not answer in time.
	ErrSlow = errors.New("the server responds too slowly")
	// ErrTooMuch means that a response is larger than any valid one.
	ErrTooMuch = errors.New("the response is too large for a MySQL server")
	// ErrNonsense means that a response violates the protocol.
	ErrNonsense = errors.New("the response does not follow the MySQL protocol")
	// ErrPlugin means that the server requests something other than root's password, or the password in clear text.
	ErrPlugin = errors.New("root cannot log in to the server with a password: set the plugin caching_sha2_password " +
		"for its accounts")
)
