package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/crossplane/crossplane-runtime/v2/pkg/xpkg"
	"github.com/crossplane/crossplane-runtime/v2/pkg/xpkg/parser"
	"github.com/crossplane/crossplane-runtime/v2/pkg/xpkg/parser/examples"
	"github.com/crossplane/crossplane-runtime/v2/pkg/xpkg/parser/yaml"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/afero"
)

// content describes a package to build. root is the directory with its YAML files. runtime is the tarball with the
// image of a function. file is the package file to write.
type content struct{ root, runtime, file string }

// examples returns a directory that does not exist, so that the package contains no examples. The examples of this
// repository are test cases.
func (c content) examples() string { return filepath.Join(c.root, "examples") }

// packWithLibrary calls the same library as the CLI, with the same options. A local cluster therefore does not need
// the CLI, which takes minutes to build. TestLibraryPacksLikeCLI compares the results.
func (c content) packWithLibrary(ctx context.Context) error {
	objects, err := yaml.New()
	if err != nil {
		return fmt.Errorf("cannot create a parser for packages: %w", err)
	}
	from := func(dir string) parser.Backend {
		return parser.NewFsBackend(afero.NewOsFs(), parser.FsDir(dir), parser.FsFilters(
			parser.SkipDirs(), parser.SkipNotYAML(), parser.SkipEmpty(), xpkg.SkipContains(c.examples())))
	}
	var base []xpkg.BuildOpt
	if c.runtime != "" {
		img, err := tarball.ImageFromPath(c.runtime, nil)
		if err != nil {
			return fmt.Errorf("cannot read the runtime image: %w", err)
		}
		base = append(base, xpkg.WithBase(img))
	}
	img, _, err := xpkg.New(from(c.root), from(c.examples()), objects, examples.New()).Build(ctx, base...)
	if err != nil {
		return err
	}
	f, err := os.Create(c.file)
	if err != nil {
		return fmt.Errorf("cannot write the package: %w", err)
	}
	if err := tarball.Write(nil, img, f); err != nil {
		_ = f.Close() // An incomplete package is useless.
		return fmt.Errorf("cannot write the package: %w", err)
	}
	return f.Close()
}

// pushAll pushes the packages to a registry, as crossplane xpkg push does for a single file. It supports only one
// architecture.
func (b *builder) pushAll(ctx context.Context) error {
	for _, p := range b.packages() {
		tag, err := name.NewTag(b.push + "/" + p.repository() + ":" + b.version)
		if err != nil {
			return fmt.Errorf("cannot push to %q: %w", b.push, err)
		}
		img, err := tarball.ImageFromPath(filepath.Join(b.out, p.file), nil)
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", p.file, err)
		}
		annotated, err := xpkg.AnnotateLayers(img)
		if err != nil {
			return fmt.Errorf("cannot annotate %s: %w", p.file, err)
		}
		b.sayf("pushing %s", tag)
		if err := remote.Write(tag, annotated, remote.WithContext(ctx)); err != nil {
			return fmt.Errorf("cannot push %s: %w", p.file, err)
		}
	}
	return nil
}
