package reconciler

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/autogrow"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/volumestats"
)

// growthInterval is the interval at which a volume is checked that has enough free space. A volume with little free
// space is checked after each query of Prometheus.
const growthInterval = 10 * time.Minute

// A growthReconciler grows the data volumes of instances with spec.storageAutogrow.
type growthReconciler struct {
	gather  xrGatherer
	reader  client.Reader
	kube    client.Client
	writer  writer
	monitor *volumestats.Monitor
	clock   func() time.Time
	events  events.EventRecorder
	meter   *meter
	// changed receives the keys of instances whose volumes need attention. There is a channel for each kind.
	changed map[string]chan event.TypedGenericEvent[instance.Key]

	mu       sync.Mutex
	watched  map[instance.Key]watchedVolume
	memories map[types.UID]autogrow.Memory
}

// A watchedVolume is the data volume of an instance that may grow.
type watchedVolume struct {
	xr     types.UID
	volume volumestats.Volume
	// below is the free space in percent below which the volume grows.
	below int64
	// isRestless is true if the volume waits for something, or was just changed.
	isRestless bool
}

// Start reads the free space of all volumes once a minute while there are volumes that may grow. The manager calls it
// when this controller becomes the leader.
func (r *growthReconciler) Start(ctx context.Context) error {
	if r.monitor.Read == nil {
		return nil
	}
	failures := 0
	for {
		pause := installPollInterval
		if r.countWatched() > 0 {
			failures = r.refresh(ctx, failures)
			pause = volumestats.Pause(failures)
			r.announceRestless()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Reconcile decides whether the data volumes of the instances with this name must grow, and writes the decision.
func (r *growthReconciler) Reconcile(ctx context.Context, k instance.Key) (reconcile.Result, error) {
	instances, err := r.gather.GatherXRs(ctx, k)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.forgetOthers(k, instances)
	out := reconcile.Result{}
	for _, s := range instances {
		rule, ok := growthRule(s.XR)
		if !ok {
			continue
		}
		out.RequeueAfter = growthInterval
		switch err := r.reconcileInstance(ctx, k, s, rule); {
		case isChangedOrGone(err):
			return reconcile.Result{RequeueAfter: settle}, nil // The next reconcile reads the current state.
		case err != nil:
			return reconcile.Result{}, err
		}
	}
	return out, nil
}

// watchGrowth starts the controller that grows the data volumes of instances of this kind.
func (r *growthReconciler) watchGrowth(mgr ctrl.Manager, c composites, kind instance.Kind, atOnce int) error {
	r.mu.Lock()
	changed := make(chan event.TypedGenericEvent[instance.Key], maxChanged)
	r.changed[kind.InstanceKind()] = changed
	r.mu.Unlock()
	return watchChanged(mgr, c, kind, "storage", changed, atOnce, r)
}

// refresh reads the free space, and returns the number of consecutive failures.
func (r *growthReconciler) refresh(ctx context.Context, failures int) int {
	err := r.monitor.Refresh(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		log.FromContext(ctx).Info("Cannot read the free space of volumes", "error", err.Error(), "after",
			volumestats.Pause(failures+1))
		return failures + 1
	case err == nil && failures > 0:
		log.FromContext(ctx).Info("Reading the free space of volumes works again")
	}
	return 0
}

func (r *growthReconciler) countWatched() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.watched)
}

// announceRestless requests a reconcile of each instance whose volume needs attention. If too many requests wait, the
// instance is reconciled after the next query.
func (r *growthReconciler) announceRestless() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, w := range r.watched {
		u, reason := r.monitor.Lookup(w.volume)
		if !w.isRestless && reason == "" && !autogrow.IsLow(u, w.below) {
			continue
		}
		select {
		case r.changed[k.Kind] <- event.TypedGenericEvent[instance.Key]{Object: k}:
		default:
		}
	}
}

// growthRule returns the rule by which the volume of an instance grows. It returns false if the volume does not grow.
// The function reports an invalid rule.
func growthRule(xr *instance.Composite) (v1.GrowthRule, bool) {
	if xr == nil || xr.Stale || xr.IsDeleting() || xr.Type != v1.TypeMySQL || xr.Spec.StorageAutogrow == nil {
		return v1.GrowthRule{}, false
	}
	rule, err := xr.Spec.StorageAutogrow.Parse()
	return rule, err == nil
}

// forgetOthers removes what was stored about instances that ended or whose volumes no longer grow.
func (r *growthReconciler) forgetOthers(k instance.Key, instances []*instance.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.watched[k]
	if !ok {
		return
	}
	for _, s := range instances {
		if _, grows := growthRule(s.XR); grows && s.Instance.XR == w.xr {
			return
		}
	}
	delete(r.watched, k)
	delete(r.memories, w.xr)
}

// reconcileInstance decides about the volume of one instance, and writes the decision.
func (r *growthReconciler) reconcileInstance(ctx context.Context, k instance.Key, s *instance.State, rule v1.GrowthRule) error {
	in, pvc, err := r.read(ctx, s, rule)
	if err != nil {
		return err
	}
	if pvc == nil {
		r.entry(k, s, rule, autogrow.Decision{Memory: in.Memory})
		return nil
	}
	d := autogrow.Decide(in)
	if d.Grows {
		message, err := r.tryGrowth(ctx, pvc, d.Record)
		if err != nil {
			return err
		}
		if message != "" {
			d = in.Refuse(message)
			r.meter.growths.WithLabelValues(resultFailed).Inc()
		}
	}
	if err := r.write(ctx, s, d); err != nil {
		return err
	}
	r.entry(k, s, rule, d)
	return nil
}

// entry stores what the next decision about the volume needs, and whether the volume needs attention.
func (r *growthReconciler) entry(k instance.Key, s *instance.State, rule v1.GrowthRule, d autogrow.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memories[s.Instance.XR] = d.Memory
	r.watched[k] = watchedVolume{xr: s.Instance.XR, volume: volumestats.Volume{Namespace: s.Instance.Namespace, PVC: s.Instance.DataPVCName()},
		below:      rule.Below,
		isRestless: d.Record > 0 || d.Memory.Waits != "" || d.Memory.Refusals > 0}
}

// read reads everything that the decision depends on. The PersistentVolumeClaim is nil if it does not exist.
func (r *growthReconciler) read(ctx context.Context, s *instance.State, rule v1.GrowthRule) (autogrow.Input,
	*corev1.PersistentVolumeClaim, error) {
	r.mu.Lock()
	in := autogrow.Input{Now: r.clock(), Rule: rule, Memory: r.memories[s.Instance.XR]}
	r.mu.Unlock()
	pvc := &corev1.PersistentVolumeClaim{}
	err := r.reader.Get(ctx, client.ObjectKey{Namespace: s.Instance.Namespace, Name: s.Instance.DataPVCName()}, pvc)
	if kerrors.IsNotFound(err) || err == nil && !instance.Owns(s.Instance, pvc) {
		return in, nil, nil
	}
	if err != nil {
		return in, nil, fmt.Errorf("cannot get PersistentVolumeClaim %s/%s: %w", s.Instance.Namespace, s.Instance.DataPVCName(), err)
	}
	if in.Volume, err = r.readVolume(ctx, pvc); err != nil {
		return in, nil, err
	}
	platform, err := instance.ReadPlatform(ctx, r.reader)
	if err != nil {
		return in, nil, err
	}
	if platform != nil {
		most, limited, err := platform.LimitStorage()
		if err != nil {
			return in, nil, err
		}
		if limited {
			in.Max = most.Value()
		}
	}
	text, _ := s.XR.Spec.Size()
	in.Size, in.Grown = bytesOf(text), sizeOf(s.XR.Status.GrownSize())
	if g := s.XR.Status.StorageGrowth; g != nil {
		in.FileSystem = bytesOf(g.FileSystem)
	}
	in.Serving = !s.XR.IsSuspended() && meta.IsStatusConditionTrue(s.XR.Conditions, v1.ConditionServing)
	in.Usage, in.Unmeasured = r.monitor.Lookup(volumestats.Volume{Namespace: pvc.Namespace, PVC: pvc.Name})
	return in, pvc, nil
}

// readVolume returns the state of a PersistentVolumeClaim and its StorageClass.
func (r *growthReconciler) readVolume(ctx context.Context, c *corev1.PersistentVolumeClaim) (autogrow.Volume, error) {
	request, _ := v1.StorageOf(c.Spec.Resources.Requests) // An extreme size counts as unknown.
	capacity, _ := v1.StorageOf(c.Status.Capacity)
	out := autogrow.Volume{Name: c.Name, Bound: c.Status.Phase == corev1.ClaimBound && c.DeletionTimestamp == nil,
		Request: sizeOf(request), Capacity: sizeOf(capacity), Trouble: resizeTrouble(c)}
	if c.Spec.StorageClassName == nil || *c.Spec.StorageClassName == "" {
		return out, nil
	}
	out.Class = *c.Spec.StorageClassName
	class := &storagev1.StorageClass{}
	err := r.reader.Get(ctx, client.ObjectKey{Name: out.Class}, class)
	if err != nil && !kerrors.IsNotFound(err) {
		return out, fmt.Errorf("cannot get StorageClass %s: %w", out.Class, err)
	}
	out.Expandable = err == nil && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
	return out, nil
}

// resizeTrouble returns why the last expansion of a PersistentVolumeClaim failed, or "".
func resizeTrouble(c *corev1.PersistentVolumeClaim) string {
	for _, condition := range c.Status.Conditions {
		isError := condition.Type == corev1.PersistentVolumeClaimControllerResizeError ||
			condition.Type == corev1.PersistentVolumeClaimNodeResizeError
		if isError && condition.Status == corev1.ConditionTrue {
			return v1.PrintableText(condition.Message, v1.MaxForeignText)
		}
	}
	return ""
}

// bytesOf returns a size in bytes, or 0 if it cannot be read.
func bytesOf(text string) int64 {
	q, _ := v1.ParseSize(text) // A size that cannot be read counts as unknown.
	return sizeOf(q)
}

func sizeOf(q resource.Quantity) int64 { return q.Value() }

// tryGrowth checks with a dry run whether the API server accepts a size for a PersistentVolumeClaim. If a quota or a
// policy refuses the size, it returns the message of the API server. Such a size must not be recorded. The function
// would request it, and the refusal would also prevent all other changes of the PersistentVolumeClaim.
func (r *growthReconciler) tryGrowth(ctx context.Context, c *corev1.PersistentVolumeClaim, size int64) (string, error) {
	next := c.DeepCopy()
	next.Spec.Resources.Requests[corev1.ResourceStorage] = *resource.NewQuantity(size, resource.BinarySI)
	err := r.kube.Patch(ctx, next, client.MergeFromWithOptions(c, client.MergeFromWithOptimisticLock{}), client.DryRunAll)
	switch {
	case err == nil || kerrors.IsBadRequest(err): // An admission webhook may not support a dry run.
		return "", nil
	case isRefused(err):
		return v1.PrintableText(err.Error(), v1.MaxForeignText), nil
	}
	return "", fmt.Errorf("cannot try to grow PersistentVolumeClaim %s/%s: %w", c.Namespace, c.Name, err)
}

// write writes the decision to the status, and announces a change.
func (r *growthReconciler) write(ctx context.Context, s *instance.State, d autogrow.Decision) error {
	previous := v1.StorageGrowthStatus{}
	if g := s.XR.Status.StorageGrowth; g != nil {
		previous = *g
	}
	fields := map[string]any{}
	if d.Record > 0 {
		fields["size"] = resource.NewQuantity(d.Record, resource.BinarySI).String()
	}
	if d.Grows {
		fields["fileSystem"] = resource.NewQuantity(d.FileSystem, resource.BinarySI).String()
		fields["grownTime"] = r.clock().UTC().Format(time.RFC3339)
	}
	if d.Reason != "" && (d.Grows || d.Reason != previous.Reason || !instance.IsSameMessage(d.Message, previous.Message)) {
		fields["reason"], fields["message"] = d.Reason, steps.OrNil(d.Message)
	}
	if len(fields) == 0 {
		return nil
	}
	if err := r.writer.Apply(ctx, steps.PatchXRInternal(s, map[string]any{"storageGrowth": fields})); err != nil {
		return err
	}
	r.announceGrowth(ctx, s, previous, d)
	return nil
}

// announceGrowth logs and announces a decision that was written.
func (r *growthReconciler) announceGrowth(ctx context.Context, s *instance.State, previous v1.StorageGrowthStatus,
	d autogrow.Decision) {
	a := storageGrown
	switch isProblem := d.Reason != "" && d.Reason != v1.ReasonMonitored && d.Reason != v1.ReasonGrowing; {
	case d.Grows:
		r.meter.growths.WithLabelValues(resultRequested).Inc()
		log.FromContext(ctx).Info("The data volume grows", "message", d.Message)
	case isProblem && d.Reason != previous.Reason:
		a = storageGrowthBlocked
		log.FromContext(ctx).Info("The data volume cannot grow", "reason", d.Reason, "message", d.Message)
	default:
		return
	}
	if s.Claim != nil {
		sendEvent(r.events, s.Claim.Unstructured, a, "Grow", d.Message)
	}
}
