package client

import (
	"context"
	"fmt"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/machine"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// Check verifies that this machine can do a task, before it begins. It installs missing packages. All other problems are
// listed in the error.
func Check(ctx context.Context, task machine.Task, c state.Cluster, p *Progress, ports ...int) error {
	facts, err := machine.Look(c.Dir(), ports...)
	if err != nil {
		return err
	}
	if problems := facts.Problems(task); len(problems) > 0 {
		return fmt.Errorf("cannot %s on this machine:\n  - %s", task.Action, strings.Join(problems, "\n  - "))
	}
	missing := machine.MissingPackages()
	if len(missing) == 0 {
		return nil
	}
	p.Sayf("installing %s", strings.Join(missing, ", "))
	return machine.Install(ctx, missing)
}
