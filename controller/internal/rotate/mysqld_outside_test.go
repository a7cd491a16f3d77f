//go:build mysqld

package rotate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// client runs statements as root with the client of the server, and returns the output.
func (s *server) client(t *testing.T, password, statements string) string {
	t.Helper()
	cmd := s.root.Client("usr/bin/mysql", "--no-defaults", "--user=root", "--socket="+filepath.Join(s.dir, "s"), "--batch",
		"--skip-column-names", "--show-warnings")
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+password)
	cmd.Stdin = strings.NewReader(statements)
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed { //nolint:errorlint // It is not wrapped.
		t.Fatal(err)
	}
	return string(out)
}

// dirOutside returns a directory outside of the data directory that the server may write to.
func dirOutside(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "o") //nolint:usetesting // Another user writes there.
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755)) //nolint:gosec // The server runs as another user.
	rootfs.Own(t, dir)
	return dir
}

func tablesOutside(dir string) string {
	return fmt.Sprintf(`CREATE DATABASE shop; USE shop;
CREATE TABLE a (i INT PRIMARY KEY) ENGINE=InnoDB DATA DIRECTORY='%[1]s'; INSERT INTO a VALUES (42);
CREATE TABLE p (i INT) ENGINE=InnoDB PARTITION BY HASH (i) (PARTITION p0 DATA DIRECTORY='%[1]s', PARTITION p1); INSERT INTO p VALUES (1), (2);
CREATE TABLE inside (i INT PRIMARY KEY);
`, dir)
}

// TestRealFlavourDataOutside checks that each table outside of the data directory is reported with its name. The
// statement in the message must move the table with all its rows.
func TestRealFlavourDataOutside(t *testing.T) {
	dir := dirOutside(t)
	s := newServer(t, "0tus-secret", "--loose-innodb-directories="+dir)
	statements := tablesOutside(dir)
	if s.mariadb {
		statements += fmt.Sprintf("CREATE TABLE m (i INT) ENGINE=MyISAM DATA DIRECTORY='%[1]s' INDEX DIRECTORY='%[1]s'; "+
			"INSERT INTO m VALUES (1);\n", dir)
	}
	if out := s.client(t, "0tus-secret", statements); strings.Contains(out, "ERROR") {
		t.Fatal(out)
	}
	session := s.login(t, "0tus-secret")
	found, err := session.OutsideData(t.Context())
	must(t, err)
	text := sql.OutsideText(found)
	wanted := []string{"`shop`.`a`", "`shop`.`p`", dir}
	if s.mariadb {
		wanted = append(wanted, "`shop`.`m`")
	}
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("want %s in %q", want, text)
		}
	}
	if strings.Contains(text, "inside") {
		t.Errorf("a table in the data directory is named: %q", text)
	}
	for range 4 { // Each message contains the statement for one table.
		if found, err = session.OutsideData(t.Context()); len(found) == 0 {
			break
		}
		_, move, _ := strings.Cut(sql.OutsideText(found), "data directory: SET")
		if out := s.client(t, "0tus-secret", "SET"+move+";"); strings.Contains(out, "ERROR") {
			t.Fatalf("%s: %s", move, out)
		}
	}
	if err != nil || len(found) > 0 {
		t.Errorf("after all were moved: %v, %v", found, err)
	}
	if out := s.client(t, "0tus-secret", "SELECT i FROM shop.a; SELECT COUNT(*) FROM shop.p"); out != "42\n2\n" {
		t.Errorf("the rows are %q", out)
	}
	left := 0
	must(t, filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			left++
		}
		return err
	}))
	if left > 0 {
		t.Errorf("%d files are left outside", left)
	}
}

// TestRealFlavourDataStaysInside checks that the product's setting prevents tables outside of the data directory.
func TestRealFlavourDataStaysInside(t *testing.T) {
	dir := dirOutside(t)
	s := newServer(t, "0tus-secret", "--loose-symbolic-links=OFF")
	out := s.client(t, "0tus-secret", tablesOutside(dir))
	if !strings.Contains(out, "DATA DIRECTORY> option ignored") && !strings.Contains(out, "ERROR") {
		t.Errorf("the server has not said that it stores nothing elsewhere: %q", out)
	}
	session := s.login(t, "0tus-secret")
	found, err := session.OutsideData(t.Context())
	if entries, rerr := os.ReadDir(dir); err != nil || rerr != nil || len(found) > 0 || len(entries) > 0 {
		t.Errorf("stored elsewhere: %v, %v, %v, %v", found, entries, err, rerr)
	}
}

// TestRealFlavourWithoutClone checks the error if a backup with method Online starts on a server that cannot be
// cloned.
func TestRealFlavourWithoutClone(t *testing.T) {
	s := newServer(t, "0tus-secret")
	if !s.mariadb {
		t.Skip("MySQL has CLONE")
	}
	_, _, err := s.login(t, "0tus-secret").OfferClone(t.Context(), sql.CloneAccount)
	if !sql.IsNoDonor(err) || !strings.Contains(err.Error(), "take backups with method Cold") {
		t.Errorf("want it refused for good, with what to do, got %v", err)
	}
}
