package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write writes files into a new directory. The content of each file is text.
func write(t *testing.T, text string, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// read returns the content of a file, or "" if it does not exist.
func read(t *testing.T, elements ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(elements...))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(raw)
}

// publish adds a version of the site, whose pages have the given names, as `make site-publish` does.
func publish(t *testing.T, pages, name string, names ...string) {
	t.Helper()
	built := write(t, name, names...)
	atRoot, err := addVersion(name, built, pages)
	if err != nil {
		t.Fatal(err)
	}
	if atRoot {
		if err := run([]string{"root", built, pages}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRoot checks which version the root of the site has after each publication.
func TestRoot(t *testing.T) {
	pages := write(t, "", ".nojekyll", ".git")
	for _, step := range []struct{ publish, root, reason string }{
		{"main", "main", "There is no release yet."},
		{"v0.1.0-rc.1", "main", "A prerelease must not be at the root, even if there is no release."},
		{"v0.1.0", "v0.1.0", "The first release must be at the root."},
		{"main", "v0.1.0", "main must not be at the root if there is a release."},
		{"v0.2.0-rc.1", "v0.1.0", "A prerelease must not be at the root."},
		{"v0.10.0", "v0.10.0", "The newest release must be at the root."},
		{"v0.9.1", "v0.10.0", "A fix of an older release must not be at the root."},
		{"v0.10.0", "v0.10.0", "A release can be published again."},
	} {
		publish(t, pages, step.publish, "index.html")
		if got := read(t, pages, "index.html"); got != step.root {
			t.Errorf("after %s, the root has %q, want %q: %s", step.publish, got, step.root, step.reason)
		}
		if got := read(t, pages, step.publish, "index.html"); got != step.publish {
			t.Errorf("the copy of %s has %q", step.publish, got)
		}
	}
	var listed struct {
		Root     string   `json:"root"`
		Versions []string `json:"versions"`
	}
	if err := json.Unmarshal([]byte(read(t, pages, versionsFile)), &listed); err != nil {
		t.Fatal(err)
	}
	want := []string{"v0.10.0", "v0.9.1", "v0.2.0-rc.1", "v0.1.0", "v0.1.0-rc.1", "main"}
	if diff := cmp.Diff(want, listed.Versions); diff != "" || listed.Root != "v0.10.0" {
		t.Errorf("the root is %q, and the versions are -want, +got:\n%s", listed.Root, diff)
	}
	if _, err := os.Stat(filepath.Join(pages, ".git")); err != nil {
		t.Error(err)
	}
}

// TestDeletedPages checks that a page that a version no longer has is deleted from its copy and from the root, and
// nothing else.
func TestDeletedPages(t *testing.T) {
	pages := write(t, "", ".nojekyll", "CNAME")
	publish(t, pages, "main", "index.html", "old/index.html")
	publish(t, pages, "v0.1.0", "index.html", "former/index.html")
	publish(t, pages, "v0.2.0", "index.html")
	publish(t, pages, "v0.2.0", "new/index.html")
	for path, want := range map[string]string{
		"old/index.html": "", "former/index.html": "", "index.html": "", "v0.2.0/index.html": "", "new/index.html": "v0.2.0",
		"v0.2.0/new/index.html": "v0.2.0", "v0.1.0/former/index.html": "v0.1.0", "main/old/index.html": "main",
	} {
		if got := read(t, pages, path); got != want {
			t.Errorf("%s has %q, want %q", path, got, want)
		}
	}
	for _, name := range []string{".nojekyll", "CNAME"} {
		if _, err := os.Stat(filepath.Join(pages, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestRefusesNames checks that a name that is not a version does not replace another directory.
func TestRefusesNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "how-to", "v1", "1.0.0", "v0.1.0/..", "../v0.1.0"} {
		pages := write(t, "kept", "how-to/index.html")
		if _, err := addVersion(name, write(t, "new", "index.html"), pages); err == nil || read(t, pages, "how-to", "index.html") != "kept" {
			t.Errorf("%q is accepted", name)
		}
	}
}

// TestLinksFollowTheVersion checks that links out of the site contain the version that is built. TestLinks looks at
// the built site, which is usually main.
func TestLinksFollowTheVersion(t *testing.T) {
	err := filepath.WalkDir(filepath.Join("..", "..", "docs", "site", "layouts"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(read(t, path), "/blob/main") {
			t.Errorf("%s links to main, also from the copy of a release: use site.Params.revision", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Fields(read(t, "..", "..", "Makefile")), `HUGO_PARAMS_REVISION="$(SITE_REVISION)"`) {
		t.Error("make site does not pass the version to Hugo")
	}
}
