//go:build mysqld

package rotate

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/exporter"
	mysqldsql "github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/freeport"
)

// exporterVariable is the environment variable with the path of mysqld_exporter (go run ./test/tools exporter).
const exporterVariable = "EXPORTER"

// openAs opens a connection to the server with an account.
func (s *server) openAs(t *testing.T, user, password string) *sql.DB {
	t.Helper()
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.Logger = user, password, "unix", filepath.Join(s.dir, "s"), &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// serveMetrics runs the real exporter as the server's pod does, with the my.cnf in the Secret. It returns the URL of
// the metrics.
func (s *server) serveMetrics(t *testing.T, c *cluster) string {
	t.Helper()
	dir, port := t.TempDir(), freeport.Find(t)
	must(t, os.Symlink(os.Getenv(exporterVariable), filepath.Join(dir, "mysqld_exporter")))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	e := exporter.Exporter{Account: filepath.Join(dir, v1.MetricsKey), Port: port, Output: t.Output()}
	s.mountAccount(t, c, e.Account)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() { stop(); must(t, <-ended) })
	return fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
}

// mountAccount writes the my.cnf in the Secret to a file, with the path of this server's socket.
func (s *server) mountAccount(t *testing.T, c *cluster, file string) {
	t.Helper()
	raw := c.metricsSecret().Data[v1.MetricsKey]
	must(t, os.WriteFile(file, bytes.Replace(raw, []byte("/var/run/mysqld/mysqld.sock"),
		[]byte(filepath.Join(s.dir, "s")), 1), 0o600))
}

// scrape returns the metrics that satisfy the condition, or fails.
func scrape(t *testing.T, url string, isWanted func(string) bool) string {
	t.Helper()
	text := ""
	for range 200 {
		if response, err := http.Get(url); err == nil { //nolint:gosec,noctx // The exporter of this test.
			raw, err := io.ReadAll(response.Body)
			must(t, errors.Join(err, response.Body.Close()))
			if text = string(raw); isWanted(text) {
				return text
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("these are not the wanted metrics:\n%s", text)
	return ""
}

func isUp(metrics string) bool { return strings.Contains(metrics, "\nmysql_up 1\n") }

// TestRealFlavourExporter runs the real exporter with the account that the controller creates. The account must
// suffice for its default collectors, and must not be able to read the data of users.
func TestRealFlavourExporter(t *testing.T) {
	if os.Getenv(exporterVariable) == "" {
		t.Fatalf("%s is not set: EXPORTER=$(go run ./test/tools exporter)", exporterVariable)
	}
	s := newServer(t, "a", "--innodb-buffer-pool-size=32M", "--log-bin=changes", "--server-id=7")
	root := s.openAs(t, "root", "a")
	execAs(t, root, "CREATE DATABASE app", "CREATE TABLE app.secrets (id INT)", "INSERT INTO app.secrets VALUES (1)")
	c := newCluster(t, "", "")
	in := c.input("a")
	in.Metrics, in.VerifyPassword = true, true
	r := s.rotator(c)
	if got := c.mustRest(r, in); got.ExporterFailure != "" {
		t.Fatal(got.ExporterFailure)
	}
	url := s.serveMetrics(t, c)
	metrics := scrape(t, url, isUp)
	for _, name := range []string{"mysql_global_status_threads_connected", "mysql_global_variables_max_connections",
		"mysql_global_status_innodb_num_open_files", "mysql_version_info", "mysql_info_schema_innodb_cmp_compress_ops_total"} {
		if !strings.Contains(metrics, "\n"+name) {
			t.Errorf("there is no %s:\n%s", name, metrics)
		}
	}
	collectors := regexp.MustCompile(`mysql_exporter_collector_success\{collector="([^"]*)"\} ([01])`).FindAllStringSubmatch(metrics, -1)
	if len(collectors) < 5 {
		t.Errorf("the exporter has the collectors %q", collectors)
	}
	for _, collector := range collectors {
		if collector[2] != "1" {
			t.Errorf("the account has too few privileges for the collector %s", collector[1])
		}
	}
	s.confines(t, passwordOf(c.metricsSecret()))
	s.hidesFromReplicas(t)
	s.repairs(t, c, r, in, url, root)
}

func execAs(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// confines checks that the account of the exporter cannot read or change data of users, or use many connections.
func (s *server) confines(t *testing.T, p mysqldsql.Password) {
	t.Helper()
	db := s.openAs(t, mysqldsql.ExporterAccount, string(p))
	for _, statement := range []string{"SELECT * FROM app.secrets", "SELECT * FROM mysql.user", "CREATE DATABASE mine",
		"INSERT INTO app.secrets VALUES (2)", "SET GLOBAL max_connections = 1", "SELECT LOAD_FILE('/etc/passwd') IS NULL FROM app.secrets",
		"CREATE USER x", "SHOW CREATE TABLE app.secrets", "USE app"} {
		if _, err := db.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("the account of the exporter may: %s", statement)
		}
	}
	if v := s.isAllowed(t, "127.0.0.1"); v {
		t.Error("clients on the network can log in to the account")
	}
	held := 0
	for range 5 { // The exporter has one connection at most times.
		conn, err := db.Conn(t.Context())
		if err != nil {
			break
		}
		defer conn.Close() //nolint:errcheck // The server ends.
		held++
	}
	if held > 3 {
		t.Errorf("the account of the exporter has %d connections, which clients cannot use", held)
	}
}

// isAllowed reports whether the account of the exporter exists for clients on the given host.
func (s *server) isAllowed(t *testing.T, host string) bool {
	t.Helper()
	count := 0
	must(t, s.openAs(t, "root", "a").QueryRowContext(t.Context(),
		"SELECT COUNT(*) FROM mysql.user WHERE User = ? AND Host IN (?, '%')", mysqldsql.ExporterAccount, host).Scan(&count))
	return count > 0
}

// hidesFromReplicas checks that the binary log contains the changes of a user, and not the account of the exporter.
func (s *server) hidesFromReplicas(t *testing.T) {
	t.Helper()
	var all []byte
	logs, err := filepath.Glob(filepath.Join(s.dir, "d", "changes.0*"))
	must(t, err)
	for _, name := range logs {
		raw, err := os.ReadFile(name)
		must(t, err)
		all = append(all, raw...)
	}
	if !bytes.Contains(all, []byte("CREATE TABLE app.secrets")) {
		t.Errorf("%q are no binary logs", logs)
	}
	if bytes.Contains(all, []byte(mysqldsql.ExporterAccount)) {
		t.Error("replicas get the account of the exporter")
	}
}

// repairs checks that the exporter works again after its account was changed as by a restore of another instance's
// backup, and that disabled metrics leave no account.
func (s *server) repairs(t *testing.T, c *cluster, r *Rotator, in Input, url string, root *sql.DB) {
	t.Helper()
	account := "'" + mysqldsql.ExporterAccount + "'@'localhost'"
	execAs(t, root, "ALTER USER "+account+" IDENTIFIED BY 'of-the-previous-instance'")
	scrape(t, url, func(metrics string) bool { return strings.Contains(metrics, "\nmysql_up 0\n") })
	c.mustRest(r, in)
	scrape(t, url, isUp)
	execAs(t, root, "DROP USER "+account)
	c.mustRest(r, in)
	scrape(t, url, isUp)

	in.Metrics = false
	c.mustRest(r, in)
	if s.isAllowed(t, "localhost") || c.metricsSecret() != nil {
		t.Error("the account remains after metrics were disabled")
	}
	scrape(t, url, func(metrics string) bool { return strings.Contains(metrics, "\nmysql_up 0\n") })
}

// TestRealFlavourExporterPassword checks the password of the exporter against the rules of a server.
func TestRealFlavourExporterPassword(t *testing.T) {
	s := newServer(t, "aA1!aA1!aA1!")
	if s.mariadb {
		t.Skip("MariaDB has other rules")
	}
	execAs(t, s.openAs(t, "root", "aA1!aA1!aA1!"), "INSTALL COMPONENT 'file://component_validate_password'",
		"SET GLOBAL validate_password.length = 60", "SET GLOBAL default_password_lifetime = 1")
	c := newCluster(t, "", "")
	in := c.input("aA1!aA1!aA1!")
	in.Metrics, in.VerifyPassword = true, true
	got := c.mustRest(s.rotator(c), in)
	p := passwordOf(c.metricsSecret())
	if err := s.openAs(t, mysqldsql.ExporterAccount, string(p)).PingContext(t.Context()); err != nil || len(p) < 60 {
		t.Errorf("%d characters, %v, %+v", len(p), err, got)
	}
}
