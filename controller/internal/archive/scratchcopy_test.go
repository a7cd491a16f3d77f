package archive

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
)

// copied returns a backup volume with an archive, and an Unpack that copies this archive for a restore test.
func copied(tb testing.TB) (place, *Unpack) {
	tb.Helper()
	p := newPlace(tb)
	_, err := p.newBackup().Run(tb.Context())
	must(tb, err)
	u := &Unpack{Restore: *p.newRestore(tb)}
	u.Volume, u.Directory = filepath.Dir(filepath.Dir(p.archive())), ""
	return p, u
}

func (u *Unpack) copyDir() string { return filepath.Join(u.Volume, v1.RestoreTestDir) }

func TestUnpackConcurrently(t *testing.T) {
	p, u := copied(t)
	for range 2 { // The second run finds the files of the first.
		report, err := u.Run(t.Context())
		must(t, err)
		if !report.OK || report.Already || report.Command != "unpack" || report.SHA256 != u.SHA256 {
			t.Errorf("the report is %+v", report)
		}
		if diff := cmp.Diff(restorable(t, filepath.Join(p.data, v1.DataDirectory)),
			snapshot(t, filepath.Join(u.copyDir(), v1.DataDirectory))); diff != "" {
			t.Errorf("the copy: -want, +got:\n%s", diff)
		}
		must(t, os.WriteFile(filepath.Join(u.copyDir(), "mysqld.sock"), nil, 0o600))
	}
	if CopyGone(u.copyDir()) {
		t.Error("the copy counts as gone")
	}
}

// TestUnpackFails checks that a failed unpacking leaves no files.
func TestUnpackFails(t *testing.T) {
	cases := map[string]struct {
		change func(u *Unpack)
		code   int
	}{
		"OlderServer": {func(u *Unpack) { u.Source = "9.7.5" }, agent.ExitVersion},
		"OtherSum":    {func(u *Unpack) { u.SHA256 = strings.Repeat("0", len(u.SHA256)) }, agent.ExitDamaged},
		"NoArchive":   {func(u *Unpack) { u.Archive += gone }, agent.ExitMissing},
		"Damaged":     {func(u *Unpack) { _ = flip(u.Archive, 1000) }, agent.ExitDamaged},
		"NoVolume":    {func(u *Unpack) { u.Volume += gone }, agent.ExitFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, u := copied(t)
			before := names(t, u.Volume)
			must(t, os.Mkdir(u.copyDir(), 0o700))
			tc.change(u)
			report, err := u.Run(t.Context())
			if agent.CodeOf(err) != tc.code || report.OK || report.ExitCode != tc.code {
				t.Errorf("Run: %+v, %v", report, err)
			}
			if diff := cmp.Diff(before, names(t, filepath.Dir(filepath.Dir(u.Archive)))); diff != "" && name != "NoVolume" {
				t.Errorf("it left: -want, +got:\n%s", diff)
			}
		})
	}
}

// TestUnpackRemoved runs a backup that needs the space while the copy is written. The error must not blame the
// archive.
func TestUnpackRemoved(t *testing.T) {
	_, u := copied(t)
	u.hook = func(step string) {
		if step == datavolume.StepUnpacked {
			must(t, makeRoom(u.Volume, filepath.Base(u.Archive)+datavolume.PartialSuffix))
		}
	}
	if _, err := u.Run(t.Context()); agent.CodeOf(err) != agent.ExitBusy ||
		!strings.Contains(err.Error(), "was deleted while") {
		t.Errorf("Run: %v", err)
	}
	if !CopyGone(u.copyDir()) {
		t.Error("the copy does not count as gone")
	}
}

func TestUnpackStops(t *testing.T) {
	_, u := copied(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	u.hook = func(string) { cancel() }
	if _, err := u.Run(ctx); agent.CodeOf(err) != agent.ExitStopped {
		t.Errorf("Run: %v", err)
	}
	if got := names(t, u.copyDir()); len(got) > 0 {
		t.Errorf("it left %q", got)
	}
}

func TestRoomForCopy(t *testing.T) {
	const gibi = 1 << 30
	c := Contents{DataBytes: gibi, Entries: 1024}
	need := int64(gibi + 1024*entryBytes + slackBytes + serverBytes)
	cases := map[string]struct {
		reason      string
		free, total int64
		want        string
	}{
		"Room": {free: 50 * gibi, total: 100 * gibi},
		"Just": {free: need + 10*gibi, total: 100 * gibi},
		"NotQuite": {reason: "One byte is missing to keep a tenth of the file system free.", free: need + 10*gibi - 1, total: 100 * gibi,
			want: "need 1161 MiB, and another 10240 MiB, a tenth of the file system, must stay free. The backup volume " +
				"has only 11399 MiB free"},
		"Small":    {reason: "A tenth of a small file system is also small.", free: need + gibi/5, total: 2 * gibi},
		"TooSmall": {free: need - 1, total: 2 * gibi, want: "MiB free. Nothing was written"},
		"Full":     {free: 0, total: 2 * gibi, want: "has only 0 MiB free"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := roomForCopy(c, tc.free, tc.total)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("%s: %v", tc.reason, err)
			case tc.want != "" && (agent.CodeOf(err) != agent.ExitNoSpace || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s: %v\nwant: %s", tc.reason, err, tc.want)
			}
		})
	}
}

// leftover contains functions that create the remains of an earlier copy. The directory precious is outside of the
// volume, and the test checks that its file still exists at the end.
var leftover = map[string]func(tb testing.TB, path, precious string){
	"Nothing": func(testing.TB, string, string) {},
	"Copy": func(tb testing.TB, path, _ string) {
		tb.Helper()
		must(tb, os.MkdirAll(filepath.Join(path, v1.DataDirectory, "shop"), 0o700))
		must(tb, os.WriteFile(filepath.Join(path, copyMark), nil, 0o600))
		must(tb, os.WriteFile(filepath.Join(path, v1.DataDirectory, "shop", "orders.ibd"), nil, 0o600))
	},
	"File": func(tb testing.TB, path, _ string) { tb.Helper(); must(tb, os.WriteFile(path, nil, 0o600)) },
	"Link": func(tb testing.TB, path, precious string) { tb.Helper(); must(tb, os.Symlink(precious, path)) },
	"LinkInside": func(tb testing.TB, path, precious string) {
		tb.Helper()
		must(tb, os.Mkdir(path, 0o700))
		must(tb, os.Symlink(precious, filepath.Join(path, v1.DataDirectory)))
	},
	"MarkIsFolder": func(tb testing.TB, path, _ string) {
		tb.Helper()
		must(tb, os.MkdirAll(filepath.Join(path, copyMark, "a"), 0o700))
	},
	"LinkToSibling": func(tb testing.TB, path, _ string) {
		tb.Helper()
		must(tb, os.Symlink("sibling", path))
	},
	"Pipe": func(tb testing.TB, path, _ string) { tb.Helper(); must(tb, unix.Mkfifo(path, 0o600)) },
}

// TestLeftover checks that the remains of a copy are removed before a backup and before another copy. Nothing
// outside of the volume must be removed.
func TestLeftover(t *testing.T) {
	for name, put := range leftover {
		t.Run(name, func(t *testing.T) {
			p, u := copied(t)
			must(t, os.RemoveAll(filepath.Dir(p.archive())))
			precious := t.TempDir()
			sibling := filepath.Join(u.Volume, "sibling")
			must(t, os.Mkdir(sibling, 0o700))
			for _, dir := range []string{precious, sibling} {
				must(t, os.WriteFile(filepath.Join(dir, copyMark), nil, 0o600))
			}
			put(t, u.copyDir(), precious)
			_, err := p.newBackup().Run(t.Context())
			must(t, err)
			if _, err := os.Lstat(u.copyDir()); !os.IsNotExist(err) {
				t.Errorf("the backup left it: %v", err)
			}
			put(t, u.copyDir(), precious)
			_, err = u.Run(t.Context())
			must(t, err)
			if len(names(t, precious)) != 1 || len(names(t, sibling)) != 1 {
				t.Errorf("outside: %q, beside: %q", names(t, precious), names(t, sibling))
			}
		})
	}
}
