package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/reconciler"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/servercert"
)

// startCommand is `controller start`.
type startCommand struct {
	LeaderElection     bool   `help:"Wait until no other controller runs, and only then begin. For more than one replica, and for updates without two at once." negatable:""`
	MetricsAddress     string `default:"0" help:"Address to serve Prometheus metrics on, such as :8443, over TLS and to tokens that may get /metrics. 0 serves none."`
	HealthAddress      string `default:"0" help:"Address to serve /healthz and /readyz on, such as :8081. 0 serves none."`
	AgentImage         string `default:"ghcr.io/crossplane-mysql/crossplane-mysql:v0.1.0" env:"AGENT_IMAGE" help:"Image of the backup Jobs: this product's."`
	JobResources       string `placeholder:"JSON" env:"JOB_RESOURCES" help:"Resources of the Jobs' containers, as jobResources in the Composition's input, such as {\"limits\":{\"memory\":\"256Mi\"}}. Without it, 50m and 128Mi are requested."`
	BackupStorageClass string `help:"Storage class of the volumes that hold backups. Without it, that of the data."`
	Namespace          string `default:"crossplane-mysql-system" env:"POD_NAMESPACE" help:"The controller's own namespace."`
	MaxConcurrent      int    `default:"10" help:"Number of instances that are looked after at the same time."`
	RestoreTestsAtOnce int    `default:"2" help:"Number of backups that a server is started from at the same time, to see that they restore, one of a namespace. With 0 this is only done where backup.requireRestorable says so, which needs no turn of these."`
	ClusterDomain      string `placeholder:"DOMAIN" env:"CLUSTER_DOMAIN" help:"Domain of the cluster, for which servers' certificates are issued, such as cluster.local. If unset, it is read from /etc/resolv.conf, and cluster.local if that does not contain it."`
	Debug              bool   `help:"Log each write to the API server, each request to a store, each login to a server and why the controller waits, too. The log is text then, and not JSON." short:"d"`

	PasswordGrace time.Duration `default:"${grace}" env:"PASSWORD_GRACE" help:"How long an old password goes on to work after a change, for clients that do not have the new one yet, such as 10m. At least ${settle}; ${default} is longer than a Secret takes into a running pod."`
}

// Validate the flags.
func (c *startCommand) Validate() error {
	if c.RestoreTestsAtOnce < 0 {
		return fmt.Errorf("--restore-tests-at-once=%d cannot be: say 0 for none, or how many", c.RestoreTestsAtOnce)
	}
	if _, err := instance.ReadJobResources(c.JobResources); err != nil {
		return err
	}
	if wrong := validation.IsDNS1123Subdomain(c.ClusterDomain); c.ClusterDomain != "" && len(wrong) > 0 {
		return fmt.Errorf("--cluster-domain=%q is not a domain, such as cluster.local: %s", c.ClusterDomain, wrong[0])
	}
	if c.PasswordGrace < rotate.DefaultSettle {
		return fmt.Errorf("--password-grace=%s is too short: a client takes up to %s from reading the Secret to logging in; say at least that", c.PasswordGrace, rotate.DefaultSettle)
	}
	return nil
}

// Run the controller until it is told to stop.
func (c *startCommand) Run(ctx context.Context) error {
	ctrl.SetLogger(zap.New(zap.UseDevMode(c.Debug)))
	cfg, err := config.GetConfig()
	if err != nil {
		return err
	}
	resources, err := instance.ReadJobResources(c.JobResources)
	if err != nil {
		return err
	}
	o := reconciler.Options{
		Settings: instance.Settings{AgentImage: c.AgentImage, JobResources: resources, Namespace: c.Namespace}, Namespace: c.Namespace,
		LeaderElection: c.LeaderElection, MetricsAddress: c.MetricsAddress, HealthAddress: c.HealthAddress,
		MaxConcurrent: c.MaxConcurrent, RestoreTestsAtOnce: c.RestoreTestsAtOnce, PasswordGrace: c.PasswordGrace,
		ClusterDomain: c.clusterDomain(),
	}
	if c.BackupStorageClass != "" {
		o.Settings.BackupClass = &c.BackupStorageClass
	}
	return o.Run(ctx, cfg)
}

// clusterDomain that was set, or is found, or is usual.
func (c *startCommand) clusterDomain() string {
	text, _ := os.ReadFile("/etc/resolv.conf") // A pod without one uses the usual domain.
	return cmp.Or(c.ClusterDomain, servercert.DomainIn(string(text), c.Namespace), servercert.DefaultDomain)
}
