//go:build mysqld

package initialize

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/archive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// importNew simulates the containers before and after the import. It writes the dump to the volume, and moves the new
// database to the directory that the server uses.
func (b box) importNew(t *testing.T, l loading, dump []byte) (out string, err error) {
	t.Helper()
	h := datavolume.Half{Volume: b.Volume, Directory: v1.DataDirectory, XR: "uid", Name: "dump/s/" + l.Object}
	m, err := h.Begin(t.Context())
	must(t, err)
	if m != nil {
		must(t, os.WriteFile(h.Dump(l.Object), dump, 0o600))
		m.Close()
	}
	rootfs.Own(t, b.Volume)
	b.Initialize, b.Serve, b.Load = nil, nil, &l
	if out, err = b.begin(t).end(); err != nil {
		return out, err
	}
	target := filepath.Join(t.TempDir(), "version.json")
	must(t, os.WriteFile(target, []byte(`{"version":"9.7.0","flavour":"mysql"}`), 0o600))
	_, err = (&archive.Import{Half: h, Target: target, Output: os.Stderr}).Run(t.Context())
	rootfs.Own(t, b.Volume)
	return out, err
}

// enterAs runs the initialization of the instance after the import of its dump. It sets the password of root.
func (b box) enterAs(t *testing.T, password string) {
	t.Helper()
	b.Serve, b.Load, b.Initialize = nil, nil, &initialization{XR: "uid", Password: password}
	if out, err := b.begin(t).end(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// realDump returns a dump of a server, written by its own mysqldump.
func realDump(t *testing.T, options string) []byte {
	t.Helper()
	b := newBox(t)
	b.Env = []string{quick}
	b.initialize(t, "old")
	b.serve(t, "old",
		`SET NAMES utf8mb4; SET GLOBAL event_scheduler = OFF; CREATE DATABASE shop; USE shop; CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, note TEXT, raw BLOB);
INSERT INTO orders (note, raw) VALUES ('it''s; a \\ "note"', X'00FF0A0D27'), ('漢😀', NULL);
CREATE VIEW many AS SELECT COUNT(*) AS n FROM orders; CREATE TRIGGER t BEFORE INSERT ON orders FOR EACH ROW SET NEW.note = COALESCE(NEW.note, 'none');
CREATE EVENT e ON SCHEDULE AT '2001-01-01 00:00:00' + INTERVAL 100 YEAR DO DELETE FROM shop.orders;
CREATE USER app@'%' IDENTIFIED BY 'app'; GRANT SELECT ON shop.* TO app@'%';`)
	b.Serve = &passwords{Wanted: "old",
		Shell: "exec mysqldump --no-defaults --user=root --host=127.0.0.1 --routines --events --triggers " +
			"--set-gtid-purged=OFF --result-file=" + boxVolume + "/dump " + options}
	if out, err := b.begin(t).end(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dump, err := os.ReadFile(filepath.Join(b.Volume, "dump"))
	must(t, err)
	if !bytes.Contains(dump, []byte("orders")) {
		t.Fatalf("this is no dump: %.500s", dump)
	}
	return dump
}

const askRows = "SELECT HEX(note), HEX(raw) FROM shop.orders ORDER BY id; SELECT n FROM shop.many"

// TestRealDump checks, for each compression, that an imported database contains all rows of the dump. Root can log in
// only after the import.
func TestRealDump(t *testing.T) {
	dump := realDump(t, "--databases shop")
	packed := zipped(t, dump)
	e, err := zstd.NewWriter(nil)
	must(t, err)
	one := bytes.ReplaceAll(dump, []byte("USE `shop`;"), nil) // This is a dump without --databases.
	for name, tc := range map[string]struct {
		l    loading
		dump []byte
	}{
		"Gzip":       {loading{Object: "a.sql.gz"}, packed},
		"NoDatabase": {loading{Object: "a.sql.zst", Database: "shop"}, e.EncodeAll(one, nil)},
		"Summed": {loading{Object: "a.sql", Summed: true},
			bytes.ReplaceAll(dump, []byte("-- Dump completed"), []byte("-- It is not mysqldump's"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			if b.Env = []string{quick}; tc.l.Database != "" {
				b.Env = append(b.Env, "MYSQL_DATABASE="+tc.l.Database)
			}
			out, err := b.importNew(t, tc.l, tc.dump)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			b.enterAs(t, `it's`)
			want := "69742773" // This is it's in hexadecimal.
			if got := b.serve(t, `it's`, askRows); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "\n2") ||
				!strings.Contains(got, "00FF0A0D27") || !strings.Contains(got, "E6BCA2F09F9880") {
				t.Errorf("it has %q", got)
			}
			must(t, cleanVolume(b.Volume))
		})
	}
}

func zipped(t *testing.T, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(raw)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

func cleanVolume(volume string) error {
	entries, err := os.ReadDir(volume)
	if err != nil || len(entries) == 3 { // There are the data, the marker, and the version of the started server.
		return err
	}
	return fmt.Errorf("on the volume: %v", entries)
}

// TestRealDumpFails checks that no database is created from an incomplete dump, and that errors contain no passwords.
func TestRealDumpFails(t *testing.T) {
	dump := []byte("CREATE DATABASE shop;\nUSE shop;\nCREATE TABLE orders (id INT);\nINSERT INTO orders VALUES " +
		"(1);\n-- Dump completed on 2026-01-01\n")
	packed := zipped(t, dump)
	line := bytes.LastIndex(dump, []byte("-- Dump completed"))
	for name, tc := range map[string]struct {
		l    loading
		dump []byte
		say  string
	}{
		"CutOff":     {loading{Object: "a.sql"}, dump[:line], "does not end with the line"},
		"GzipCutOff": {loading{Object: "a.sql.gz"}, packed[:len(packed)-9], "cannot be read completely"},
		"NoStatement": {loading{Object: "a.sql"}, append([]byte("CREATE USER x IDENTIFIED BY 'hunter2' WRONG;\n"), dump...),
			"ERROR 1064"},
		"ClientOfSums": {loading{Object: "a.sql", Summed: true}, []byte("\\! touch /data/escaped\n"), "ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.Env = []string{quick}
			out, err := b.importNew(t, tc.l, tc.dump)
			if err == nil || !strings.Contains(out, tc.say) {
				t.Errorf("want %q, got %v\n%s", tc.say, err, out)
			}
			if strings.Contains(out, "hunter2") {
				t.Errorf("it tells a password:\n%s", out)
			}
			for _, name := range []string{v1.DataDirectory, "escaped"} {
				if _, err := os.Stat(filepath.Join(b.Volume, name)); err == nil {
					t.Errorf("there is %s", name)
				}
			}
		})
	}
}

// TestRealDumpKilled kills the import at several moments. There must be no database before the import is complete,
// and the next pod starts the import again.
func TestRealDumpKilled(t *testing.T) {
	dump := []byte("CREATE DATABASE shop;\nUSE shop;\nCREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, note " +
		"TEXT);\n" +
		strings.Repeat("INSERT INTO orders (note) VALUES ('a');\n", 2000) + "-- Dump completed on 2026-01-01\n")
	b := newBox(t)
	b.Env = []string{quick}
	l := loading{Object: "a.sql"}
	begin := time.Now()
	if out, err := b.importNew(t, l, dump); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole, cut := time.Since(begin), 0
	for n := range 3 {
		b := newBox(t)
		b.Env = []string{quick}
		h := datavolume.Half{Volume: b.Volume, Directory: v1.DataDirectory, XR: "uid", Name: "dump/s/a.sql"}
		m, err := h.Begin(t.Context())
		must(t, err)
		m.Close()
		must(t, os.WriteFile(h.Dump("a.sql"), dump, 0o600))
		rootfs.Own(t, b.Volume)
		b.Load = &l
		if elapsed := whole * time.Duration(n+1) / 5; b.begin(t).killAfter(elapsed) {
			cut++
		}
		if _, err := os.Stat(filepath.Join(b.Volume, v1.DataDirectory)); err == nil {
			t.Error("there is a database")
		}
		if out, err := b.importNew(t, l, dump); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		b.Load = nil
		b.enterAs(t, "new")
		if got := b.serve(t, "new", "SELECT COUNT(*) FROM shop.orders"); got != "2000" {
			t.Errorf("it has %q", got)
		}
	}
	if t.Logf("one takes %v, cut off %d times", whole, cut); cut < 2 {
		t.Errorf("it was cut off %d times only", cut)
	}
}

// TestRealForeignRoot checks imported servers on which root cannot log in over the network, or has no password.
func TestRealForeignRoot(t *testing.T) {
	for name, accounts := range map[string]string{
		"Locked": "CREATE USER admin@'%' IDENTIFIED BY 'a'; GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION; ALTER " +
			"USER root@'%' REQUIRE X509 ACCOUNT LOCK; REVOKE INSERT ON *.* FROM root@'%';",
		"Distribution": "INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'; ALTER USER root@localhost IDENTIFIED WITH " +
			"auth_socket; DROP USER root@'%';",
		"None": "CREATE USER admin@'%' IDENTIFIED BY 'a'; GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION; DROP " +
			"USER root@'%', root@localhost;",
		"Socket": "INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'; ALTER USER root@'%' IDENTIFIED WITH auth_socket;",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.Env = []string{quick}
			b.initialize(t, "old")
			b.serve(t, "old", "CREATE DATABASE d; CREATE TABLE d.t AS SELECT 42 AS i; CHANGE REPLICATION SOURCE TO "+
				"SOURCE_HOST = '192.0.2.1', SOURCE_USER = 'r'; "+accounts)
			b.mark(t, func(m map[string]any) {
				m["archive"] = "import/volume/old"
				delete(m, "passwordSet")
			})
			password := rand.Text()
			b.enterWith(t, password)
			if out := b.serve(t, password,
				"SELECT i FROM d.t; CREATE USER x@'%' IDENTIFIED BY 'x'; GRANT SELECT ON *.* TO x@'%'; SELECT COUNT(*) FROM "+
					"performance_schema.replication_connection_configuration"); out != "42\n0" {
				t.Errorf("it says %q", out)
			}
		})
	}
}
