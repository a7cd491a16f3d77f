//go:build mysqld

package rotate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/freeport"
)

// An exampleClient is a client from docs/clients. It requires Debian packages. If file exists, they are already
// installed.
type exampleClient struct {
	command  []string
	packages []string
	file     string
}

// TestRealClients checks that each client of docs/clients can log in to the server by its name, with the server's CA.
// The client must send nothing to a different server.
func TestRealClients(t *testing.T) {
	k, other := newKeptCertificate(t), newKeptCertificate(t)
	port := strconv.Itoa(freeport.Find(t))
	s := newServer(t, "hunter2", append(k.options(), "--require-secure-transport=ON", "--skip-networking=OFF",
		"--bind-address=127.0.0.1", "--port="+port)...)
	dir := filepath.Join("..", "..", "..", "docs", "clients")
	hosts := filepath.Join(t.TempDir(), "hosts")
	must(t, os.WriteFile(hosts, []byte("127.0.0.1 shop.team.svc other.team.svc\n"), 0o600))
	for name, c := range map[string]exampleClient{
		"Python": {[]string{"/usr/bin/python3", filepath.Join(dir, "verify.py")}, []string{"python3", "python3-pymysql"},
			"/usr/lib/python3/dist-packages/pymysql"},
		"PHP": {[]string{"php", filepath.Join(dir, "verify.php")}, []string{"php-cli", "php-mysql"}, "/usr/bin/php"},
		"Java": {[]string{"java", "-cp", "/usr/share/java/mariadb-java-client.jar", filepath.Join(dir, "Verify.java")},
			[]string{"default-jdk-headless", "libmariadb-java"}, "/usr/share/java/mariadb-java-client.jar"},
	} {
		t.Run(name, func(t *testing.T) {
			c.install(t)
			for _, tc := range []struct {
				reason, host string
				certificate  *keptCertificate
				wellKnown    bool
			}{
				{"It is the server.", "shop.team.svc", k, true},
				{"It is another server.", "other.team.svc", k, false},
				{"It is of another authority.", "shop.team.svc", other, false},
			} {
				before := s.connections(t)
				out, err := c.run(hosts, tc.host, port, filepath.Join(tc.certificate.dir, v1.CAKey))
				if (err == nil) != tc.wellKnown || tc.wellKnown != strings.HasPrefix(out, "TLS_") {
					t.Errorf("%s %v: %s", tc.reason, err, out)
				}
				if came := s.connections(t) != before; came != tc.wellKnown {
					t.Errorf("%s it was told the password: %v", tc.reason, came)
				}
			}
		})
	}
}

// connections returns the number of root's connections that the server has accepted.
func (s *server) connections(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, "general"))
	must(t, err)
	return strings.Count(string(raw), "Connect\troot@")
}

// install installs the client's packages if they are missing.
func (c exampleClient) install(t *testing.T) {
	t.Helper()
	_, missing := exec.LookPath(c.command[0])
	if _, err := os.Stat(c.file); err == nil && missing == nil {
		return
	}
	out, err := exec.Command("sh", "-c", "apt-get update -q && apt-get install -qy --no-install-recommends "+strings.Join(c.packages, " ")).CombinedOutput() //nolint:noctx // The command exits on its own.
	if err != nil {
		t.Fatalf("cannot install %v: %v\n%s", c.packages, err, out)
	}
}

// run runs the client with a hosts file that contains only these names.
func (c exampleClient) run(hosts string, args ...string) (string, error) {
	cmd := exec.Command("sh", append([]string{"-c", `mount --bind "$0" /etc/hosts && exec "$@"`, hosts}, append(c.command, args...)...)...) //nolint:noctx // The command exits on its own.
	cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	cmd.Stdin = strings.NewReader("hunter2\n")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
