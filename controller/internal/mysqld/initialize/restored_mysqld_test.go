//go:build mysqld

package initialize

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// restored changes the marker of the volume to the marker of a restore. The password of the data is then treated as
// unknown.
func (b box) restored(t *testing.T) {
	t.Helper()
	b.mark(t, func(m map[string]any) {
		m["archive"] = "x.tar.zst"
		delete(m, "passwordSet")
	})
}

// mark changes the marker next to the data and returns it.
func (b box) mark(t *testing.T, change func(map[string]any)) map[string]any {
	t.Helper()
	path := filepath.Join(b.Volume, ".restored.json")
	raw, err := os.ReadFile(path)
	must(t, err)
	m := map[string]any{}
	must(t, json.Unmarshal(raw, &m))
	change(m)
	raw, err = json.Marshal(m)
	must(t, errors.Join(err, os.WriteFile(path, raw, 0o640)))
	return m
}

func (b box) hasPassword(t *testing.T) bool {
	t.Helper()
	return b.mark(t, func(map[string]any) {})["passwordSet"] == true
}

// enterWith sets the given password in restored data.
func (b box) enterWith(t *testing.T, password string) string {
	t.Helper()
	b.Serve, b.Initialize = nil, &initialization{Password: password}
	out, err := b.begin(t).end()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// settings writes lines to a my.cnf file of the box.
func (b box) settings(t *testing.T, lines ...string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(b.Root, "etc/mysql/conf.d/zz.cnf"),
		[]byte("[mysqld]\n"+strings.Join(lines, "\n")+"\n"), 0o644))
	t.Cleanup(func() { must(t, os.RemoveAll(filepath.Join(b.Root, "etc/mysql/conf.d/zz.cnf"))) })
}

// accounts creates root accounts with properties that complicate a reset: a retained old password, a password
// history, and an account without a password.
const accounts = `ALTER USER root@'%' IDENTIFIED BY 'kept' RETAIN CURRENT PASSWORD;
ALTER USER root@'%' PASSWORD HISTORY 5;
CREATE USER root@'10.%' IDENTIFIED WITH auth_socket;
CREATE USER app@'%' IDENTIFIED BY 'app';
CREATE USER 'crossplane-mysql-clone'@'%' IDENTIFIED BY 'clone' REQUIRE SSL;
CREATE USER 'crossplane-mysql-exporter'@'localhost' IDENTIFIED BY 'exporter';`

// TestRealRestored checks that the requested password is set in restored data once, before its server starts. The old
// password is not needed.
func TestRealRestored(t *testing.T) {
	const password = `it's "\`
	b := newBox(t)
	b.Env = []string{quick}
	b.initialize(t, "old")
	b.serve(t, "old", "INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'; "+accounts+
		" CREATE DATABASE d; CREATE TABLE d.t AS SELECT 42 AS i;")
	b.restored(t)

	b.settings(t, "super_read_only = ON", "require_secure_transport = ON")
	if out := b.enterWith(t, password); !strings.Contains(out, "Recovering the data of the backup") {
		t.Errorf("What was not stopped cleanly is not recovered before anything else:\n%s", out)
	}
	b.settings(t)
	if !b.hasPassword(t) {
		t.Fatal("It is not noted that root has the wanted password.")
	}
	const ask = "SELECT i FROM d.t; SELECT COUNT(*) FROM mysql.user WHERE user = 'app' AND " +
		"LENGTH(authentication_string) > 9; SELECT COUNT(*) FROM mysql.user WHERE user_attributes LIKE " +
		"'%additional_password%'; SELECT COUNT(*) FROM mysql.user WHERE user LIKE 'crossplane-mysql%'"
	if out := b.serve(t, password, ask); out != "42\n1\n0\n0" {
		t.Errorf("want the row, the other account with its password, no old password of root, and no account that "+
			"the product created for the backed-up instance, got %q", out)
	}

	// The next start of the pod changes nothing, because the password may have been changed since.
	if out := b.enterWith(t, "stale"); strings.Contains(out, "Setting the password") {
		t.Errorf("What was done is done again:\n%s", out)
	}
	b.serve(t, password, "SELECT 1")

	// The password history of the restored data contains this password, and would forbid it.
	b.restored(t)
	b.enterWith(t, password)
	b.serve(t, password, "SELECT 1")

	b.cutOff(t, password)
	b.breakData(t)
}

// cutOff kills or stops the program at several moments while it sets the password. The data must stay intact, and the
// next run must set the password.
func (b box) cutOff(t *testing.T, password string) {
	t.Helper()
	b.restored(t)
	b.enterWith(t, "other") // The first run includes the recovery and takes longer.
	b.restored(t)
	begin := time.Now()
	b.enterWith(t, "other")
	whole, cut := time.Since(begin), 0
	for n := range 4 {
		b.restored(t)
		b.Serve, b.Initialize = nil, &initialization{Password: "other"}
		elapsed := whole * time.Duration(n+1) / 6
		if n%2 == 0 && b.begin(t).stopAfter(t, elapsed) || n%2 == 1 && b.begin(t).killAfter(elapsed) {
			cut++
		}
	}
	b.restored(t)
	out := b.enterWith(t, password)
	t.Logf("one takes %v; cut off %d times\n%s", whole, cut, out)
	if cut < 3 {
		t.Errorf("It was cut off %d times only", cut)
	}
	if out := b.serve(t, password, "SELECT i FROM d.t"); out != "42" {
		t.Errorf("The row is %q", out)
	}
}

// breakData damages the data so that no server starts on it. The error must be reported, and the password must not be
// marked as set.
func (b box) breakData(t *testing.T) {
	t.Helper()
	b.restored(t)
	must(t, os.Remove(filepath.Join(b.Volume, v1.DataDirectory, "mysql.ibd")))
	b.Serve, b.Initialize = nil, &initialization{Password: "new"}
	out, err := b.begin(t).end()
	if err == nil || !strings.Contains(out, "the restored data: ") || b.hasPassword(t) {
		t.Errorf("want it said, and not noted as done, got %v\n%s", err, out)
	}
}
