package reconciler

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

const (
	// installPollInterval is for kinds that are not installed yet: the controller may be there
	// before the Configuration.
	installPollInterval = 5 * time.Second
	// cacheSyncTimeout is for a kind that is taken away again before all of it was read
	// once. When it is over the whole controller ends.
	cacheSyncTimeout = 365 * 24 * time.Hour
)

// watchKind, and what its reconcilers depend on. Backups are there also where the kind
// is not installed.
func (r *reconcilers) watchKind(mgr ctrl.Manager, of instance.Kind, atOnce int) error {
	b := r.restoreTests // Each kind has its own.
	b.kind = of
	tests, err := b.watchBackups(mgr)
	if err != nil {
		return err
	}
	err = mgr.Add(whenInstalled(mgr, of, func() error {
		return errors.Join(r.instances.watchInstances(mgr, of, atOnce), r.passwords.watchServers(mgr, of, atOnce), watchLives(mgr, of, tests))
	}))
	return errors.Join(err, r.archives.watchArchives(mgr, of, atOnce))
}

// whenInstalled watches a kind as soon as it is there. That may be never: a
// platform need not offer both APIs.
func whenInstalled(mgr ctrl.Manager, of instance.Kind, watch func() error) manager.RunnableFunc {
	return func(ctx context.Context) error {
		err := wait.PollUntilContextCancel(ctx, installPollInterval, true, func(context.Context) (bool, error) {
			for _, k := range []schema.GroupVersionKind{of.Claim, of.XR} {
				if _, err := mgr.GetRESTMapper().RESTMapping(k.GroupKind(), k.Version); err != nil {
					mgr.GetLogger().V(1).Info("Waiting for a kind that is not installed", "kind", k.Kind, "error", err.Error())
					return false, nil // It is looked for again, whatever it was.
				}
			}
			return true, watch()
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The controller was told to stop.
		}
		return err
	}
}

// watchInstances watches all that may change what is to be done, by its metadata where
// that is enough to know whose it is. Deployments and pods are not watched: while a
// pod is to start or to stop, each look asks for the next. Each kind has a controller
// of its own.
func (r *instanceReconciler) watchInstances(mgr ctrl.Manager, of instance.Kind, atOnce int) error {
	return builder.TypedControllerManagedBy[instance.Key](mgr).
		Named(strings.ToLower(of.Claim.Kind)).
		WatchesMetadata(objectOfKind(of.Claim), enqueueKeys(of.OfClaim)).
		WatchesMetadata(objectOfKind(of.XR), enqueueKeys(of.OfXR)).
		WatchesMetadata(&corev1.PersistentVolumeClaim{}, enqueueKeys(of.OfAnnotated)).
		WatchesMetadata(&corev1.PersistentVolume{}, enqueueKeys(of.OfAnnotated)).
		WatchesMetadata(&batchv1.Job{}, enqueueKeys(of.OfAnnotated)).
		Watches(&v1.MySQLBackup{}, enqueueKeys(of.OfRecord)).
		WithOptions(controller.TypedOptions[instance.Key]{MaxConcurrentReconciles: atOnce, CacheSyncTimeout: cacheSyncTimeout}).
		WithLogConstructor(logFor(mgr)).
		Complete(r)
}

// watchServers beside the rest, with workers of their own: a server that
// does not answer holds no deletion up.
func (r *passwordReconciler) watchServers(mgr ctrl.Manager, of instance.Kind, atOnce int) error {
	return builder.TypedControllerManagedBy[instance.Key](mgr).
		Named(strings.ToLower(of.Claim.Kind)+"-credentials").
		WatchesMetadata(objectOfKind(of.XR), enqueueKeys(of.OfXR)).
		WithOptions(controller.TypedOptions[instance.Key]{MaxConcurrentReconciles: atOnce, RateLimiter: r.retries, CacheSyncTimeout: cacheSyncTimeout}).
		WithLogConstructor(logFor(mgr)).
		Complete(r)
}

// watchLives for restore tests: one waits while a deletion goes first, or ends where
// the name is needed again.
func watchLives(mgr ctrl.Manager, of instance.Kind, tests controller.TypedController[instance.Key]) error {
	watch := func(kind schema.GroupVersionKind, keys func(client.Object) []instance.Key) error {
		return tests.Watch(unawaited{source.TypedKind(mgr.GetCache(), objectOfKind(kind), enqueueKeys(keys))})
	}
	return errors.Join(watch(of.Claim, of.OfClaim), watch(of.XR, of.OfXR))
}

// An unawaited source is one that its controller does not wait for before it begins (source.TypedSyncingSource). Of a kind that is taken
// away while the controller starts nothing can be read before it is there again, and what does not need it goes on.
type unawaited struct {
	source.TypedSource[instance.Key]
}

func logFor(mgr ctrl.Manager) func(*instance.Key) logr.Logger {
	return func(k *instance.Key) logr.Logger {
		if k == nil {
			return mgr.GetLogger()
		}
		return mgr.GetLogger().WithValues("instance", k.String())
	}
}

func objectOfKind(k schema.GroupVersionKind) client.Object {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(k)
	return m
}

func enqueueKeys(of func(client.Object) []instance.Key) handler.TypedEventHandler[client.Object, instance.Key] {
	return settlingHandler{handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []instance.Key { return of(o) })}
}
