package reconciler

import (
	"context"
	"errors"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

const (
	// installPollInterval is the interval at which the controller checks whether a kind is installed. The controller
	// may start before the Configuration is installed.
	installPollInterval = 5 * time.Second
	// cacheSyncTimeout is the timeout for the initial list of BackupRecords. After the timeout, the whole controller
	// would exit. The kind may be deleted before the list is complete, so the timeout is practically infinite.
	cacheSyncTimeout = 365 * 24 * time.Hour
)

// watchKind watches a kind and the objects that its reconcilers depend on. Backups are watched even if the kind is
// not installed. The reconcilers start when the kind of the claims is installed, even without the kind of the XRs.
// When an XRD is deleted, Crossplane first deletes the kind of the XRs. The controller may then still have to remove
// the finalizer of a claim.
func (r *reconcilers) watchKind(mgr ctrl.Manager, kind instance.Kind, atOnce int) error {
	b := r.restoreTests // Each kind has its own reconciler.
	b.kind = kind
	tests, err := b.watchBackups(mgr)
	if err != nil {
		return err
	}
	c := r.composites
	err = mgr.Add(whenInstalled(mgr, kind.Object, func() error {
		instances, err := r.instances.watchInstances(mgr, c, kind, atOnce)
		if err != nil {
			return err
		}
		// Events of claims and XRs trigger restore tests, too. A deletion has priority over a test, and a new instance may
		// have the name of a tested one.
		return errors.Join(tests.Watch(c.claims(kind)), mgr.Add(whenInstalled(mgr, kind.XR, func() error {
			return errors.Join(r.passwords.watchServers(mgr, c, kind, atOnce),
				r.archiving.watchArchiving(mgr, c, kind, atOnce), r.growth.watchGrowth(mgr, c, kind, atOnce), instances.Watch(c.xrs(kind)),
				tests.Watch(c.xrs(kind)))
		})))
	}))
	return errors.Join(err, r.archives.watchArchives(mgr, kind, atOnce))
}

// whenInstalled starts watching a kind when it is installed. A platform may never install it, because it need not
// offer both APIs.
func whenInstalled(mgr ctrl.Manager, kind schema.GroupVersionKind, watch func() error) manager.RunnableFunc {
	return func(ctx context.Context) error {
		err := wait.PollUntilContextCancel(ctx, installPollInterval, true, func(context.Context) (bool, error) {
			if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
				mgr.GetLogger().V(1).Info("Waiting for a kind that is not installed", "kind", kind.Kind, "error", err.Error())
				return false, nil // The read is retried after any error.
			}
			return true, watch()
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The controller is stopping.
		}
		return err
	}
}

// watchInstances watches all objects that affect an instance, except XRs. It watches only metadata if that is enough
// to find the instance. It does not watch Deployments and pods. While a pod starts or stops, each reconcile schedules
// the next one instead. Each kind has its own controller.
func (r *instanceReconciler) watchInstances(mgr ctrl.Manager, c composites, kind instance.Kind,
	atOnce int) (controller.TypedController[instance.Key], error) {
	name := strings.ToLower(kind.InstanceKind())
	return builder.TypedControllerManagedBy[instance.Key](mgr).
		Named(name).
		WatchesRawSource(c.claims(kind)).
		WatchesMetadata(&corev1.PersistentVolumeClaim{}, enqueueKeys(kind.OfAnnotated)).
		WatchesMetadata(&corev1.PersistentVolume{}, enqueueKeys(kind.OfAnnotated)).
		WatchesMetadata(&batchv1.Job{}, enqueueKeys(kind.OfAnnotated)).
		Watches(&v1.BackupRecord{}, enqueueKeys(kind.OfRecord)).
		Watches(&v1.Backup{}, enqueueKeys(kind.OfBackup)).
		WithOptions(controller.TypedOptions[instance.Key]{MaxConcurrentReconciles: atOnce,
			CacheSyncTimeout: cacheSyncTimeout}).
		WithLogConstructor(logFor(mgr, name)).
		Build(r)
}

// watchServers starts a controller with its own workers, so that a server that does not respond does not delay a
// deletion.
func (r *passwordReconciler) watchServers(mgr ctrl.Manager, c composites, kind instance.Kind, atOnce int) error {
	name := strings.ToLower(kind.InstanceKind()) + "-credentials"
	return builder.TypedControllerManagedBy[instance.Key](mgr).
		Named(name).
		WatchesRawSource(c.xrs(kind)).
		WithOptions(controller.TypedOptions[instance.Key]{MaxConcurrentReconciles: atOnce, RateLimiter: r.retries}).
		WithLogConstructor(logFor(mgr, name)).
		Complete(r)
}

// composites is a cache for claims and XRs only. Their kinds can be deleted at any time, even during the initial
// list. A controller-runtime source waits for the whole cache it belongs to (pkg/internal/source/kind.go). With a
// shared cache, it would wait until the kind is installed again.
type composites struct{ cache.Cache }

func newComposites(mgr ctrl.Manager) (composites, error) {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return composites{}, err
	}
	return composites{c}, mgr.Add(c)
}

func (c composites) claims(kind instance.Kind) source.TypedSource[instance.Key] {
	return c.sourceOf(kind.Object, kind.OfObject)
}

func (c composites) xrs(kind instance.Kind) source.TypedSource[instance.Key] {
	return c.sourceOf(kind.XR, kind.OfXR)
}

// sourceOf returns a source of a kind's events for one controller. The controller starts without waiting for its
// cache.
func (c composites) sourceOf(kind schema.GroupVersionKind,
	keys func(client.Object) []instance.Key) source.TypedSource[instance.Key] {
	return unawaited{source.TypedKind(c.Cache, objectOfKind(kind), enqueueKeys(keys))}
}

// An unawaited source has no WaitForSync method (source.TypedSyncingSource), so controllers do not wait for it.
type unawaited struct {
	source.TypedSource[instance.Key]
}

func objectOfKind(k schema.GroupVersionKind) client.Object {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(k)
	return m
}

func enqueueKeys(keys func(client.Object) []instance.Key) handler.TypedEventHandler[client.Object, instance.Key] {
	return settlingHandler{handler.TypedEnqueueRequestsFromMapFunc(
		func(_ context.Context, o client.Object) []instance.Key { return keys(o) })}
}
