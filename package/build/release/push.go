package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// pushCmd is the command `release push`, which pushes the files of a release to a registry.
type pushCmd struct {
	Version string `help:"Version of the release."                                      required:""`
	From    string `default:"../../dist/release" help:"Directory of the release."            type:"existingdir"`
	To      string `help:"Registry to push to, such as ghcr.io/crossplane-mysql."      required:""`
	CLI     string `help:"The current crossplane CLI."                                       name:"cli"  required:"" type:"existingfile"`
	Helm    string `help:"Helm."                                                         name:"helm" required:"" type:"existingfile"`
}

// Run verifies the checksums and then pushes the release. It can be repeated, because it replaces existing artifacts
// with identical ones.
func (c *pushCmd) Run(ctx context.Context) error {
	if err := checkSums(c.From); err != nil {
		return err
	}
	pushed, err := c.push(ctx)
	for _, p := range pushed {
		fmt.Println(p)
	}
	return err
}

// repositories returns the package files of a release by the name of the repository to which they are pushed.
func repositories() map[string][]string {
	return map[string][]string{
		"function-mysql":                 {"function-mysql-amd64.xpkg", "function-mysql-arm64.xpkg"},
		"configuration-mysql":            {"configuration-mysql.xpkg"},
		"configuration-mysql-namespaced": {"configuration-mysql-namespaced.xpkg"},
		"configuration-mysql-hostpath":   {"configuration-mysql-hostpath.xpkg"},
		"configuration-database":         {"configuration-database.xpkg"},
	}
}

// push pushes all artifacts and returns their names with digests.
func (c *pushCmd) push(ctx context.Context) ([]string, error) {
	digest, err := c.pushImage(ctx)
	if err != nil {
		return nil, err
	}
	pushed := []string{c.To + "/crossplane-mysql@" + digest}
	for repository, files := range repositories() {
		paths := make([]string, 0, len(files))
		for _, f := range files {
			paths = append(paths, filepath.Join(c.From, f))
		}
		tag := c.To + "/" + repository + ":" + c.Version
		if err := run(ctx, c.CLI, "xpkg", "push", "--package-files="+strings.Join(paths, ","), tag); err != nil {
			return pushed, err
		}
		digest, err := digestOf(ctx, tag)
		if err != nil {
			return pushed, err
		}
		pushed = append(pushed, c.To+"/"+repository+"@"+digest)
	}
	chart := "crossplane-mysql-" + strings.TrimPrefix(c.Version, "v") + ".tgz"
	args := []string{"push", filepath.Join(c.From, chart), "oci://" + c.To + "/charts"}
	if ref, err := name.NewRepository(c.To + "/charts"); err == nil && ref.Scheme() == "http" {
		args = append(args, "--plain-http") // The registry is on this machine.
	}
	if err := run(ctx, c.Helm, args...); err != nil {
		return pushed, err
	}
	chartDigest, err := digestOf(ctx, c.To+"/charts/crossplane-mysql:"+strings.TrimPrefix(c.Version, "v"))
	return append(pushed, c.To+"/charts/crossplane-mysql@"+chartDigest), err
}

// pushImage pushes the images of all architectures as one index.
func (c *pushCmd) pushImage(ctx context.Context) (digest string, err error) {
	dir, err := os.MkdirTemp("", "crossplane-mysql-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // Leftover files do no harm.
	if err := run(ctx, "tar", "-C", dir, "-xf", filepath.Join(c.From, imageFile(c.Version))); err != nil {
		return "", err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return "", err
	}
	if index, err = theIndex(index); err != nil {
		return "", err
	}
	tag, err := name.NewTag(c.To+"/crossplane-mysql:"+c.Version, name.StrictValidation)
	if err != nil {
		return "", err
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx),
		remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("cannot push the image: %w", err)
	}
	h, err := index.Digest()
	return h.String(), err
}

func digestOf(ctx context.Context, tag string) (string, error) {
	ref, err := name.ParseReference(tag)
	if err != nil {
		return "", err
	}
	d, err := remote.Head(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return "", fmt.Errorf("cannot find the pushed artifact: %w", err)
	}
	return d.Digest.String(), nil
}

// run runs a program and prints its output to standard error, because standard output lists the pushed artifacts.
func run(ctx context.Context, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return ran(cmd.Run(), path, args)
}

// theIndex returns the image index that lists the images of all architectures. In an OCI layout, this index can be
// nested in another index.
func theIndex(index v1.ImageIndex) (v1.ImageIndex, error) {
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(m.Manifests) == 1 && m.Manifests[0].MediaType.IsIndex() {
		return index.ImageIndex(m.Manifests[0].Digest)
	}
	if len(m.Manifests) == 0 {
		return nil, errors.New("there is no image in the layout")
	}
	return index, nil
}

func emptyIndex() v1.ImageIndex { return mutate.IndexMediaType(empty.Index, types.OCIImageIndex) }
