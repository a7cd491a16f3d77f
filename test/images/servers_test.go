//go:build linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// odd contains characters that careless scripts handle wrongly.
//
//nolint:gosmopolitan // Passwords come in every script.
const odd = `q'u"o\te $HOME ` + "`id`" + ` %_; -- #ü漢\n`

// quick makes the first start faster. It skips the import of the time zones, which most tests do not need.
var quick = []string{"MYSQL_INITDB_SKIP_TZINFO=1"}

// ask runs SQL on the container's server as an account over TCP, and returns only the values.
func (c *container) ask(user, password, sql string) string {
	c.t.Helper()
	out, err := c.inside([]string{"MYSQL_PWD=" + password}, "mysql", "--no-defaults", "-h127.0.0.1", "-u"+user, "-BNr",
		"--default-character-set=utf8mb4", "-e", sql)
	if err != nil {
		c.t.Fatalf("cannot ask as %s: %s\n%s", user, out, c.output)
	}
	return out
}

func TestServers(t *testing.T) {
	t.Parallel()
	const show = "SHOW DATABASES"
	for name, tc := range map[string]struct {
		reason string
		setup  setup
		user   string // The default is root.
		pass   string
		ask    string
		want   string
	}{
		"password": {
			reason: "root can log in with the password from all hosts.",
			setup:  setup{image: "mysql", env: []string{"MYSQL_ROOT_PASSWORD=secret"}},
			pass:   "secret",
			ask:    "SELECT VERSION() LIKE '9.7.%', CURRENT_USER()",
			want:   "1\troot@%",
		},
		"password in a file, as our Deployment sets it on a storage class": {
			reason: "A newline at the end of the file must not be part of the password, with the UID of fsGroup.",
			setup: setup{
				image: "mysql", uid: mysqlID, env: []string{"MYSQL_ROOT_PASSWORD_FILE=/etc/mysql/conf.d/password",
					"MYSQL_DATABASE=otus-database"},
				files: map[string]string{"password": "secret\n",
					"my.cnf": "[mysqld]\nskip_name_resolve = ON\nmax_connections = 77\n"},
			},
			pass: "secret",
			ask:  "SELECT @@max_connections; " + show,
			want: "77\ninformation_schema\nmysql\notus-database\nperformance_schema\nsys",
		},
		"empty password": {
			reason: "An empty password must be possible if it is requested explicitly.",
			setup:  setup{image: "mysql", env: []string{"MYSQL_ALLOW_EMPTY_PASSWORD=yes"}},
			ask:    "SELECT 1",
			want:   "1",
		},
		"database and user": {
			reason: "The user has access to one database, and an underscore in its name is not a wildcard.",
			setup: setup{
				image: "mysql", args: []string{"--max-connections=55", "--character-set-server=latin1"},
				env: []string{"MYSQL_ROOT_PASSWORD=secret", "MYSQL_DATABASE=my_app", "MYSQL_USER=me", "MYSQL_PASSWORD=mine"},
			},
			user: "me",
			pass: "mine",
			ask:  "SELECT DATABASE() IS NULL, @@max_connections, @@character_set_server; SHOW DATABASES LIKE 'my%'; SHOW GRANTS",
			want: "1\t55\tlatin1\nmy_app\nGRANT USAGE ON *.* TO `me`@`%`\nGRANT ALL PRIVILEGES ON `my\\_app`.* TO `me`@`%`",
		},
		"scripts": {
			reason: "Scripts must run in alphabetical order in the database, with values from _FILE variables.",
			setup: setup{
				image: "mysql", env: []string{"MYSQL_ROOT_PASSWORD_FILE=/etc/mysql/conf.d/password", "MYSQL_DATABASE=app"},
				files: map[string]string{
					"password": "secret",
					"1.sql":    "CREATE TABLE t (i INT);\n",
					"2.sh":     "mysql -uroot -p\"$MYSQL_ROOT_PASSWORD\" -e 'INSERT INTO app.t VALUES (42)'\n",
					"3.txt":    "not for us",
				},
			},
			pass: "secret",
			ask:  "SELECT * FROM app.t",
			want: "42",
		},
		"root's host": {
			reason: "The logins of root can be restricted to this machine.",
			setup:  setup{image: "mysql", env: []string{"MYSQL_ROOT_PASSWORD=secret", "MYSQL_ROOT_HOST=127.0.0.1"}},
			pass:   "secret",
			ask:    "SELECT host FROM mysql.user WHERE user = 'root' ORDER BY host",
			want:   "127.0.0.1\nlocalhost",
		},
		"mariadb": {
			reason: "MariaDB's image must support the same options with its own names.",
			setup: setup{
				image: "mariadb", env: []string{"MARIADB_ROOT_PASSWORD=" + odd, "MARIADB_DATABASE=app", "MARIADB_USER=me",
					"MARIADB_PASSWORD=mine"},
				files: map[string]string{"1.sql": "CREATE TABLE t (i INT);\n"},
			},
			pass: odd,
			ask: "SELECT VERSION() LIKE '10.11.%'; SELECT user, host FROM mysql.user WHERE user IN ('', 'me', 'root') ORDER " +
				"BY 1, 2; SHOW TABLES IN app",
			want: "1\nme\t%\nroot\t%\nroot\tlocalhost\nt",
		},
		"mariadb by the names of mysql": {
			reason: "Options for MySQL's image must also work in MariaDB's image, with the UID of the pod.",
			setup: setup{
				image: "mariadb", uid: mysqlID,
				env:  []string{"MYSQL_ROOT_PASSWORD_FILE=/etc/mysql/conf.d/password", "MYSQL_DATABASE=app"},
				args: []string{"--max-connections=55"}, files: map[string]string{"password": "secret\n"},
			},
			pass: "secret",
			ask:  "SELECT @@max_connections; SHOW DATABASES LIKE 'app'",
			want: "55\napp",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.setup.env = append(tc.setup.env, quick...)
			c := start(t, tc.setup)
			if !c.ready() {
				t.Fatalf("%s\nThe server ended:\n%s", tc.reason, c.output)
			}
			user := "root"
			if tc.user != "" {
				user = tc.user
			}
			if diff := cmp.Diff(tc.want, c.ask(user, tc.pass, tc.ask)); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
			c.stop()
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		setup  setup
		want   string
	}{
		"no password": {
			reason: "A server without a password must be requested explicitly.",
			setup:  setup{image: "mysql"},
			want:   "database is uninitialized and password option is not specified",
		},
		"no password, mariadb": {
			reason: "The error must be the same as that of the official image.",
			setup:  setup{image: "mariadb"},
			want:   "- MARIADB_ROOT_PASSWORD",
		},
		"twice": {
			reason: "A variable and its _FILE variant must not both be set.",
			setup:  setup{image: "mysql", env: []string{"MYSQL_ROOT_PASSWORD=a", "MYSQL_ROOT_PASSWORD_FILE=/etc/hosts"}},
			want:   "both MYSQL_ROOT_PASSWORD and MYSQL_ROOT_PASSWORD_FILE are set, but are exclusive",
		},
		"root as the user": {
			reason: "The regular user must not be root, which has its own password.",
			setup:  setup{image: "mysql", env: []string{"MYSQL_ROOT_PASSWORD=a", "MYSQL_USER=root", "MYSQL_PASSWORD=b"}},
			want:   "are for a regular user",
		},
		"no such file": {
			reason: "A missing file must not result in an empty password.",
			setup:  setup{image: "mysql", env: []string{"MYSQL_ROOT_PASSWORD_FILE=/none"}},
			want:   "cannot read MYSQL_ROOT_PASSWORD_FILE",
		},
		"wrong configuration": {
			reason: "An invalid configuration must be reported before any data is written.",
			setup: setup{image: "mysql", env: []string{"MYSQL_ROOT_PASSWORD=a"},
				files: map[string]string{"my.cnf": "[mysqld]\nsql_mode = NO_SUCH_MODE\n"}},
			want: "Error while setting value 'NO_SUCH_MODE' to 'sql_mode'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.setup.data = t.TempDir()
			c := start(t, tc.setup)
			<-c.done
			if code := c.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(c.output.String(), tc.want) {
				t.Errorf("%s\nIt ended with %d instead of 1, or did not say %q:\n%s", tc.reason, code, tc.want, c.output)
			}
			left, err := os.ReadDir(tc.setup.data)
			if err != nil || len(left) > 0 {
				t.Errorf("%s\nIt left files in the data directory: %v %v", tc.reason, left, err)
			}
		})
	}
}

// TestSecondStart checks that the second start uses the existing database and ignores the password in the
// environment.
func TestSecondStart(t *testing.T) {
	t.Parallel()
	for _, image := range []string{"mysql", "mariadb"} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			first := start(t, setup{image: image, data: data,
				env: append([]string{"MYSQL_RANDOM_ROOT_PASSWORD=1", "MYSQL_DATABASE=app"}, quick...)})
			if !first.ready() {
				t.Fatalf("The server ended:\n%s", first.output)
			}
			password := regexp.MustCompile(`GENERATED ROOT PASSWORD: (\S+)`).FindStringSubmatch(first.output.String())
			if password == nil {
				t.Fatalf("No password was said:\n%s", first.output)
			}
			first.ask("root", password[1], "CREATE TABLE app.t AS SELECT 42 AS i")
			first.stop()

			second := start(t, setup{image: image, data: data, env: []string{"MYSQL_ROOT_PASSWORD=other"}})
			if !second.ready() {
				t.Fatalf("The server ended:\n%s", second.output)
			}
			if got := second.ask("root", password[1], "SELECT i FROM app.t"); got != "42" {
				t.Errorf("The table has %q instead of 42", got)
			}
			second.stop()
		})
	}
}

// TestNoPortBeforeReady checks that the port is not open before the database is complete.
func TestNoPortBeforeReady(t *testing.T) {
	c := start(t, setup{
		image: "mysql", env: append([]string{"MYSQL_ROOT_PASSWORD=secret"}, quick...),
		files: map[string]string{"1.sh": "sleep 1\necho initialized\n"},
	})
	for !strings.Contains(c.output.String(), "\ninitialized\n") {
		if c.listens(3306) || c.listens(33060) {
			t.Fatalf("A port was open during the initialisation:\n%s", c.output)
		}
		select {
		case <-c.done:
			t.Fatalf("The server ended:\n%s", c.output)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if !c.ready() {
		t.Fatalf("The server ended:\n%s", c.output)
	}
	if got := c.ask("root", "secret", "SELECT 1"); got != "1" {
		t.Errorf("Root got %q", got)
	}
}

func TestTimeZones(t *testing.T) {
	c := start(t, setup{image: "mysql", env: []string{"MYSQL_ROOT_PASSWORD=secret"}})
	if !c.ready() {
		t.Fatalf("The server ended:\n%s", c.output)
	}
	if got, want := c.ask("root", "secret",
		"SELECT CONVERT_TZ('2026-07-01 12:00:00', 'UTC', 'Europe/Berlin')"), "2026-07-01 14:00:00"; got != want {
		t.Errorf("The time is %q instead of %q", got, want)
	}
}

// TestPrograms checks that the image contains the programs that the entrypoint calls, but no other programs from
// Debian's packages.
func TestPrograms(t *testing.T) {
	for program, want := range map[string]bool{"mysqld": true, "mysql": true, "mysqladmin": true,
		"mysql_tzinfo_to_sql": true, "mysqlbinlog": false, "mysqlcheck": false} {
		found := false
		for _, dir := range []string{"usr/bin", "usr/sbin", "usr/local/bin"} {
			_, err := os.Lstat(filepath.Join(roots["mysql"], dir, program))
			found = found || err == nil
		}
		if found != want {
			t.Errorf("%s is there: %t, want %t", program, found, want)
		}
	}
}

// TestOtherCommand checks that other commands in the image run unchanged.
func TestOtherCommand(t *testing.T) {
	c := start(t, setup{image: "mysql", args: []string{"mysqld", "--version"}})
	<-c.done
	if !strings.Contains(c.output.String(), "Ver 9.7.") {
		t.Errorf("mysqld --version said %q", c.output)
	}
}

// TestQuoteInPassword checks that a password with a quote breaks the first start, as in MySQL's official image. The
// next start treats the result as a complete database, to which any process in the container can log in. A test image
// that tolerates quotes would hide this.
func TestQuoteInPassword(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	env := []string{"MYSQL_ROOT_PASSWORD=it's"}
	first := start(t, setup{image: "mysql", data: data, env: env})
	if first.ready() || !strings.Contains(first.output.String(), "ERROR 1064") {
		t.Fatalf("The first start did not end with an error of SQL:\n%s", first.output)
	}
	second := start(t, setup{image: "mysql", data: data, env: env})
	if !second.ready() {
		t.Fatalf("The second start did not take what is there for a database:\n%s", second.output)
	}
	out, err := second.inside(nil, "mysql", "--no-defaults", "--user=root", "--socket=/run/mysqld/mysqld.sock", "-BNe",
		"SELECT host FROM mysql.user WHERE user = 'root'")
	if err != nil || out != "localhost" {
		t.Errorf("Root without a password sees %q, %v", out, err)
	}
	// The import of the time zones is the slowest step of the initialization. It precedes the creation of the accounts,
	// so it must be complete.
	out, err = second.inside(nil, "mysql", "--no-defaults", "--user=root", "--socket=/run/mysqld/mysqld.sock", "-BNe",
		"SELECT COUNT(*) > 100 FROM mysql.time_zone_name")
	if err != nil || out != "1" {
		t.Errorf("The time zones were not loaded before the accounts: %q, %v", out, err)
	}
	second.stop()
}
