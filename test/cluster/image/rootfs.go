package image

import (
	"context"
	"fmt"
	"os"
)

// MySQL is the name of the image with the real server.
const MySQL = dockerHub + "mysql:9.7"

// Rootfs lays the files of the MySQL server's image out in a new folder, for tests that run mysqld without a cluster.
func (b *Builder) Rootfs(ctx context.Context, dir string) error {
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if err := b.ensureIn(ctx, s, b.mysql); err != nil {
		return err
	}
	return s.unpack(ctx, MySQL, dir)
}

// unpack an image of one layer, as all of ours are, into a new folder.
func (s *store) unpack(ctx context.Context, name, dir string) error {
	i, d, err := s.find(name)
	if err != nil {
		return err
	}
	img, err := i.Image(d.Digest)
	if err != nil {
		return err
	}
	m, err := img.Manifest()
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil { // A server does not run as root.
		return err
	}
	if _, err := output(command(ctx, "tar", "-C", dir, "-xpf", s.blob(m.Layers[0].Digest), "--numeric-owner")); err != nil {
		return fmt.Errorf("cannot unpack the image %s: %w", name, err)
	}
	return nil
}
