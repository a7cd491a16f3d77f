package reconciler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/restoretest"
)

// A restoreTestReconciler runs the restore tests for one kind. Usually it tests the newest backup of each instance.
type restoreTestReconciler struct {
	kind   instance.Kind
	gather *instance.Gatherer
	writer writer
	// cache is used to check whether there is anything to do. Decisions are based on reads from the API server.
	cache  client.Reader
	reader client.Reader
	events events.EventRecorder
	meter  *meter
	atOnce int
	clock  func() time.Time
	// turns is locked while a reconciler of any kind starts a restore test, so that all kinds share one limit.
	turns *sync.Mutex
	// failed maps the key of an instance to the time of the last failure to create its Job.
	failed *sync.Map
}

// afterFailure is the delay before the controller tries again to create the Job of a restore test. After a failure,
// the controller removes the test from the BackupRecord. This write causes an event, which must not lead to an
// immediate retry.
const afterFailure = time.Minute

// Reconcile runs the restore tests of an instance. It is triggered by events of Jobs and BackupRecords.
func (r *restoreTestReconciler) Reconcile(ctx context.Context, k instance.Key) (reconcile.Result, error) {
	if left := r.pauseOf(k); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if idle, after, err := r.isIdle(ctx, k); err != nil || idle {
		return reconcile.Result{RequeueAfter: after}, err
	}
	s, err := r.readState(ctx, k)
	if err != nil {
		return reconcile.Result{}, err
	}
	step := restoretest.Next(s)
	if step.Action == restoretest.Start { // The cache may be outdated, so it decides again under the lock.
		r.turns.Lock()
		defer r.turns.Unlock()
		if s.Others, err = r.readTurns(ctx, r.reader, eachBackup, k); err != nil {
			return reconcile.Result{}, err
		}
		step = restoretest.Next(s)
	}
	if step.Action != restoretest.NoOp && step.Action != restoretest.Wait {
		log.FromContext(ctx).Info("Performing a step of the restore test", "action", step.Action, "xr", s.XR(), "restorable",
			step.Verdict.Status, "message", step.Verdict.Message)
	}
	err = r.writer.Apply(ctx, step.Changes)
	if refusal := err; step.Action == restoretest.Start && isRefused(refusal) { // A quota or a policy refused the Job.
		if s, err = r.readState(ctx, k); err != nil {
			return reconcile.Result{}, err
		}
		step = restoretest.Refused(s, refusal)
		err = r.writer.Apply(ctx, step.Changes)
	}
	switch {
	case isChangedOrGone(err):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil && step.Action == restoretest.Start:
		r.failed.Store(k, r.clock())
		log.FromContext(ctx).V(1).Info("The restore test waits, because its Job cannot be created", "after", afterFailure,
			"error", err)
		return reconcile.Result{}, errors.Join(err, r.giveBack(ctx, k))
	case err != nil:
		return reconcile.Result{}, err
	}
	if step.Action == restoretest.Conclude {
		r.announceVerdict(s.Record, step)
		r.meter.countVerdict(step.Verdict.Status)
	}
	return reconcile.Result{RequeueAfter: step.After}, nil
}

// pauseOf returns the remaining delay of an instance whose Job could not be created.
func (r *restoreTestReconciler) pauseOf(k instance.Key) time.Duration {
	failedAt, _ := r.failed.Load(k)
	since, failed := failedAt.(time.Time)
	if left := afterFailure - r.clock().Sub(since); failed && left > 0 {
		return left
	}
	r.failed.Delete(k)
	return 0
}

// giveBack removes a restore test from its BackupRecord if the Job could not be created, for example because the
// store is unreachable. Another restore test can then run.
func (r *restoreTestReconciler) giveBack(ctx context.Context, k instance.Key) error {
	s, err := r.readState(ctx, k)
	if err != nil {
		return err
	}
	return r.writer.Apply(ctx, restoretest.GiveBack(s).Changes)
}

// watchBackups starts the watch even if the kind of the claims is not installed, because a running test must be
// finished and its BackupRecord released. One worker is enough, because it only starts and checks a limited number of
// Jobs.
func (r *restoreTestReconciler) watchBackups(mgr ctrl.Manager) (controller.TypedController[instance.Key], error) {
	name := strings.ToLower(r.kind.InstanceKind()) + "-backups"
	return builder.TypedControllerManagedBy[instance.Key](mgr).
		Named(name).
		WatchesMetadata(&batchv1.Job{}, enqueueKeys(r.kind.OfAnnotated)).
		Watches(&v1.BackupRecord{}, enqueueKeys(r.kind.OfRecord)).
		WithOptions(controller.TypedOptions[instance.Key]{MaxConcurrentReconciles: 1, CacheSyncTimeout: cacheSyncTimeout}).
		WithLogConstructor(logFor(mgr, name)).
		Build(r)
}

// readState reads the state of the backup to test, and of the restore tests of other instances.
func (r *restoreTestReconciler) readState(ctx context.Context, k instance.Key) (*restoretest.State, error) {
	others, err := r.readTurns(ctx, r.cache, eachCachedBackup, k)
	if err != nil {
		return nil, err
	}
	return logReads(ctx, func(ctx context.Context) (*restoretest.State, error) {
		return restoretest.ReadState(ctx, r.gather, k, others, r.atOnce)
	})
}

// readTurns reads the running restore tests of other instances from their BackupRecords.
func (r *restoreTestReconciler) readTurns(ctx context.Context, from client.Reader,
	each func(context.Context, client.Reader, func(*v1.BackupRecord)) error, k instance.Key) (restoretest.Turns, error) {
	var tried []v1.BackupRecord
	err := each(ctx, from, func(b *v1.BackupRecord) {
		if b.Status.RestoreTest != nil {
			tried = append(tried, *b)
		}
	})
	return restoretest.TurnsOf(tried, k.Instance(""), r.clock()), err
}

// isIdle reports whether there is nothing to test or to clean up now, and how long to wait.
func (r *restoreTestReconciler) isIdle(ctx context.Context, k instance.Key) (idle bool, after time.Duration,
	err error) {
	records, err := instance.Records(ctx, r.cache, k.Instance(""))
	if err != nil {
		return false, 0, err
	}
	r.meter.observeBackups(k, records)
	switch restoretest.LeftToDo(records) {
	case restoretest.LeftNothing:
		idle = true
	case restoretest.LeftJob:
		idle, err = r.hasNoJob(ctx, k)
	case restoretest.LeftVerdict:
		ends, eerr := r.isEnding(ctx, k)
		idle, err = !ends, eerr
	case restoretest.LeftTest:
		others, err := r.readTurns(ctx, r.cache, eachCachedBackup, k)
		if err != nil {
			return false, 0, err
		}
		after, idle = restoretest.MustWait(records, others, r.atOnce, r.clock())
	}
	return idle, after, err
}

// hasNoJob reports whether no Job has the name of this instance's restore test Job.
func (r *restoreTestReconciler) hasNoJob(ctx context.Context, k instance.Key) (bool, error) {
	j := &metav1.PartialObjectMetadata{}
	j.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	err := r.cache.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Instance("").Jobs().RestoreTest()}, j)
	return kerrors.IsNotFound(err), client.IgnoreNotFound(err)
}

// isEnding reports whether an instance with this name is being deleted. It reads from the API server, because the
// cache of a kind that is not installed is never filled.
func (r *restoreTestReconciler) isEnding(ctx context.Context, k instance.Key) (bool, error) {
	l := &metav1.PartialObjectMetadataList{}
	xr := r.kind.XR
	l.SetGroupVersionKind(xr.GroupVersion().WithKind(xr.Kind + "List"))
	err := r.reader.List(ctx, l, r.kind.XRsOf(k)...)
	if instance.IsNotInstalled(err) {
		return false, nil // The XRD was uninstalled with all instances.
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(l.Items, func(x metav1.PartialObjectMetadata) bool {
		return x.DeletionTimestamp != nil && slices.Contains(r.kind.OfXR(&x), k)
	}), nil
}

// announceVerdict sends the result as an event of the BackupRecord, because the claim may already be deleted.
func (r *restoreTestReconciler) announceVerdict(b *v1.BackupRecord, step restoretest.Step) {
	sendEvent(r.events, b, eventOfVerdict(step.Verdict.Status), string(step.Action), step.Verdict.Message)
}
