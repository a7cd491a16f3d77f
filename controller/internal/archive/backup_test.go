package archive

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

func TestThereAndBack(t *testing.T) {
	p := newPlace(t)
	p.socket(t, "odd.socket")
	attr := filepath.Join(p.data, v1.DataDirectory, "shop", "orders.ibd")
	if err := unix.Setxattr(attr, "user.note", []byte("a\x00b"), 0); err != nil && err != unix.ENOTSUP {
		t.Fatal(err)
	}
	var out bytes.Buffer
	b := p.newBackup()
	b.Output = &out
	report, err := b.Run(t.Context())
	must(t, err)
	if !report.OK || report.Empty || report.Already || report.Version != "9.7.4-2" || report.SHA256 == "" {
		t.Errorf("the report is %+v", report)
	}
	if diff := cmp.Diff([]string{"data.tar.zst", "manifest.json"}, names(t, filepath.Dir(p.archive()))); diff != "" {
		t.Errorf("beside the archive: -want, +got:\n%s", diff)
	}
	if last, ok := lastProgress(out.String()); !ok || last.Phase != agent.PhaseVerify || last.Percent != 100 {
		t.Errorf("the last progress line is %+v", last)
	}

	r := p.newRestore(t)
	must(t, os.Mkdir(filepath.Join(r.Volume, v1.DataDirectory), 0o755)) // The kubelet creates this directory.
	report, err = r.Run(t.Context())
	must(t, err)
	if !report.OK || report.Already {
		t.Errorf("the report is %+v", report)
	}
	want := restorable(t, filepath.Join(p.data, v1.DataDirectory))
	if diff := cmp.Diff(want, snapshot(t, filepath.Join(r.Volume, v1.DataDirectory))); diff != "" {
		t.Errorf("restored: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{datavolume.MarkerName, v1.DataDirectory}, names(t, r.Volume)); diff != "" {
		t.Errorf("on the volume: -want, +got:\n%s", diff)
	}

	report, err = r.Run(t.Context())
	if err != nil || !report.Already {
		t.Errorf("a second run: %+v, %v", report, err)
	}
}

func lastProgress(text string) (agent.Progress, bool) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return agent.ParseProgress(lines[len(lines)-1])
}

// TestEmergency checks that an archive can be restored with only tar and zstd, without the product.
func TestEmergency(t *testing.T) {
	for _, tool := range []string{"tar", "zstd"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("this test needs the program %s", tool)
		}
	}
	p := newPlace(t)
	_, err := p.newBackup().Run(t.Context())
	must(t, err)
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "tar", "--zstd", "-xf", p.archive(), "-C", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	if diff := cmp.Diff(snapshot(t, filepath.Join(p.data, v1.DataDirectory)), snapshot(t, dir)); diff != "" {
		t.Errorf("unpacked: -want, +got:\n%s", diff)
	}
}

func TestRerun(t *testing.T) {
	cases := map[string]struct {
		reason  string
		change  func(p place) error
		after   time.Duration // The time from the earlier backup to the creation of the BackupRecord.
		code    int
		already bool
		empty   bool
	}{
		"Same": {already: true},
		"SameOfBefore": {
			reason: "The BackupRecord was created again, and the archive matches the data.", already: true, after: time.Hour,
		},
		"DataSetBack": {
			reason: "The data has changed since the archive, which may contain rows that the data lacks.",
			after:  time.Hour, code: agent.ExitFailed,
			change: func(p place) error {
				return os.WriteFile(filepath.Join(p.data, v1.DataDirectory, "shop/orders.ibd"), []byte("new"), 0o600)
			},
		},
		"DataIsGone": {
			reason: "The controller had already begun to delete the data, so the archive must be kept.", already: true,
			change: func(p place) error { return os.RemoveAll(filepath.Join(p.data, v1.DataDirectory)) },
		},
		"DataChanged": {
			reason: "The server has run again since the archive, so a new archive must be written.",
			change: func(p place) error {
				return os.WriteFile(filepath.Join(p.data, v1.DataDirectory, "shop/orders.ibd"), []byte("new"), 0o600)
			},
		},
		"Damaged": {
			reason: "The archive is damaged, but the data still exists, so a new archive must be written.",
			change: func(p place) error { return flip(p.archive(), 1000) },
		},
		"CutOff": {change: func(p place) error { return os.Truncate(p.archive(), 1000) }},
		"DamagedAndDataIsGone": {
			reason: "The archive is damaged and the data is deleted, so the backup cannot succeed.", code: agent.ExitDamaged,
			change: func(p place) error {
				return errors.Join(flip(p.archive(), 1000), os.RemoveAll(filepath.Join(p.data, v1.DataDirectory)))
			},
		},
		"ManifestIsGone": {
			reason: "Without its manifest, the archive may belong to another backup and must be kept.", code: agent.ExitFailed,
			change: func(p place) error {
				return os.Remove(filepath.Join(filepath.Dir(p.archive()), ManifestName))
			},
		},
		"ManifestIsDamaged": {
			code: agent.ExitDamaged,
			change: func(p place) error {
				return os.WriteFile(filepath.Join(filepath.Dir(p.archive()), ManifestName), []byte("{"), 0o600)
			},
		},
		"ArchiveIsGone": {
			reason: "The archive is deleted, so a new archive must be written.",
			change: func(p place) error { return os.Remove(p.archive()) },
		},
		"PartialOfAnEarlierRun": {
			already: true,
			change: func(p place) error {
				return os.WriteFile(p.archive()+datavolume.PartialSuffix, []byte("half"), 0o600)
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			_, err := p.newBackup().Run(t.Context())
			must(t, err)
			if tc.change != nil {
				must(t, tc.change(p))
			}
			b := p.newBackup()
			b.Announced = time.Now().Add(tc.after)
			report, err := b.Run(t.Context())
			if agent.CodeOf(err) != tc.code || report.Already != tc.already || report.Empty != tc.empty {
				t.Fatalf("%s: %+v, %v", tc.reason, report, err)
			}
			if tc.code == 0 {
				_, err := p.newRestore(t).Run(t.Context())
				must(t, err)
			}
		})
	}
}

// TestHalves checks that a backup removes the incomplete archive of a killed run from any directory of the volume. It
// must not remove an archive that another run is still writing.
func TestHalves(t *testing.T) {
	p := newPlace(t)
	mine := filepath.Base(p.archive()) + datavolume.PartialSuffix
	pathOf := func(dir, name string) string {
		return filepath.Join(filepath.Dir(filepath.Dir(p.archive())), dir, name)
	}
	killed, busy, other := pathOf("killed", mine), pathOf("busy", mine), pathOf("other", "theirs")
	for _, path := range []string{killed, busy, other} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte("half"), 0o600))
	}
	f, err := os.OpenFile(busy, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close() //nolint:errcheck // Nothing was written.
	must(t, lockFile(f))
	_, err = p.newBackup().Run(t.Context())
	must(t, err)
	for path, want := range map[string]bool{killed: false, busy: true, other: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", path, err == nil, want)
		}
	}
}

func flip(path string, offset int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, offset)
	b[0] ^= 1
	_, werr := f.WriteAt(b, offset)
	return errors.Join(err, werr, f.Close())
}

func TestOthersArchive(t *testing.T) {
	p := newPlace(t)
	_, err := p.newBackup().Run(t.Context())
	must(t, err)
	before := snapshot(t, p.backup)
	cases := map[string]func(b *Backup){
		"OtherXR":     func(b *Backup) { b.Instance.XR = "uid-2" },
		"OtherRecord": func(b *Backup) { b.Record = "two" },
		"OtherName":   func(b *Backup) { b.Instance.Name = "other" },
		"SameFolder":  func(b *Backup) { b.Archive = filepath.Join(filepath.Dir(b.Archive), "second.tar.zst") },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			b := p.newBackup()
			change(b)
			if _, err := b.Run(t.Context()); agent.CodeOf(err) != agent.ExitFailed {
				t.Errorf("Run: %v", err)
			}
			if diff := cmp.Diff(before, snapshot(t, p.backup)); diff != "" {
				t.Errorf("the other's backup: -want, +got:\n%s", diff)
			}
		})
	}
}

// TestNothingToLose checks that a volume which never contained data is distinguished from one that has lost its data.
func TestNothingToLose(t *testing.T) {
	cases := map[string]struct {
		files []string
		bad   bool
	}{
		"New":             {},
		"LostAndFound":    {files: []string{"lost+found/"}},
		"EmptyFolder":     {files: []string{"data/"}},
		"HalfAFirstStart": {files: []string{"data.init/ibdata1", "data/"}},
		"HalfARestore":    {files: []string{".restore-0123/ibdata1", "data/"}},
		"SomethingElse":   {files: []string{"mysql/ibdata1"}, bad: true},
		"RestoredAndGone": {files: []string{datavolume.MarkerName}, bad: true},
		"FileForFolder":   {files: []string{"data"}, bad: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := place{data: t.TempDir(), backup: t.TempDir()}
			for _, file := range tc.files {
				path := filepath.Join(p.data, file)
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				if strings.HasSuffix(file, "/") {
					must(t, os.MkdirAll(path, 0o700))
					continue
				}
				must(t, os.WriteFile(path, []byte(`{"inode":1}`), 0o600))
			}
			report, err := p.newBackup().Run(t.Context())
			if (err != nil) != tc.bad || report.Empty == tc.bad {
				t.Errorf("Run: %+v, %v", report, err)
			}
			if got := names(t, p.backup); len(got) > 0 {
				t.Errorf("it wrote %q", got)
			}
		})
	}
}

// TestAnothersData checks that data is not used if its marker names a different instance. Such data must not be
// archived, treated as a finished restore, or used by a server. Data without a marker is accepted.
func TestAnothersData(t *testing.T) {
	for name, tc := range map[string]struct {
		marker string
		code   int
	}{
		"Others":  {marker: `{"xr":"uid-9","inode":1}`, code: agent.ExitForeign},
		"Own":     {marker: `{"xr":"uid-1","inode":1}`},
		"Nobodys": {marker: `{"inode":1}`},
		"Unsaid":  {},
		"Torn":    {marker: `{"xr":`, code: agent.ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			if tc.marker != "" {
				must(t, os.WriteFile(filepath.Join(p.data, datavolume.MarkerName), []byte(tc.marker), 0o600))
			}
			directory := filepath.Join(p.data, v1.DataDirectory)
			before := snapshot(t, directory)
			b := p.newBackup()
			b.Instance.XR = "uid-1"
			_, err := b.Run(t.Context())
			if got := agent.CodeOf(err); got != tc.code {
				t.Errorf("Backup: want exit code %d, got %d: %v", tc.code, got, err)
			}
			if got := names(t, p.backup); len(got) > 0 && tc.code != 0 {
				t.Errorf("it wrote %q", got)
			}
			i, err := datavolume.OpenInitial(p.data, v1.DataDirectory, "uid-1")
			must(t, err)
			defer i.Close()
			hasData, err := i.HasData()
			if hasData != (tc.code == 0) || agent.CodeOf(exit.CodeOf(t.Context(), err)) != tc.code {
				t.Errorf("HasData: %t, %v, want exit code %d", hasData, err, tc.code)
			}
			if diff := cmp.Diff(before, snapshot(t, directory)); diff != "" {
				t.Errorf("the data: -want, +got:\n%s", diff)
			}
		})
	}
}

func TestNoVolume(t *testing.T) {
	b := newPlace(t).newBackup()
	b.Volume = filepath.Join(t.TempDir(), "none")
	if report, err := b.Run(t.Context()); err == nil || report.Empty {
		t.Errorf("a volume that is not there was taken for empty: %+v", report)
	}
}

// TestNeverServed checks that the remains of an interrupted initialization are not backed up, unless they contain a
// database or a backup already exists.
func TestNeverServed(t *testing.T) {
	p := newPlace(t)
	b := p.newBackup()
	b.NeverServed = true
	if r, err := b.Run(t.Context()); err != nil || r.Empty || r.SHA256 == "" {
		t.Fatalf("want an archive of the database, got %+v, %v", r, err)
	}
	for _, dir := range []string{"shop", "void"} {
		must(t, os.RemoveAll(filepath.Join(p.data, v1.DataDirectory, dir)))
	}
	if r, err := b.Run(t.Context()); err != nil || r.Empty {
		t.Errorf("want what there is to replace the backup that there was, got %+v, %v", r, err)
	}
	must(t, os.RemoveAll(p.backup))
	if r, err := b.Run(t.Context()); err != nil || !r.Empty || r.SHA256 != "" {
		t.Errorf("want nothing to back up, got %+v, %v", r, err)
	}
	b.NeverServed = false
	if r, err := b.Run(t.Context()); err != nil || r.Empty {
		t.Errorf("want an archive of what a server left that served, got %+v, %v", r, err)
	}
}

// TestStranger checks that files of an unknown server are backed up. Users can unpack the archive, although no
// supported server can read it.
func TestStranger(t *testing.T) {
	p := newPlace(t)
	data := filepath.Join(p.data, v1.DataDirectory)
	must(t, errors.Join(os.RemoveAll(data), os.Mkdir(data, 0o750)))
	for _, name := range []string{"mongod.lock", "WiredTiger.wt", "collection-0.wt", "shop.sqlite"} {
		must(t, os.WriteFile(filepath.Join(data, name), []byte("x"), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(p.data, "server-version.json"), []byte("{}"), 0o600))
	b := p.newBackup()
	b.Version = ""
	r, err := b.Run(t.Context())
	if err != nil || r.Empty || r.Entries != 5 || r.Version != "" || r.CleanShutdown {
		t.Errorf("want all of it archived, and nothing said of a server, got %+v, %v", r, err)
	}
	must(t, errors.Join(os.RemoveAll(data), os.RemoveAll(p.backup)))
	if r, err := p.newBackup().Run(t.Context()); err == nil || r.Empty {
		t.Errorf("a volume on which something was is not empty, got %+v, %v", r, err)
	}
}
