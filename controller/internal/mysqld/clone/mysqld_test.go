//go:build mysqld

package clone

import (
	"bytes"
	"context"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
	mysqldsql "github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/freeport"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

const (
	cloner = "clone-one"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A donor is a mysqld process that tests clone. It listens on a TCP port and has a TLS certificate.
type donor struct {
	*process.Process

	root rootfs.Root
	dir  string
	port int
	db   *sql.DB

	layout   mysqldsql.Layout
	password mysqldsql.Password
}

func program(root rootfs.Root, args ...string) *exec.Cmd {
	args = append(args[:1:1], append([]string{
		"--lc-messages-dir=" + filepath.Join(root.Path, "usr", "share", "mysql"),
		"--plugin-dir=" + filepath.Join(root.Path, "usr", "lib", "mysql", "plugin"),
	}, args[1:]...)...)
	return root.Command("usr/sbin/mysqld", args...)
}

func newDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "k") //nolint:usetesting // A socket's path is at most 107 bytes.
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	rootfs.Own(t, dir)
	return dir
}

// newDonor starts a donor with additional options.
func newDonor(t *testing.T, options ...string) *donor {
	t.Helper()
	d := &donor{root: rootfs.Find(t), dir: newDir(t)}
	d.port = freeport.Find(t)
	authority, err := certificate.NewAuthority(time.Now(), "authority-of-the-donor")
	must(t, err)
	pair, err := authority.Sign(time.Now(), certificate.Names{DNS: []string{"shop.team.svc"}})
	must(t, err)
	for name, raw := range map[string][]byte{"ca": authority.Certificate, "cert": pair.Certificate, "key": pair.Key} {
		must(t, os.WriteFile(filepath.Join(d.dir, name), raw, 0o644))
	}
	rootfs.Own(t, d.dir)
	pathOf := func(name string) string { return filepath.Join(d.dir, name) }
	out, err := program(d.root, append([]string{"--no-defaults", "--datadir=" + pathOf("d"), "--initialize-insecure"},
		options...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.Process, err = process.Start(
		program(d.root, append([]string{"--no-defaults", "--datadir=" + pathOf("d"), "--socket=" + pathOf("s"),
			"--pid-file=" + pathOf("p"), "--mysqlx=OFF", "--secure-file-priv=NULL",
			"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(d.port), "--ssl-ca=" + pathOf("ca"),
			"--ssl-cert=" + pathOf("cert"), "--ssl-key=" + pathOf("key"),
			"--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--max-connections=50"}, options...)...), &process.Log{
			Out: &bytes.Buffer{}})
	must(t, err)
	t.Cleanup(d.Kill)
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.MultiStatements, config.Logger = "root", "unix", pathOf(
		"s"), true, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	must(t, err)
	d.db = sql.OpenDB(connector)
	for d.db.PingContext(t.Context()) != nil {
		if d.Ended() {
			t.Fatal(d.Log.Complaints())
		}
		time.Sleep(100 * time.Millisecond)
	}
	d.exec(t, "CREATE DATABASE shop")
	session := d.login(t)
	defer session.Close()
	d.password, d.layout, err = session.OfferClone(t.Context(), cloner)
	must(t, err)
	return d
}

// login logs in to the donor as the controller does.
func (d *donor) login(t *testing.T) *mysqldsql.Session {
	t.Helper()
	server := mysqldsql.Server{Address: "localhost", User: "root", Trust: mysqldsql.Trust{AnyServer: true},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(d.dir, "s"))
		}}
	s, err := server.Login(t.Context(), "")
	must(t, err)
	return s
}

func (d *donor) exec(t *testing.T, statement string) {
	t.Helper()
	_, err := d.db.ExecContext(t.Context(), statement)
	must(t, err)
}

// clone returns a Clone that copies the donor's data into a new directory. Its output is written to out.
func (d *donor) clone(t *testing.T, out *bytes.Buffer) *Clone {
	t.Helper()
	c := &Clone{
		Dir: newDir(t), Output: out,
		Donor: Donor{Host: "127.0.0.1", Port: d.port, Authorities: filepath.Join(d.dir, "ca"), User: cloner,
			Password: d.password, Layout: d.layout},
	}
	c.command = func(_ string, args ...string) *exec.Cmd {
		rootfs.Own(t, c.Dir)
		return program(d.root, args...)
	}
	return c
}

// serve starts mysqld on the data that a Clone has copied, without checking passwords.
func (d *donor) serve(t *testing.T, c *Clone) *server {
	t.Helper()
	s, err := c.serve(t.Context(), "", copyDir, "--skip-grant-tables")
	must(t, err)
	t.Cleanup(s.Kill)
	return s
}

// TestRealClone checks that a copy contains all transactions that were committed before the clone started. It must
// not contain parts of the transactions that clients run during the clone, or the clone account. Its binary log
// position must match its rows.
func TestRealClone(t *testing.T) {
	d := newDonor(t)
	d.exec(t, `CREATE TABLE shop.a (id INT PRIMARY KEY AUTO_INCREMENT, n INT); CREATE TABLE shop.b LIKE shop.a;
CREATE TABLE shop.c (id INT, PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS 4; CREATE TABLE shop.z (v LONGTEXT) ROW_FORMAT=COMPRESSED; INSERT INTO shop.z VALUES (REPEAT('x', 1000000));
CREATE TABLESPACE ts ADD DATAFILE 'ts.ibd'; CREATE TABLE shop.t (id INT) TABLESPACE ts; INSERT INTO shop.t VALUES (1);
CREATE TABLE shop.p (id INT PRIMARY KEY); CREATE TABLE shop.k (id INT, FOREIGN KEY (id) REFERENCES shop.p (id)); INSERT INTO shop.p VALUES (1); INSERT INTO shop.k VALUES (1)`)
	var acknowledged int
	var mu sync.Mutex
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := d.db.ExecContext(t.Context(),
					"BEGIN; INSERT INTO shop.a (n) VALUES (1); INSERT INTO shop.b (n) VALUES (1); COMMIT"); err == nil {
					mu.Lock()
					acknowledged++
					mu.Unlock()
				}
			}
		})
	}
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = d.db.ExecContext(t.Context(),
				fmt.Sprintf("CREATE TABLE shop.d%d (id INT); ALTER TABLE shop.d%d ADD COLUMN n INT; DROP TABLE shop.d%d", i, i, i))
		}
	})
	time.Sleep(time.Second)
	mu.Lock()
	before := acknowledged
	mu.Unlock()
	var out bytes.Buffer
	c := d.clone(t, &out)
	r, err := c.run(t.Context(), "")
	stop()
	all.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	s := d.serve(t, c)
	var a, b, users, small, rest int
	var gtids string
	must(t, s.db.QueryRowContext(t.Context(),
		"SELECT (SELECT COUNT(*) FROM shop.a), (SELECT COUNT(*) FROM shop.b), (SELECT COUNT(*) FROM mysql.user WHERE user "+
			"LIKE 'clone%'), (SELECT COUNT(*) FROM shop.k), (SELECT LENGTH(v) FROM shop.z), @@gtid_executed").Scan(&a, &b,
		&users, &small, &rest, &gtids))
	if a != b || a < before || before == 0 || users != 0 || small != 1 || rest != 1000000 {
		t.Errorf("it has %d and %d rows, of %d that were acknowledged before, and %d accounts of clones", a, b, before, users)
	}
	if r.GTIDs == "" || r.File == "" || r.Offset == 0 {
		t.Errorf("it was copied at %+v", r.Position)
	}
	t.Logf("%d rows before, %d in it, %+v, then %s", before, a, r.Position, gtids)
}

// TestRealCloneLayout clones a server with a different page size and lower_case_table_names.
func TestRealCloneLayout(t *testing.T) {
	d := newDonor(t, "--innodb-page-size=8192", "--lower-case-table-names=1")
	d.exec(t, "CREATE TABLE shop.Orders (id INT); INSERT INTO shop.ORDERS VALUES (1)")
	if want := (mysqldsql.Layout{PageSize: 8192, LowerCase: 1}); d.layout != want {
		t.Fatalf("its data is %+v, want %+v", d.layout, want)
	}
	var out bytes.Buffer
	c := d.clone(t, &out)
	if _, err := c.run(t.Context(), ""); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	rows := 0
	must(t, d.serve(t, c).db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM shop.oRDERS").Scan(&rows))
	if rows != 1 {
		t.Errorf("it has %d rows", rows)
	}
}

// TestRealOffer checks the account that OfferClone creates. It can only clone, only over TLS, and only until
// WithdrawClone. Replicas must not get the account. OfferClone must fail if the server has tables that would be empty
// in a clone.
func TestRealOffer(t *testing.T) {
	d := newDonor(t)
	s := d.login(t)
	defer s.Close()
	var gtids string
	must(t, d.db.QueryRowContext(t.Context(), "SELECT @@gtid_executed").Scan(&gtids))
	var grants []string
	rows, err := d.db.QueryContext(t.Context(), "SHOW GRANTS FOR '"+cloner+"'@'%'")
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var grant string
		must(t, rows.Scan(&grant))
		grants = append(grants, grant)
	}
	must(t, rows.Err())
	if want := []string{"GRANT USAGE ON *.* TO `clone-one`@`%`",
		"GRANT BACKUP_ADMIN ON *.* TO `clone-one`@`%`"}; !slices.Equal(grants, want) {
		t.Errorf("it may %q", grants)
	}
	plain := mysqldsql.Server{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)), User: cloner,
		Trust: mysqldsql.Trust{AnyServer: true}}
	must(t, plain.Ping(t.Context(), d.password))
	another, _, err := s.OfferClone(t.Context(), cloner)
	must(t, err)
	if err := plain.Ping(t.Context(), d.password); !mysqldsql.IsAccessDenied(err) {
		t.Errorf("the password of an earlier offer: %v", err)
	}
	must(t, s.WithdrawClone(t.Context(), cloner))
	must(t, s.WithdrawClone(t.Context(), cloner))
	if err := plain.Ping(t.Context(), another); !mysqldsql.IsAccessDenied(err) {
		t.Errorf("it was withdrawn: %v", err)
	}
	var now string
	must(t, d.db.QueryRowContext(t.Context(), "SELECT @@gtid_executed").Scan(&now))
	if now != gtids {
		t.Errorf("replicas know of it: %s, then %s", gtids, now)
	}
	d.exec(t, "CREATE TABLE shop.old (id INT) ENGINE=MyISAM")
	d.exec(t, "CREATE TABLE sys.audit (id INT) ENGINE=MyISAM") // A user's table in a system schema.
	_, _, err = s.OfferClone(t.Context(), cloner)
	if wrong, ok := errors.AsType[*mysqldsql.WrongEngineError](err); !ok ||
		!slices.Equal(wrong.Tables, []string{"shop.old (MyISAM)", "sys.audit (MyISAM)"}) {
		t.Errorf("want the table named, got %v", wrong)
	}
}

// TestRealCloneFails checks the errors of failed clones. They must not contain the password.
func TestRealCloneFails(t *testing.T) {
	d := newDonor(t)
	other, err := certificate.NewAuthority(time.Now(), "another")
	must(t, err)
	cases := map[string]struct {
		change func(t *testing.T, c *Clone)
		says   string
	}{
		"Authority": {func(t *testing.T, c *Clone) {
			c.Donor.Authorities = filepath.Join(c.Dir, "other")
			must(t, os.WriteFile(c.Donor.Authorities, other.Certificate, 0o644))
		}, "certificate verify failed"},
		"Password": {func(_ *testing.T, c *Clone) { c.Donor.Password = "wrong" }, "Access denied"},
		"Nobody":   {func(_ *testing.T, c *Clone) { c.Donor.Port = 1 }, "Connect failed"},
		"Engine": {func(t *testing.T, _ *Clone) { d.exec(t, "CREATE TABLE shop.old (id INT) ENGINE=MyISAM") },
			"shop.old (MyISAM)"},
	}
	for _, name := range []string{"Authority", "Password", "Nobody", "Engine"} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			c := d.clone(t, &out)
			cases[name].change(t, c)
			_, err := c.run(t.Context(), "")
			if err == nil || !strings.Contains(err.Error(), cases[name].says) {
				t.Errorf("want %q, got %v\n%s", cases[name].says, err, out.String())
			}
			if strings.Contains(fmt.Sprint(err)+out.String(), string(c.Donor.Password)) {
				t.Errorf("it tells the password: %v\n%s", err, out.String())
			}
			if _, wrong := errors.AsType[*mysqldsql.WrongEngineError](err); wrong != (name == "Engine") {
				t.Errorf("it is a %T", err)
			}
		})
	}
}

// TestRealForeignDonor clones a foreign server with an existing account, which must not change in the donor or in the
// copy. The donor must get the password only if the user's CA has signed its certificate. The certificate may have
// any name.
func TestRealForeignDonor(t *testing.T) {
	d := newDonor(t)
	d.exec(t, "CREATE TABLE shop.a (id INT PRIMARY KEY); INSERT INTO shop.a VALUES (1), (2); CREATE USER theirs@'%' "+
		"IDENTIFIED BY 'their password'; GRANT BACKUP_ADMIN ON *.* TO theirs@'%'")
	raw, err := os.ReadFile(filepath.Join(d.dir, "ca"))
	must(t, err)
	other, err := certificate.NewAuthority(time.Now(), "another")
	must(t, err)
	login := func(authority []byte) (mysqldsql.Layout, error) {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority)
		server := mysqldsql.Server{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)), User: "theirs",
			Trust: mysqldsql.Trust{Authorities: pool, AnyName: true}}
		s, err := server.Login(t.Context(), "their password")
		if err != nil {
			return mysqldsql.Layout{}, err
		}
		defer s.Close()
		return s.CheckDonor(t.Context())
	}
	if _, err := login(other.Certificate); !mysqldsql.IsUntrusted(err) {
		t.Errorf("somebody else signed it: %v", err)
	}
	layout, err := login(raw)
	must(t, err)
	if layout != d.layout {
		t.Errorf("its data is %+v, want %+v", layout, d.layout)
	}
	var out bytes.Buffer
	c := d.clone(t, &out)
	c.Donor.User, c.Donor.Password, c.Donor.Layout, c.KeepUser = "theirs", "their password", layout, true
	if _, err := c.run(t.Context(), ""); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	rows, users := 0, 0
	must(t, d.serve(t, c).db.QueryRowContext(t.Context(),
		"SELECT (SELECT COUNT(*) FROM shop.a), (SELECT COUNT(*) FROM mysql.user WHERE user = 'theirs')").Scan(&rows, &users))
	if rows != 2 || users != 1 {
		t.Errorf("it has %d rows and %d accounts", rows, users)
	}
	d.exec(t, "UNINSTALL PLUGIN clone")
	if _, err := login(raw); err == nil || !strings.Contains(err.Error(), "INSTALL PLUGIN clone") {
		t.Errorf("there is no plugin: %v", err)
	}
}

// TestRealOfferRules checks that the password of the clone account follows the server's password rules. If the rules or
// another setting make a clone impossible, the error must be final, so that there is no retry.
func TestRealOfferRules(t *testing.T) {
	d := newDonor(t)
	d.exec(t, "INSTALL COMPONENT 'file://component_validate_password'")
	s := d.login(t)
	defer s.Close()
	plain := mysqldsql.Server{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)), User: cloner,
		Trust: mysqldsql.Trust{AnyServer: true}}
	for _, rules := range []string{
		"SET GLOBAL validate_password.policy = MEDIUM, GLOBAL validate_password.mixed_case_count = 2, GLOBAL " +
			"validate_password.number_count = 2, GLOBAL validate_password.special_char_count = 2",
		"SET GLOBAL validate_password.policy = STRONG, GLOBAL validate_password.length = 200, GLOBAL " +
			"validate_password.mixed_case_count = 20, GLOBAL validate_password.number_count = 30, GLOBAL " +
			"validate_password.special_char_count = 40",
	} {
		d.exec(t, rules)
		p, _, err := s.OfferClone(t.Context(), cloner)
		if err != nil {
			t.Fatalf("%s: %v", rules, err)
		}
		must(t, plain.Ping(t.Context(), p))
		d.password = p
	}
	c := d.clone(t, &bytes.Buffer{})
	_, err := c.run(t.Context(), "")
	must(t, err)
	d.exec(t, "SET GLOBAL validate_password.length = 300")
	if _, _, err := s.OfferClone(t.Context(), cloner); !mysqldsql.IsNoDonor(err) ||
		!strings.Contains(err.Error(), "at least 300 characters") {
		t.Errorf("want the rule, and no other try, got %v", err)
	}
	d.exec(t, "UNINSTALL COMPONENT 'file://component_validate_password'; SET GLOBAL max_allowed_packet = 1048576")
	fresh := d.login(t)
	defer fresh.Close()
	if _, _, err := fresh.OfferClone(t.Context(), cloner); !mysqldsql.IsNoDonor(err) ||
		!strings.Contains(err.Error(), "max_allowed_packet is 1048576") {
		t.Errorf("want the setting, and no other try, got %v", err)
	}
}
