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
	// installPollInterval is for kinds that are not installed yet: the controller may be there
	// before the Configuration.
	installPollInterval = 5 * time.Second
	// cacheSyncTimeout is for MySQLBackups, which may be taken away before all of them were read
	// once. When it is over the whole controller ends.
	cacheSyncTimeout = 365 * 24 * time.Hour
)

// watchKind, and what its reconcilers depend on. Backups are there also where the kind
// is not installed. The claims' kind is enough to begin: an XRD that is deleted takes that of the
// XRs first, and there may be a claim that is still to be let go.
func (r *reconcilers) watchKind(mgr ctrl.Manager, of instance.Kind, atOnce int) error {
	b := r.restoreTests // Each kind has its own.
	b.kind = of
	tests, err := b.watchBackups(mgr)
	if err != nil {
		return err
	}
	c := r.composites
	err = mgr.Add(whenInstalled(mgr, of.Claim, func() error {
		instances, err := r.instances.watchInstances(mgr, c, of, atOnce)
		if err != nil {
			return err
		}
		// A restore test waits while a deletion goes first, or ends where the name is needed again.
		return errors.Join(tests.Watch(c.claims(of)), mgr.Add(whenInstalled(mgr, of.XR, func() error {
			return errors.Join(r.passwords.watchServers(mgr, c, of, atOnce), instances.Watch(c.xrs(of)), tests.Watch(c.xrs(of)))
		})))
	}))
	return errors.Join(err, r.archives.watchArchives(mgr, of, atOnce))
}

// whenInstalled watches a kind as soon as it is there. That may be never: a
// platform need not offer both APIs.
func whenInstalled(mgr ctrl.Manager, kind schema.GroupVersionKind, watch func() error) manager.RunnableFunc {
	return func(ctx context.Context) error {
		err := wait.PollUntilContextCancel(ctx, installPollInterval, true, func(context.Context) (bool, error) {
			if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
				mgr.GetLogger().V(1).Info("Waiting for a kind that is not installed", "kind", kind.Kind, "error", err.Error())
				return false, nil // It is looked for again, whatever it was.
			}
			return true, watch()
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The controller was told to stop.
		}
		return err
	}
}

// watchInstances watches all that may change what is to be done but XRs, by its metadata where
// that is enough to know whose it is. Deployments and pods are not watched: while a
// pod is to start or to stop, each look asks for the next. Each kind has a controller
// of its own.
func (r *instanceReconciler) watchInstances(mgr ctrl.Manager, c composites, of instance.Kind, atOnce int) (controller.TypedController[instance.Key], error) {
	name := strings.ToLower(of.Claim.Kind)
	return builder.TypedControllerManagedBy[instance.Key](mgr).
		Named(name).
		WatchesRawSource(c.claims(of)).
		WatchesMetadata(&corev1.PersistentVolumeClaim{}, enqueueKeys(of.OfAnnotated)).
		WatchesMetadata(&corev1.PersistentVolume{}, enqueueKeys(of.OfAnnotated)).
		WatchesMetadata(&batchv1.Job{}, enqueueKeys(of.OfAnnotated)).
		Watches(&v1.MySQLBackup{}, enqueueKeys(of.OfRecord)).
		WithOptions(controller.TypedOptions[instance.Key]{MaxConcurrentReconciles: atOnce, CacheSyncTimeout: cacheSyncTimeout}).
		WithLogConstructor(logFor(mgr, name)).
		Build(r)
}

// watchServers beside the rest, with workers of their own: a server that
// does not answer holds no deletion up.
func (r *passwordReconciler) watchServers(mgr ctrl.Manager, c composites, of instance.Kind, atOnce int) error {
	name := strings.ToLower(of.Claim.Kind) + "-credentials"
	return builder.TypedControllerManagedBy[instance.Key](mgr).
		Named(name).
		WatchesRawSource(c.xrs(of)).
		WithOptions(controller.TypedOptions[instance.Key]{MaxConcurrentReconciles: atOnce, RateLimiter: r.retries}).
		WithLogConstructor(logFor(mgr, name)).
		Complete(r)
}

// composites are a cache of claims and XRs, and of nothing else: their kinds may be taken away at any time, also while all of one is read
// for the first time. A source of controller-runtime waits for the whole cache that it is of (pkg/internal/source/kind.go), which would be until
// the kind is there again.
type composites struct{ cache.Cache }

func newComposites(mgr ctrl.Manager) (composites, error) {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return composites{}, err
	}
	return composites{c}, mgr.Add(c)
}

func (c composites) claims(of instance.Kind) source.TypedSource[instance.Key] {
	return c.sourceOf(of.Claim, of.OfClaim)
}

func (c composites) xrs(of instance.Kind) source.TypedSource[instance.Key] {
	return c.sourceOf(of.XR, of.OfXR)
}

// sourceOf a kind's events, for one controller, which does not wait for it before it begins.
func (c composites) sourceOf(kind schema.GroupVersionKind, keys func(client.Object) []instance.Key) source.TypedSource[instance.Key] {
	return unawaited{source.TypedKind(c.Cache, objectOfKind(kind), enqueueKeys(keys))}
}

// An unawaited source is one without WaitForSync (source.TypedSyncingSource).
type unawaited struct {
	source.TypedSource[instance.Key]
}

func objectOfKind(k schema.GroupVersionKind) client.Object {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(k)
	return m
}

func enqueueKeys(of func(client.Object) []instance.Key) handler.TypedEventHandler[client.Object, instance.Key] {
	return settlingHandler{handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []instance.Key { return of(o) })}
}
