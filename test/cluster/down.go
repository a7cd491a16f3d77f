//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/machine"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// downCmd is the command `cluster down`, which deletes a cluster.
type downCmd struct{}

func (d *downCmd) run(ctx context.Context, c state.Cluster) error {
	p := client.NewProgress()
	unlock, err := c.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := clean(ctx, c); err != nil {
		return err
	}
	p.Sayf("cluster %q is down, and nothing of it is left but its last logs", c.Name)
	return nil
}

// clean kills all processes of the cluster and removes its files. It ignores a cancelled context, because it also runs
// after an interrupt.
func clean(ctx context.Context, c state.Cluster) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	if err := c.Kill(ctx); err != nil {
		return err
	}
	if err := machine.RemoveCgroups(ctx, machine.CgroupRoot, c.Cgroup()); err != nil {
		return err
	}
	return removeFiles(c)
}

// removeFiles removes all files of the cluster except its logs, which may be needed after a failure. The next boot
// appends to them.
func removeFiles(c state.Cluster) error {
	entries, err := os.ReadDir(c.Dir())
	if err != nil {
		return fmt.Errorf("cannot look into the cluster's folder: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if n := e.Name(); n != "lock" && n != "logs" {
			errs = append(errs, os.RemoveAll(c.File(n)))
		}
	}
	return errors.Join(errs...)
}
