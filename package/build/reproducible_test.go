package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestReproducible checks that two builds of the same source result in identical packages, and in an identical
// program for the controller's image. The builds run in different directories, with empty caches. In one build, the
// files are an hour older.
func TestReproducible(t *testing.T) {
	if os.Getenv("ALL") == "" {
		t.Skip("make test-all runs it: it takes two builds from empty caches, 12 min; here, TestImageIsReproducible has " +
			"the image around the program")
	}
	cli := fromEnv(t, "CROSSPLANE_CLI")
	listed, err := exec.CommandContext(t.Context(), "git", "-C", filepath.Join("..", ".."), "ls-files", "-z", "--cached",
		"--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("cannot list the source: %v", err)
	}
	dirs := []string{filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "in", "some", "other", "folder")}
	for i, dir := range dirs { // Copy all first, because a user may edit the source code during a build.
		for name := range strings.SplitSeq(strings.TrimRight(string(listed), "\x00"), "\x00") {
			copySource(t, filepath.Join("..", "..", name), filepath.Join(dir, name), time.Now().Add(-time.Hour*time.Duration(i)))
		}
	}
	sums := make([]map[string]string, 0, 2)
	for _, dir := range dirs {
		sums = append(sums, buildIn(t, dir, cli))
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" || len(sums[0]) < 6 {
		t.Errorf("%d files; -one build, +the other:\n%s", len(sums[0]), diff)
	}
}

func copySource(t *testing.T, from, target string, modified time.Time) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return // The file was deleted, but the deletion is not committed yet.
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(target, modified, modified); err != nil {
		t.Fatal(err)
	}
}

// buildIn builds the released files in a directory, and returns their checksums.
func buildIn(t *testing.T, dir, cli string) map[string]string {
	t.Helper()
	for _, command := range [][]string{
		{"go", "run", "-C", "package/build", ".", "--cli", cli},
		{"go", "build", "-trimpath", "-ldflags=-s -w -X main.version=v0.1.0", "-o", "dist/controller", "./controller"},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOCACHE="+filepath.Join(t.TempDir(), "cache"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "dist", "*"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for _, name := range files {
		sums[filepath.Base(name)] = sumOf(t, name)
	}
	t.Log(slices.Sorted(maps.Keys(sums)))
	return sums
}

func sumOf(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // The file was only read.
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
