package image

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

func (s *store) writeAll(made mutate.Appendable) error {
	if img, ok := made.(v1.Image); ok {
		return s.writeImage(img)
	}
	i, ok := made.(v1.ImageIndex)
	if !ok {
		return fmt.Errorf("a %T is no image", made)
	}
	m, err := i.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range m.Manifests {
		img, err := i.Image(d.Digest)
		if err != nil {
			return err
		}
		if err := s.writeImage(img); err != nil {
			return err
		}
	}
	return s.writeManifest(i)
}

func (s *store) writeImage(img v1.Image) error {
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for _, l := range layers {
		if err := s.writeLayer(l); err != nil {
			return err
		}
	}
	name, err := img.ConfigName()
	if err != nil {
		return err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return err
	}
	if err := s.writeBlob(name, bytes.NewReader(config)); err != nil {
		return err
	}
	return s.writeManifest(img)
}

func (s *store) writeLayer(l v1.Layer) error {
	h, err := l.Digest()
	if err != nil {
		return err
	}
	if ours, ok := l.(*blob); ok {
		// The layer is already stored in a file on this file system, so renaming the file is sufficient.
		return ours.moveTo(s.blob(h))
	}
	r, err := l.Compressed()
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // It was only read.
	return s.writeBlob(h, r)
}

func (s *store) writeManifest(m interface {
	Digest() (v1.Hash, error)
	RawManifest() ([]byte, error)
},
) error {
	h, err := m.Digest()
	if err != nil {
		return err
	}
	raw, err := m.RawManifest()
	if err != nil {
		return err
	}
	return s.writeBlob(h, bytes.NewReader(raw))
}

func (s *store) blob(h v1.Hash) string { return filepath.Join(s.dir, "blobs", h.Algorithm, h.Hex) }

func (s *store) writeBlob(h v1.Hash, r io.Reader) error { return writeWhole(s.blob(h), r) }

func (s *store) write(name string, b []byte) error {
	return writeWhole(filepath.Join(s.dir, name), bytes.NewReader(b))
}

// writeWhole writes a file under a temporary name, and renames the file when it is complete.
func writeWhole(file string, r io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".partial-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // The file was renamed, or is incomplete.
	if _, err := io.Copy(f, r); err != nil {
		_ = f.Close() // The file is incomplete.
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
