package image

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
)

// The Dockerfile is built for real, of the working tree.
func TestProduct(t *testing.T) {
	const version = "v0.1.0" // What a cluster loads too, so that nothing is built twice.
	b := cached(t)
	built, err := b.Dockerfile(t.Context(), "ghcr.io/crossplane-mysql/crossplane-mysql", version)
	if err != nil {
		t.Fatal(err)
	}
	m, err := built.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Manifests) != len(b.architectures()) {
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
	if got := c.Config.Labels["org.opencontainers.image.version"]; got != version {
		t.Errorf("Its label says version %q", got)
	}
	out, err := exec.CommandContext(t.Context(), extract(t, img, "controller"), "--version").CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != version {
		t.Errorf("The program says it is %q instead of %s: %v", got, version, err)
	}
}

func cached(t *testing.T) *Builder {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return newCached(root)
}

func newCached(root string) *Builder {
	cache := filepath.Join(root, ".cache")
	return &Builder{Root: root, Layout: filepath.Join(cache, "images"), Work: filepath.Join(cache, "images-work"), Log: os.Stderr}
}

// extract takes a program out of an image.
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
		to := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(to, b, 0o755); err != nil {
			t.Fatal(err)
		}
		return to
	}
}
