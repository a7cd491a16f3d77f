// Package reconciler contains the reconcilers of the controller. For each kind of claim they reconcile instances,
// passwords, archives of backups and restore tests. Each reconciler reads the state, calls another package to decide,
// and writes the changes.
package reconciler

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/autogrow"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/servercert"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/volumestats"
)

// Options are the options of the controller.
type Options struct {
	// Settings are the settings that affect the objects of instances.
	Settings instance.Settings
	// Release is the release of this controller, such as v0.1.0.
	Release string
	// Namespace is the controller's own namespace.
	Namespace string
	// LeaderElection makes the controller wait until it is the leader.
	LeaderElection bool
	// MetricsAddress and HealthAddress are the addresses to serve on, such as :8443. The value 0 disables the
	// endpoint.
	MetricsAddress, HealthAddress string
	// MaxConcurrent is the number of instances that are reconciled concurrently. RestoreTestsAtOnce is the number of
	// concurrent restore tests, not counting tests that a deletion waits for.
	MaxConcurrent, RestoreTestsAtOnce int
	// PasswordGrace is the time for which an old password remains valid after a change.
	PasswordGrace time.Duration
	// ClusterDomain is the DNS domain of the Services, such as cluster.local.
	ClusterDomain string
	// VolumeStats is the source of the free space of volumes. Its URL is empty if there is none.
	VolumeStats volumestats.Source
}

// Limits on the calls to the API server: requests per second and burst. A deletion has about twenty steps, and reads
// all objects before each step.
const (
	qps   = 100
	burst = 200
)

// Run runs the reconcilers until the context is canceled.
func (o Options) Run(ctx context.Context, cfg *rest.Config) error {
	cfg.QPS, cfg.Burst = qps, burst
	watch := clock.NewWatch()
	cfg.Wrap(watch.Wrap)
	mgr, err := o.newManager(cfg)
	if err != nil {
		return err
	}
	all, err := o.newReconcilers(mgr, cfg, watch)
	if err != nil {
		return err
	}
	all.archiving.ctx = ctx
	for _, kind := range instance.Kinds() {
		if err := all.watchKind(mgr, kind, o.MaxConcurrent); err != nil {
			return err
		}
	}
	if err := mgr.Add(all.stores.watchStores(mgr)); err != nil {
		return err
	}
	if err := mgr.Add(all.backupObjects.watchBackupObjects(mgr, o.MaxConcurrent)); err != nil {
		return err
	}
	if err := mgr.Add(all.releases); err != nil {
		return err
	}
	if err := mgr.Add(all.growth); err != nil {
		return err
	}
	if err := mgr.Add(policyCheck{kube: mgr.GetClient(), namespace: o.Namespace}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// reconcilers contains the reconcilers of the controller. They are shared by all kinds of instances, except that each
// kind gets a copy of restoreTests.
type reconcilers struct {
	instances    *instanceReconciler
	passwords    *passwordReconciler
	archives     *archiveReconciler
	restoreTests restoreTestReconciler
	stores       *storeReconciler
	releases     releaseCheck
	composites   composites
	archiving    *archivingReconciler
	growth       *growthReconciler

	backupObjects *backupObjectReconciler
}

func (o Options) newReconcilers(mgr ctrl.Manager, cfg *rest.Config, watch *clock.Watch) (*reconcilers, error) {
	pods, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	holders, lanes := stores.NewHolders(), stores.NewLanes(time.Now)
	kube, live := loggedClient{mgr.GetClient()}, instance.PagedReader{Reader: countedReader{mgr.GetAPIReader()}}
	all := stores.Cluster{Reader: live, Namespace: o.Namespace, Clock: watch.Now, Holders: holders, Lanes: lanes}
	g := &instance.Gatherer{Reader: live, Cache: mgr.GetClient(), Logs: podLogs{pods}, Stores: all, Settings: o.Settings, Clock: watch.Now,
		Skew: watch.Skew}
	r := &rotate.Rotator{
		Kube: apiClient{kube, live}, Dial: dialServer(cfg, pods),
		Grace: o.PasswordGrace, Settle: rotate.DefaultSettle,
	}
	c, err := newComposites(mgr)
	if err != nil {
		return nil, err
	}
	w := change.Writer{Client: kube, Stores: all, Servers: rotate.Donors{Rotator: r}}
	recorder, meter := mgr.GetEventRecorder("crossplane-mysql"), newMeter(metrics.Registry)
	meter.skew = watch.Skew
	return &reconcilers{
		instances: &instanceReconciler{gather: g, writer: w, events: recorder, meter: meter, turns: newTurns(o.MaxConcurrent),
			reported: map[instance.Key]map[types.UID]lastReported{}},
		passwords: &passwordReconciler{
			gather: g, reader: live, writer: w, events: recorder, clock: time.Now,
			rotator: r, generator: r, certifier: &servercert.Keeper{Kube: r.Kube, Namespace: o.Namespace, Clock: watch.Now,
				Skew: watch.Skew, ClusterDomain: o.ClusterDomain},
			asked: map[instance.Key]asking{}, meter: meter, turns: newTurns(o.MaxConcurrent), strains: newStrains(),
			retries: newRetries(),
		},
		stores: &storeReconciler{kube: kube, reader: live, writer: w, events: recorder, meter: meter, namespace: o.Namespace,
			clock: watch.Now, holders: holders, lanes: lanes},
		archiving: &archivingReconciler{gather: g, reader: live, writer: w, offer: rotate.Donors{Rotator: r}, stores: all,
			dial: r.Dial, clock: time.Now, events: recorder, meter: meter, changed: map[string]chan event.TypedGenericEvent[instance.Key]{},
			running: map[types.UID]*runningArchiver{}},
		growth: &growthReconciler{gather: g, reader: live, kube: kube, writer: w, monitor: volumestats.NewMonitor(o.VolumeStats),
			clock: time.Now, events: recorder, meter: meter, changed: map[string]chan event.TypedGenericEvent[instance.Key]{},
			watched: map[instance.Key]watchedVolume{}, memories: map[types.UID]autogrow.Memory{}},
		releases: releaseCheck{reader: live, writer: w, release: o.Release},
		archives: &archiveReconciler{gather: g, writer: w, cache: mgr.GetClient(), events: recorder},
		restoreTests: restoreTestReconciler{
			gather: g, writer: w, cache: mgr.GetClient(), reader: live, events: recorder, meter: meter,
			atOnce: o.RestoreTestsAtOnce, clock: watch.Now, turns: &sync.Mutex{}, failed: &sync.Map{},
		},
		composites:    c,
		backupObjects: &backupObjectReconciler{gather: g, writer: w, cache: mgr.GetClient(), reader: live},
	}, nil
}
