package reconciler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backupobject"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// A backupObjectReconciler updates the Backup objects of all namespaces from BackupRecords and requests.
type backupObjectReconciler struct {
	gather *instance.Gatherer
	writer writer
	// cache contains Backup objects and BackupRecords. reader reads from the API server.
	cache, reader client.Reader
}

// Reconcile creates, updates or deletes the Backup object of one backup.
func (r *backupObjectReconciler) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	return runPasses(func() (time.Duration, bool, error) {
		s, err := r.readSubject(ctx, q.NamespacedName)
		if err != nil {
			return 0, false, err
		}
		changes, after := backupobject.Next(s)
		if err := r.writer.Apply(ctx, changes); err != nil {
			if kerrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return 0, false, nil
			}
			return 0, false, err
		}
		return after, len(changes) > 0, nil
	}, func(err error) bool { return kerrors.IsConflict(err) || kerrors.IsAlreadyExists(err) })
}

// watchBackupObjects starts the watch when the kind is installed.
func (r *backupObjectReconciler) watchBackupObjects(mgr ctrl.Manager, atOnce int) manager.RunnableFunc {
	return whenInstalled(mgr, v1.GroupVersion.WithKind(v1.KindBackup), func() error {
		return ctrl.NewControllerManagedBy(mgr).
			Named("backup-objects").
			For(&v1.Backup{}).
			Watches(&v1.BackupRecord{}, handler.EnqueueRequestsFromMapFunc(backupOfRecord)).
			WithOptions(controller.Options{MaxConcurrentReconciles: atOnce, CacheSyncTimeout: cacheSyncTimeout}).
			Complete(r)
	})
}

func (r *backupObjectReconciler) readSubject(ctx context.Context, name types.NamespacedName) (*backupobject.Subject,
	error) {
	s := &backupobject.Subject{Namespace: &corev1.Namespace{}, Backup: &v1.Backup{}}
	if err := r.reader.Get(ctx, client.ObjectKey{Name: name.Namespace}, s.Namespace); kerrors.IsNotFound(err) {
		s.Namespace = nil
	} else if err != nil {
		return nil, err
	}
	if err := r.reader.Get(ctx, name, s.Backup); kerrors.IsNotFound(err) {
		s.Backup = nil
	} else if err != nil {
		return nil, err
	}
	var err error
	if s.Record, err = r.recordOf(ctx, name, s); err != nil || s.Backup == nil || s.Record != nil && s.Record.IsVerified() {
		return s, err
	}
	key := instance.Key{Kind: s.Backup.KindOfInstance(), Namespace: name.Namespace, Name: s.Backup.Spec.Instance.Name}
	instances, err := r.gather.GatherXRs(ctx, key)
	if err != nil && !instance.IsNotInstalled(err) {
		return nil, err
	}
	for _, instanceID := range instances {
		s.HasInstance = true
		if a := instanceID.XR.Status.RequestedBackup; a != nil && a.Request == name.Name && a.UID == s.Backup.UID {
			s.Attempt = a
		}
	}
	return s, nil
}

// recordOf returns the newest BackupRecord of a Backup object. It reads the BackupRecord in the status without the
// cache, because the archive is treated as deleted only if this BackupRecord certainly does not exist.
func (r *backupObjectReconciler) recordOf(ctx context.Context, name types.NamespacedName,
	s *backupobject.Subject) (*v1.BackupRecord, error) {
	var none *v1.BackupRecord
	if s.Namespace == nil {
		return none, nil
	}
	l := &v1.BackupRecordList{}
	if err := r.cache.List(ctx, l,
		client.MatchingLabels{v1.LabelBackup: v1.BackupKey(name.Namespace, name.Name)}); err != nil {
		return nil, err
	}
	found := slices.SortedFunc(slices.Values(l.Items), func(a, b v1.BackupRecord) int { return v1.NewestFirst(&a, &b) })
	names := []string{}
	for i := range found {
		names = append(names, found[i].Name)
	}
	if s.Backup != nil && s.Backup.Status.Record != "" {
		names = append(names, s.Backup.Status.Record)
	}
	for _, n := range names {
		record := &v1.BackupRecord{}
		err := r.reader.Get(ctx, client.ObjectKey{Name: n}, record)
		switch {
		case kerrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, err
		case record.BackupName() == name.Name && record.Spec.Instance.Namespace == name.Namespace &&
			record.Spec.Instance.NamespaceUID == s.Namespace.UID:
			return record, nil
		}
	}
	return none, nil
}

// backupOfRecord returns the name of the Backup object for a BackupRecord.
func backupOfRecord(_ context.Context, o client.Object) []reconcile.Request {
	record, ok := o.(*v1.BackupRecord)
	if !ok || record.Spec.Instance.Namespace == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: record.Spec.Instance.Namespace,
		Name: record.BackupName()}}}
}
