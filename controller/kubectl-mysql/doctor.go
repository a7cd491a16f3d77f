package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/doctor"
)

// doctorCommand is `kubectl mysql doctor`.
type doctorCommand struct {
	SystemNamespace string `default:"crossplane-mysql-system" help:"The controller's own namespace, which has its lease."`
}

// Help that follows the flags.
func (*doctorCommand) Help() string {
	return "It needs the right to list claims, composite resources, PersistentVolumes, PersistentVolumeClaims, MySQLBackups and BackupStores in the whole cluster.\n\n" +
		"Exit codes: 0 nothing is wrong, although there may be notes; 1 something is wrong; 2 it could not look."
}

// Run looks, and prints what it saw.
func (c *doctorCommand) Run(ctx context.Context, of *cli) error {
	if of.Namespace != "" {
		return doctor.Blind(plainf("the doctor looks at the whole cluster, and not at a namespace: kubectl mysql list, and status, have one"))
	}
	s, err := of.open()
	if err != nil {
		return doctor.Blind(err)
	}
	cluster, err := doctor.Look(ctx, s.kube, c.SystemNamespace, time.Now())
	if err != nil {
		return doctor.Blind(err)
	}
	r := doctor.Examine(cluster)
	write := r.WriteText
	if s.json {
		write = r.WriteJSON
	}
	if err := write(s.out); err != nil {
		return doctor.Blind(err)
	}
	if len(s.where) > 0 && advises(r) {
		s.sayf("What it says to type is for this cluster: add %s to each command.", strings.Join(s.where, " "))
	}
	return r.Err()
}

// advises is true of a report that says what to type.
func advises(r *doctor.Report) bool {
	all := slices.Concat(r.Cluster, r.Rest)
	for i := range r.Instances {
		all = append(all, r.Instances[i].Findings...)
	}
	return slices.ContainsFunc(all, func(f doctor.Finding) bool { return f.Advice != "" })
}
