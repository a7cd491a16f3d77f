package main

import (
	"context"
	"fmt"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/doctor"
)

// doctorCommand is `kubectl mysql doctor`.
type doctorCommand struct {
	SystemNamespace string `default:"crossplane-mysql-system" help:"The controller's own namespace, which has its lease."`
}

// Help that follows the flags.
func (*doctorCommand) Help() string {
	return "It needs the right to list claims, composite resources, PersistentVolumes, PersistentVolumeClaims and MySQLBackups in the whole cluster."
}

// Run looks, and prints what it saw.
func (c *doctorCommand) Run(ctx context.Context, of *cli) error {
	s, err := of.open()
	if err != nil {
		return err
	}
	cluster, err := doctor.Look(ctx, s.kube, c.SystemNamespace, time.Now())
	if err != nil {
		return fmt.Errorf("cannot look at the cluster: %w", err)
	}
	r := doctor.Examine(cluster)
	write := r.WriteText
	if s.json {
		write = r.WriteJSON
	}
	if err := write(s.out); err != nil {
		return err
	}
	if n := r.Count(doctor.Wrong); n > 0 {
		return plainf("findings that are wrong: %d", n)
	}
	return nil
}
