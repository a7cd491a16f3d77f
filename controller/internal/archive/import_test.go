package archive

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
)

// foreign makes the data directory look as if another server had created it. It removes a symbolic link, which an
// import refuses, and adds a version file and persisted variables. It also adds lost+found, which exists in the root
// of a volume.
func (p place) foreign(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(p.data, v1.DataDirectory)
	must(tb, os.Remove(filepath.Join(dir, "inside")))
	p.put(tb, persistedOptions, []byte(`{"Version":2}`))
	must(tb, os.Mkdir(filepath.Join(dir, "mysql"), 0o750))
	p.put(tb, "mysql_upgrade_history", []byte(`{"upgrade_history":[{"version":"9.7.4"}]}`))
	must(tb, os.Mkdir(filepath.Join(dir, datavolume.LostAndFound), 0o700))
	p.age(tb)
	return dir
}

// persistedOptions is the file with the settings that a server has persisted.
const persistedOptions = "mysqld-auto.cnf"

// newImport returns an import of a directory to a new volume.
func newImport(tb testing.TB, from string) *Import {
	tb.Helper()
	return &Import{
		Half: datavolume.Half{Volume: tb.TempDir(), Directory: v1.DataDirectory, XR: "uid-2", Name: "volume/old"},
		From: from, Target: targetVersion(tb, "9.7.4"), Output: io.Discard,
	}
}

// notImported are files of the old server, of its cluster and of the file system.
var notImported = []string{serverID, persistedOptions, datavolume.LostAndFound, "grastate.dat", "galera.cache"}

// imported returns a snapshot of the imported entries, without owners.
func imported(tb testing.TB, dir string) string {
	tb.Helper()
	lines := strings.SplitAfter(snapshot(tb, dir), "\n")
	out := strings.Builder{}
	for n := 0; n+1 < len(lines); n += 2 { // Each entry has two lines, the second with its checksum.
		f := strings.SplitN(lines[n], " ", 7) // Mode, UID, GID, size, time, another checksum, and names.
		name, _, _ := strings.Cut(strings.TrimPrefix(f[6], `"`), `"`)
		if name == "." || slices.Contains(notImported, name) {
			continue
		}
		out.WriteString(strings.Join(append(f[:1], f[3:]...), " ") + lines[n+1])
	}
	return out.String()
}

// TestImport checks that an import copies everything that a server needs. A second run must not copy again, and the
// source must not change.
func TestImport(t *testing.T) {
	p := newPlace(t)
	from := p.foreign(t)
	before := snapshot(t, from)
	i := newImport(t, from)
	report, err := i.Run(t.Context())
	must(t, err)
	if report.Version != "9.7.4" || report.DataBytes < 9<<20 || report.Already {
		t.Errorf("it reports %+v", report)
	}
	target := filepath.Join(i.Volume, v1.DataDirectory)
	if diff := cmp.Diff(imported(t, from), imported(t, target)); diff != "" {
		t.Errorf("imported: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, snapshot(t, from)); diff != "" {
		t.Errorf("the source: -want, +got:\n%s", diff)
	}
	for _, name := range append(slices.Clone(notImported), "host.pid") {
		if _, err := os.Lstat(filepath.Join(target, name)); err == nil {
			t.Errorf("%s is of that server only", name)
		}
	}
	if diff := cmp.Diff([]string{datavolume.MarkerName, v1.DataDirectory}, names(t, i.Volume)); diff != "" {
		t.Errorf("on the volume: -want, +got:\n%s", diff)
	}
	if info, err := os.Stat(target); err != nil || info.Mode() != fs.ModeDir|0o750 {
		t.Errorf("the data directory is %v, %v", info.Mode(), err)
	}

	// A repeated Job must not change files that the server has written after the import.
	must(t, os.WriteFile(filepath.Join(target, "new"), nil, 0o600))
	must(t, os.MkdirAll(i.Dir(), 0o700)) // A container of a later pod leaves this directory.
	report, err = i.Run(t.Context())
	must(t, err)
	if _, serr := os.Stat(filepath.Join(target, "new")); serr != nil || !report.Already {
		t.Errorf("the next run: %+v, %v", report, serr)
	}
	if _, err := os.Stat(i.Dir()); err == nil {
		t.Error("what was left is still there")
	}

	// After an import, the initialization must know that the data is imported and that root's password is unknown.
	initial, err := datavolume.OpenInitial(i.Volume, v1.DataDirectory, "uid-2")
	must(t, err)
	defer initial.Close()
	old, err := initial.HasOldPassword()
	must(t, err)
	foreign, err := initial.IsImported()
	must(t, err)
	if !old || !foreign {
		t.Errorf("old password: %t, imported: %t", old, foreign)
	}
}

// TestImportRefuses checks that data is refused if no server can use it, and that nothing is written.
func TestImportRefuses(t *testing.T) {
	older, newer, other := targetVersion(t, "8.4.6"), targetVersion(t, "9.7.5"), filepath.Join(t.TempDir(), "version.json")
	must(t, os.WriteFile(other, []byte(`{"version":"10.11.18-MariaDB","flavour":"mariadb"}`), 0o600))
	without := func(names ...string) func(*Import) error {
		return func(i *Import) (err error) {
			for _, name := range names {
				err = errors.Join(err, os.Remove(filepath.Join(i.From, name)))
			}
			return err
		}
	}
	for name, tc := range map[string]struct {
		change func(i *Import) error
		code   int
		say    string
	}{
		"Nothing": {func(i *Import) error { i.Within = "none"; return nil }, agent.ExitMissing, "has no directory"},
		"Outside": {func(i *Import) error {
			i.Within = "way"
			return os.Symlink("/", filepath.Join(i.From, "way"))
		}, agent.ExitSource, "is a symbolic link"},
		"NoData": {without("ibdata1"), agent.ExitSource, "it contains no ibdata1"},
		"Above": {func(i *Import) error { i.From = filepath.Dir(i.From); return nil }, agent.ExitSource,
			"spec.restore.import.volume.directory: data"},
		"OlderServer": {func(i *Import) error { i.Target = older; return nil }, agent.ExitVersion, "older"},
		"NewerServer": {func(i *Import) error { i.Target = newer; return nil }, agent.ExitUnclean,
			"do not show whether it stopped cleanly"},
		"OtherServer": {func(i *Import) error { i.Target = other; return nil }, agent.ExitVersion,
			"which cannot read it"},
		"NoVersion": {without("mysql_upgrade_history"), agent.ExitUnclean, "its version is unknown"},
		"NoVersionNoDictionary": {without("mysql_upgrade_history", "mysql.ibd"), agent.ExitVersion,
			"which version of the server wrote it"},
		"DataOutside": {func(i *Import) error {
			return os.WriteFile(filepath.Join(i.From, "shop", "x.isl"), []byte("/tmp/shop/x.ibd"), 0o600)
		}, agent.ExitSource,
			`nothing is imported: the rows of a table are stored outside of the data directory, in "/tmp/shop/x.ibd"`},
		"Link": {func(i *Import) error { return os.Symlink("/elsewhere", filepath.Join(i.From, "shop", "x")) },
			agent.ExitSource, "symbolic link"},
		"Occupied": {func(i *Import) error {
			target := filepath.Join(i.Volume, v1.DataDirectory)
			return errors.Join(os.Mkdir(target, 0o700), os.WriteFile(filepath.Join(target, "ibdata1"), nil, 0o600))
		}, agent.ExitOccupied, "already contains data"},
		"OfAnother": {func(i *Import) error {
			_, err := i.Run(t.Context())
			i.XR = "uid-9"
			return err
		}, agent.ExitOccupied, "that this import did not write"},
		"OtherImport": {func(i *Import) error {
			_, err := i.Run(t.Context())
			i.Name = "volume/other"
			return err
		}, agent.ExitOccupied, "that this import did not write"},
		"NotMade":  {func(i *Import) error { i.From = ""; return nil }, agent.ExitFailed, "left no data"},
		"NoTarget": {func(i *Import) error { i.Target += gone; return nil }, agent.ExitFailed, "cannot read the version of the new server"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			i := newImport(t, p.foreign(t))
			must(t, tc.change(i))
			before := names(t, filepath.Join(i.Volume, v1.DataDirectory))
			report, err := i.Run(t.Context())
			if agent.CodeOf(err) != tc.code || report.OK || !strings.Contains(report.Error, tc.say) {
				t.Errorf("want %d and %q, got %+v", tc.code, tc.say, report)
			}
			if diff := cmp.Diff(before, names(t, filepath.Join(i.Volume, v1.DataDirectory))); diff != "" {
				t.Errorf("it changed the data: -want, +got:\n%s", diff)
			}
			if _, err := os.Lstat(i.Dir()); err == nil {
				t.Error("half of it is left")
			}
		})
	}
}

// TestImportOfRunning checks that a running server on the source is detected by its locks, and that the Job can be
// retried.
func TestImportOfRunning(t *testing.T) {
	p := newPlace(t)
	i := newImport(t, p.foreign(t))
	server, out := role{Hold: filepath.Join(i.From, "ibdata1")}.start(t)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held: <nil>\n" {
		t.Fatalf("it holds nothing: %q, %v", line, err)
	}
	report, err := i.Run(t.Context())
	if agent.CodeOf(err) != agent.ExitBusy || !strings.Contains(report.Error, "a server still uses this data") {
		t.Errorf("want it busy, got %+v", report)
	}
	must(t, server.Process.Kill())
	_ = server.Wait() // The process was killed.
	_, err = i.Run(t.Context())
	must(t, err)
}

// TestImportCrash kills the import after each step. The data directory must be complete or missing at any time, and
// the next run must succeed.
func TestImportCrash(t *testing.T) {
	for _, step := range []string{stepBegun, datavolume.StepUnpacked, datavolume.StepMarked, datavolume.StepRenamed} {
		t.Run(step, func(t *testing.T) {
			p := newPlace(t)
			source := p.foreign(t)
			i := newImport(t, filepath.Dir(source))
			i.Within = filepath.Base(source)
			if code, out := (role{Import: i, Crash: step}).run(t); code != killed {
				t.Fatalf("it did not crash but ended with %d: %s", code, out)
			}
			if got := len(names(t, filepath.Join(i.Volume, v1.DataDirectory))); (got > 0) != (step == datavolume.StepRenamed) {
				t.Errorf("after the crash the data directory has %d entries", got)
			}
			if step != datavolume.StepRenamed { // If the claim is deleted now, there is nothing to back up.
				initial, err := datavolume.OpenInitial(i.Volume, v1.DataDirectory, "uid-2")
				must(t, err)
				if err := initial.Nothing(); err != nil {
					t.Errorf("what was cut off is taken for data: %v", err)
				}
				initial.Close()
			}
			report, err := i.Run(t.Context())
			must(t, err)
			if report.Already != (step == datavolume.StepRenamed) {
				t.Errorf("the next run: %+v", report)
			}
			if diff := cmp.Diff(imported(t, source), imported(t, filepath.Join(i.Volume, v1.DataDirectory))); diff != "" {
				t.Errorf("imported: -want, +got:\n%s", diff)
			}
		})
	}
}

// TestHalf checks that an import accepts the data of an earlier container only if that container marked it as complete.
// Incomplete data must be created again.
func TestHalf(t *testing.T) {
	p := newPlace(t)
	i := newImport(t, "")
	made := func(isWhole bool) {
		t.Helper()
		m, err := i.Begin(t.Context())
		must(t, err)
		if m == nil {
			t.Fatal("it has nothing to do")
		}
		defer m.Close()
		if got := names(t, i.Dir()); len(got) > 0 {
			t.Fatalf("it goes on with %v", got)
		}
		if _, err := i.Begin(t.Context()); agent.CodeOf(err) != agent.ExitBusy {
			t.Errorf("another one begins beside it: %v", err)
		}
		must(t, os.CopyFS(i.Data(), os.DirFS(p.foreign(t))))
		if isWhole {
			must(t, m.Complete())
		}
	}
	made(false)
	if _, err := i.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "left no data") {
		t.Errorf("what nobody says is complete is taken: %v", err)
	}
	p = newPlace(t)
	made(true) // This simulates a later pod.
	_, err := i.Run(t.Context())
	must(t, err)
	if got := names(t, filepath.Join(i.Volume, v1.DataDirectory)); len(got) < 10 {
		t.Errorf("it has %v", got)
	}
	for name, repeat := range map[string]func(context.Context) (*datavolume.Making, error){"Begin": i.Begin,
		"GoOn": i.GoOn} {
		if m, err := repeat(t.Context()); m != nil || err != nil {
			t.Errorf("%s after the end: %v, %v", name, m, err)
		}
	}
	i.Name = "volume/other"
	if _, err := i.Begin(t.Context()); agent.CodeOf(err) != agent.ExitOccupied {
		t.Errorf("another import: %v", err)
	}
}
