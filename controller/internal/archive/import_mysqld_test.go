//go:build mysqld

package archive

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

// chownAll makes a user and its group the owner of a directory and its contents if the test runs as root.
func chownAll(t *testing.T, dir string, user int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, user, user) //nolint:gosec // A directory of the test.
	}))
}

// TestRealImportLayout imports the volume of a chart by Bitnami: a server with user 1001 has written the directory data
// below its root. The process of the import has the user and the groups of the Job. Every row must exist afterwards, and
// the old server must still work.
func TestRealImportLayout(t *testing.T) {
	const bitnami = 1001
	old := newServer(t)
	old.user = bitnami
	chownAll(t, filepath.Dir(old.socket), bitnami)
	must(t, os.Chmod(filepath.Dir(old.socket), 0o755)) //nolint:gosec // The Job reads the volume.
	old.initialise(t)
	old.start(t)
	old.must(t, load)
	want, uuid := old.must(t, sums), old.must(t, "select @@server_uuid")
	mark := filepath.Join(old.volume, "data", ".user_scripts_initialized")
	must(t, os.WriteFile(mark, nil, 0o640))
	chownAll(t, mark, bitnami)
	must(t, os.Mkdir(filepath.Join(old.volume, "lost+found"), 0o700))

	_, code, out := importAsJob(t, old.volume, "data")
	if code != agent.ExitBusy {
		t.Fatalf("while the server runs: %d: %s", code, out)
	}
	old.stop(t)
	before := describe(t, old.volume)
	if _, code, out := importAsJob(t, old.volume, ""); code != agent.ExitSource ||
		!strings.Contains(out, "spec.restore.import.volume.directory: data") {
		t.Fatalf("without the directory: %d: %s", code, out)
	}
	i, code, out := importAsJob(t, old.volume, "data")
	if code != 0 || !strings.Contains(out, `"cleanShutdown":true`) {
		t.Fatalf("it ended with %d: %s", code, out)
	}
	if diff := cmp.Diff(before, describe(t, old.volume)); diff != "" {
		t.Errorf("the source: -want, +got:\n%s", diff)
	}

	next := newServer(t)
	next.volume = i.Volume
	next.start(t)
	if got := next.must(t, sums); got != want {
		t.Errorf("after the import: %s\nwant: %s", got, want)
	}
	if got := next.must(t, "select @@server_uuid"); got == uuid {
		t.Errorf("the new server has the server_uuid of the old one, %s", got)
	}
	next.must(t, "insert into shop.void values (1)")
	next.stop(t)
	old.start(t)
	if got := old.must(t, sums); got != want {
		t.Errorf("the old server has %s\nwant: %s", got, want)
	}
	old.stop(t)
}

// TestRealImportEncrypted checks that encrypted files of a real server are detected, and that its other files are not
// mistaken for encrypted ones. The keyring is a component, whose manifest must be in the directory of the program.
func TestRealImportEncrypted(t *testing.T) {
	s := newServer(t)
	s.keepKeyring(t)
	s.initialise(t)
	s.start(t)
	s.must(t, load)
	s.stop(t)
	source := filepath.Join(s.volume, "data")
	expect := func(when, want string) {
		t.Helper()
		i := newImport(t, source)
		i.Target = targetVersion(t, s.version)
		report, err := i.Run(t.Context())
		if want == "" && err != nil || want != "" && (agent.CodeOf(err) != agent.ExitSource ||
			!strings.Contains(report.Error, want)) {
			t.Errorf("%s: want %q, got %+v", when, want, report)
		}
	}
	expect("without encryption", "")
	for _, tc := range []struct{ on, off, want string }{
		{"alter table shop.orders encryption='Y'", "alter table shop.orders encryption='N'", "shop/orders.ibd is encrypted"},
		{"set global binlog_encryption=1; call shop.grow()", "set global binlog_encryption=0; reset binary logs and gtids",
			"binlog"},
		{"set global innodb_redo_log_encrypt=1; call shop.grow()", "set global innodb_redo_log_encrypt=0", "#ib_redo"},
		{"set global innodb_undo_log_encrypt=1; call shop.grow()", "", "undo_"}, // It ends only when InnoDB truncates the log.
	} {
		s.start(t)
		s.must(t, tc.on)
		s.stop(t)
		expect(tc.on, tc.want)
		if tc.off == "" {
			continue
		}
		s.start(t)
		s.must(t, tc.off)
		s.stop(t)
		expect(tc.off, "")
	}
}

// keepKeyring lets the server store keys in a file.
func (s *server) keepKeyring(t *testing.T) {
	t.Helper()
	dir := sharedDir(t)
	plugins := filepath.Join(s.root.Path, "usr", "lib", "mysql", "plugin")
	must(t, os.Symlink(filepath.Join(s.root.Path, "usr", "sbin", "mysqld"), filepath.Join(dir, "mysqld")))
	for _, name := range names(t, plugins) {
		must(t, os.Symlink(filepath.Join(plugins, name), filepath.Join(dir, name)))
	}
	keys := filepath.Join(dir, "keys")
	must(t, os.WriteFile(filepath.Join(dir, "mysqld.my"), []byte(`{"components":"file://component_keyring_file"}`), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "component_keyring_file.cnf"), []byte(`{"path":"`+keys+`","read_only":false}`), 0o644))
	chownAll(t, dir, int(agent.ServerUID))
	s.program, s.options = filepath.Join(dir, "mysqld"), append(s.options, "--plugin-dir="+dir)
}
