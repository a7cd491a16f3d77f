package rotate

import (
	"strings"
	"testing"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// TestDecideAttempt checks that a refused password is not tried again, and that no attempt locks the account.
func TestDecideAttempt(t *testing.T) {
	old, other, right := digest{1}, digest{2}, digest{3}
	cases := map[string]struct {
		reason        string
		failed, limit int
		about         digest
		refused       bool
		left          string
	}{
		"First": {reason: "Nothing is known about the password, so it may be tried.", about: other},
		"Again": {reason: "The server refused the password before, so it must not be tried again.", about: old, refused: true},
		"AgainFree": {reason: "A refused password must not be tried again, even if the server has no known limit.", about: old, failed: 7,
			refused: true},
		"Enough": {reason: "Two attempts are left, so the password may be tried.", about: other, failed: 1, limit: 3},
		"Last": {reason: "One more failed login would lock the account.", about: other, failed: 2, limit: 3,
			left: "after 3 failed logins in a row (FAILED_LOGIN_ATTEMPTS), and 1 are left"},
		"OnlyOne":   {reason: "The server locks the account after the first failed login.", about: other, limit: 1, left: "1 are left"},
		"LastRight": {reason: "The password was accepted before, so a login with it resets the count.", about: right, failed: 2, limit: 3},
		"LastRefuse": {reason: "The password was refused before, so no login is needed to know the result.",
			about: old, failed: 2, limit: 3, refused: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &serverAttempts{refused: map[digest]bool{old: true}, accepted: map[digest]bool{right: true}, failed: tc.failed,
				limit: tc.limit}
			refused, err := s.decideAttempt(tc.about)
			if refused != tc.refused || (err != nil) != (tc.left != "") || err != nil &&
				!strings.Contains(err.Error(), tc.left) {
				t.Errorf("%s got refused %v, %v", tc.reason, refused, err)
			}
		})
	}
}

// TestRefusedPasswordIsTriedOnce changes root's password in the server. Each known password must be tried only once,
// however many passes run. It must be tried again after a restart of the server, which resets its count.
func TestRefusedPasswordIsTriedOnce(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	r := c.rotator()
	in := c.input("a")
	in.ServerStart, in.VerifyPassword = "first", true
	c.mustRest(r, in)
	for _, a := range c.accounts {
		a.primary = testForeign
	}
	tries := func(want int, reason string) {
		t.Helper()
		c.logins = 0
		for range 5 {
			got, err := r.Reconcile(t.Context(), in)
			if err != nil || got.Credentials.State != v1.CredentialsFailed {
				t.Errorf("%s: want it to fail without a retry, got %+v, %v", reason, got.Credentials, err)
			}
		}
		if c.logins != want {
			t.Errorf("%s: want %d failed logins in five passes, got %d", reason, want, c.logins)
		}
	}
	tries(1, "one password is known")
	in.Wanted = "b"
	tries(1, "another password is wanted")
	in.ServerStart = "second"
	tries(2, "the server restarts")
	in.Wanted = testForeign
	if got := c.mustRest(r, in); got.Credentials.State != v1.CredentialsInSync {
		t.Errorf("the right password: got %+v", got.Credentials)
	}
}

// TestChangeHasNoFailedLogin checks that a password change causes no failed login, because the server may lock root
// after the first one.
func TestChangeHasNoFailedLogin(t *testing.T) {
	for name, limit := range map[string]int{"Unlimited": 0, "One": 1, "Two": 2} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "a", "", root("a"))
			for _, a := range c.accounts {
				a.FailedLogins = limit
			}
			r := c.rotator()
			for _, p := range []sql.Password{"a", "b", "c", "a"} {
				c.mustRest(r, c.input(p))
				if c.connection() != p {
					t.Errorf("want %s to be published", p)
				}
			}
			if c.refusals > 0 {
				t.Errorf("want no failed login, got %d", c.refusals)
			}
		})
	}
}

// TestAttemptsLeft checks that a new process with a wrong password does not lock root on a server that allows few
// failed logins.
func TestAttemptsLeft(t *testing.T) {
	c := newCluster(t, "a", "", root("a"))
	for _, a := range c.accounts {
		a.FailedLogins = 2
	}
	r := c.rotator()
	in := c.input("a")
	in.ServerStart, in.VerifyPassword = "first", true
	c.mustRest(r, in)
	for _, a := range c.accounts {
		a.primary = testForeign
	}
	in.Wanted = "b"
	got, err := r.Reconcile(t.Context(), in)
	if err != nil || got.Credentials.State != v1.CredentialsFailed ||
		!strings.Contains(got.Credentials.Message, "1 are left") {
		t.Errorf("want to know what is left, got %+v, %v", got.Credentials, err)
	}
	if c.refusals != 1 {
		t.Errorf("want one failed login of two, got %d", c.refusals)
	}
	in.Wanted, in.ServerStart = testForeign, "after a restart"
	if got := c.mustRest(r, in); got.Credentials.State != v1.CredentialsInSync {
		t.Errorf("want the right password to be tried after a restart, got %+v", got.Credentials)
	}
}

// TestAccountOutcomes checks that each reason for a refused login has a specific message with a next step.
func TestAccountOutcomes(t *testing.T) {
	for number, says := range map[uint16]string{
		1044: "GRANT ALL PRIVILEGES", 1142: "GRANT ALL PRIVILEGES", 1227: "GRANT ALL PRIVILEGES",
		1130: "CREATE USER root@'%'", 1524: "IDENTIFIED WITH caching_sha2_password", 1820: "PASSWORD EXPIRE NEVER",
		1862: "PASSWORD EXPIRE NEVER",
		1819: "validate_password", 3118: "ACCOUNT UNLOCK", 3638: "password_history", 3955: "FAILED_LOGIN_ATTEMPTS",
		4150: "max_password_errors", 4151: "ACCOUNT UNLOCK",
	} {
		if got := adviceFor(&sql.Error{Doing: "log in to the server", Number: number, State: "HY000",
			Text: "no"}); !strings.Contains(got, says) {
			t.Errorf("%d: want %q in %q", number, says, got)
		}
	}
	if adviceFor(&sql.Error{Number: 3118}) == adviceFor(&sql.Error{Number: 3955}) {
		t.Error("a lock by an administrator and one by failed logins have one message")
	}
}
