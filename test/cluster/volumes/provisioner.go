// Package volumes provides the disks of a test cluster. It is a dynamic provisioner whose volumes are file systems
// with a limited size. They fill up, grow and are deleted like the volumes of a CSI driver.
//
// A volume is an image file on the machine's disk, mounted through a loop device. The provisioner uses the same
// library as CSI's external-provisioner, so that events, finalizers and the order of a deletion are identical.
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

// Intervals of resyncs and retries. The external-provisioner also starts with a second, but waits up to five minutes,
// which is too long for a test.
const (
	resyncPeriod = 30 * time.Second
	retryFirst   = time.Second
	retryLast    = 30 * time.Second
)

// A Provisioner creates, grows and deletes the volumes of one node.
type Provisioner struct {
	// Client needs all permissions on nodes, StorageClasses, volumes, PVCs and events.
	Client kubernetes.Interface
	// Node is the name of the node, which is also its label kubernetes.io/hostname.
	Node string
	// Dir is the directory in which volumes are mounted, such as /var/lib/volumes. It is in the mount namespace of
	// the node's kubelet.
	Dir string
	// Images is the directory with the data of the volumes. Each node has its own.
	Images string
	// Name is the name of the provisioner in the StorageClasses.
	Name string
	// Log may be nil.
	Log *slog.Logger
}

// Mount mounts the volumes of an earlier run, which may have used a different mount namespace. It must be called
// before the kubelet starts. Otherwise the kubelet would use an empty mount point as the volume. Run calls it, too.
func (p *Provisioner) Mount() error {
	d, err := newDisk(p.Images, p.Dir, p.log())
	if err != nil {
		return err
	}
	return d.mountAll()
}

// Unmount unmounts the volumes for an orderly shutdown after Run. The data is kept. If a pod uses a volume, the
// volume stays mounted in the pod's mount namespace.
func (p *Provisioner) Unmount() error {
	d, err := newDisk(p.Images, p.Dir, p.log())
	if err != nil {
		return err
	}
	return d.unmountAll()
}

// Run provisions volumes until ctx is cancelled, and returns when all operations in progress are complete. Volumes
// stay mounted.
func (p *Provisioner) Run(ctx context.Context) error {
	d, err := newDisk(p.Images, p.Dir, p.log())
	if err != nil {
		return err
	}
	if err := d.choose(ctx); err != nil {
		return err
	}
	if err := d.mountAll(); err != nil {
		// One damaged volume must not prevent the use of all others.
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

// controller returns a controller with the settings of the external-provisioner. It has no leader election, because
// each node has its own controller.
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
