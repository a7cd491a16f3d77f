package archive

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestSurvey checks that a survey verifies each archive, reports its manifest, and changes nothing.
func TestSurvey(t *testing.T) {
	p := place{data: filepath.Join(t.TempDir(), "v"), backup: t.TempDir()}
	p.put(t, "ibdata1", content(1<<20, true))
	take := func(dir string) string {
		b := p.newBackup()
		b.Archive, b.Record, b.Number, b.StorageSize = filepath.Join(p.backup, dir, "data.tar.zst"), dir, 7, "1Gi"
		_, err := b.Run(t.Context())
		must(t, err)
		return b.Archive
	}
	whole := take("whole")
	damage(t, take("damaged"))
	must(t, os.Remove(take("gone")))
	must(t, os.Remove(filepath.Join(filepath.Dir(take("unsigned")), ManifestName)))
	must(t, os.Mkdir(filepath.Join(p.backup, "lost+found"), 0o700))
	must(t, os.Mkdir(filepath.Join(p.backup, "came to nothing"), 0o700))
	must(t, os.MkdirAll(filepath.Join(p.backup, v1.RestoreTestDir, "data"), 0o700))
	must(t, os.WriteFile(filepath.Join(p.backup, "stray"), nil, 0o600))
	before := snapshot(t, p.backup)

	var out bytes.Buffer
	s := Survey{Volume: p.backup, Output: &out}
	r, err := s.Run(t.Context())
	must(t, err)
	if !r.OK || r.Entries != 4 {
		t.Errorf("want four folders in the report, got %+v", r)
	}
	problems, found := map[string]string{}, map[string]agent.Found{}
	for line := range strings.Lines(out.String()) {
		if f, ok := agent.ParseFound(strings.TrimSpace(line)); ok {
			found[f.Dir], problems[f.Dir] = f, f.Problem
		}
	}
	for dir, want := range map[string]string{"whole": "", "damaged": "cannot decompress the archive",
		"gone": "its archive data.tar.zst does not exist", "unsigned": "there is no manifest in it"} {
		if got, ok := problems[dir]; !ok || !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("of %s: want %q, got %q", dir, want, got)
		}
	}
	if len(problems) != 4 {
		t.Errorf("want a line for each of four folders, got %v", problems)
	}
	m, err := readManifest(whole)
	must(t, err)
	want := v1.BackupRecordSpec{
		Instance: p.newBackup().Instance, Image: "mysql:9.7", Version: "9.7.4-2", CleanShutdown: m.CleanShutdown,
		StorageSize: "1Gi", Number: 7,
		Archive: &v1.Archive{Path: "whole/data.tar.zst", SHA256: m.SHA256, Size: found["whole"].Spec.Archive.Size,
			DataBytes: m.DataBytes},
	}
	if diff := cmp.Diff(want, found["whole"].Spec); diff != "" {
		t.Errorf("what its manifest says: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, snapshot(t, p.backup)); diff != "" {
		t.Errorf("it changed something: -before, +after:\n%s", diff)
	}

	elsewhere := t.TempDir()
	must(t, os.Symlink(filepath.Dir(whole), filepath.Join(elsewhere, "linked")))
	s.Volume = elsewhere
	if r, err := s.Run(t.Context()); err != nil || r.Entries != 0 {
		t.Errorf("want it not to leave the volume by a link, got %+v, %v", r, err)
	}
}

// damage changes a byte in the middle of an archive.
func damage(t *testing.T, archive string) {
	t.Helper()
	raw, err := os.ReadFile(archive)
	must(t, err)
	raw[len(raw)/2] ^= 1
	must(t, os.WriteFile(archive, raw, 0o600))
}
