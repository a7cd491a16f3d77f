package compose

import (
	"encoding/json"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A start says whether the server may run, and what from.
type start struct {
	// replicas of the Deployment: 0 or 1.
	replicas int32
	// restore is the backup that this instance is made from; nil where it is made
	// from nothing, or where that is not decided.
	restore *v1.RestoreStatus
	// reason of the condition Restored, ReasonFenced or ReasonSuspended.
	reason string
	// message says why the server may not run, and what to do.
	message string
}

// holdServer back.
func holdServer(reason, format string, args ...any) start {
	return start{reason: reason, message: fmt.Sprintf(format, args...)}
}

// decideStart says whether the server may run. The choice of what it starts from is made
// once: afterwards it is read back from the restore Job or the status.
//
//	fenced, or stopped for a backup ───▶ 0
//	suspended, and none being taken ───▶ 0
//	volume not seen yet ───────────────▶ 0
//	started ───────────────────────────▶ 1   never restores again
//	chosen ── running, failed ─────────▶ 0
//	       └─ succeeded ───────────────▶ 1
//	else ──── any doubt ───────────────▶ 0
//	       ├─ a backup to restore ─────▶ 0   and the Job is made
//	       └─ the controller: None ────▶ 1
func decideStart(r *resolved, password string) (start, error) {
	chosen, err := earlierChoice(r)
	if err != nil {
		return start{}, err
	}
	out, err := decideWith(r, chosen, password)
	out = holdUntilCertified(r, out)
	if out.restore == nil {
		out.restore = chosen
	}
	return out, err
}

// decideWith the backup that was chosen earlier, or nil.
func decideWith(r *resolved, chosen *v1.RestoreStatus, password string) (start, error) {
	switch {
	case isFenced(r):
		return holdServer(v1.ReasonFenced, "PersistentVolumeClaim %s was deleted: the server is stopped until it is back on its volume", qualifiedName(r.instance.Namespace, r.instance.DataPVCName())), nil
	case r.change.stopped:
		return holdServer(v1.ReasonFenced, "%s", r.change.whyStopped(r.XR.Status.ImageChange)), nil
	case isStoppedForRequest(r):
		b := r.XR.Status.BackupUnderWay()
		return holdServer(v1.ReasonFenced, "The server is stopped for the backup that %s asks for%s", r.XR.Status.WhoAsksFor(b), inSentence(b.Message)), nil
	case r.spec.Suspended && !r.XR.Status.BackupUnderWay().IsOnline(): // A cold backup that has its copy needs no server.
		return suspend(r, chosen), nil
	case isVolumeUnseen(r):
		return holdServer(v1.ReasonWaiting, "Looking for volume %q, which holds this instance's data", r.XR.Status.Volume), nil
	case r.started && chosen != nil:
		return start{replicas: 1, reason: v1.ReasonRestored}, nil
	case r.started:
		return start{replicas: 1, reason: v1.ReasonNothingToRestore}, nil
	case chosen != nil:
		return startAfter(r, chosen), nil
	}
	return chooseStart(r, password)
}

// suspend the server that the claim wants to be off. One that has not begun chooses what it starts
// from when it does, and what was chosen before comes to its end.
func suspend(r *resolved, chosen *v1.RestoreStatus) start {
	switch {
	case r.started:
		return holdServer(v1.ReasonSuspended, "Suspended: the server is off, and its data and address are kept; it starts again with spec.suspended: false")
	case chosen != nil && startAfter(r, chosen).reason == v1.ReasonRestoreFailed:
		return startAfter(r, chosen)
	case chosen != nil:
		return holdServer(v1.ReasonSuspended, "Suspended: %s comes to its end, and the server starts when spec.suspended is false", chosen.What())
	}
	return holdServer(v1.ReasonSuspended, "Suspended: nothing is restored or made before spec.suspended is false")
}

// isFenced is true while the server must not run although the XR lives: its PVC was deleted.
func isFenced(r *resolved) bool {
	return r.XR.Status.PVCDeleted
}

// isStoppedForRequest is true while a backup is taken that the claim asks for, and for which the server has to stop.
func isStoppedForRequest(r *resolved) bool {
	b := r.XR.Status.BackupUnderWay()
	return b != nil && b.Fence
}

// isVolumeUnseen is true while it is not known whether the volume that holds the data
// exists, and no server runs on it yet.
func isVolumeUnseen(r *resolved) bool {
	d := r.Observed.Deployment
	runs := d != nil && d.Spec.Replicas != nil && *d.Spec.Replicas > 0
	return (!runs || !r.started) && r.XR.Status.Volume != "" && r.Observed.DataPV == nil && !r.Required.Volume.Known
}

// earlierChoice is the backup that was chosen earlier, with the phase that the Job
// shows; nil where none was.
func earlierChoice(r *resolved) (*v1.RestoreStatus, error) {
	out, j := r.XR.Status.Restore.DeepCopy(), r.Observed.Restore
	if j != nil {
		said, err := chosenByJob(r, j)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = said
		}
	}
	if out == nil {
		return nil, nil //nolint:nilnil // No choice has been made yet; that is no error.
	}
	if j != nil {
		out.Phase = restorePhase(r, j)
	}
	if r.started {
		out.Phase = v1.RestoreSucceeded
	}
	if out.Import != nil {
		return out, nil
	}
	return out, checkArchive(out.Backup, &out.Archive)
}

// chosenByJob is the choice as the Job has it, which counts where the status could
// not be written; nil where it is not known whether it may have been made. The Job
// is in the claim's namespace, where others may write: what it says is believed of
// this namespace's backups only.
func chosenByJob(r *resolved, j *batchv1.Job) (*v1.RestoreStatus, error) {
	out, job := &v1.RestoreStatus{}, qualifiedName(j.Namespace, j.Name)
	if err := json.Unmarshal([]byte(j.Annotations[v1.AnnotationRestore]), out); err != nil || out.Backup == "" && out.Import == nil {
		return nil, newRefusal(v1.ReasonNotSupported, "Job %s: its annotation %s does not say which backup it restores: delete the Job, and it is made again",
			job, v1.AnnotationRestore)
	}
	if r.started || r.XR.Status.Restore != nil {
		return out, nil
	}
	if !r.Required.Records.Known || !r.Required.Namespace.Known {
		return nil, nil //nolint:nilnil // The Job stays, and is read again when they are.
	}
	if out.Import != nil {
		if errs := checkImportOf(r, out.Import, field.NewPath("import")); len(errs) > 0 {
			return nil, newRefusal(v1.ReasonNotSupported, "Job %s: its annotation %s: %v: delete the Job, and it is made again", job, v1.AnnotationRestore, errs.ToAggregate())
		}
		return out, mayImport(r, out.Import)
	}
	for _, of := range slices.Concat(r.Required.Records.Items, r.Required.Named.Items) {
		if of.Name == out.Backup && !mayRestore(r, &of) {
			return nil, newRefusal(v1.ReasonNotSupported, "Job %s: its annotation %s names backup %q, which is from an earlier namespace %q: delete the Job, and it is made again",
				job, v1.AnnotationRestore, out.Backup, r.instance.Namespace)
		}
	}
	return out, nil
}

// mayRestore is true if a backup is of this very namespace, or the platform
// allows others.
func mayRestore(r *resolved, b *v1.MySQLBackup) bool {
	ns := r.Required.Namespace.firstItem()
	return r.platform.AllowsReuse(r.instance.Namespace) || ns != nil && ns.UID != "" && ns.UID == b.Spec.Instance.NamespaceUID
}

// restorePhase that the Job shows. One that never ends has restored all where the controller
// has heard it from the Job's program.
func restorePhase(r *resolved, j *batchv1.Job) v1.RestorePhase {
	switch {
	case jobComplete(j), j.UID != "" && j.UID == r.XR.Status.RestoredBy:
		return v1.RestoreSucceeded
	case jobCondition(j, batchv1.JobFailed) != nil:
		return v1.RestoreFailed
	}
	return v1.RestoreRunning
}

// startAfter a restore that was chosen: whether the server may run.
func startAfter(r *resolved, from *v1.RestoreStatus) start {
	out := start{restore: from, reason: v1.ReasonRestoring, message: fmt.Sprintf("Restoring backup %q: the server starts when every row is back", from.Backup)}
	if from.Import != nil {
		out.message = fmt.Sprintf("Importing %s: the server starts when every row is there", from.Import)
	}
	switch from.Phase {
	case v1.RestoreSucceeded:
		return start{restore: from, replicas: 1, reason: v1.ReasonRestored}
	case v1.RestoreFailed:
		if r.Observed.Restore == nil {
			// The failed Job was deleted, which asks for another try.
			from.Phase = v1.RestoreRunning
			return out
		}
		out.reason = v1.ReasonRestoreFailed
		out.message = restoreFailure(r.Observed.Restore, from)
	case v1.RestoreRunning:
	}
	return out
}
