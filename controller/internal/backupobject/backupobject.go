// Package backupobject decides how the Backup objects of a namespace change. Backup objects show users the content of
// the BackupRecords, and request backups. No decision trusts the content of a Backup, because users of the namespace
// create and delete them.
package backupobject

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A Subject contains a Backup object, or nil, and the objects that determine its status.
type Subject struct {
	// Namespace is the namespace of the Backup. It is nil if it was deleted.
	Namespace *corev1.Namespace
	// Backup is the Backup object, or nil if it does not exist.
	Backup *v1.Backup
	// Record is the BackupRecord of the backup, or nil.
	Record *v1.BackupRecord
	// HasInstance is true if the instance of the Backup exists.
	HasInstance bool
	// Attempt is the state of the backup that the Backup object requested, from the status of the instance. It is nil
	// if that backup has not been started.
	Attempt *v1.LastBackupStatus
}

// Delays before a pending Backup is reconciled again, because its progress causes no event.
const (
	pauseInProgress = 5 * time.Second
	pauseWaiting    = 15 * time.Second
)

// Next returns the changes of a Backup, and the delay until the next reconcile. If the delay is 0, only an event
// causes a reconcile.
func Next(s *Subject) (changes []change.Change, after time.Duration) {
	b, r := s.Backup, s.Record
	isEnding := s.Namespace == nil || s.Namespace.DeletionTimestamp != nil
	switch {
	case b == nil && (r == nil || r.DeletionTimestamp != nil || isEnding):
		return nil, 0
	case b == nil:
		b = newBackup(r)
		return []change.Change{change.NewObject(b), patchStatus(b, statusOfRecord(r, &b.Status))}, 0
	case b.DeletionTimestamp != nil:
		return nextOfDeleted(b, r, isEnding), 0
	case r == nil && b.Status.Record != "" && (isVerified(b) || b.Status.Origin != v1.OriginRequest):
		return []change.Change{change.DeleteObject(b, "").OrGone()}, 0 // The archive was removed.
	case r != nil && mayRemoveArchive(b) && !controllerutil.ContainsFinalizer(b, v1.Finalizer):
		return []change.Change{change.AddFinalizer(b, v1.Finalizer)}, 0
	}
	status := &b.Status
	switch {
	case r != nil && r.IsVerified():
		status = statusOfRecord(r, status)
	case b.IsAnswered(): // A failed attempt has a BackupRecord until it is cleaned up.
	case r != nil:
		status, after = statusOfRecord(r, status), pauseInProgress
		if s.Attempt != nil && s.Attempt.Message != "" {
			status.Message = s.Attempt.Message
		}
	default:
		status, after = statusOfRequest(s)
	}
	if !equality.Semantic.DeepEqual(*status, b.Status) {
		changes = append(changes, patchStatus(b, status))
	}
	return changes, after
}

// nextOfDeleted handles a Backup that is being deleted. If the Backup allows it, the archive is removed first.
func nextOfDeleted(b *v1.Backup, r *v1.BackupRecord, isEnding bool) []change.Change {
	switch {
	case !controllerutil.ContainsFinalizer(b, v1.Finalizer):
		return nil
	case r == nil || isEnding || !mayRemoveArchive(b):
		return []change.Change{change.PatchObject(b, func(b *v1.Backup) {
			controllerutil.RemoveFinalizer(b, v1.Finalizer)
		}).OrGone()}
	case r.DeletionTimestamp != nil:
		return nil // The archive is being removed.
	}
	return []change.Change{
		change.PatchObject(r, func(r *v1.BackupRecord) {
			steps.SetAnnotation(r, v1.AnnotationDeleteArchive, string(r.UID))
		}),
		change.DeleteObject(r, ""),
	}
}

// isVerified reports whether the archive of the Backup was verified.
func isVerified(b *v1.Backup) bool {
	return apimeta.IsStatusConditionTrue(b.Status.Conditions, v1.ConditionComplete)
}

// mayRemoveArchive reports whether the Backup has the annotation that deletes the archive together with the Backup.
// The annotation contains the UID, so that it has no effect on a copy of the Backup.
func mayRemoveArchive(b *v1.Backup) bool {
	return b.UID != "" && b.Annotations[v1.AnnotationDeleteArchive] == string(b.UID)
}

// newBackup returns a Backup object that shows users the backup of a BackupRecord.
func newBackup(r *v1.BackupRecord) *v1.Backup {
	i := r.Spec.Instance
	labels := i.Instance().Labels()
	delete(labels, v1.LabelXR) // Backup objects are not selected by this label.
	return &v1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: r.BackupName(), Labels: labels},
		Spec: v1.BackupObjectSpec{Instance: v1.InstanceReference{Kind: i.Kind, Name: i.Name},
			Method: cmp.Or(r.Spec.Method, v1.MethodCold)},
	}
}

func patchStatus(b *v1.Backup, status *v1.BackupObjectStatus) change.Change {
	return change.PatchObjectStatus(b, func(b *v1.Backup) { b.Status = *status }).OrGone()
}

// statusOfRecord returns the status of a Backup with a BackupRecord.
func statusOfRecord(r *v1.BackupRecord, before *v1.BackupObjectStatus) *v1.BackupObjectStatus {
	out := before.DeepCopy()
	out.Record = r.Name
	out.Origin, out.Method = cmp.Or(r.Spec.Origin, v1.OriginDeletion), cmp.Or(r.Spec.Method, v1.MethodCold)
	out.StartTime, out.CompletionTime = r.Status.StartTime.DeepCopy(), r.Status.CompletionTime.DeepCopy()
	out.ServerVersion, out.Message = r.Spec.Version, r.Status.Message
	if a := r.Spec.Archive; a != nil {
		out.Size, out.Location = v1.RoundedSize(a.Size), locationOf(a)
	}
	switch {
	case r.IsVerified():
		setComplete(out, metav1.ConditionTrue, v1.ReasonBackupVerified, "The archive was read back and verified")
		out.Message = cmp.Or(out.Message, "The backup is verified")
	default:
		setComplete(out, metav1.ConditionFalse, v1.ReasonBackupInProgress, "The backup is being taken")
		out.Message = cmp.Or(out.Message, "The backup is being taken")
	}
	tested := metav1.Condition{Type: v1.ConditionRestoreTested, Status: metav1.ConditionUnknown,
		Reason:  v1.ReasonNotTested,
		Message: "No server has started from a copy of the archive yet"}
	if known := apimeta.FindStatusCondition(r.Status.Conditions, v1.ConditionRestorable); known != nil {
		tested.Status, tested.Reason, tested.Message = known.Status, known.Reason, known.Message
	}
	apimeta.SetStatusCondition(&out.Conditions, tested)
	return out
}

// statusOfRequest returns the status of a Backup without a BackupRecord.
func statusOfRequest(s *Subject) (out *v1.BackupObjectStatus, after time.Duration) {
	out = s.Backup.Status.DeepCopy()
	out.Origin, out.Record = v1.OriginRequest, ""
	a := s.Attempt
	switch {
	case !s.HasInstance:
		i := s.Backup.Spec.Instance
		out.Message = fmt.Sprintf("There is no %s %q in this namespace. The backup is taken once it exists",
			s.Backup.KindOfInstance(), i.Name)
		setComplete(out, metav1.ConditionFalse, v1.ReasonBackupWaiting, out.Message)
		return out, pauseWaiting
	case a == nil:
		out.Message = "The backup starts once the server accepts clients and no other backup of it is running"
		setComplete(out, metav1.ConditionFalse, v1.ReasonBackupWaiting, out.Message)
		return out, pauseInProgress
	case a.Phase == v1.LastBackupFailed:
		out.Message = cmp.Or(a.Message, "The backup has failed")
		setComplete(out, metav1.ConditionFalse, v1.ReasonBackupFailed,
			"The backup has failed and is not retried. To try again, create another Backup")
		out.StartTime, out.Method = &a.BegunAt, cmp.Or(a.Method, v1.MethodCold)
		return out, 0
	}
	out.Message = cmp.Or(a.Message, "The backup is being taken")
	out.StartTime, out.Method = &a.BegunAt, cmp.Or(a.Method, v1.MethodCold)
	setComplete(out, metav1.ConditionFalse, v1.ReasonBackupInProgress, "The backup is being taken")
	return out, pauseInProgress
}

func setComplete(out *v1.BackupObjectStatus, status metav1.ConditionStatus, reason, message string) {
	apimeta.SetStatusCondition(&out.Conditions, metav1.Condition{Type: v1.ConditionComplete, Status: status,
		Reason: reason, Message: message})
}

// locationOf returns where an archive is stored, for the status of a Backup object.
func locationOf(a *v1.Archive) *v1.BackupLocation {
	if a.Store != "" {
		return &v1.BackupLocation{Kind: v1.KindBackupStore, Name: a.Store, Path: a.Path}
	}
	return &v1.BackupLocation{Kind: "PersistentVolumeClaim", Name: a.PVCName, Path: a.Path}
}
