//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/registry"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// loadCmd is for the pods of a cluster. It says nothing where the images are there.
type loadCmd struct{}

func (*loadCmd) run(ctx context.Context, c state.Cluster) error {
	unlock, err := c.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	process, err := client.Running(c)
	if err != nil {
		return err
	}
	p := client.NewProgress()
	r := recipes{client.ImageBuilder(c, p)}
	if r.Tools, err = client.BuildTools(ctx, c.Root, p, "mongod", "versitygw"); err != nil {
		return err
	}
	names, err := r.Ensure(ctx, r.mysql, r.mariadb, r.mongo, r.s3)
	if err != nil {
		return err
	}
	return registry.Load(ctx, c.Images(), fmt.Sprintf("127.0.0.1:%d", process.Registry), names...)
}
