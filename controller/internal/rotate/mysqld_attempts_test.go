//go:build mysqld

package rotate

import (
	"strings"
	"testing"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// TestRealFailedLogins uses a server that locks root for every client after failed logins. The controller must not
// cause this lock, neither during a password change nor after another client has set a password.
func TestRealFailedLogins(t *testing.T) {
	s := newServer(t, "p")
	if s.mariadb {
		t.Skip("MariaDB locks no account after failed logins")
	}
	const limit = " FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME UNBOUNDED"
	s.run(t, "ALTER USER root@localhost, root@'%'"+limit)
	c := newCluster(t, "", "")
	r := s.rotator(c)
	for _, p := range []sql.Password{"p", "q", "p"} {
		first := c.input(p)
		first.ServerStart = "first"
		if got := c.mustRest(r, first); got.Credentials.State != v1.CredentialsInSync {
			t.Fatalf("%+v", got.Credentials)
		}
	}
	s.run(t, "CREATE USER admin@localhost IDENTIFIED BY 'p'; GRANT ALL ON *.* TO admin@localhost WITH GRANT OPTION")
	s.run(t, "ALTER USER root@localhost IDENTIFIED BY 'theirs' FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME UNBOUNDED")
	in := c.input("p")
	in.ServerStart, in.VerifyPassword = "first", true
	for range 10 {
		got, err := r.Reconcile(t.Context(), in)
		must(t, err)
		if got.Credentials.State != v1.CredentialsFailed {
			t.Fatalf("%+v", got.Credentials)
		}
	}
	if err := s.ping(t.Context(), "theirs"); err != nil {
		t.Fatalf("the controller has locked root: %v", err)
	}
	in = c.input("theirs")
	in.ServerStart = "second" // A restart resets the count.
	c.mustRest(r, in)

	for range 3 { // Another client locks the account.
		_ = s.ping(t.Context(), "wrong")
	}
	in.VerifyPassword = true
	// The controller retries with increasing delays.
	if got, err := r.Reconcile(t.Context(), in); err == nil ||
		!strings.Contains(got.Credentials.Message, "FAILED_LOGIN_ATTEMPTS") {
		t.Errorf("want to know why root is locked, got %+v, %v", got.Credentials, err)
	}
	s.runAs(t, "admin", "ALTER USER root@localhost ACCOUNT UNLOCK")
	if got := c.mustRest(r, in); got.Credentials.State != v1.CredentialsInSync {
		t.Errorf("unlocked again: %+v", got.Credentials)
	}
}

// TestRealAccountOutcomes checks that the status contains each reason for a refused login of root, and a next step.
func TestRealAccountOutcomes(t *testing.T) {
	s := newServer(t, "p")
	s.run(t, "CREATE USER admin@localhost IDENTIFIED BY 'p'; GRANT ALL ON *.* TO admin@localhost WITH GRANT OPTION")
	c := newCluster(t, "", "")
	c.mustRest(s.rotator(c), c.input("p"))
	cases := map[string]struct{ statement, undo, says string }{
		"Locked": {"ALTER USER root@localhost ACCOUNT LOCK", "ALTER USER root@localhost ACCOUNT UNLOCK", "ACCOUNT UNLOCK"},
		"Expired": {"ALTER USER root@localhost PASSWORD EXPIRE", "ALTER USER root@localhost IDENTIFIED BY 'p'",
			"has expired"},
		"X509": {"ALTER USER root@localhost REQUIRE X509", "ALTER USER root@localhost REQUIRE NONE", "REQUIRE X509"},
		"Rights": {"REVOKE SELECT ON *.* FROM root@localhost", "GRANT SELECT ON *.* TO root@localhost",
			"GRANT ALL PRIVILEGES"},
	}
	if !s.mariadb { // MariaDB has other plugins and stores accounts elsewhere.
		cases["Plugin"] = struct {
			statement, undo,
			says string
		}{"UPDATE mysql.user SET plugin = 'mysql_native_password', authentication_string = " +
			"'*00A51F3F48415C7D4E8908980D443C29C69B60C9' WHERE User = 'root' AND Host = 'localhost'; FLUSH PRIVILEGES",
			"UPDATE mysql.user SET plugin = 'caching_sha2_password', authentication_string = '' WHERE User = 'root' AND Host " +
				"= 'localhost'; FLUSH PRIVILEGES; ALTER USER root@localhost IDENTIFIED BY 'p'",
			"IDENTIFIED WITH caching_sha2_password"}
	}
	for name, tc := range cases {
		s.runAs(t, "admin", tc.statement)
		in := c.input("p")
		in.VerifyPassword = true
		got, _ := s.rotator(c).Reconcile(t.Context(), in)
		if got.Credentials.State != v1.CredentialsFailed || !strings.Contains(got.Credentials.Message, tc.says) {
			t.Errorf("%s: want %q, got %+v", name, tc.says, got.Credentials)
		}
		s.runAs(t, "admin", tc.undo)
		if got := c.mustRest(s.rotator(c), in); got.Credentials.State != v1.CredentialsInSync {
			t.Errorf("%s: undone: %+v", name, got.Credentials)
		}
	}
}
