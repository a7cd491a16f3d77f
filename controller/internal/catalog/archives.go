package catalog

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// Actions on BackupRecords whose instance no longer exists.
const (
	// StoreEntryOfRecord writes the catalog entry of a verified BackupRecord if the entry is missing or outdated.
	StoreEntryOfRecord steps.Action = "StoreEntryOfRecord"
	// ProtectRecord adds the finalizer to a BackupRecord, so that the controller can act before a deleted BackupRecord
	// is removed. LetRecordGo removes the finalizer and keeps the archive.
	ProtectRecord steps.Action = "ProtectRecord"
	LetRecordGo   steps.Action = "LetRecordGo"
	// RemakeRecord creates a BackupRecord again because a user requested it. VerifyRecord marks a BackupRecord as
	// verified if the catalog contains it. RemoveRequest removes the user's request.
	RemakeRecord  steps.Action = "RemakeRecord"
	VerifyRecord  steps.Action = "VerifyRecord"
	RemoveRequest steps.Action = "RemoveRequest"
	// StartRemoval creates the Job that deletes the archive of a backup. RetryRemoval deletes a failed Job.
	// ArchiveRemoved releases the other objects once the archive is deleted.
	StartRemoval   steps.Action = "StartRemoval"
	RetryRemoval   steps.Action = "RetryRemoval"
	ArchiveRemoved steps.Action = "ArchiveRemoved"
	// RemoveFromStore deletes the archive of a backup from its store and removes the finalizer from the BackupRecord.
	RemoveFromStore steps.Action = "RemoveFromStore"
	// ReportDelay reports in the status of a BackupRecord why its deletion is delayed.
	ReportDelay steps.Action = "ReportDelay"
	// LabelRecord changes the label that decides whether the function reads the BackupRecord.
	LabelRecord steps.Action = "LabelRecord"
	// ReportLost reports in the status that the backup will never be completed, or that it is unknown whether it is
	// verified.
	ReportLost steps.Action = "ReportLost"
)

// An ArchiveStep is the next action of the controller on a BackupRecord, a catalog entry or a volume.
type ArchiveStep struct {
	Action  steps.Action
	Message string
	After   time.Duration

	// Record, Entry and Volume are the objects that the action changes or reads.
	Record *v1.BackupRecord
	Entry  *instance.Entry
	Volume *corev1.PersistentVolume
	// Changes lists the writes of the step in order. If a write is refused, the rest are skipped.
	Changes []change.Change
}

// NextOfArchives returns the next actions, at most one for each BackupRecord, catalog entry and volume. Deleting a
// BackupRecord keeps its archive:
//
//	deleted                        ─▶ the volume has a catalog entry ─▶ the BackupRecord is deleted, the archive stays.
//	deleted, with the annotation   ─▶ archive, catalog entry and BackupRecord are deleted, in this order.
//	requested, or without status   ─▶ the BackupRecord is updated from the catalog entry.
//	without volume and instance    ─▶ the status reports it, and the name is blocked until a user decides.
//
// As long as the instance of a BackupRecord exists, the reconcile of the instance handles the BackupRecord until the
// backup is verified.
func NextOfArchives(a *instance.Archives) []ArchiveStep {
	var out []ArchiveStep
	add := func(step ArchiveStep) {
		if step.Action != steps.NoOp {
			step.Changes = changesOnArchive(a, step)
			out = append(out, step)
		}
	}
	older := OlderRecords(a.Records)
	for i := range a.Records {
		r := &a.Records[i]
		step := nextOfRecord(a, r)
		if step.Action == steps.NoOp && r.DeletionTimestamp == nil && isListedAsOlder(a, r) != older[r.Name] {
			step.Action = LabelRecord
		}
		step.Record = r
		add(step)
	}
	for i := range a.Entries {
		n := &a.Entries[i]
		if a.Record(n) == nil && isAsked(a, n) && a.InstanceOf(n.Spec.Instance.XR) == nil {
			add(ArchiveStep{Action: RemakeRecord, Entry: n,
				Message: fmt.Sprintf("The BackupRecord of backup %q on volume %q is created again, as requested by "+
					"its annotation", n.Name, n.Volume)})
		}
	}
	for i := range a.Volumes {
		if v := &a.Volumes[i]; isAnswered(a, v) {
			add(ArchiveStep{Action: RemoveRequest, Volume: v})
		}
	}
	return out
}

// RecordsForFunction is the number of an instance's newest BackupRecords that the function reads. The function's
// request is limited to 4 MiB, and a BackupRecord takes about 2.5 KiB.
const RecordsForFunction = 100

// OlderRecords returns the names of the BackupRecords that the function does not read, from a list that is sorted
// newest first. It never returns the newest BackupRecord of an instance UID, because the function must see whether
// two instances ran concurrently.
func OlderRecords(newestFirst []v1.BackupRecord) map[string]bool {
	out, instances := map[string]bool{}, map[types.UID]bool{}
	for i := range newestFirst {
		r := &newestFirst[i]
		if i >= RecordsForFunction && r.IsVerified() && instances[r.Spec.Instance.XR] {
			out[r.Name] = true
		}
		if r.IsVerified() {
			instances[r.Spec.Instance.XR] = true
		}
	}
	return out
}

// isListedAsOlder reports whether a BackupRecord has the label that excludes it from the function's request.
func isListedAsOlder(a *instance.Archives, r *v1.BackupRecord) bool {
	return r.Labels[v1.LabelInstance] == a.Instance.OlderKey()
}

func nextOfRecord(a *instance.Archives, r *v1.BackupRecord) ArchiveStep {
	n, v := a.Entry(r), a.VolumeOf(r)
	dying := r.DeletionTimestamp != nil
	switch {
	case r.IsInDoubt():
		return nextOfUnreadable(a, r)
	case isLifesAffair(a, r) && dying:
		return ArchiveStep{Action: steps.Wait, After: steps.RequeueLater}
	case isLifesAffair(a, r):
		return ArchiveStep{Action: steps.NoOp}
	case dying && r.Status.RestoreTest != nil:
		// The restore test must end first. Otherwise its Job would be left without a BackupRecord, and would block
		// later tests that need the same name.
		return ArchiveStep{Action: steps.Wait, After: steps.RequeueSoon}
	case !r.IsVerified() && !dying:
		return nextOfUnproven(a, r, n)
	case dying && r.MayDeleteArchive() && a.Unasked[r.Name]:
		return waitFor(r, askAgain, "it is unknown whether the archive exists: "+whyUnasked(r))
	case dying && r.MayDeleteArchive() && (r.IsVerified() || n != nil):
		return removeArchive(a, r)
	case r.IsVerified() && !r.MayDeleteArchive() && v != nil && !entryIsOf(n, r) && HasRoomInIndex(v, r, 0):
		return ArchiveStep{Action: StoreEntryOfRecord, Volume: v}
	case dying && r.IsVerified() && v != nil && n == nil: // Without the catalog entry, nothing would refer to the archive.
		return waitFor(r, steps.RequeueForPerson,
			fmt.Sprintf("PersistentVolume %s has no room to record the backup, so no object would refer to its archive. "+
				"Delete other backups first", v.Name))
	case dying && instance.HasFinalizer(r):
		return ArchiveStep{Action: LetRecordGo,
			Message: fmt.Sprintf("The BackupRecord of backup %q was deleted without the annotation %s, so its "+
				"archive is kept",
				r.BackupName(), v1.AnnotationDeleteArchive)}
	case !dying && !instance.HasFinalizer(r):
		return ArchiveStep{Action: ProtectRecord}
	}
	return ArchiveStep{Action: steps.NoOp}
}

// nextOfUnreadable handles an unreadable BackupRecord. The BackupRecord and its archive are kept, and its status
// reports what must be repaired. The controller writes no catalog entry from it. If it is being deleted, it is
// released only if the catalog contains the archive.
func nextOfUnreadable(a *instance.Archives, r *v1.BackupRecord) ArchiveStep {
	isNoted := slices.ContainsFunc(a.Entries, func(n instance.Entry) bool { return n.Name == r.Name && !n.Unreadable })
	switch dying := r.DeletionTimestamp != nil; {
	case dying && isNoted && !r.MayDeleteArchive() && instance.HasFinalizer(r):
		return ArchiveStep{Action: LetRecordGo,
			Message: fmt.Sprintf("The BackupRecord of backup %q was deleted without the annotation %s, so its "+
				"archive is kept",
				r.BackupName(), v1.AnnotationDeleteArchive)}
	case dying:
		return reportOnce(r, ReportDelay, r.WhyUnreadable(), steps.RequeueForPerson)
	case !instance.HasFinalizer(r):
		return ArchiveStep{Action: ProtectRecord}
	}
	return reportOnce(r, ReportLost, r.WhyUnreadable(), steps.RequeueForPerson)
}

// nextOfUnproven handles an unverified BackupRecord that is not being deleted.
func nextOfUnproven(a *instance.Archives, r *v1.BackupRecord, n *instance.Entry) ArchiveStep {
	switch {
	case n != nil && !n.Unreadable:
		return ArchiveStep{Action: VerifyRecord, Entry: n,
			Message: fmt.Sprintf("Backup %q is verified, as recorded on volume %q", r.BackupName(), n.Volume)}
	case a.Unasked[r.Name]:
		return ReportUnrequested(r)
	case r.Status.Message != WhyLost(r):
		return ArchiveStep{Action: ReportLost, Message: WhyLost(r)}
	case !instance.HasFinalizer(r):
		return ArchiveStep{Action: ProtectRecord}
	case r.InStore():
		return ArchiveStep{Action: steps.Wait, After: askAgain} // No event reports that the objects in the store were restored.
	}
	return ArchiveStep{Action: steps.NoOp}
}

// isLifesAffair reports whether the reconcile of an existing instance handles the BackupRecord. It does not handle
// verified BackupRecords of earlier backups of a running instance.
func isLifesAffair(a *instance.Archives, r *v1.BackupRecord) bool {
	instanceID := a.InstanceOf(r.Spec.Instance.XR)
	return instanceID != nil && (!r.IsVerified() || r.Name == instanceID.Instance.RecordName())
}

// askAgain is the interval at which the store is read again while it is unknown whether a backup is verified.
const askAgain = time.Minute

// ReportUnrequested reports that it is unknown whether a backup is verified, and schedules another check.
func ReportUnrequested(r *v1.BackupRecord) ArchiveStep {
	reason := fmt.Sprintf("It is unknown whether this backup is verified: %s. The controller retries. To give up "+
		"the backup: kubectl delete backuprecord %s", whyUnasked(r), r.Name)
	return reportOnce(r, ReportLost, reason, askAgain)
}

// reportOnce writes a message to the status of a BackupRecord if the message has changed. Otherwise it schedules another
// check.
func reportOnce(r *v1.BackupRecord, tell steps.Action, reason string, after time.Duration) ArchiveStep {
	if r.Status.Message == reason {
		return ArchiveStep{Action: steps.Wait, After: after}
	}
	return ArchiveStep{Action: tell, Message: reason}
}

// whyUnasked returns the message for a backup if its store did not report whether it is verified. The message is
// constant, because the error of a store can differ at each attempt.
func whyUnasked(r *v1.BackupRecord) string {
	return fmt.Sprintf("BackupStore %[1]s does not respond, does not exist, or has a catalog entry that its keys "+
		"cannot decrypt (kubectl describe backupstore %[1]s)", r.Spec.Archive.Store)
}

// WhyLost returns the message for a backup whose instance and volume were deleted before the backup was verified.
func WhyLost(r *v1.BackupRecord) string {
	i := r.Spec.Instance
	if r.InStore() {
		return fmt.Sprintf("The archive of this backup is missing: BackupStore %[1]s has no catalog entry for it. "+
			"Restore the objects in its bucket. If the archive is lost: kubectl delete backuprecord %[2]s", r.Spec.Archive.Store, r.Name)
	}
	if a := r.Spec.Archive; a != nil { // Only a verified BackupRecord contains the location of its archive.
		return fmt.Sprintf("The archive of this backup is missing: it was %s on PersistentVolumeClaim %s/%s, and "+
			"no volume has a catalog entry for it. Restore that volume, and import its backups (kubectl mysql "+
			"adopt). If the archive is lost: kubectl delete backuprecord %s", a.Path, i.Namespace, a.PVCName, r.Name)
	}
	return fmt.Sprintf("This backup cannot finish, because neither the composite resource nor the data volume of "+
		"this %s exists. Restore the volume. If its data is lost: kubectl delete backuprecord %s", i.Kind,
		r.Name)
}

// entryIsOf reports whether a catalog entry belongs to this BackupRecord and has the same content.
func entryIsOf(n *instance.Entry, r *v1.BackupRecord) bool {
	if n == nil || n.Unreadable {
		return false
	}
	return EntryText(&v1.BackupRecord{ObjectMeta: objectMeta(n), Spec: n.Spec}) == EntryText(r)
}

// isAsked reports whether a user has requested by annotation that the BackupRecord of a catalog entry is created again.
func isAsked(a *instance.Archives, n *instance.Entry) bool {
	if n.Unreadable {
		return false
	}
	for i := range a.Volumes {
		if v := &a.Volumes[i]; v.Name == n.Volume {
			word := v.Annotations[v1.AnnotationMakeRecord]
			return word == n.Name || word == v1.MakeAllRecords
		}
	}
	return false
}

// isAnswered reports whether the annotation on a volume that requests BackupRecords can be removed: none of them is
// missing.
func isAnswered(a *instance.Archives, v *corev1.PersistentVolume) bool {
	if v.Annotations[v1.AnnotationMakeRecord] == "" {
		return false
	}
	for i := range a.Entries {
		n := &a.Entries[i]
		if r := a.Record(n); n.Volume == v.Name && isAsked(a, n) && (r == nil || !r.IsVerified()) {
			return false
		}
	}
	return true
}

// removeArchive deletes the archive of a BackupRecord. The BackupRecord is deleted after that.
func removeArchive(a *instance.Archives, r *v1.BackupRecord) ArchiveStep {
	if reason := whyUnreachable(a, r); reason != "" {
		return waitFor(r, steps.RequeueForPerson, reason)
	}
	if r.InStore() {
		return ArchiveStep{Action: RemoveFromStore,
			Message: fmt.Sprintf("Deleting the archive of backup %s from BackupStore %s", r.BackupName(), r.Spec.Archive.Store)}
	}
	j := a.Erasing[r.Name]
	switch {
	case j == nil:
		return ArchiveStep{Action: StartRemoval, Volume: a.VolumeOf(r),
			Message: fmt.Sprintf("Deleting the archive of backup %q, as requested by its annotation %s", r.BackupName(),
				v1.AnnotationDeleteArchive)}
	case j.DeletionTimestamp != nil:
		return ArchiveStep{Action: steps.Wait, After: steps.RequeueSoon}
	}
	finished, succeeded := j.Finished()
	switch {
	case finished == nil && j.PodFailure != "":
		return waitFor(r, steps.RequeueLater,
			fmt.Sprintf("Job %s/%s, which deletes the archive, does not run: %s", j.Namespace, j.Name, j.PodFailure))
	case finished == nil:
		return ArchiveStep{Action: steps.Wait, After: steps.RequeueSoon}
	case j.Annotations[v1.AnnotationRemoves] != whatItRemoves(a.PVC):
		return ArchiveStep{Action: RetryRemoval} // The Job used another volume.
	case succeeded:
		return ArchiveStep{Action: ArchiveRemoved, Message: fmt.Sprintf("The archive of backup %q is deleted", r.BackupName())}
	case finished.Add(steps.Soonest).After(a.Now):
		return waitFor(r, steps.Soonest, "the archive could not be deleted, and this is retried: "+steps.FailureOf(j))
	}
	return ArchiveStep{Action: RetryRemoval}
}

// RemovalFailed returns the next step if a store refused to delete an archive, for example because of a bucket
// policy. The step reports the reason in the BackupRecord, and the deletion is retried.
func RemovalFailed(a *instance.Archives, step ArchiveStep, cause error) ArchiveStep {
	out := waitFor(step.Record, steps.Soonest, "the archive could not be deleted, and this is retried: "+
		v1.PrintableText(cause.Error(), v1.MaxForeignText))
	out.Record, out.After = step.Record, steps.Soonest
	out.Changes = changesOnArchive(a, out)
	return out
}

// waitFor reports in the BackupRecord why its archive cannot be deleted yet.
func waitFor(r *v1.BackupRecord, after time.Duration, reason string) ArchiveStep {
	reason = fmt.Sprintf("The deletion waits: %s. To delete the BackupRecord and keep the archive: kubectl "+
		"annotate msbr %s %s-",
		reason, r.Name, v1.AnnotationDeleteArchive)
	return reportOnce(r, ReportDelay, reason, after)
}

// whyUnreachable returns why the archive of a backup cannot be accessed, or must not be deleted yet. It returns "" if
// a Job or the store can delete it.
func whyUnreachable(a *instance.Archives, r *v1.BackupRecord) string {
	i, c, v := r.Spec.Instance, a.PVC, a.VolumeOf(r)
	pvc := i.Namespace + "/" + a.Instance.BackupPVCName()
	switch {
	case a.Restoring[r.Name] != "":
		return a.Restoring[r.Name] + " is being restored from it"
	case !IsRemovable(a.Instance, r):
		return "its archive is not in the directory where the controller stores archives. Delete the archive manually"
	case r.InStore():
		return ""
	case v == nil:
		return "no PersistentVolume has a catalog entry for the archive. Restore the volume"
	case c == nil || c.DeletionTimestamp != nil:
		return fmt.Sprintf("PersistentVolumeClaim %s, which gives access to the archive on volume %q, does not "+
			"exist. The controller creates it when the %s is created again", pvc, v.Name, i.Kind)
	case !instance.Bound(v, c):
		return fmt.Sprintf("PersistentVolumeClaim %s is not bound to volume %q, which contains the archive", pvc, v.Name)
	}
	return ""
}
