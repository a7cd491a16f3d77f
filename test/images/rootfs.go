//go:build linux

package main

import (
	"context"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// rootfsCmd is for tests that run mysqld without a cluster.
type rootfsCmd struct {
	Dir    string `arg:"" help:"The folder to unpack it into." type:"path"`
	Server string `default:"mysql" enum:"mysql,mariadb" help:"Whose."`
}

func (cmd *rootfsCmd) run(ctx context.Context, c state.Cluster) error {
	p := client.NewProgress()
	if err := client.Check(ctx, c, p); err != nil {
		return err
	}
	r := recipes{client.ImageBuilder(c, p)}
	recipe := r.mysql
	if cmd.Server == "mariadb" {
		recipe = r.mariadb
	}
	names, err := r.Ensure(ctx, recipe)
	if err != nil {
		return err
	}
	return r.Unpack(ctx, names[0], cmd.Dir)
}
