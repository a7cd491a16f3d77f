package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
)

const (
	// storeInterval is the interval at which the controller probes a reachable store, and lostStoreInterval the
	// interval for an unreachable one. The controller does not watch the Secrets of a store, because it may not list
	// Secrets in their namespace.
	storeInterval     = 5 * time.Minute
	lostStoreInterval = 10 * time.Second
	// probeTimeout is the timeout of a probe. A store that takes longer is not used for backups. storeTimeout is the
	// timeout of an operation that a user requested.
	probeTimeout = time.Minute
	storeTimeout = 5 * time.Minute
	// storesAtOnce is the number of stores that are probed concurrently. A store that drops packets occupies a worker
	// for the whole timeout, and other stores must not wait for it. The number exceeds the number of BackupStores in any
	// cluster, and an idle worker costs nothing.
	storesAtOnce = 256
)

// A storeReconciler reconciles the status of BackupStores, and configures the gateway for all of them.
type storeReconciler struct {
	kube      client.Client
	reader    client.Reader
	writer    writer
	events    events.EventRecorder
	meter     *meter
	namespace string
	clock     func() time.Time
	holders   *stores.Holders
	lanes     *stores.Lanes
}

// Reconcile reconciles one BackupStore.
func (r *storeReconciler) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	s := &v1.BackupStore{}
	if err := r.reader.Get(ctx, q.NamespacedName, s); err != nil {
		if kerrors.IsNotFound(err) {
			r.meter.forgetStore(q.Name)
			return reconcile.Result{}, r.updateGateway(ctx)
		}
		return reconcile.Result{}, err
	}
	// The gateway is updated first, because it must know a store before the status reports that the store can be used.
	if err := r.updateGateway(ctx); err != nil {
		return reconcile.Result{}, err
	}
	after, err := r.checkStore(ctx, s)
	if kerrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: time.Second}, nil // Another client has changed the object in the meantime.
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// watchStores starts the watch when the kind is installed. An upgrade may install it later.
func (r *storeReconciler) watchStores(mgr ctrl.Manager) manager.RunnableFunc {
	return func(ctx context.Context) error {
		err := wait.PollUntilContextCancel(ctx, installPollInterval, true, func(context.Context) (bool, error) {
			if _, err := mgr.GetRESTMapper().RESTMapping(v1.GroupVersion.WithKind(v1.KindBackupStore).GroupKind(),
				v1.Version); err != nil {
				mgr.GetLogger().V(1).Info("Waiting for a kind that is not installed", "kind", v1.KindBackupStore, "error",
					err.Error())
				return false, nil // The read is retried after any error.
			}
			// The controller's own status writes must not cause another probe.
			return true, ctrl.NewControllerManagedBy(mgr).
				For(&v1.BackupStore{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{},
					predicate.AnnotationChangedPredicate{}))).
				WithOptions(controller.Options{MaxConcurrentReconciles: storesAtOnce}).
				WithLogConstructor(logForStore(mgr)).
				Complete(r)
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The controller is stopping.
		}
		return err
	}
}

// checkStore probes a store and writes the result to its status.
func (r *storeReconciler) checkStore(ctx context.Context, s *v1.BackupStore) (time.Duration, error) {
	secrets, err := r.cluster().SecretsOf(ctx, s)
	if err != nil {
		return 0, err
	}
	wasReachable := s.IsReachable()
	start := time.Now()
	open, found, err := r.probe(ctx, s, secrets)
	log.FromContext(ctx).V(1).Info("Probed the store", "writesOnce", found.WritesOnce, "deletes", found.Deletes, "took",
		time.Since(start), "error", err)
	if errors.As(err, new(*unwrittenError)) {
		return 0, err
	}
	next, err := stores.NextStatus(s, open, found, err, r.clock())
	if err != nil {
		return 0, err
	}
	if next.LastBackupTime, err = r.lastBackupIn(ctx, s); err != nil {
		return 0, err
	}
	if next.Record, err = r.makeRecord(ctx, s, open); err != nil {
		return 0, err
	}
	if next.Adoption, err = r.adopt(ctx, s, open); err != nil {
		return 0, err
	}
	if err := r.writer.Apply(ctx, []change.Change{
		change.PatchObjectStatus(s, func(s *v1.BackupStore) { s.Status = next })}); err != nil {
		return 0, err
	}
	now := s.DeepCopy()
	now.Status = next
	r.announceStore(ctx, now, wasReachable)
	r.meter.observeStore(s.Name, now.IsReachable())
	if now.IsReachable() {
		return storeInterval, nil
	}
	return lostStoreInterval, nil
}

// probe probes a store. It checks the holder first, because the controller must not write to a prefix that another
// cluster holds. If it writes the holder to the status, it updates s.
func (r *storeReconciler) probe(ctx context.Context, s *v1.BackupStore, secrets stores.Secrets) (*stores.Store,
	store.Finding, error) {
	open, err := stores.Open(s, secrets)
	if err != nil {
		return nil, store.Finding{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := r.hold(ctx, s, open); err != nil {
		return open, store.Finding{}, err
	}
	found, err := open.Look(ctx)
	if err == nil {
		r.lanes.Answered(s.Name)
	}
	return open, found, err
}

// An unwrittenError is an error of the API server and not of the store.
type unwrittenError struct{ error }

// Unwrap returns the wrapped error.
func (e *unwrittenError) Unwrap() error { return e.error }

// hold renews the hold of this cluster on the prefix of a store, so that no other cluster writes to the prefix.
func (r *storeReconciler) hold(ctx context.Context, s *v1.BackupStore, open *stores.Store) error {
	all := &v1.BackupStoreList{}
	if err := r.reader.List(ctx, all); err != nil {
		return &unwrittenError{err}
	}
	return r.holders.Hold(ctx, open, s, all.Items, r.clock(), func(next *v1.StoreHolder) error {
		written := change.PatchObjectStatus(s, func(s *v1.BackupStore) { s.Status.Holder = next })
		if err := r.writer.Apply(ctx, []change.Change{written}); err != nil {
			return &unwrittenError{err}
		}
		now := &v1.BackupStore{}
		if err := r.reader.Get(ctx, client.ObjectKeyFromObject(s), now); err != nil {
			return &unwrittenError{err}
		}
		*s = *now
		return nil
	})
}

// lastBackupIn returns the time of the last backup in a store, or nil if there is none.
func (r *storeReconciler) lastBackupIn(ctx context.Context, s *v1.BackupStore) (*metav1.Time, error) {
	var last *metav1.Time
	err := eachBackup(ctx, r.reader, func(b *v1.BackupRecord) {
		if verifiedAt := b.Status.CompletionTime; verifiedAt != nil && b.InStore() && b.Spec.Archive.Store == s.Name &&
			(last == nil || last.Before(verifiedAt)) {
			last = verifiedAt.DeepCopy()
		}
	})
	return last, err
}

// makeRecord creates a BackupRecord again from the catalog in the store, if a user requests it. The BackupRecord is
// then marked as verified from its catalog entry, in the same way as one that a user has created.
func (r *storeReconciler) makeRecord(ctx context.Context, s *v1.BackupStore, open *stores.Store) (*v1.StoreRecord,
	error) {
	asked := s.Annotations[v1.AnnotationMakeRecord]
	switch previous := s.Status.Record; {
	case asked == "":
		return nil, nil //nolint:nilnil // There is no request.
	case previous != nil && previous.Asked == asked && previous.Made:
		return previous, nil
	case open == nil:
		return &v1.StoreRecord{Asked: asked, Message: "the store's settings cannot be used"}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	n, err := open.EntryIn(ctx, asked)
	if err != nil {
		return &v1.StoreRecord{Asked: asked, Message: v1.PrintableText(err.Error(), v1.MaxForeignText)}, nil
	}
	err = r.makeRecordOf(ctx, n)
	switch {
	case isRefused(err): // The other fields of the status must still be written.
		return &v1.StoreRecord{Asked: asked, Message: v1.PrintableText(err.Error(), v1.MaxForeignText)}, nil
	case err != nil:
		return nil, err
	}
	return &v1.StoreRecord{Asked: asked, Made: true, Message: fmt.Sprintf("BackupRecord %s exists", n.Name)}, nil
}

// makeRecordOf creates the BackupRecord of a catalog entry if it does not exist yet.
func (r *storeReconciler) makeRecordOf(ctx context.Context, n *v1.StoreEntry) error {
	return r.writer.Apply(ctx, []change.Change{
		catalog.MakeRecordAgain(&instance.Entry{Name: n.Name, BackupEntry: n.BackupEntry})})
}

// announceStore sends an event when a store becomes reachable or unreachable.
func (r *storeReconciler) announceStore(ctx context.Context, s *v1.BackupStore, wasReachable bool) {
	if s.IsReachable() == wasReachable {
		return
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1.ConditionReachable); c != nil {
		log.FromContext(ctx).Info("The store changed state", "from", stateOfStore(wasReachable), "to",
			stateOfStore(!wasReachable), "reason", c.Reason, "message", c.Message)
		sendEvent(r.events, s, eventsOfStores[s.IsReachable()], "Look", c.Message)
	}
}

func stateOfStore(isReachable bool) string {
	if isReachable {
		return "Reachable"
	}
	return "Unreachable"
}

func (r *storeReconciler) cluster() stores.Cluster {
	return stores.Cluster{Reader: r.reader, Namespace: r.namespace, Clock: r.clock, Holders: r.holders, Lanes: r.lanes}
}

// updateGateway writes the gateway's configuration, which contains all stores with valid settings.
func (r *storeReconciler) updateGateway(ctx context.Context) error {
	all := &v1.BackupStoreList{}
	if err := r.reader.List(ctx, all); err != nil {
		return err
	}
	var open []*stores.Store
	for i := range all.Items {
		secrets, err := r.cluster().SecretsOf(ctx, &all.Items[i])
		if err != nil {
			return err
		}
		if s, err := stores.Open(&all.Items[i], secrets); err == nil {
			open = append(open, s)
		}
	}
	state, err := r.cluster().GatewayState(ctx)
	if err != nil {
		return err
	}
	signer, err := stores.NextSigner(state)
	if err != nil {
		return err
	}
	if signer != nil {
		if err := r.kube.Create(ctx, signer); err != nil {
			return err // If another process has created one in the meantime, the next reconcile uses it.
		}
		state.Signer = signer
	}
	next, err := stores.NextGateway(state, open)
	switch {
	case err != nil || next == nil:
		return err
	case state.Gateway == nil:
		return r.kube.Create(ctx, next)
	}
	return r.kube.Update(ctx, next)
}
