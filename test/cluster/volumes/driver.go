package volumes

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/util"
)

// A store creates, grows and deletes the file systems or directories that are the volumes of one node.
type store interface {
	// provision creates a volume and mounts it. An existing volume is not created again.
	provision(ctx context.Context, name string, size int64) (made, error)
	// grow enlarges a volume to at least the given size in bytes. The volume can be in use.
	grow(ctx context.Context, name string, size int64) error
	// remove deletes the data of a volume and its mount point. It fails while a pod uses the volume.
	remove(name string) error
	// has reports whether the volume exists.
	has(name string) bool
}

// made is the result of store.provision: a volume that is mounted at path.
type made struct {
	path string
	// plain is the reason why the volume is a plain directory. It is empty if the volume is a file system of its own.
	plain string
}

// A driver creates and deletes the volumes of this node. It implements the interface of the provisioner library, like a
// CSI driver with the external-provisioner.
type driver struct {
	client     kubernetes.Interface
	name, node string
	store      store
	log        *slog.Logger
	classes    storagelisters.StorageClassLister
	nodes      corelisters.NodeLister
}

var (
	_ controller.Provisioner   = &driver{}
	_ controller.Qualifier     = &driver{}
	_ controller.DeletionGuard = &driver{}
)

func newDriver(p *Provisioner, s store, f informers.SharedInformerFactory) *driver {
	return &driver{
		client: p.Client, name: p.Name, node: p.Node, store: s, log: p.log(),
		classes: f.Storage().V1().StorageClasses().Lister(),
		nodes:   f.Core().V1().Nodes().Lister(),
	}
}

// ShouldProvision reports whether this node must provision a volume for the PVC.
func (d *driver) ShouldProvision(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	switch d.decide(claim) {
	case provision:
		return true
	case take:
		// The change of the PVC triggers another call. A conflict means that another node has taken the PVC.
		if err := d.take(ctx, claim); err != nil {
			d.log.Info("Cannot take a claim", "claim", claim.Namespace+"/"+claim.Name, "error", err)
		}
	case leave:
	}
	return false
}

// Provision creates the volume of a PVC. The library calls it again after a crash or a failure.
func (d *driver) Provision(ctx context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume,
	controller.ProvisioningState, error) {
	if err := refusal(o.PVC); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	m, err := d.store.provision(ctx, o.PVName, requested(o.PVC))
	if err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("cannot make a volume on node %s: %w", d.node, err)
	}
	b := blueprint{name: o.PVName, path: m.path, node: d.node, claim: o.PVC, class: o.StorageClass, plain: m.plain}
	return b.volume(), controller.ProvisioningFinished, nil
}

// ShouldDelete reports whether the volume belongs to this node.
func (d *driver) ShouldDelete(_ context.Context, pv *corev1.PersistentVolume) bool {
	return onNode(pv, d.node)
}

// Delete deletes the data of the volume. The provisioner library calls it when the reclaim policy requires that, and
// then deletes the PersistentVolume.
func (d *driver) Delete(_ context.Context, pv *corev1.PersistentVolume) error {
	if err := d.store.remove(pv.Name); err != nil {
		return fmt.Errorf("cannot delete the volume on node %s: %w", d.node, err)
	}
	return nil
}

func (d *driver) decide(claim *corev1.PersistentVolumeClaim) verdict {
	r := request{claim: claim}
	// Ignore the errors. A lister returns an error only if the object does not exist.
	r.class, _ = d.classes.Get(util.GetPersistentVolumeClaimClass(claim))
	r.nodes, _ = d.nodes.List(labels.Everything())
	return r.decide(d.name, d.node)
}

func (d *driver) take(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	c := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotationSelectedNode, d.node)
	_, err := d.client.CoreV1().PersistentVolumeClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{})
	return err
}

// watchVolumes logs PersistentVolumes that have lost their data, and data that remains after its PersistentVolume was
// deleted.
func (d *driver) watchVolumes(f informers.SharedInformerFactory) error {
	_, err := f.Core().V1().PersistentVolumes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { d.added(o) },
		DeleteFunc: func(o any) { d.deleted(o) },
	})
	return err
}

// added logs an error if the data of a volume is missing. It does not create a new disk, which would look like an
// empty database.
func (d *driver) added(o any) {
	pv, ok := o.(*corev1.PersistentVolume)
	if ok && ours(pv, d.name, d.node) && pv.DeletionTimestamp == nil && !d.store.has(pv.Name) {
		d.log.Error("A volume has lost what was in it", "volume", pv.Name)
	}
}

func (d *driver) deleted(o any) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	pv, ok := o.(*corev1.PersistentVolume)
	if ok && ours(pv, d.name, d.node) && d.store.has(pv.Name) {
		d.log.Info("A volume's object is gone and its contents stay, as with a cloud's disk", "volume", pv.Name,
			"policy", pv.Spec.PersistentVolumeReclaimPolicy)
	}
}
