package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/archive"
)

// directory creates a directory with files. The content of each file is its name.
func directory(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), []byte(f), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestWipe checks that the volume is emptied and that no link is followed.
func TestWipe(t *testing.T) {
	dir, outside := directory(t, "data/ibdata1", ".restored.json"), directory(t, "precious")
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := (&wipeCommand{Volume: dir}).Run(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	if got := names(t, outside); len(got) != 1 {
		t.Error("a link was followed")
	}
}

// TestWipeOfAnothers checks that a directory is not deleted if it belongs to another instance.
func TestWipeOfAnothers(t *testing.T) {
	for xr, stays := range map[string]bool{"uid-2": true, "uid-1": false} {
		dir := directory(t, "data/ibdata1")
		if err := os.WriteFile(filepath.Join(dir, ".restored.json"), []byte(`{"xr":"uid-1","inode":1}`), 0o600); err != nil {
			t.Fatal(err)
		}
		err := (&wipeCommand{Volume: dir, XR: xr}).Run()
		if got := len(names(t, dir)) == 2; got != stays || (agent.CodeOf(err) == agent.ExitForeign) != stays {
			t.Errorf("of %s: %v, stays %t; want stays %t", xr, err, got, stays)
		}
	}
}

func TestPrune(t *testing.T) {
	cases := map[string]struct {
		reason    string
		directory []string
		left      []string
		fails     bool
	}{
		"One": {reason: "Only the specified directory must be deleted.", directory: []string{"a"}, left: []string{"b", "other"}},
		"Gone": {reason: "A repeated run must succeed, although the directory does not exist.", directory: []string{"a", "z"},
			left: []string{"b", "other"}},
		"Other": {reason: "A directory without a manifest contains no archive and must not be deleted.", directory: []string{"other"},
			left: []string{"a", "b", "other"}, fails: true},
		"Out": {reason: "A directory outside of the volume must not be deleted.",
			directory: []string{"../a"}, left: []string{"a", "b", "other"}, fails: true},
		"All": {reason: "The whole volume must not be deleted.",
			directory: []string{"."}, left: []string{"a", "b", "other"}, fails: true},
		"Parent": {reason: "The parent directory of the volume must not be deleted.",
			directory: []string{".."}, left: []string{"a", "b", "other"}, fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := directory(t, "a/data.tar.zst", "a/"+archive.ManifestName, "b/"+archive.ManifestName, "other/file")
			err := (&pruneCommand{Volume: dir, Dir: tc.directory}).Run()
			if diff := cmp.Diff(tc.left, names(t, dir), cmpopts.EquateEmpty()); diff != "" || (err != nil) != tc.fails {
				t.Errorf("%s\nerror %v\n-want, +got:\n%s", tc.reason, err, diff)
			}
		})
	}
}
