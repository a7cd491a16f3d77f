package main

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/volumestats"
)

// startCommand implements `controller start`, which runs the controller.
type startCommand struct {
	LeaderElection     bool   `help:"Start only when no other controller runs. Required for more than one replica, and to prevent two controllers from running during an update." negatable:""`
	MetricsAddress     string `default:"0" help:"Address to serve Prometheus metrics on, such as :8443. They are served over TLS, to tokens that may get /metrics. 0 disables them."`
	HealthAddress      string `default:"0" help:"Address to serve /healthz and /readyz on, such as :8081. 0 disables them."`
	AgentImage         string `default:"${agent}" env:"AGENT_IMAGE" help:"Image of this product, for the Jobs of the controller."`
	JobResources       string `placeholder:"JSON" env:"JOB_RESOURCES" help:"Resources of the Jobs' containers, in the format of jobResources in the Composition's input, such as {\"limits\":{\"memory\":\"256Mi\"}}. If unset, the Jobs request 50m and 128Mi."`
	BackupStorageClass string `help:"StorageClass of the backup volumes. If unset, the StorageClass of the data is used."`
	Namespace          string `default:"crossplane-mysql-system" env:"POD_NAMESPACE" help:"Namespace of the controller."`
	MaxConcurrent      int    `default:"10" help:"Number of instances that are reconciled concurrently."`
	RestoreTestsAtOnce int    `default:"2" help:"Maximum number of concurrent restore tests, with at most one in each namespace. With 0, only restore tests that backup.finalBackup.requireRestoreTest requires are run. These do not count toward the maximum."`
	ClusterDomain      string `placeholder:"DOMAIN" env:"CLUSTER_DOMAIN" help:"Domain of the cluster, for which servers' certificates are issued, such as cluster.local. The default is the domain in /etc/resolv.conf, or cluster.local if that file does not contain one."`
	VolumeStatsURL     string `name:"volume-stats-url" placeholder:"URL" help:"Address of the Prometheus from which the controller reads the free space of volumes, such as http://prometheus.monitoring.svc:9090. If unset, no volume grows by itself (spec.storageAutogrow)."`
	Debug              bool   `help:"Also log each write to the API server, each request to a store, each login to a server, and why the controller waits. The log is then text and not JSON." short:"d"`

	VolumeStatsSelector  string `placeholder:"MATCHERS" help:"Additional label matchers for the metrics of volumes, such as cluster=\"west\". Required if Prometheus has metrics of several clusters."`
	VolumeStatsTokenFile string `placeholder:"FILE" help:"File with a bearer token for that Prometheus. It is read for each query, and requires https."`
	VolumeStatsCAFile    string `name:"volume-stats-ca-file" placeholder:"FILE" help:"File with the CA certificates of that Prometheus, as PEM. If unset, the CA certificates of the image are used."`

	PasswordGrace time.Duration `default:"${grace}" env:"PASSWORD_GRACE" help:"How long the previous password is still accepted after a change, such as 10m, for clients that do not have the new one yet. The minimum is ${settle}. The default, ${default}, is longer than Kubernetes takes to update a Secret in a running pod."`
}

// Validate checks the flags.
func (c *startCommand) Validate() error {
	if c.RestoreTestsAtOnce < 0 {
		return fmt.Errorf("--restore-tests-at-once=%d is negative: use 0 for none, or a positive number", c.RestoreTestsAtOnce)
	}
	if _, err := instance.ReadJobResources(c.JobResources); err != nil {
		return err
	}
	if wrong := validation.IsDNS1123Subdomain(c.ClusterDomain); c.ClusterDomain != "" && len(wrong) > 0 {
		return fmt.Errorf("--cluster-domain=%q is not a domain, such as cluster.local: %s", c.ClusterDomain, wrong[0])
	}
	if c.PasswordGrace < rotate.DefaultSettle {
		return fmt.Errorf("--password-grace=%s is too short: a client may need up to %s from reading the Secret to "+
			"logging in. Use at least that duration", c.PasswordGrace, rotate.DefaultSettle)
	}
	if c.VolumeStatsURL == "" && c.VolumeStatsSelector+c.VolumeStatsTokenFile+c.VolumeStatsCAFile != "" {
		return errors.New("--volume-stats-selector, --volume-stats-token-file and --volume-stats-ca-file require --volume-stats-url")
	}
	if c.VolumeStatsURL != "" {
		return c.volumeStats().Validate()
	}
	return nil
}

// Run runs the controller until it is stopped.
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
		Settings:       instance.Settings{AgentImage: c.AgentImage, JobResources: resources, Namespace: c.Namespace},
		Release:        version,
		Namespace:      c.Namespace,
		LeaderElection: c.LeaderElection, MetricsAddress: c.MetricsAddress, HealthAddress: c.HealthAddress,
		MaxConcurrent: c.MaxConcurrent, RestoreTestsAtOnce: c.RestoreTestsAtOnce, PasswordGrace: c.PasswordGrace,
		ClusterDomain: c.clusterDomain(), VolumeStats: c.volumeStats(),
	}
	if c.BackupStorageClass != "" {
		o.Settings.BackupClass = &c.BackupStorageClass
	}
	return o.Run(ctx, cfg)
}

// volumeStats returns the source of the free space of volumes.
func (c *startCommand) volumeStats() volumestats.Source {
	return volumestats.Source{URL: c.VolumeStatsURL, Selector: c.VolumeStatsSelector, TokenFile: c.VolumeStatsTokenFile,
		CAFile: c.VolumeStatsCAFile}
}

// clusterDomain returns the configured domain of the cluster, the domain in resolv.conf, or the default.
func (c *startCommand) clusterDomain() string {
	text, _ := os.ReadFile("/etc/resolv.conf") // If the file is missing, the default domain is used.
	return cmp.Or(c.ClusterDomain, servercert.DomainIn(string(text), c.Namespace), servercert.DefaultDomain)
}
