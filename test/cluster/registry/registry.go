// Package registry is the cluster's OCI registry. It serves the images of a layout on disk without copying them.
package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// refName is the annotation of an OCI layout that names an image.
const refName = "org.opencontainers.image.ref.name"

// Handler serves the registry. It reads the blobs of the layout, and stores pushed blobs in the directory dir.
func Handler(images, dir string) http.Handler {
	return registry.New(
		registry.WithBlobHandler(&blobs{base: filepath.Join(images, "blobs"), own: dir}),
		registry.Logger(log.New(io.Discard, "", 0)))
}

// Load pushes images of an OCI layout to the registry at the address. If no names are given, it pushes all images.
// The pushed image has the same path and tag, but no host, because this registry replaces all public registries.
func Load(ctx context.Context, images, address string, names ...string) error {
	index, err := layout.ImageIndexFromPath(images)
	if err != nil {
		return fmt.Errorf("cannot read the images: %w", err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("cannot read the list of images: %w", err)
	}
	for _, d := range m.Manifests {
		n := d.Annotations[refName]
		if n == "" || len(names) > 0 && !slices.Contains(names, n) {
			continue
		}
		if err := load(ctx, index, d, address); err != nil {
			return fmt.Errorf("cannot load %s: %w", n, err)
		}
	}
	return nil
}

func load(ctx context.Context, index v1.ImageIndex, d v1.Descriptor, address string) error {
	_, path, ok := strings.Cut(d.Annotations[refName], "/")
	if !ok {
		return errors.New("its name has no registry")
	}
	ref, err := name.ParseReference(address + "/" + path)
	if err != nil {
		return err
	}
	if d.MediaType.IsIndex() {
		i, err := index.ImageIndex(d.Digest)
		if err != nil {
			return err
		}
		return remote.WriteIndex(ref, i, remote.WithContext(ctx))
	}
	i, err := index.Image(d.Digest)
	if err != nil {
		return err
	}
	return remote.Write(ref, i, remote.WithContext(ctx))
}

// blobs stores each blob in a file that is named after its hash. It reads files from the directories base and own,
// and writes new files to own.
type blobs struct{ base, own string }

// Stat returns the size of a blob without reading it. containerd verifies every hash itself, and the library's own
// handler would spend seconds on it.
func (b *blobs) Stat(_ context.Context, _ string, h v1.Hash) (int64, error) {
	_, info, err := b.find(h)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (b *blobs) Get(_ context.Context, _ string, h v1.Hash) (io.ReadCloser, error) {
	file, _, err := b.find(h)
	if err != nil {
		return nil, err
	}
	return os.Open(file)
}

func (b *blobs) Put(_ context.Context, _ string, h v1.Hash, rc io.ReadCloser) error {
	defer rc.Close() //nolint:errcheck // It was read to its end.
	dir := filepath.Join(b.own, h.Algorithm)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".upload-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // The file was renamed, or is incomplete.
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, sum), rc); err != nil {
		_ = f.Close() // The file is incomplete.
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != h.Hex {
		return fmt.Errorf("a blob has the digest %s instead of %s", got, h.Hex)
	}
	return os.Rename(f.Name(), filepath.Join(dir, h.Hex))
}

func (b *blobs) find(h v1.Hash) (string, os.FileInfo, error) {
	for _, dir := range []string{b.base, b.own} {
		file := filepath.Join(dir, h.Algorithm, h.Hex)
		info, err := os.Stat(file)
		if !errors.Is(err, os.ErrNotExist) {
			return file, info, err
		}
	}
	return "", nil, registry.ErrNotFound
}
