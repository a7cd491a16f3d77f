//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/machine"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// checkCmd prepares the machine and starts nothing.
type checkCmd struct{}

func (*checkCmd) run(ctx context.Context, c state.Cluster) error {
	p := newProgress()
	if err := check(ctx, c, p); err != nil {
		return err
	}
	p.sayf("this machine can run a cluster")
	return nil
}

// check finds out what is wrong with the machine before anything is started.
func check(ctx context.Context, c state.Cluster, p *progress, ports ...int) error {
	facts, err := machine.Look(c.Dir(), ports...)
	if err != nil {
		return err
	}
	if problems := facts.Problems(); len(problems) > 0 {
		return fmt.Errorf("cannot boot a cluster on this machine:\n  - %s", strings.Join(problems, "\n  - "))
	}
	missing := machine.MissingPackages()
	if len(missing) == 0 {
		return nil
	}
	p.sayf("installing %s", strings.Join(missing, ", "))
	return machine.Install(ctx, missing)
}
