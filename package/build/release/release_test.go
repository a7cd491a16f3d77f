package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEntries(t *testing.T) {
	const changes = "# Changes\n\nHello.\n\n## v0.2.0\n\n- New.\n\n## v0.1.0 (2026-01-01)\n\n- First.\n- Second.\n\n## " +
		"v0.0.9\n"
	cases := map[string]struct{ reason, version, want, fails string }{
		"Newest": {reason: "The text must end at the next heading.", version: "v0.2.0", want: "- New.\n"},
		"Dated": {reason: "The heading may contain text after the version.",
			version: "v0.1.0", want: "- First.\n- Second.\n"},
		"Empty": {reason: "The section of this version has no text.",
			version: "v0.0.9", fails: `write it below the heading "## v0.0.9"`},
		"None": {reason: "CHANGELOG.md has no section for this version.",
			version: "v0.3.0", fails: "CHANGELOG.md has no text about this version"},
		"Begins": {reason: "A heading must match the complete version.",
			version: "v0.1", fails: "no text about this version"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := notesOf(changes, tc.version)
			if got != tc.want || (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%s\nwant %q, %q, got %q, %v", tc.reason, tc.want, tc.fails, got, err)
			}
		})
	}
}

// TestEntriesOfNow checks that CHANGELOG.md has a section for the next version.
func TestEntriesOfNow(t *testing.T) {
	raw, err := os.ReadFile("../../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(makefile), "\nVERSION ?= ")
	version, _, _ := strings.Cut(after, "\n")
	if _, err := notesOf(string(raw), version); err != nil {
		t.Error(err)
	}
}

func TestOfVersion(t *testing.T) {
	const in = "image: ghcr.io/crossplane-mysql/crossplane-mysql:v0.1.0\npackage: " +
		"\"ghcr.io/crossplane-mysql/function-mysql:v0.1.0\"\nother: ghcr.io/other/x:v0.1.0\n"
	const want = "image: ghcr.io/crossplane-mysql/crossplane-mysql:v1.0.0-rc.1\npackage: " +
		"\"ghcr.io/crossplane-mysql/function-mysql:v1.0.0-rc.1\"\nother: ghcr.io/other/x:v0.1.0\n"
	if diff := cmp.Diff(want, string(ofVersion([]byte(in), "v1.0.0-rc.1"))); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestArchive checks that all users may execute the program in an archive, and that the same files result in the same
// archive.
func TestArchive(t *testing.T) {
	files := map[string][]byte{"kubectl-mysql": []byte("program"), "LICENSE": []byte("license")}
	one, err := archiveOf(files)
	if err != nil {
		t.Fatal(err)
	}
	if two, _ := archiveOf(files); !bytes.Equal(one, two) {
		t.Error("they differ")
	}
	z, err := gzip.NewReader(bytes.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Name, Content string
		Mode          int64
	}
	var got []entry
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, entry{h.Name, string(content), h.Mode})
	}
	if diff := cmp.Diff([]entry{{"LICENSE", "license", 0o644}, {"kubectl-mysql", "program", 0o755}}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestSums checks that only a complete and unchanged release is pushed.
func TestSums(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "one", "b": "two"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkSums(dir); err == nil || !strings.Contains(err.Error(), "the directory is not a release") {
		t.Errorf("want a folder without sums refused, got %v", err)
	}
	if err := writeSums(dir); err != nil {
		t.Fatal(err)
	}
	if err := checkSums(dir); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b"), []byte("three"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkSums(dir); err == nil || !strings.Contains(err.Error(), "b differs from the released file") {
		t.Errorf("want another file refused, got %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b"), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "c"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkSums(dir); err == nil || !strings.Contains(err.Error(), "c is not part of the release") {
		t.Errorf("want a file more refused, got %v", err)
	}
}

// TestChartTemplates checks that the templates use the chart's appVersion as the version of the packages, so that a
// release does not have to change a template.
func TestChartTemplates(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../../chart/templates", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(path) //nolint:gosec // It is a file of the repository.
		if err != nil {
			return err
		}
		if diff := cmp.Diff(string(content), string(ofVersion(content, "v1.0.0"))); diff != "" {
			t.Errorf("a release would change %s: -now, +released:\n%s", path, diff)
		}
		return nil
	})
	if err != nil || files < 10 {
		t.Errorf("%d templates were read: %v", files, err)
	}
}
