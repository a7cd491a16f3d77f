package volumes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Reasons of events, as in the external-resizer.
const (
	reasonResizing = "Resizing"
	reasonResized  = "VolumeResizeSuccessful"
	reasonFailed   = "VolumeResizeFailed"
)

// A resizer expands the volumes of this node, like the external-resizer with a CSI driver that also expands file
// systems. The external-resizer itself is not available as a library.
type resizer struct {
	client     kubernetes.Interface
	name, node string
	store      store
	log        *slog.Logger
	claims     corelisters.PersistentVolumeClaimLister
	volumes    corelisters.PersistentVolumeLister
	queue      workqueue.TypedRateLimitingInterface[string]
	events     record.EventRecorder
	stop       func()
}

func newResizer(ctx context.Context, p *Provisioner, s store, f informers.SharedInformerFactory) (*resizer, error) {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: p.Client.CoreV1().Events(metav1.NamespaceAll)})
	claims := f.Core().V1().PersistentVolumeClaims()
	r := &resizer{
		client: p.Client, name: p.Name, node: p.Node, store: s, log: p.log(),
		claims:  claims.Lister(),
		volumes: f.Core().V1().PersistentVolumes().Lister(),
		queue:   workqueue.NewTypedRateLimitingQueue(backoff()),
		events: b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "external-resizer " + p.Name}).
			WithLogger(klog.FromContext(ctx)),
		stop: b.Shutdown,
	}
	_, err := claims.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    r.enqueue,
		UpdateFunc: r.changed,
	})
	return r, err
}

func (r *resizer) enqueue(o any) {
	if key, err := cache.MetaNamespaceKeyFunc(o); err == nil {
		r.queue.Add(key)
	}
}

// changed ignores the status changes that the resizer itself makes. Otherwise each failure would cause an immediate
// retry.
func (r *resizer) changed(before, after any) {
	b, wasClaim := before.(*corev1.PersistentVolumeClaim)
	a, isClaim := after.(*corev1.PersistentVolumeClaim)
	if same := b == a; !wasClaim || !isClaim || same || sizes(b) != sizes(a) {
		r.enqueue(after)
	}
}

func (r *resizer) run(ctx context.Context) {
	defer r.stop()
	context.AfterFunc(ctx, r.queue.ShutDown)
	for {
		key, over := r.queue.Get()
		if over {
			return
		}
		r.one(ctx, key)
	}
}

func (r *resizer) one(ctx context.Context, key string) {
	defer r.queue.Done(key)
	if err := r.resize(ctx, key); err != nil {
		r.log.Info("Cannot grow the volume of a claim", "claim", key, "error", err)
		r.queue.AddRateLimited(key)
		return
	}
	r.queue.Forget(key)
}

func (r *resizer) resize(ctx context.Context, key string) error {
	claim, pv := r.find(key)
	if claim == nil || !ours(pv, r.name, r.node) || growth(claim, pv) == 0 {
		return nil
	}
	// The cached object may not contain the last expansion yet.
	claim, err := r.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("cannot look at the claim: %w", err)
	}
	size := growth(claim, pv)
	if size == 0 {
		return nil
	}
	r.events.Eventf(claim, corev1.EventTypeNormal, reasonResizing, "External resizer is resizing volume %s", pv.Name)
	if err := r.grow(ctx, claim, pv, size); err != nil {
		r.events.Eventf(claim, corev1.EventTypeWarning, reasonFailed, "resize volume %q by resizer %q failed: %v", pv.Name,
			r.name, err)
		now := metav1.Now()
		// Ignore the error of the status update, because the expansion is retried anyway.
		_ = r.status(ctx, claim, func(s *corev1.PersistentVolumeClaimStatus) { stuck(s, size, err, now) })
		return err
	}
	r.events.Event(claim, corev1.EventTypeNormal, reasonResized, "Resize volume succeeded")
	return nil
}

// find returns a PVC and its volume, or nil if the PVC does not exist or has no volume. A lister returns an error only
// if the object does not exist.
func (r *resizer) find(key string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, nil
	}
	claim, err := r.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return nil, nil
	}
	pv, err := r.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return nil, nil
	}
	return claim, pv
}

// grow enlarges the disk, and then updates the size in the PersistentVolume and in the PVC. If a step fails, all
// steps can be repeated.
func (r *resizer) grow(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume,
	size int64) error {
	if err := tooLarge(size); err != nil {
		return err
	}
	now := metav1.Now()
	if err := r.status(ctx, claim, func(s *corev1.PersistentVolumeClaimStatus) { growing(s, size, now) }); err != nil {
		return fmt.Errorf("cannot mark the claim as growing: %w", err)
	}
	if err := r.store.grow(ctx, pv.Name, size); err != nil {
		return err
	}
	if err := r.capacity(ctx, pv.Name, size); err != nil {
		return fmt.Errorf("cannot write the volume's new size: %w", err)
	}
	if err := r.status(ctx, claim, func(s *corev1.PersistentVolumeClaimStatus) { grown(s, size) }); err != nil {
		return fmt.Errorf("cannot write the claim's new size: %w", err)
	}
	return nil
}

func (r *resizer) capacity(ctx context.Context, name string, size int64) error {
	volumes := r.client.CoreV1().PersistentVolumes()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		pv, err := volumes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pv.Spec.Capacity = with(pv.Spec.Capacity, size)
		_, err = volumes.Update(ctx, pv, metav1.UpdateOptions{})
		return err
	})
}

// status changes the status of the latest version of the PVC, which other components change, too.
func (r *resizer) status(ctx context.Context, c *corev1.PersistentVolumeClaim,
	change func(*corev1.PersistentVolumeClaimStatus)) error {
	claims := r.client.CoreV1().PersistentVolumeClaims(c.Namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := claims.Get(ctx, c.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if now.UID != c.UID {
			return errors.New("the claim was replaced by another of its name")
		}
		before := now.Status.DeepCopy()
		change(&now.Status)
		if equality.Semantic.DeepEqual(*before, now.Status) {
			return nil
		}
		_, err = claims.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
}
