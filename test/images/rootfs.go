//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/image"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/machine"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// rootfsCmd is the command `images rootfs`, which unpacks an image for tests that run mysqld without a cluster.
type rootfsCmd struct {
	Dir    string `arg:"" help:"The folder to unpack it into." type:"path"`
	Server string `default:"mysql" enum:"mysql,mariadb,mariadb-10.5,mariadb-11.8" help:"Whose."`
}

func (cmd *rootfsCmd) run(ctx context.Context, c state.Cluster) error {
	p := client.NewProgress()
	if err := client.Check(ctx, machine.Images, c, p); err != nil {
		return err
	}
	r := recipes{client.ImageBuilder(c, p)}
	recipe, ok := r.ofServer()[cmd.Server]
	if !ok {
		return fmt.Errorf("there is no server %q", cmd.Server)
	}
	names, err := r.Ensure(ctx, recipe)
	if err != nil {
		return err
	}
	return r.Unpack(ctx, names[0], cmd.Dir)
}

// ofServer returns the recipe of each server's image by the name of the server.
func (r recipes) ofServer() map[string]func(context.Context) (image.Recipe, error) {
	return map[string]func(context.Context) (image.Recipe, error){"mysql": r.mysql, "mariadb": r.mariadb,
		"mariadb-10.5": r.mariadb105, "mariadb-11.8": r.mariadb118}
}
