//go:build linux

package main

import (
	"context"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// rootfsCmd is for tests that run mysqld without a cluster.
type rootfsCmd struct {
	Dir string `arg:"" help:"The folder to unpack it into." type:"path"`
}

func (r *rootfsCmd) run(ctx context.Context, c state.Cluster) error {
	p := client.NewProgress()
	if err := client.Check(ctx, c, p); err != nil {
		return err
	}
	return client.ImageBuilder(c, p).Rootfs(ctx, r.Dir)
}
