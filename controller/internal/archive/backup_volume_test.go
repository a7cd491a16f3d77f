package archive

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
)

// instead contains functions that replace a file by something else: a link, a pipe, a directory or a device. The test
// moves the original file to the path moved first.
var instead = map[string]func(tb testing.TB, path, moved string){
	"Link":     func(tb testing.TB, path, moved string) { tb.Helper(); must(tb, os.Symlink(moved, path)) },
	"DeadLink": func(tb testing.TB, path, _ string) { tb.Helper(); must(tb, os.Symlink("nowhere", path)) },
	"LinkLoop": func(tb testing.TB, path, _ string) {
		tb.Helper()
		must(tb, os.Symlink(filepath.Base(path), path))
	},
	"Pipe":   func(tb testing.TB, path, _ string) { tb.Helper(); must(tb, unix.Mkfifo(path, 0o600)) },
	"Folder": func(tb testing.TB, path, _ string) { tb.Helper(); must(tb, os.Mkdir(path, 0o700)) },
	"Device": func(tb testing.TB, path, _ string) { tb.Helper(); must(tb, os.Symlink("/dev/zero", path)) },
}

// soonDone calls a function. It fails the test if the function blocks, for example because it waits for the other end
// of a pipe.
func soonDone[T any](t *testing.T, run func() (T, error)) (T, error) {
	t.Helper()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := run()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-time.After(time.Minute):
		t.Fatal("it waits")
	}
	panic("unreachable")
}

// backedUp creates a backup, and returns a restore of its archive.
func backedUp(t *testing.T) *Restore {
	t.Helper()
	p := place{data: filepath.Join(t.TempDir(), "v"), backup: t.TempDir()}
	p.put(t, "ibdata1", []byte("pages"))
	_, err := p.newBackup().Run(t.Context())
	must(t, err)
	return p.newRestore(t)
}

// TestNotAFile checks that a restore refuses an archive or a manifest that is not a regular file. The restore must
// not read the file or wait for it.
func TestNotAFile(t *testing.T) {
	for name, put := range instead {
		for _, file := range []string{"data.tar.zst", ManifestName} {
			t.Run(name+"/"+file, func(t *testing.T) {
				r := backedUp(t)
				path, moved := filepath.Join(filepath.Dir(r.Archive), file), filepath.Join(t.TempDir(), "moved")
				must(t, os.Rename(path, moved))
				put(t, path, moved)
				_, err := soonDone(t, func() (agent.Report, error) { return r.Run(t.Context()) })
				if agent.CodeOf(err) != agent.ExitDamaged {
					t.Errorf("Run: %v", err)
				}
				if got := names(t, r.Volume); len(got) > 0 {
					t.Errorf("it made %q", got)
				}
			})
		}
	}
}

// TestNotAFileBackup checks that a backup does not write to something that is not a regular file, and does not wait
// for it. A manifest without an archive is replaced.
func TestNotAFileBackup(t *testing.T) {
	for name, put := range instead {
		for _, file := range []string{"data.tar.zst", "data.tar.zst" + datavolume.PartialSuffix, ManifestName} {
			t.Run(name+"/"+file, func(t *testing.T) {
				p := place{data: filepath.Join(t.TempDir(), "v"), backup: t.TempDir()}
				p.put(t, "ibdata1", []byte("pages"))
				b := p.newBackup()
				outside := filepath.Join(t.TempDir(), "outside")
				must(t, os.WriteFile(outside, []byte("somebody else's"), 0o600))
				must(t, os.MkdirAll(filepath.Dir(b.Archive), 0o700))
				put(t, filepath.Join(filepath.Dir(b.Archive), file), outside)
				_, err := soonDone(t, func() (agent.Report, error) { return b.Run(t.Context()) })
				switch {
				case file == "data.tar.zst":
					if agent.CodeOf(err) != agent.ExitDamaged {
						t.Errorf("it took it for an archive, or replaced it: %v", err)
					}
				case file == ManifestName && name == "Folder":
					if err == nil || !strings.Contains(err.Error(), "cannot write the manifest") {
						t.Errorf("a folder is somebody's: %v", err)
					}
				default:
					must(t, err)
					p.restored(t)
				}
				if raw, err := os.ReadFile(outside); err != nil || string(raw) != "somebody else's" {
					t.Errorf("it wrote through a link: %q, %v", raw, err)
				}
			})
		}
	}
}

// TestDirectoryLink checks that a directory is refused if it is a link to a valid archive outside of the backup
// volume.
func TestDirectoryLink(t *testing.T) {
	r := backedUp(t)
	dir, moved := filepath.Dir(r.Archive), filepath.Join(t.TempDir(), "moved")
	must(t, os.Rename(dir, moved))
	must(t, os.Symlink(moved, dir))
	if _, err := r.Run(t.Context()); agent.CodeOf(err) != agent.ExitDamaged ||
		!strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("Restore: %v", err)
	}
	p := place{data: filepath.Join(t.TempDir(), "v"), backup: t.TempDir()}
	p.put(t, "ibdata1", []byte("pages"))
	b, outside := p.newBackup(), t.TempDir()
	must(t, os.RemoveAll(filepath.Dir(b.Archive)))
	must(t, os.MkdirAll(filepath.Dir(filepath.Dir(b.Archive)), 0o700))
	must(t, os.Symlink(outside, filepath.Dir(b.Archive)))
	if _, err := b.Run(t.Context()); agent.CodeOf(err) != agent.ExitDamaged ||
		!strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("Backup: %v", err)
	}
	if got := names(t, outside); len(got) > 0 {
		t.Errorf("it wrote %q out of the backup volume", got)
	}
}

// TestHostileManifest checks the error for each invalid manifest. Each differs from a valid one in only one field.
func TestHostileManifest(t *testing.T) {
	other := func(from, target string) func(string) string {
		return func(good string) string { return strings.Replace(good, from, target, 1) }
	}
	cases := map[string]struct {
		change func(good string) string
		want   string
	}{
		"Empty":   {change: func(string) string { return "" }, want: "cannot read the manifest"},
		"NotJSON": {change: func(string) string { return "<manifest/>" }, want: "cannot read the manifest"},
		"Cut":     {change: func(good string) string { return good[:len(good)-3] }, want: "cannot read the manifest"},
		"More":    {change: func(good string) string { return good + good }, want: "cannot read the manifest"},
		"List":    {change: func(good string) string { return "[" + good + "]" }, want: "cannot read the manifest"},
		"Null":    {change: func(string) string { return "null" }, want: "no format version"},
		"Nested": {change: func(string) string { return strings.Repeat("[", maxManifest) },
			want: "cannot read the manifest"},
		"NestedDeep": {change: other("{", `{"deep":`+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)+","),
			want: "exceeded max depth"},
		"Huge": {change: func(good string) string { return good + strings.Repeat(" ", maxManifest) },
			want: "larger than"},
		"HugeNumber": {change: other(`"format": 1`, `"format": 1`+strings.Repeat("0", 60000)),
			want: "cannot read the manifest"},
		"Fraction": {change: other(`"format": 1`, `"format": 1.5`), want: "cannot read the manifest"},
		"UpperSum": {change: other(`"treeSha256": "`, `"treeSha256": "`+strings.Repeat("A", 64)+`","x": "`),
			want: "not a SHA-256 checksum"},
		"NameOfPath":  {change: other(`"data.tar.zst"`, `"/etc/passwd"`), want: "is not a file name"},
		"NameInside":  {change: other(`"data.tar.zst"`, `"../one/data.tar.zst"`), want: "is not a file name"},
		"NameOfOther": {change: other(`"data.tar.zst"`, `"other.tar.zst"`), want: "the manifest belongs to another archive, "},
		"Entries":     {change: other(`"entries": 2`, `"entries": 3`), want: "does not match its listing"},
		"DataBytes":   {change: other(`"dataBytes": 5`, `"dataBytes": 6`), want: "does not match its listing"},
		"LargestFile": {change: other(`"largestFile": 5`, `"largestFile": 4`), want: "larger than its manifest allows"},
		"LargestLess": {change: other(`"largestFile": 5`, `"largestFile": 6`), want: "the manifest contains impossible sizes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := backedUp(t)
			path := filepath.Join(filepath.Dir(r.Archive), ManifestName)
			good, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, []byte(tc.change(string(good))), 0o600))
			if _, err := r.Run(t.Context()); agent.CodeOf(err) != agent.ExitDamaged || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run must say %q: %v", tc.want, err)
			}
			if got := names(t, r.Volume); len(got) > 0 {
				t.Errorf("it made %q", got)
			}
		})
	}
}

// TestBomb uses archives that unpack to much more than their size. If the manifest states the unpacked size, the
// restore is refused before anything is written. Otherwise it stops at the size in the manifest.
func TestBomb(t *testing.T) {
	const inside = 64 << 20
	bomb := crafted{headers: []tar.Header{dir("./"), file("./f")}, content: strings.Repeat("\x00", inside)}
	cases := map[string]struct {
		manifest func(*archiveManifest)
		code     int
	}{
		"Admitted": {manifest: func(m *archiveManifest) { m.DataBytes, m.LargestFile = inside, inside },
			code: agent.ExitNoSpace},
		"Absurd": {manifest: func(m *archiveManifest) { m.DataBytes, m.LargestFile = maxData, maxData },
			code: agent.ExitNoSpace},
		"Entries": {manifest: func(m *archiveManifest) { m.Entries = maxEntries }, code: agent.ExitNoSpace},
		"Denied": {manifest: func(m *archiveManifest) { m.DataBytes, m.LargestFile = 1<<20, 1<<20 },
			code: agent.ExitDamaged},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			bomb.manifest = tc.manifest
			r, _ := bomb.restore(t)
			if info, err := os.Stat(r.Archive); err != nil || info.Size() > inside/1000 {
				t.Fatalf("the archive is no bomb: %v, %v", info, err)
			}
			code, output := role{Restore: r, Mount: r.Volume, Bytes: 8 << 20}.run(t)
			if code != tc.code || strings.Contains(output, "left:") {
				t.Errorf("it ended with %d: %s", code, output)
			}
		})
	}
}
