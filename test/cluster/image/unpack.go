package image

import (
	"context"
	"fmt"
	"os"
)

// Unpack unpacks the files of an image into a new directory.
func (b *Builder) Unpack(ctx context.Context, name, dir string) error {
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	return s.unpack(ctx, name, dir)
}

// unpack unpacks an image into a new directory. Like all images of this package, the image must have one layer.
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
	if err := os.Mkdir(dir, 0o755); err != nil { // Servers, which do not run as root, must be able to read it.
		return err
	}
	if _, err := output(command(ctx, "tar", "-C", dir, "-xpf", s.blob(m.Layers[0].Digest),
		"--numeric-owner")); err != nil {
		return fmt.Errorf("cannot unpack the image %s: %w", name, err)
	}
	return nil
}
