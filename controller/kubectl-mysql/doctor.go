package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/doctor"
)

// doctorCommand implements `kubectl mysql doctor`, which checks all instances, volumes and backups of a cluster.
type doctorCommand struct {
	SystemNamespace string `default:"crossplane-mysql-system" help:"Namespace of the controller and its lease."`
}

// Help returns additional text for the output of --help.
func (*doctorCommand) Help() string {
	return "It needs the right to list claims, composite resources, PersistentVolumes, PersistentVolumeClaims, " +
		"BackupRecords and BackupStores in the whole cluster. It also reports other kinds that it may not list.\n\nExit " +
		"codes: 0 no problem was found, although there may be notes; 1 a problem was found; 2 the cluster could not be " +
		"checked."
}

// Run examines the cluster and prints the report.
func (c *doctorCommand) Run(ctx context.Context, root *cli) error {
	if root.Namespace != "" {
		return doctor.Blind(plainf("the doctor checks the whole cluster and takes no namespace. For one namespace, " +
			"use kubectl mysql list or status"))
	}
	s, err := root.open()
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
	if len(s.flags) > 0 && advises(r) {
		s.sayf("To run the commands above for this cluster, add %s to each of them.", strings.Join(s.flags, " "))
	}
	return r.Err()
}

// advises reports whether a report contains commands, either as advice or in the text of a finding.
func advises(r *doctor.Report) bool {
	all := slices.Concat(r.Cluster, r.Rest)
	for i := range r.Instances {
		all = append(all, r.Instances[i].Findings...)
	}
	return slices.ContainsFunc(all, func(f doctor.Finding) bool {
		return f.Advice != "" || strings.Contains(f.Text, "kubectl ")
	})
}
