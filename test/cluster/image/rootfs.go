package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// MySQL is the name of the image with the real server.
const MySQL = "docker.io/library/mysql:9.7"

// Rootfs unpacks the MySQL server's image into a folder, for tests that run mysqld without a cluster. What is there
// already of the same image is left as it is.
func (b *Builder) Rootfs(ctx context.Context, dir string) error {
	if err := b.ensure(ctx, b.mysql); err != nil {
		return err
	}
	img, err := find(b.Layout, MySQL)
	if err != nil {
		return fmt.Errorf("cannot find the image %s: %w", MySQL, err)
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	mark := dir + ".image"
	if b, err := os.ReadFile(mark); err == nil && string(b) == digest.String() {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // mysqld does not run as root.
		return err
	}
	files := mutate.Extract(img)
	defer files.Close() //nolint:errcheck // It was read to its end.
	tar := exec.CommandContext(ctx, "tar", "--extract", "--same-owner", "--directory="+filepath.Clean(dir))
	tar.Stdin = files
	if out, err := tar.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot unpack the image %s: %w: %s", MySQL, err, strings.TrimSpace(string(out)))
	}
	return os.WriteFile(mark, []byte(digest.String()), 0o600)
}

func find(path, name string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, err
	}
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range m.Manifests {
		if d.Annotations["org.opencontainers.image.ref.name"] == name {
			return index.Image(d.Digest)
		}
	}
	return nil, os.ErrNotExist
}
