package main

import (
	"context"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/doctor"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// doctorCommand is `controller doctor`.
type doctorCommand struct {
	Namespace string `default:"crossplane-mysql-system" help:"The controller's own namespace, which has its lease."`
	Output    string `default:"text" enum:"text,json" help:"What to print: text for people, json for programs."                                         short:"o"`
}

// Help that follows the flags.
func (*doctorCommand) Help() string {
	return "It needs the right to list claims, composite resources, PersistentVolumes, PersistentVolumeClaims, MySQLBackups and BackupStores in the whole cluster, and says what else it may not see.\n\n" +
		"Exit codes: 0 nothing is wrong, although there may be notes; 1 something is wrong; 2 it could not look."
}

// Run looks, and prints what it saw.
func (c *doctorCommand) Run(ctx context.Context) error {
	ctrl.SetLogger(logr.Discard())
	r, err := c.examineCluster(ctx)
	if err != nil {
		return doctor.Blind(err)
	}
	write := r.WriteText
	if c.Output == "json" {
		write = r.WriteJSON
	}
	if err := write(os.Stdout); err != nil {
		return doctor.Blind(err)
	}
	return r.Err()
}

func (c *doctorCommand) examineCluster(ctx context.Context) (*doctor.Report, error) {
	_, kube, err := connect()
	if err != nil {
		return nil, err
	}
	cluster, err := doctor.Look(ctx, kube, c.Namespace, time.Now())
	if err != nil {
		return nil, err
	}
	return doctor.Examine(cluster), nil
}

// connect to the cluster of the current kubeconfig context, as a person's command does.
func connect() (*rest.Config, client.Client, error) {
	cfg, err := config.GetConfig()
	if err != nil {
		return nil, nil, err
	}
	kube, err := instance.NewClient(cfg)
	return cfg, kube, err
}
