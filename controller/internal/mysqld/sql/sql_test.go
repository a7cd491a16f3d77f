package sql

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"app": "`app`", "a`b": "`a``b`", "``": "``````", `a'"\`: "`a'\"\\`",
		"имя": "`имя`", "": "``"} {
		if got := Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestKeepsOld(t *testing.T) {
	for text, want := range map[string]bool{
		"5.7.44": false, "8.0.13": false, "8.0.14": true, "8.0.36-28": true, "8.4.6": true, "9.7.4-2": true,
		"10.11.18-MariaDB": false, "5.5.5-10.4.1-MariaDB": false,
	} {
		v, err := version.Parse(text)
		if err != nil || KeepsOld(v) != want {
			t.Errorf("KeepsOld(%s) is not %v, %v", text, want, err)
		}
	}
}

// TestTooOld checks that a server without the required ALTER USER statement is refused. The error must contain the
// oldest supported version.
func TestTooOld(t *testing.T) {
	for text, want := range map[string]string{
		"5.6.24": "MySQL 5.7.6", "5.7.5": "MySQL 5.7.6", "5.7.6": "", "9.7.4": "", "5.5.5-10.3.39-MariaDB": "MariaDB 10.4",
		"10.4.1-MariaDB": "", "11.8.2-MariaDB": "",
	} {
		v, err := version.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkAltersPasswords(v); errors.Is(err, ErrTooOld) != (want != "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", text, want, err)
		}
	}
}

func TestAlter(t *testing.T) {
	account := func(host string) Account { return Account{Host: host, Plugin: cachingSHA2, Loaded: true} }
	changed := func(a Account, change func(*Account)) Account { change(&a); return a }
	cases := map[string]struct {
		reason   string
		version  string
		accounts []Account
		retain   bool
		want     string
		err      error
	}{
		"Retain": {
			reason: "All accounts must be changed in one statement.", version: "8.4.6", retain: true,
			accounts: []Account{account("%"), account("localhost")},
			want: "ALTER USER ?@? IDENTIFIED WITH `caching_sha2_password` BY ? RETAIN CURRENT PASSWORD, ?@? IDENTIFIED " +
				"WITH `caching_sha2_password` BY ? RETAIN CURRENT PASSWORD",
		},
		"Plain": {
			reason: "A retained old password must stay valid.", version: "8.4.6",
			accounts: []Account{changed(account("%"), func(a *Account) { a.Retained = true })},
			want:     "ALTER USER ?@? IDENTIFIED WITH `caching_sha2_password` BY ?",
		},
		"RetainTwice": {
			reason: "The server would discard the password that is already retained.", version: "8.4.6", retain: true,
			accounts: []Account{account("%"), changed(account("localhost"), func(a *Account) { a.Retained = true })},
			err:      ErrRetained,
		},
		"Empty": {
			reason: "MySQL cannot retain an empty password (error 3878).", version: "8.4.6", retain: true,
			accounts: []Account{account("%"), changed(account("localhost"), func(a *Account) { a.Empty = true })},
			want: "ALTER USER ?@? IDENTIFIED WITH `caching_sha2_password` BY ? RETAIN CURRENT PASSWORD, ?@? IDENTIFIED " +
				"WITH `caching_sha2_password` BY ?",
		},
		"PluginGone": {
			reason:  "The plugin is not loaded, so it must change, and MySQL then retains no password (error 3894).",
			version: "8.4.6", retain: true,
			accounts: []Account{account("%"), {Host: "localhost", Plugin: native}},
			want: "ALTER USER ?@? IDENTIFIED WITH `caching_sha2_password` BY ? RETAIN CURRENT PASSWORD, ?@? IDENTIFIED " +
				"WITH `caching_sha2_password` BY ?",
		},
		"PluginKept": {
			reason: "The plugin must not change, because older clients may support no other plugin.", version: "8.0.36", retain: true,
			accounts: []Account{{Host: "%", Plugin: native, Loaded: true}},
			want:     "ALTER USER ?@? IDENTIFIED WITH `mysql_native_password` BY ? RETAIN CURRENT PASSWORD",
		},
		"Socket": {
			reason: "An account that authenticates through a socket must not get a password.", version: "8.4.6", retain: true,
			accounts: []Account{account("%"), {Host: "localhost", Plugin: "auth_socket", Loaded: true}},
			want:     "ALTER USER ?@? IDENTIFIED WITH `caching_sha2_password` BY ? RETAIN CURRENT PASSWORD",
		},
		"MariaDB": {
			reason: "MariaDB requires a different statement.", version: "10.11.18-MariaDB",
			accounts: []Account{{Host: "%", Plugin: native, Loaded: true}},
			want:     "ALTER USER ?@? IDENTIFIED VIA `mysql_native_password` USING PASSWORD(?)",
		},
		"MariaDBPluginGone": {
			reason: "A plugin that is not loaded must be replaced by the default plugin.", version: "10.11.18-MariaDB",
			accounts: []Account{{Host: "%", Plugin: "ed25519"}},
			want:     "ALTER USER ?@? IDENTIFIED VIA `mysql_native_password` USING PASSWORD(?)",
		},
		"Nobody": {reason: "No account authenticates with a password.", version: "8.4.6",
			accounts: []Account{{Host: "localhost", Plugin: "auth_socket"}}, err: ErrNoAccount},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v, err := version.Parse(tc.version)
			if err != nil {
				t.Fatal(err)
			}
			got, args, err := alterStatement(v, tc.accounts, "p'q", tc.retain)
			if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.err) || len(args) != strings.Count(got, "?") {
				t.Errorf("%s %v, %d arguments, -want, +got:\n%s", tc.reason, err, len(args), diff)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	predicates := map[string]func(error) bool{
		"AccessDenied": IsAccessDenied, "PasswordExpired": IsPasswordExpired, "Locked": IsLocked,
		"HostBlocked":    IsHostBlocked,
		"HostNotAllowed": IsHostNotAllowed, "Busy": IsBusy, "ReadOnly": IsReadOnly, "AgainstPolicy": IsAgainstPolicy,
		"AgainstHistory": IsAgainstHistory, "Unreachable": IsUnreachable,
	}
	number := func(n uint16) error { return (&Session{}).wrapError(&mysql.MySQLError{Number: n}, "try") }
	cases := map[string]struct {
		err  error
		want string
	}{
		"1040": {number(1040), "Busy"}, "1045": {number(1045), "AccessDenied"}, "1053": {number(1053), "Busy"},
		"1129": {number(1129), "HostBlocked"},
		"1130": {number(1130), "HostNotAllowed"}, "1203": {number(1203), "Busy"}, "1290": {number(1290), "ReadOnly"},
		"1698": {number(1698), "AccessDenied"},
		"1819": {number(1819), "AgainstPolicy"}, "1820": {number(1820), "PasswordExpired"},
		"1862": {number(1862), "PasswordExpired"}, "3118": {number(3118), "Locked"},
		"3638": {number(3638), "AgainstHistory"}, "3878": {number(3878), ""}, "3894": {number(3894), ""},
		"3955": {number(3955), "Locked"},
		"1064": {number(1064), ""},
		"Refused": {(&Session{}).wrapError(&net.OpError{Op: "dial", Err: errors.New("connection refused")}, "try"),
			"Unreachable"},
		"Forward": {(&Session{}).wrapError(&dialError{errors.New("no such pod")}, "try"), "Unreachable"},
		"EOF":     {(&Session{}).wrapError(io.EOF, "try"), "Unreachable"},
		"Bad":     {(&Session{}).wrapError(driver.ErrBadConn, "try"), "Unreachable"},
		"Invalid": {(&Session{}).wrapError(mysql.ErrInvalidConn, "try"), "Unreachable"},
		"Late":    {(&Session{}).wrapError(context.DeadlineExceeded, "try"), "Unreachable"},
		"Ours":    {ErrRetained, ""},
		"None":    {nil, ""},
	}
	for name, tc := range cases {
		for predicate, holds := range predicates {
			if holds(tc.err) != (predicate == tc.want) {
				t.Errorf("%s: Is%s is %v", name, predicate, holds(tc.err))
			}
		}
	}
}

// TestScrub checks that the password is removed from an error in which the server quotes a statement.
func TestScrub(t *testing.T) {
	raw := &mysql.MySQLError{Number: 1064, SQLState: [5]byte{'4', '2', '0', '0', '0'},
		Message: "You have an error near 'hunter2'"}
	err := fmt.Errorf("outer: %w", (&Session{}).wrapSecret(raw, "change the password of root"))
	if got := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(got, "hunter2") ||
		!strings.Contains(got, "1064 (42000)") {
		t.Error(got)
	}
	if got := fmt.Sprintf("%+v", errors.Unwrap(err)); strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	if got := (&Session{}).wrapError(raw, "create the database").Error(); !strings.Contains(got, "near") {
		t.Errorf("Other statements' errors are told in full: %s", got)
	}
}

// TestAddressIsLeftOut checks that messages omit the address of the controller, which changes with each restart.
func TestAddressIsLeftOut(t *testing.T) {
	cases := map[string]struct{ message, want string }{
		"Denied": {message: "Access denied for user 'root'@'10.244.0.7' (using password: YES)",
			want: "Access denied for user 'root'@'…' (using password: YES)"},
		"Blocked": {message: "Host '10.244.0.7' is blocked because of many connection errors",
			want: "Host '…' is blocked because of many connection errors"},
		"Named": {message: "Host 'controller-7d9f.example' is not allowed to connect to this MySQL server",
			want: "Host '…' is not allowed to connect to this MySQL server"},
		"Account": {message: "Operation ALTER USER failed for 'root'@'%'",
			want: "Operation ALTER USER failed for 'root'@'%'"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := (&Session{}).wrapError(&mysql.MySQLError{Number: 1, Message: tc.message}, "try").
				Error(); !strings.HasSuffix(got, tc.want) {
				t.Errorf("want %q at its end, got %q", tc.want, got)
			}
		})
	}
}

func TestPassword(t *testing.T) {
	p := Password("hunter2")
	raw, err := json.Marshal(map[string]Password{"p": p})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		raw = fmt.Appendf(raw, verb, struct{ P Password }{p})
	}
	if err != nil || strings.Contains(string(raw), "hunter2") || strings.Contains(string(raw), "68756e746572") {
		t.Errorf("%s %v", raw, err)
	}
}
