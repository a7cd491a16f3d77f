package compose

import (
	"encoding/json"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A start describes whether the server may run, and what it starts from.
type start struct {
	// replicas is the number of replicas of the Deployment: 0 or 1.
	replicas int32
	// restore is the backup that this instance is restored from. It is nil if the instance starts empty, or if the
	// restore source has not been chosen yet.
	restore *v1.RestoreStatus
	// reason is a reason of the condition Restored, or ReasonFenced or ReasonSuspended.
	reason string
	// message explains why the server may not run, and what to do.
	message string
}

// blockServer returns a start with which the server does not run, because the Deployment has zero replicas.
func blockServer(reason, format string, args ...any) start {
	return start{reason: reason, message: fmt.Sprintf(format, args...)}
}

// decideStart decides whether the server may run. The restore source is chosen only once. After that, it is read from
// the restore Job or the status.
//
//	fenced, or stopped for a backup ───▶ 0.
//	suspended, and no backup runs ─────▶ 0.
//	volume not read yet ───────────────▶ 0.
//	started ───────────────────────────▶ 1   never restores again.
//	chosen ── running, failed ─────────▶ 0.
//	       └─ succeeded ───────────────▶ 1.
//	else ──── any doubt ───────────────▶ 0.
//	       ├─ a backup to restore ─────▶ 0   and the Job is created.
//	       └─ the controller: None ────▶ 1.
func decideStart(r *resolved, password string) (start, error) {
	chosen, err := earlierChoice(r)
	if err != nil {
		return start{}, err
	}
	out, err := decideWith(r, chosen, password)
	out = blockUntilCertified(r, out)
	if out.restore == nil {
		out.restore = chosen
	}
	return out, err
}

// decideWith decides whether the server may run, given the restore source that was chosen earlier, or nil.
func decideWith(r *resolved, chosen *v1.RestoreStatus, password string) (start, error) {
	switch {
	case isFenced(r):
		return blockServer(v1.ReasonFenced,
			"PersistentVolumeClaim %s was deleted. The server is stopped until the PersistentVolumeClaim is bound to its "+
				"volume again",
			qualifiedName(r.instance.Namespace, r.instance.DataPVCName())), nil
	case r.change.stopped:
		return blockServer(v1.ReasonFenced, "%s", r.change.whyStopped(r.XR.Status.ImageChange)), nil
	case isStoppedForRequest(r):
		b := r.XR.Status.BackupUnderWay()
		return blockServer(v1.ReasonFenced, "The server is stopped for %s%s",
			r.XR.Status.WhatIsTaken(b), inSentence(b.Message)), nil
	case r.spec.Suspend && !r.XR.Status.BackupUnderWay().IsOnline(): // Only an online backup still needs the server.
		return suspend(r, chosen)
	case isVolumeUnseen(r):
		return blockServer(v1.ReasonWaiting, "Waiting for Crossplane to read volume %q, which contains this instance's data",
			r.XR.Status.Volume), nil
	case r.started && chosen != nil:
		return start{replicas: 1, reason: v1.ReasonRestored}, nil
	case r.started:
		return start{replicas: 1, reason: v1.ReasonNothingToRestore}, nil
	case chosen != nil:
		return startAfter(r, chosen), nil
	}
	return chooseStart(r, password)
}

// suspend stops a suspended server. An instance that has not started yet chooses its restore source after it is
// resumed. A restore that has already begun continues.
func suspend(r *resolved, chosen *v1.RestoreStatus) (start, error) {
	switch {
	case r.started:
		return blockServer(v1.ReasonSuspended,
			"Suspended: the server is stopped, and its data and address are kept. To start it, set spec.suspend to false"), nil
	case chosen != nil && startAfter(r, chosen).reason == v1.ReasonRestoreFailed:
		return startAfter(r, chosen), nil
	case chosen != nil:
		return blockServer(v1.ReasonSuspended,
			"Suspended: %s continues, and the server starts when spec.suspend is false", r.describeRestore(chosen)), nil
	case isPlanned(r):
		return planRecovery(r)
	}
	return blockServer(v1.ReasonSuspended, "Suspended: nothing is restored or created until spec.suspend is false"), nil
}

// isFenced reports whether the server must not run because its PVC was deleted while the XR exists.
func isFenced(r *resolved) bool {
	return r.XR.Status.PVCDeleted
}

// isStoppedForRequest reports whether the server must be stopped for an on-demand or scheduled backup in progress.
func isStoppedForRequest(r *resolved) bool {
	b := r.XR.Status.BackupUnderWay()
	return b != nil && b.Fence
}

// isVolumeUnseen reports whether Crossplane has not read the data volume yet. It is false if a server already runs.
func isVolumeUnseen(r *resolved) bool {
	d := r.Observed.Deployment
	runs := d != nil && d.Spec.Replicas != nil && *d.Spec.Replicas > 0
	return (!runs || !r.started) && r.XR.Status.Volume != "" && r.Observed.DataPV == nil && !r.Required.Volume.Known
}

// earlierChoice returns the restore source that was chosen earlier, with the phase of its Job, or nil.
func earlierChoice(r *resolved) (*v1.RestoreStatus, error) {
	out, j := r.XR.Status.Restore.DeepCopy(), r.Observed.Restore
	if j != nil {
		chosen, err := chosenByJob(r, j)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = chosen
		}
	}
	if out == nil {
		return nil, nil //nolint:nilnil // No choice has been made yet, which is no error.
	}
	if j != nil {
		out.Phase = restorePhase(r, j)
	}
	if r.started {
		out.Phase = v1.RestoreSucceeded
	}
	if out.Import != nil {
		out.Recovery = nil // An import applies no binary log.
		return out, nil
	}
	return out, checkArchive(out.Backup, &out.Archive)
}

// chosenByJob returns the restore source in a Job's annotation, which is used if the status could not be written. It
// returns nil until it is known whether the source is allowed. Users of the claim's namespace can create Jobs there,
// so only a backup of this namespace is accepted.
func chosenByJob(r *resolved, j *batchv1.Job) (*v1.RestoreStatus, error) {
	out, job := &v1.RestoreStatus{}, qualifiedName(j.Namespace, j.Name)
	if err := json.Unmarshal([]byte(j.Annotations[v1.AnnotationRestore]), out); err != nil || out.Backup == "" &&
		out.Import == nil {
		return nil, newRefusal(v1.ReasonNotSupported,
			"Job %s: its annotation %s does not contain the backup to restore. Delete the Job, and it is created again",
			job, v1.AnnotationRestore)
	}
	if r.started || r.XR.Status.Restore != nil {
		return out, nil
	}
	if !r.Required.Records.Known || !r.Required.Namespace.Known {
		return nil, nil //nolint:nilnil // The Job is kept, and its annotation is read again when these resources are known.
	}
	if out.Import != nil {
		out.Recovery = nil // An import applies no binary log.
		if errs := checkImportOf(r, out.Import, field.NewPath("import")); len(errs) > 0 {
			return nil, newRefusal(v1.ReasonNotSupported, "Job %s: its annotation %s: %v. Delete the Job, and it is created "+
				"again",
				job, v1.AnnotationRestore, errs.ToAggregate())
		}
		return out, mayImport(r, out.Import)
	}
	for _, backup := range slices.Concat(r.Required.Records.Items, r.Required.Named.Items) {
		if backup.Name != out.Backup {
			continue
		}
		if err := checkRecovery(out, &backup); err != nil {
			return nil, err
		}
		if !mayRestore(r, &backup) {
			return nil, newRefusal(v1.ReasonNotSupported,
				"Job %s: its annotation %s names backup %q, which is from an earlier namespace %q. Delete the Job, and it is "+
					"created again",
				job, v1.AnnotationRestore, backup.BackupName(), r.instance.Namespace)
		}
	}
	return out, nil
}

// mayRestore reports whether a backup is from this namespace, or the platform allows backups of earlier namespaces.
func mayRestore(r *resolved, b *v1.BackupRecord) bool {
	ns := r.Required.Namespace.firstItem()
	return r.platform.AllowsReuse(r.instance.Namespace) || ns != nil && ns.UID != "" &&
		ns.UID == b.Spec.Instance.NamespaceUID
}

// restorePhase returns the phase of a restore from its Job. If the Job never completes, the controller reports that
// its container succeeded.
func restorePhase(r *resolved, j *batchv1.Job) v1.RestorePhase {
	switch {
	case jobComplete(j), j.UID != "" && j.UID == r.XR.Status.RestoredBy:
		return v1.RestoreSucceeded
	case jobCondition(j, batchv1.JobFailed) != nil:
		return v1.RestoreFailed
	}
	return v1.RestoreRunning
}

// startAfter decides whether the server may run once the restore source is chosen.
func startAfter(r *resolved, from *v1.RestoreStatus) start {
	out := start{restore: from, reason: v1.ReasonRestoring,
		message: fmt.Sprintf("Restoring backup %q. The server starts when every row is restored", r.backupName(from.Backup))}
	if from.Import != nil {
		out.message = fmt.Sprintf("Importing %s. The server starts when every row is imported", from.Import)
	}
	switch from.Phase {
	case v1.RestoreSucceeded:
		return start{restore: from, replicas: 1, reason: v1.ReasonRestored}
	case v1.RestoreFailed:
		if r.Observed.Restore == nil {
			// A user has deleted the failed Job, which requests a retry.
			from.Phase = v1.RestoreRunning
			return out
		}
		out.reason = v1.ReasonRestoreFailed
		out.message = restoreFailure(r.Observed.Restore, from, r.backupName(from.Backup))
	case v1.RestoreRunning:
	}
	return out
}
