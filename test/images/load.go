//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/image"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/machine"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/registry"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// loadCmd is the command `images load`, which loads images into a cluster. It prints nothing if they are already there.
type loadCmd struct {
	Servers []string `arg:"" enum:"mysql,mariadb,mongo,s3,exporter" help:"Whose (default: all of them)." optional:""`
}

func (cmd *loadCmd) run(ctx context.Context, c state.Cluster) error {
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
	wanted, tools := r.ofCluster(cmd.Servers)
	if r.Tools, err = client.BuildTools(ctx, c.Root, p, tools...); err != nil {
		return err
	}
	names, err := r.Ensure(ctx, wanted...)
	if err != nil {
		return err
	}
	return registry.Load(ctx, c.Images(), fmt.Sprintf("127.0.0.1:%d", process.Registry), names...)
}

// makeCmd is the command `images make`, which builds images that take long before a cluster is booted. While it
// downloads packages, Kubernetes can be compiled in another process.
type makeCmd struct {
	Servers []string `arg:"" enum:"mysql,mariadb,mongo,s3,exporter" help:"Whose: mysql, mariadb, mongo, s3, exporter."`
}

func (cmd *makeCmd) run(ctx context.Context, c state.Cluster) error {
	p := client.NewProgress()
	if err := client.Check(ctx, machine.Images, c, p); err != nil {
		return err
	}
	r := recipes{client.ImageBuilder(c, p)}
	wanted, tools := r.ofCluster(cmd.Servers)
	var err error
	if r.Tools, err = client.BuildTools(ctx, c.Root, p, tools...); err != nil {
		return err
	}
	// The images are built one by one, so that another process never waits for more than one image.
	for _, recipe := range wanted {
		if _, err := r.Ensure(ctx, recipe); err != nil {
			return err
		}
	}
	return r.Bases(ctx)
}

// ofCluster returns the recipes of the named servers, or of all servers, and the tools that these recipes need.
func (r recipes) ofCluster(servers []string) (wanted []func(context.Context) (image.Recipe, error), tools []string) {
	for _, s := range []struct {
		name   string
		recipe func(context.Context) (image.Recipe, error)
		tool   string
	}{{"mysql", r.mysql, ""}, {"mariadb", r.mariadb, ""}, {"mongo", r.mongo, "mongod"}, {"s3", r.s3, "versitygw"},
		{"exporter", r.exporter, "exporter"}} {
		if len(servers) > 0 && !slices.Contains(servers, s.name) {
			continue
		}
		wanted = append(wanted, s.recipe)
		if s.tool != "" {
			tools = append(tools, s.tool)
		}
	}
	return wanted, tools
}
