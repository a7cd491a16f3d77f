//go:build mysqld

package initialize

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/archive"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// startedVersion returns the server version that the initialization has stored on the volume.
func (b box) startedVersion(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(b.Volume, ".started.json"))
	must(t, err)
	_, rest, _ := strings.Cut(string(raw), `"version":"`)
	version, _, _ := strings.Cut(rest, `"`)
	return version
}

// comeBack takes a backup of this stopped box, and restores it to a new box.
func (b box) comeBack(t *testing.T) box {
	t.Helper()
	next, backup, version := newBox(t), t.TempDir(), b.startedVersion(t)
	next.Env = b.Env
	file := filepath.Join(backup, "one", "data.tar.zst")
	report, err := (&archive.Backup{
		Identity: archive.Identity{Record: "one",
			Instance: v1.BackedUpInstance{Kind: "MySQL", Namespace: "default", Name: "shop", XR: "uid"}},
		Volume: b.Volume, Directory: v1.DataDirectory, Archive: file, Version: version, Output: io.Discard,
	}).Run(t.Context())
	must(t, err)
	if report.Version != version {
		t.Errorf("the backup is of version %q, want %q", report.Version, version)
	}
	flavour := "mysql"
	if rootfs.Find(t).IsMariaDB() {
		flavour = "mariadb"
	}
	target := filepath.Join(t.TempDir(), "version.json")
	must(t, os.WriteFile(target, fmt.Appendf(nil, `{"version":%q,"flavour":%q}`, version, flavour), 0o600))
	_, err = (&archive.Restore{
		Archive: file, SHA256: report.SHA256, Volume: next.Volume, Directory: v1.DataDirectory, XR: "uid-2",
		Source: report.Version, SourceClean: report.CleanShutdown, Target: target, Output: io.Discard,
	}).Run(t.Context())
	must(t, err)
	rootfs.Own(t, next.Volume)
	return next
}

// TestRealFlavourComesBack initializes, starts, stops and backs up each supported server. A server that is restored
// from the backup must have the requested password and the same rows.
func TestRealFlavourComesBack(t *testing.T) {
	b := newBox(t)
	b.Env = []string{quick, "MYSQL_DATABASE=app"}
	b.Serve, b.Initialize = nil, &initialization{XR: "uid", Allowed: true, Password: `it's "\`}
	if out, err := b.begin(t).end(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b.serve(t, `it's "\`, "CREATE TABLE app.t AS SELECT 42 AS i; CREATE USER app@'%' IDENTIFIED BY 'app'")
	next := b.comeBack(t)
	next.Initialize, next.Serve = &initialization{XR: "uid-2", Password: "of the next instance"}, nil
	if out, err := next.begin(t).end(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out := next.serve(t, "of the next instance",
		"SELECT i FROM app.t; SELECT COUNT(*) FROM mysql.user WHERE user = 'app'"); out != "42\n1" {
		t.Errorf("it has %q", out)
	}
}

// TestRealFlavourDump checks that each supported server loads a dump that MariaDB has written.
func TestRealFlavourDump(t *testing.T) {
	const dump = "CREATE DATABASE shop;\nUSE shop;\nCREATE TABLE orders (id INT);\nINSERT INTO orders VALUES (42);\n-- " +
		"Dump completed on 2026-01-01\n"
	for name, line := range map[string]string{"Old": `/*!999999\- enable the sandbox mode */ `,
		"New": `/*M!999999\- enable the sandbox mode */ `} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.Env = []string{quick}
			if out, err := b.importNew(t, loading{Object: "a.sql"}, []byte(line+"\n"+dump)); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			b.enterAs(t, "new")
			if got := b.serve(t, "new", "SELECT id FROM shop.orders"); got != "42" {
				t.Errorf("it has %q", got)
			}
			if _, err := os.Stat(path.Join(b.Volume, v1.DataDirectory, "shop")); err != nil {
				t.Error(err)
			}
		})
	}
}
