//go:build linux

package main

import (
	"context"
	"os"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/machine"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// productCmd is the command `images product`, which builds the product's image and its base images without a container
// engine, in order to test a release.
type productCmd struct {
	Dir     string   `arg:"" help:"The folder for the image, as an OCI layout. It is replaced." type:"path"`
	Version string   `help:"Version that its program says." required:""`
	Arch    []string `default:"amd64,arm64" help:"Architectures that it is built for."`
}

func (cmd *productCmd) run(ctx context.Context, c state.Cluster) error {
	p := client.NewProgress()
	if err := client.Check(ctx, machine.Images, c, p); err != nil {
		return err
	}
	b := client.ImageBuilder(c, p)
	b.Architectures = cmd.Arch
	// The image must not replace the image of a cluster, which has only one architecture. It therefore has a different
	// name.
	index, err := b.Dockerfile(ctx, "release.invalid/crossplane-mysql", cmd.Version)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(cmd.Dir); err != nil {
		return err
	}
	l, err := layout.Write(cmd.Dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	return l.AppendIndex(index)
}
