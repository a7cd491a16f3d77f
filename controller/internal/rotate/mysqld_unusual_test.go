//go:build mysqld

package rotate

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/freeport"
)

// TestRealSecrecy checks that the server's logs contain no passwords.
func TestRealSecrecy(t *testing.T) {
	s := newServer(t, "first")
	c := newCluster(t, "", "")
	r := s.rotator(c)
	must(t, second(r.Reconcile(t.Context(), c.input("first"))))
	must(t, second(r.Reconcile(t.Context(), c.input("hunter2"))))
	for _, name := range []string{"general", "slow", "error.log"} {
		raw, err := os.ReadFile(filepath.Join(s.dir, name))
		must(t, err)
		if strings.Contains(string(raw), "hunter2") || len(raw) == 0 {
			t.Errorf("%s: %s", name, raw)
		}
	}
}

// TestRealLock checks that a lost session releases the lock, and that nothing else does.
func TestRealLock(t *testing.T) {
	s := newServer(t, "p")
	one, two := s.login(t, "p"), s.login(t, "p")
	must(t, one.Lock(t.Context()))
	if err := two.Lock(t.Context()); err == nil {
		t.Error("two sessions have the lock")
	}
	one.Close()
	must(t, two.Lock(t.Context()))
}

// TestRealAccounts checks that unusual accounts do not prevent a password change of the other accounts.
func TestRealAccounts(t *testing.T) {
	s := newServer(t, "p")
	if s.mariadb {
		t.Skip("MariaDB retains nothing")
	}
	s.run(t, "CREATE USER root@'10.0.0.1' IDENTIFIED BY 'p'; ALTER USER root@'10.0.0.1' IDENTIFIED BY 'by hand' RETAIN "+
		"CURRENT PASSWORD")
	s.run(t, "INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'; CREATE USER root@'10.0.0.2' IDENTIFIED WITH auth_socket")
	c, checks := newCluster(t, "", ""), 0
	c.check = s.check(c, &checks)
	got := c.mustRest(s.rotator(c), c.input("p"))
	if !slices.Contains(got.Done, ReplaceAll) {
		t.Errorf("what was retained by hand is still there: %v", got.Done)
	}
	s.run(t, "CREATE USER root@'10.0.0.3' IDENTIFIED BY ''; CREATE USER root@'10.0.0.4' IDENTIFIED BY 'p'")
	// An upgrade from a server with the older plugin leaves this state.
	s.run(t, "UPDATE mysql.user SET plugin = 'mysql_native_password', authentication_string = "+
		"'*00A51F3F48415C7D4E8908980D443C29C69B60C9' WHERE Host = '10.0.0.4'; FLUSH PRIVILEGES")
	_, err := s.rotator(c).Reconcile(t.Context(), c.input("q"))
	must(t, err)
	accounts, err := s.login(t, "q").RootAccounts(t.Context())
	must(t, err)
	for _, a := range accounts {
		want := sql.Account{Host: a.Host, Plugin: "caching_sha2_password", Loaded: true,
			Retained: a.Host != "10.0.0.3" && a.Host != "10.0.0.4", Unprivileged: strings.HasPrefix(a.Host, "10.")}
		if a.Host == "10.0.0.2" {
			want.Plugin, want.Retained, want.Empty = "auth_socket", false, true
		}
		if a != want {
			t.Errorf("got %+v, want %+v", a, want)
		}
	}
	got = c.mustRest(s.rotator(c), c.input("r"))
	if got.Credentials.State != v1.CredentialsInSync || c.connection() != "r" {
		t.Errorf("the next change: %+v", got)
	}
}

// run runs a statement with the image's own client, which logs in as root.
func (s *server) run(t *testing.T, statement string) {
	t.Helper()
	s.runAs(t, "root", statement)
}

func (s *server) runAs(t *testing.T, user, statement string) {
	t.Helper()
	cmd := s.root.Command("usr/bin/mysql", "--no-defaults", "--user="+user, "--socket="+filepath.Join(s.dir, "s"),
		"--execute="+statement)
	cmd.Env = append(os.Environ(), "MYSQL_PWD=p")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", statement, err, out)
	}
}

// TestRealPlain checks that the controller can log in over a network to a server without TLS.
func TestRealPlain(t *testing.T) {
	port := strconv.Itoa(freeport.Find(t))
	// The server trusts connections over a socket, so a socket would not show how it handles network connections.
	s := newServer(t, "p", "--tls-version=", "--skip-networking=OFF", "--bind-address=127.0.0.1", "--port="+port)
	c := newCluster(t, "", "")
	must(t, second(s.rotator(c).Reconcile(t.Context(), c.input("p"))))
	c.mustRest(s.rotator(c), c.input("q"))
	must(t, s.ping(t.Context(), "q"))
}
