// Package volumes gives a test cluster disks: a dynamic provisioner whose volumes are file systems with an end, which
// fill up, grow and go away as those of a CSI driver do.
//
// What a claim gets is an image file on the machine's disk, mounted through a loop device. The library under it is the
// one that CSI's external-provisioner is made of, so that events, finalizers and the order of deletion are its own.
package volumes

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// How often things are looked at again, and how soon what failed is tried again. The external-provisioner starts at a
// second too, but goes on to five minutes, for which no test waits.
const (
	resyncPeriod = 30 * time.Second
	retryFirst   = time.Second
	retryLast    = 30 * time.Second
)

// A Provisioner makes, grows and deletes the volumes of one node.
type Provisioner struct {
	// Client may do everything with nodes, storage classes, volumes, claims and events.
	Client kubernetes.Interface
	// Node is the name of the node and also its label kubernetes.io/hostname.
	Node string
	// Dir is where volumes are mounted, as /var/lib/volumes. It is in the mount namespace of the node's kubelet.
	Dir string
	// Images is the folder of this node, and of no other, that keeps what is in the volumes.
	Images string
	// Name of the provisioner, as in the storage classes.
	Name string
	// Log may be nil.
	Log *slog.Logger
}

// Mount brings back the volumes of an earlier run, also after a change of mount namespace. Call it before the kubelet
// starts: it takes a folder that waits for its disk for the volume itself. It is part of Run.
func (p *Provisioner) Mount() error {
	d, err := newDisk(p.Images, p.Dir, p.log())
	if err != nil {
		return err
	}
	return d.mountAll()
}

// Unmount is for an orderly shutdown, after Run. The contents stay. What pods still hold stays mounted for them and
// goes with the mount namespace.
func (p *Provisioner) Unmount() error {
	d, err := newDisk(p.Images, p.Dir, p.log())
	if err != nil {
		return err
	}
	return d.unmountAll()
}

// Run works until the context ends, and to the end of what it is doing then. Volumes stay mounted.
func (p *Provisioner) Run(ctx context.Context) error {
	d, err := newDisk(p.Images, p.Dir, p.log())
	if err != nil {
		return err
	}
	if err := d.choose(ctx); err != nil {
		return err
	}
	if err := d.mountAll(); err != nil {
		// One broken volume is no reason to refuse all others.
		p.log().Error("Cannot mount all volumes", "error", err)
	}
	return p.run(ctx, d)
}

func (p *Provisioner) run(ctx context.Context, s store) error {
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(p.log().Handler()))
	factory := informers.NewSharedInformerFactory(p.Client, resyncPeriod)
	d := newDriver(p, s, factory)
	r, err := newResizer(ctx, p, s, factory)
	if err != nil {
		return fmt.Errorf("cannot watch claims: %w", err)
	}
	if err := d.watchVolumes(factory); err != nil {
		return fmt.Errorf("cannot watch volumes: %w", err)
	}
	pc := p.controller(ctx, d, factory)
	var workers sync.WaitGroup
	pc.ControllerWaitGroup(&workers)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	workers.Go(func() { r.run(ctx) })
	pc.Run(ctx)
	workers.Wait()
	factory.Shutdown()
	return nil
}

// controller is set up as the external-provisioner sets it up, but for leader election: each node has its own.
func (p *Provisioner) controller(ctx context.Context, d *driver,
	f informers.SharedInformerFactory) *controller.ProvisionController {
	return controller.NewProvisionController(ctx, p.Client, p.Name, d,
		controller.LeaderElection(false),
		controller.AddFinalizer(true),
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
		controller.ResyncPeriod(resyncPeriod),
		controller.RateLimiter(backoff()),
		controller.CreateProvisionedPVLimiter(backoff()),
		controller.ClaimsInformer(f.Core().V1().PersistentVolumeClaims().Informer()),
		controller.VolumesInformer(f.Core().V1().PersistentVolumes().Informer()),
		controller.ClassesInformer(f.Storage().V1().StorageClasses().Informer()),
	)
}

func (p *Provisioner) log() *slog.Logger {
	if p.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return p.Log.With("node", p.Node)
}

func backoff() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast)
}
