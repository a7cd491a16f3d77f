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

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const productName = "ghcr.io/crossplane-mysql/crossplane-mysql"

// Built is an image in the layout.
type Built struct {
	// Name is the public one, with the tag.
	Name  string
	index v1.ImageIndex
}

// Push gives the image to a registry, in which it keeps its path and tag.
func (b Built) Push(ctx context.Context, registry string) error {
	_, path, _ := strings.Cut(b.Name, "/")
	ref, err := name.ParseReference(registry+"/"+path, name.Insecure)
	if err != nil {
		return fmt.Errorf("cannot push %s: %w", b.Name, err)
	}
	if err := remote.WriteIndex(ref, b.index, remote.WithContext(ctx)); err != nil {
		return fmt.Errorf("cannot push %s: %w", b.Name, err)
	}
	return nil
}

// Product builds the product's image of the working tree with its Dockerfile.
func (b *Builder) Product(ctx context.Context, version string) (Built, error) {
	s, err := b.open(ctx)
	if err != nil {
		return Built{}, err
	}
	defer s.close()
	if _, err := b.ensureIn(ctx, s, b.golang, b.distroless); err != nil {
		return Built{}, err
	}
	product := func(context.Context) (Recipe, error) { return b.product(s, version) }
	if _, err := b.ensureIn(ctx, s, product); err != nil {
		return Built{}, err
	}
	return s.built(productName + ":" + version)
}

func (b *Builder) product(s *store, version string) (Recipe, error) {
	inputs := append([]string{version}, b.architectures()...)
	sources, err := contextSum(b.Root)
	if err != nil {
		return Recipe{}, err
	}
	for _, base := range productBases {
		_, d, err := s.find(base)
		if err != nil {
			return Recipe{}, err
		}
		inputs = append(inputs, d.Digest.String())
	}
	return Recipe{
		Names:  []string{productName + ":" + version},
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

// productBases are what the Dockerfile builds on.
var productBases = []string{DockerHub + "golang:1.26", "gcr.io/distroless/static:nonroot"}

// contextSum is a hash of all that the Dockerfile sees. The .dockerignore leaves everything out but what it names.
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

func (s *store) built(name string) (Built, error) {
	i, d, err := s.find(name)
	if err != nil {
		return Built{}, err
	}
	index, err := i.ImageIndex(d.Digest)
	return Built{Name: name, index: index}, err
}

// onlyImage of a layout that has no other.
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
