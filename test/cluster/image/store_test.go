package image

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func testStore(t *testing.T, dir string) *store {
	t.Helper()
	s, err := openStore(t.Context(), dir, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func testImage(t *testing.T, content string) v1.Image {
	t.Helper()
	w := NewLayer(t.TempDir())
	w.Text("file", content)
	l, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	img, err := NewImage("amd64", v1.Config{}, l)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func blobs(t *testing.T, dir string) int {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(dir, "blobs", "sha256"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, dir)
	names := []string{"a:1", "a:2"}
	if s.has(names, "k") {
		t.Fatal("An empty store has an image")
	}
	if err := s.put(names, "k", testImage(t, "one")); err != nil {
		t.Fatal(err)
	}
	if !s.has(names, "k") || s.has(names, "other") || s.has([]string{"b:1"}, "k") {
		t.Error("The store does not have what was put there, or more")
	}
	if got := blobs(t, dir); got != 3 {
		t.Errorf("An image has %d blobs instead of a manifest, a config and a layer", got)
	}
	if err := s.put(names, "k2", testImage(t, "two")); err != nil {
		t.Fatal(err)
	}
	if got := blobs(t, dir); got != 3 || s.has(names, "k") || !s.has(names, "k2") {
		t.Errorf("The first image is still there: %d blobs", got)
	}
}

func TestStoreIndex(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, dir)
	index := newIndex(map[string]v1.Image{"amd64": testImage(t, "one"), "arm64": testImage(t, "two")})
	if err := s.put([]string{"a:1"}, "k", index); err != nil {
		t.Fatal(err)
	}
	if got := blobs(t, dir); got != 7 || !s.has([]string{"a:1"}, "k") {
		t.Errorf("There are %d blobs instead of 7", got)
	}
}

// TestStoreDamage checks that a store is not treated as complete after it was damaged by a killed run, a full disk or
// a user.
func TestStoreDamage(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir string){
		"a blob is gone": func(t *testing.T, dir string) { t.Helper(); eachBlob(t, dir, os.Remove) },
		"a blob is cut off": func(t *testing.T, dir string) {
			t.Helper()
			eachBlob(t, dir, func(f string) error { return os.Truncate(f, 1) })
		},
		"the index is cut off": func(t *testing.T, dir string) { t.Helper(); truncate(t, filepath.Join(dir, "index.json")) },
		"the layout is unmarked": func(t *testing.T, dir string) {
			t.Helper()
			eachBlob(t, dir, os.Remove)
			truncate(t, filepath.Join(dir, "oci-layout"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := testStore(t, dir)
			if err := s.put([]string{"a:1"}, "k", testImage(t, "one")); err != nil {
				t.Fatal(err)
			}
			s.close()
			damage(t, dir)
			if err := os.WriteFile(filepath.Join(dir, "blobs", "sha256", ".partial-1"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s = testStore(t, dir)
			if s.has([]string{"a:1"}, "k") {
				t.Error("A damaged image passes for a whole one")
			}
			if err := s.put([]string{"a:1"}, "k", testImage(t, "one")); err != nil {
				t.Fatal(err)
			}
			if !s.has([]string{"a:1"}, "k") || blobs(t, dir) != 3 {
				t.Errorf("The image was not mended, or %d blobs lie about", blobs(t, dir))
			}
		})
	}
}

func eachBlob(t *testing.T, dir string, run func(string) error) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := run(f); err != nil {
			t.Fatal(err)
		}
	}
}

func truncate(t *testing.T, file string) {
	t.Helper()
	if err := os.Truncate(file, 5); err != nil {
		t.Fatal(err)
	}
}

func TestStoreLock(t *testing.T) {
	dir := t.TempDir()
	first := testStore(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var output strings.Builder
	_, err := openStore(ctx, dir, func(f string, _ ...any) { output.WriteString(f) })
	if diff := cmp.Diff(context.DeadlineExceeded, err, cmpopts.EquateErrors()); diff != "" ||
		!strings.Contains(output.String(), "waiting") {
		t.Errorf("A second run did not wait and say so: %q\n-want, +got:\n%s", output.String(), diff)
	}
	first.close()
	testStore(t, dir).close()
}
