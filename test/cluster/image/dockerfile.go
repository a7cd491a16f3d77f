package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Dockerfile builds the image of the repository's Dockerfile for each architecture. The version is a build argument,
// and the tag of the image.
func (b *Builder) Dockerfile(ctx context.Context, name, version string) (v1.ImageIndex, error) {
	if err := b.Bases(ctx); err != nil {
		return nil, err
	}
	s, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	built := func(context.Context) (Recipe, error) { return b.dockerfile(s, name+":"+version, version) }
	if _, err := b.ensureIn(ctx, s, built); err != nil {
		return nil, err
	}
	i, d, err := s.find(name + ":" + version)
	if err != nil {
		return nil, err
	}
	return i.ImageIndex(d.Digest)
}

func (b *Builder) dockerfile(s *store, name, version string) (Recipe, error) {
	inputs := append([]string{version}, b.architectures()...)
	sources, err := contextSum(b.Root)
	if err != nil {
		return Recipe{}, err
	}
	for _, base := range bases {
		_, d, err := s.find(base)
		if err != nil {
			return Recipe{}, err
		}
		inputs = append(inputs, d.Digest.String())
	}
	return Recipe{
		Names:  []string{name},
		Inputs: append(inputs, sources),
		Build: func(ctx context.Context, dir string) (mutate.Appendable, error) {
			images, err := b.buildah(ctx, dir, version)
			if err != nil {
				return nil, err
			}
			return newIndex(images), nil
		},
	}, nil
}

// Bases builds the base images of the Dockerfile. Dockerfile builds them as well, but a caller can build them in
// advance to save time later.
func (b *Builder) Bases(ctx context.Context) error {
	_, err := b.Ensure(ctx, b.golang, b.distroless)
	return err
}

// bases lists the base images that this package can build. A Dockerfile cannot use any other base image.
var bases = []string{DockerHub + "golang:1.26", "gcr.io/distroless/static:nonroot"}

// contextSum returns a hash of the files that a build can copy. The .dockerignore excludes all files, except for the
// names after an exclamation mark.
func contextSum(root string) (string, error) {
	ignore, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		return "", err
	}
	names := []string{"Dockerfile", ".dockerignore"}
	for line := range strings.Lines(string(ignore)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			names = append(names, n)
		}
	}
	sum := sha256.New()
	for _, n := range names {
		if err := sumTree(sum, root, n); err != nil {
			return "", fmt.Errorf("cannot read what the image is built from: %w", err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func sumTree(sum io.Writer, root, name string) error {
	return filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case d.IsDir(), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path) //nolint:gosec // A file of the repository.
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(sum, "%s %d\n%s", rel, len(b), b)
		return err
	})
}

// onlyImage returns the only image of a layout.
func onlyImage(dir string) (v1.Image, error) {
	i, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	m, err := i.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(m.Manifests) != 1 {
		return nil, errors.New("cannot find the image that was built")
	}
	return i.Image(m.Manifests[0].Digest)
}
