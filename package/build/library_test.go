package main

import (
	"io"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestLibraryPacksLikeCLI checks that packages for a local cluster are identical to the packages that the CLI builds,
// both as files and in a registry.
func TestLibraryPacksLikeCLI(t *testing.T) {
	dist, r := fromEnv(t, "DIST"), newTarget(t)
	out := t.TempDir()
	args := []string{
		"--root", repository, "--arch", runtime.GOARCH, "--out", out, "--version", thisVersion,
		"--push", r.host + "/library",
	}
	if err := run(t.Context(), args, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, p := range packages() {
		if p.arch != "" && p.arch != runtime.GOARCH {
			continue
		}
		if diff := cmp.Diff(sumOf(t, filepath.Join(dist, p.file)), sumOf(t, filepath.Join(out, p.file))); diff != "" {
			t.Errorf("%s: -of the CLI, +of the library:\n%s", p.file, diff)
		}
		tag := r.tag(t, p.repository())
		r.mustPush(t, tag, filepath.Join(dist, p.file))
		want, err := remote.Head(tag)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := remote.Head(tag.Registry.Repo("library", p.repository()).Tag(thisVersion))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Digest, ours.Digest); diff != "" || want.Digest.Hex == "" {
			t.Errorf("%s: -pushed by the CLI, +by us:\n%s", p.file, diff)
		}
	}
}
