package reconciler

import (
	"context"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// An archiveReconciler reconciles BackupRecords and their archives.
type archiveReconciler struct {
	gather *instance.Gatherer
	writer writer
	// cache is used to check whether there is anything to do. Decisions are based on reads from the API server.
	cache  client.Reader
	events events.EventRecorder
}

// Reconcile reconciles the BackupRecords of an instance. It is triggered by events of BackupRecords, volumes and
// Jobs.
func (r *archiveReconciler) Reconcile(ctx context.Context, k instance.Key) (reconcile.Result, error) {
	if idle, err := r.isIdle(ctx, k); err != nil || idle {
		return reconcile.Result{}, err
	}
	return runPasses(func() (time.Duration, bool, error) { return r.runPass(ctx, k) }, isChangedOrGone)
}

// watchArchives watches the objects that affect archives. The kind of the claims need not be installed, because
// backups can exist without it.
func (r *archiveReconciler) watchArchives(mgr ctrl.Manager, kind instance.Kind, atOnce int) error {
	name := strings.ToLower(kind.InstanceKind()) + "-archives"
	return builder.TypedControllerManagedBy[instance.Key](mgr).
		Named(name).
		WatchesMetadata(&corev1.PersistentVolume{}, enqueueKeys(kind.OfAnnotated)).
		WatchesMetadata(&corev1.PersistentVolumeClaim{}, enqueueKeys(kind.OfAnnotated)).
		WatchesMetadata(&batchv1.Job{}, enqueueKeys(kind.OfAnnotated)).
		Watches(&v1.BackupRecord{}, enqueueKeys(kind.OfRecord)).
		WithOptions(controller.TypedOptions[instance.Key]{MaxConcurrentReconciles: atOnce,
			CacheSyncTimeout: cacheSyncTimeout}).
		WithLogConstructor(logFor(mgr, name)).
		Complete(r)
}

// isIdle reports whether the BackupRecords and backup volumes of an instance need no work, according to the cache.
func (r *archiveReconciler) isIdle(ctx context.Context, k instance.Key) (bool, error) {
	records, err := instance.Records(ctx, r.cache, k.Instance(""))
	if err != nil {
		return false, err
	}
	volumes := &metav1.PartialObjectMetadataList{}
	volumes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeList"))
	if err := r.cache.List(ctx, volumes,
		client.MatchingLabels{v1.LabelInstance: k.Instance("").Key(), v1.LabelComponent: v1.ComponentBackup}); err != nil {
		return false, err
	}
	return len(catalog.NextOfArchives(instance.ArchivesOf(k, records, volumes.Items))) == 0, nil
}

// runPass reads all BackupRecords of an instance, and applies the next step of each of them.
func (r *archiveReconciler) runPass(ctx context.Context, k instance.Key) (after time.Duration, acted bool, err error) {
	a, err := logReads(ctx, func(ctx context.Context) (*instance.Archives, error) { return r.gather.Archives(ctx, k) })
	if err != nil {
		return 0, false, err
	}
	var changes []change.Change
	var taken, erasures []catalog.ArchiveStep
	for _, step := range catalog.NextOfArchives(a) {
		switch step.Action { //nolint:exhaustive // All other actions only write objects.
		case steps.Wait:
			after = sooner(after, step.After)
		case catalog.RemoveFromStore:
			erasures = append(erasures, step)
		default:
			changes, taken = append(changes, step.Changes...), append(taken, step)
		}
	}
	if err := r.writer.Apply(ctx, changes); err != nil {
		return after, false, err
	}
	for _, step := range erasures {
		done, wait, err := r.remove(ctx, a, step)
		if err != nil {
			return after, false, err
		}
		if done {
			taken = append(taken, step)
		}
		after = sooner(after, wait)
	}
	for _, step := range taken {
		r.announceStep(ctx, step)
	}
	return after, len(taken) > 0, nil
}

// remove deletes an archive from its store. If the store refuses the deletion, the BackupRecord reports it, and other
// BackupRecords are not delayed.
func (r *archiveReconciler) remove(ctx context.Context, a *instance.Archives, step catalog.ArchiveStep) (done bool,
	after time.Duration, err error) {
	err = r.writer.Apply(ctx, step.Changes)
	if err == nil || kerrors.IsConflict(err) {
		return err == nil, 0, err
	}
	log.FromContext(ctx).Error(err, "Cannot remove the archive from its store", "backup", step.Record.Name)
	told := catalog.RemovalFailed(a, step, err)
	err = r.writer.Apply(ctx, told.Changes)
	return false, told.After, err
}

// announceStep sends an event about a BackupRecord. The event is attached to the BackupRecord, because the claim may
// be deleted.
func (r *archiveReconciler) announceStep(ctx context.Context, step catalog.ArchiveStep) {
	name := ""
	if step.Record != nil {
		name = step.Record.Name
	}
	log.FromContext(ctx).Info("Performed a step for a backup",
		"backup", name, "action", step.Action, "message", step.Message)
	if step.Record != nil && step.Message != "" {
		sendEvent(r.events, step.Record, eventsOfArchives[step.Action], string(step.Action), step.Message)
	}
}
