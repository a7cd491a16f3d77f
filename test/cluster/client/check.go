package client

import (
	"context"
	"fmt"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/machine"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// Check installs missing packages, and returns an error that lists everything else that prevents a cluster on this
// machine. It runs before anything is started.
func Check(ctx context.Context, c state.Cluster, p *Progress, ports ...int) error {
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
	p.Sayf("installing %s", strings.Join(missing, ", "))
	return machine.Install(ctx, missing)
}
