//go:build linux

package main

import (
	"archive/tar"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// TestProduct builds the Dockerfile with the working tree. It uses the same cache as a cluster, so that nothing is
// built twice.
func TestProduct(t *testing.T) {
	root, err := state.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	built, err := client.ImageBuilder(state.Cluster{Root: root}, os.Stderr).
		Dockerfile(t.Context(), productImage, productVersion)
	if err != nil {
		t.Fatal(err)
	}
	m, err := built.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Manifests) != 1 {
		t.Fatalf("There are %d images", len(m.Manifests))
	}
	img, err := built.Image(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/controller"}, c.Config.Entrypoint); diff != "" || c.Config.User != "65532:65532" {
		t.Errorf("It runs as %q, -want, +got:\n%s", c.Config.User, diff)
	}
	if got := c.Config.Labels["org.opencontainers.image.version"]; got != productVersion {
		t.Errorf("Its label says version %q", got)
	}
	out, err := exec.CommandContext(t.Context(), extract(t, img, "controller"), "--version").CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != productVersion {
		t.Errorf("The program says it is %q instead of %s: %v", got, productVersion, err)
	}
}

// extract copies a program from an image to a file.
func extract(t *testing.T, img v1.Image, name string) string {
	t.Helper()
	r := mutate.Extract(img)
	defer r.Close() //nolint:errcheck // It was only read.
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err != nil {
			t.Fatalf("There is no %s: %v", name, err)
		}
		if strings.TrimPrefix(h.Name, "/") != name {
			continue
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(target, b, 0o755); err != nil {
			t.Fatal(err)
		}
		return target
	}
}
