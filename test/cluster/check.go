//go:build linux

package main

import (
	"context"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/machine"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// checkCmd is the command `cluster check`, which checks the machine and installs missing packages. It starts nothing.
type checkCmd struct{}

func (*checkCmd) run(ctx context.Context, c state.Cluster) error {
	p := client.NewProgress()
	if err := client.Check(ctx, machine.Cluster, c, p); err != nil {
		return err
	}
	p.Sayf("this machine can run a cluster")
	return nil
}
