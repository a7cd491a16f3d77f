package lifecycle

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// Next returns the next step with all of its changes.
func Next(s *instance.State) steps.Step { return withChanges(s, decide(s)) }

func decide(s *instance.State) steps.Step {
	switch {
	case s.IsDeleting():
		return nameUnreadable(s, decideDelete(s).OfDeletion())
	case s.XR == nil:
		return seesClaim(s, decideNoXR(s))
	}
	return seesUnsynced(s, decideLiving(s))
}

// nameUnreadable adds the unreadable fields of the claim and the XR to the message of a deletion. The deletion
// continues with the fields that can be read.
func nameUnreadable(s *instance.State, step steps.Step) steps.Step {
	if reason := s.WhyUnreadable(); reason != "" && step.Phase != "" && step.Action != steps.RemoveXRFinalizer {
		step.Message = strings.TrimPrefix(step.Message+". "+reason, ". ")
	}
	return step
}

// decideNoXR handles an instance without an XR. Its name is available when no object with that name contains data.
func decideNoXR(s *instance.State) steps.Step {
	switch c := s.DataPVC; {
	case c != nil && c.DeletionTimestamp != nil && instance.HasFinalizer(c) && c.Spec.VolumeName == "":
		return steps.Step{Action: steps.ReleaseDataPVC, Message: "The instance never had a volume, so there is " +
			"nothing to back up"}
	case c != nil && c.DeletionTimestamp != nil && instance.HasFinalizer(c):
		return steps.Step{Action: steps.Wait, After: steps.RequeueForPerson, Phase: v1.DeletionBlocked, Message: fmt.Sprintf(
			"The composite resource was deleted without a backup, but volume %q still contains the data. Copy the "+
				"data to another place. Then remove the finalizer %s from PersistentVolumeClaim %s/%s and "+
				"PersistentVolume %q",
			c.Spec.VolumeName, v1.Finalizer, c.Namespace, c.Name, c.Spec.VolumeName)}
	case s.Claim == nil:
		return steps.Step{Action: steps.NoOp}
	case s.Claim.IsDeleting() && !s.Claim.HasFinalizer():
		return awaitRelease(s)
	case s.Ephemeral() && !s.Claim.HasFinalizer():
		return steps.Step{Action: steps.NoOp} // There is no data to protect.
	case s.Claim.IsDeleting() && s.Claim.HasFinalizer():
		return steps.Step{Action: steps.RemoveClaimFinalizer, Message: "The deletion is complete, and the name can " +
			"be used again"}
	case !s.Claim.IsDeleting() && !s.Claim.HasFinalizer():
		return steps.Step{Action: steps.AddFinalizers}
	}
	return steps.Step{Action: steps.NoOp}
}

// decideLiving protects the data of an instance before a server starts, and keeps it protected. The order is:
//
//	finalizers ─▶ backup volume ─▶ previousBackup ─▶ the function starts the server ─▶ reclaim policy Retain
//
// If there is a backup of a previous namespace, the function chooses first:
//
//	finalizers ─▶ previousBackup ─▶ the function chooses ─▶ the volume of that backup, or a new one
func decideLiving(s *instance.State) steps.Step {
	switch {
	case s.XR.Stale:
		return steps.Step{Action: steps.ClearStatus}
	case s.OrphanedFromClaim && (s.Ephemeral() || s.XR.HasFinalizer()):
		return steps.Step{Action: steps.DeleteOrphanedXR,
			Message: fmt.Sprintf("Deleting orphaned composite resource %q, because no claim refers to it. Its data "+
				"is backed up first", s.XR.GetName())}
	case s.Ephemeral() && !s.XR.HasFinalizer():
		return decideBeforeStart(s) // This instance has no data to protect, so it can be deleted at any time.
	case len(Unprotected(s)) > 0:
		return steps.Step{Action: steps.AddFinalizers,
			Message: "The data of this instance is now protected until a backup of it is verified"}
	case s.Claim != nil && s.Claim.IsDeleting():
		return awaitCrossplane(s)
	case s.PredecessorTerminating && !equality.Semantic.DeepEqual(s.XR.Status.BlockedBy, blocker(s)):
		return steps.Step{Action: reportAction(s), Message: blockedByCopy(s.PredecessorCopy)}
	case s.Namespace == nil || s.Namespace.DeletionTimestamp != nil:
		return steps.Step{Action: steps.NoOp}
	case s.IsDataPVReservedElsewhere():
		return steps.Step{Action: steps.ReserveDataPV}
	case s.DataPVC == nil:
		return planRecovery(s) // The function creates the PVC next, reports why it cannot, or waits for a user.
	case s.DataPVC.DeletionTimestamp != nil:
		return replaceDeletedPVC(s)
	case isFenced(s) && s.DataPVC.Status.Phase == corev1.ClaimBound:
		return steps.Step{Action: steps.UnfenceServer,
			Message: fmt.Sprintf("PersistentVolumeClaim %s is bound to its volume %q again. Starting the server", s.DataPVC.Name,
				s.DataPVC.Spec.VolumeName)}
	}
	if isVerdictNew(s) { // This is first because a server may be down until the verdict is stored.
		return steps.Step{Action: steps.ReportSettings}
	}
	return protectData(s)
}

// planRecovery stores the plan of a recovery for a suspended instance that has no objects yet. It does not record the
// previous backup, because no server may start before the backup volume exists.
func planRecovery(s *instance.State) steps.Step {
	switch found := backup.RecoverySource(s); {
	case !s.XR.Spec.Suspend || s.XR.Spec.Restore.At == nil || s.XR.Status.Started || s.XR.Status.Restore != nil:
		return steps.Step{Action: steps.NoOp}
	case s.StoreFailure != "":
		return waitForStore(s)
	case !equality.Semantic.DeepEqual(s.XR.Status.RecoverySource, found):
		return steps.Step{Action: steps.PlanRecovery}
	case !equality.Semantic.DeepEqual(s.XR.Status.BlockedBy, blocker(s)):
		return steps.Step{Action: steps.ReportPodFailure, Message: steps.Sentence(s.PodFailure)}
	case found == nil || found.Backup == "":
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater} // A backup or an archive may become complete.
	}
	return steps.Step{Action: steps.Wait, After: steps.RequeueForPerson}
}

// isVerdictNew reports whether the verdict on new settings is not in the status yet.
func isVerdictNew(s *instance.State) bool {
	return !equality.Semantic.DeepEqual(s.XR.Status.SettingsVerdict, s.SettingsVerdict)
}

// protectData returns the next step that protects the data of an existing instance, or that takes or prunes a backup.
func protectData(s *instance.State) steps.Step {
	if s.PredecessorTerminating {
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater} // The previous instance determines the data of this one.
	}
	if step, open := decideAdoption(s); open {
		return step
	}
	if step, open := deleteUnusedBackupPVC(s); open {
		return step
	}
	switch {
	case s.BackupPVC == nil && s.BackupBusy:
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater}
	case s.BackupPVC == nil && isDataPVUnknown(s):
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}
	case s.BackupPVC == nil && needsBackupPVC(s) && !isUndecided(s) && !instance.EarlierBackupPVMissing(s):
		return steps.Step{Action: steps.CreateBackupPVC,
			Message: fmt.Sprintf("Creating PersistentVolumeClaim %s for the backups. It is kept when the instance is deleted",
				s.Instance.BackupPVCName())}
	case s.BackupPVCAwaited:
		return decideBeforeStart(s) // The location of the backup volume decides where the server can run.
	case !s.XR.Status.Started && s.StoreFailure != "":
		return waitForStore(s)
	case !s.XR.Status.Started && !knowsEarlierBackups(s):
		return steps.Step{Action: steps.RecordPreviousBackup, Message: previousBackupMessage(s)}
	case s.RestoreFrom != nil:
		return steps.Step{Action: steps.GiveRestoreAccess}
	case s.Node != "":
		return nodeAffinityStep(s, steps.Step{})
	case s.DataPV != nil && !isDataPVMarked(s):
		return steps.Step{Action: steps.RetainDataPV,
			Message: fmt.Sprintf("Volume %q is retained until a backup of its data is verified", s.DataPV.Name)}
	case s.BackupPVC == nil && s.Store() == "":
		return decideBeforeStart(s) // The function must choose a backup, or a user must restore the volume.
	}
	if step, open := keepBackupPVC(s); open {
		return step
	}
	for _, decide := range []func(*instance.State) (steps.Step, bool){decideWarning, backup.FollowAttempt,
		decideImageChange, backup.DecideRequested, backup.PruneExpired, backup.DecideScheduled} {
		if step, open := decide(s); open {
			return step
		}
	}
	step := decideBeforeStart(s)
	if step.Action == steps.NoOp {
		step.After = untilNextCheck(s)
	}
	return step
}

// needsBackupPVC reports whether backups are written to a volume, or a volume with backups of a previous instance
// exists.
func needsBackupPVC(s *instance.State) bool { return s.Store() == "" || s.BackupPV != nil }

// keepBackupPVC creates, expands or replaces the backup PVC. A PVC stays unchanged if it receives no more backups.
func keepBackupPVC(s *instance.State) (step steps.Step, open bool) {
	switch c := s.BackupPVC; {
	case c == nil:
		return steps.Step{}, false
	case c.Status.Phase == corev1.ClaimBound && !s.IsBackupPVRetained():
		return backup.KeepBackupPV(s, steps.Step{}), true
	case steps.IsGoing(c):
		return backup.FreePVC(s)
	case s.Store() != "":
		return steps.Step{}, false
	case backup.MustReplaceBackupPVC(s):
		return steps.Step{Action: steps.DeleteBackupPVC, Message: backup.ResizeMessage(s)}, true
	case backup.CanExpandBackupPVC(s):
		return steps.Step{Action: steps.ExpandBackupPVC}, true
	}
	return steps.Step{}, false
}

// decideBeforeStart reports why a server does not accept clients yet.
func decideBeforeStart(s *instance.State) steps.Step {
	if step, open := endOutlivedRestore(s); open {
		return step
	}
	switch {
	case isVerdictNew(s):
		return steps.Step{Action: steps.ReportSettings}
	case !equality.Semantic.DeepEqual(s.XR.Status.BlockedBy, blocker(s)):
		return steps.Step{Action: steps.ReportPodFailure, Message: steps.Sentence(s.PodFailure)}
	case s.RestoreJob != nil && s.XR.Status.RestoredBy == "" && s.XR.Status.Restore.IsRunning():
		// The server waits for the restore.
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}
	case s.Source != nil:
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater} // Backups of another claim cause no event for this instance.
	case s.XR.IsBeginning() || s.BackupPVCAwaited || isSettling(s.XR.Status.Settings):
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater} // The controller does not watch these pods.
	}
	return steps.Step{Action: steps.NoOp}
}

// isSettling reports whether new settings are being validated or are on trial.
func isSettling(status *v1.SettingsStatus) bool {
	return status != nil && (status.Phase == v1.SettingsValidating || status.Phase == v1.SettingsOnTrial)
}

// endOutlivedRestore stops a restore Job whose pod still runs because of a container that another component injected.
// If the restore succeeded, the controller first stores this in the status, so that the function does not create the
// Job again. If it failed, the controller deletes the pod, and the Job retries as usual.
func endOutlivedRestore(s *instance.State) (step steps.Step, open bool) {
	j, restoredBy := s.RestoreJob, s.XR.Status.RestoredBy
	switch {
	case j == nil && restoredBy != "":
		return steps.Step{Action: steps.RecordRestored}, true
	case j != nil && j.Succeeded != nil && j.DeletionTimestamp == nil && restoredBy != j.UID:
		return steps.Step{Action: steps.RecordRestored}, true // The controller does not wait for the Job to complete.
	case j != nil && restoredBy == j.UID && j.IsComplete():
		return steps.Step{Action: steps.RecordRestored}, !s.XR.Status.Restore.IsRunning() // The status of the Job reports it now.
	case j == nil || j.Outlived == nil || j.DeletionTimestamp != nil:
		return steps.Step{}, false
	}
	switch _, succeeded := j.Finished(); {
	case !succeeded:
		return steps.DeleteAndWait([]client.Object{j.Going})
	case restoredBy != j.UID:
		return steps.Step{Action: steps.RecordRestored,
			Message: fmt.Sprintf("The restore is complete. A container that another client added to pod %s still "+
				"runs, and is stopped with the pod",
				j.Going.Name)}, true
	case s.XR.Status.Restore.IsRunning():
		// The Job can be deleted when the function has reported the end of the restore.
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}, true
	}
	return steps.Step{Action: steps.DeleteObjects, Targets: []client.Object{j.Job}}, true
}

// reportAction returns the action that writes status.internal.blockedBy.
func reportAction(s *instance.State) steps.Action {
	if s.PredecessorCopy != nil {
		return steps.ReportCopy
	}
	return steps.ReportPodFailure
}

// blocker returns what blocks an existing instance, or nil.
func blocker(s *instance.State) *v1.Blocker {
	switch {
	case s.Refusal != nil:
		return &v1.Blocker{Reason: v1.ReasonRefused, Message: s.Refusal.Message}
	case s.PredecessorCopy != nil:
		return &v1.Blocker{Reason: v1.ReasonCopyFound, Message: blockedByCopy(s.PredecessorCopy)}
	case s.PodFailure == "":
		return nil
	case !s.XR.Status.Started && s.StoreFailure != "":
		return &v1.Blocker{Reason: v1.ReasonStoreFailed, Message: s.PodFailure}
	case !s.XR.Status.Started && (s.Latest() == v1.PreviousHeld || s.Source != nil && s.Source.Missing() != nil):
		return &v1.Blocker{Reason: v1.ReasonRecordMissing, Message: s.PodFailure}
	}
	return &v1.Blocker{Reason: v1.ReasonPodFailure, Message: s.PodFailure}
}

// nodeAffinityStep pins hostPath volumes to their node before the pod is deleted, because the directory is empty on
// another node. It pins both volumes in one step, because the controller does not look up the node again once the
// data volume is pinned.
func nodeAffinityStep(s *instance.State, step steps.Step) steps.Step {
	if c := s.BackupPVC; c != nil && c.Spec.VolumeName != "" && s.BackupPV == nil {
		return backup.KeepBackupPV(s, step)
	}
	return steps.Step{Action: steps.SetNodeAffinity,
		Message: fmt.Sprintf("The data is stored in a directory of node %s, so its volumes are pinned to that node", s.Node)}
}

// knowsEarlierBackups reports whether the status contains the latest backup and the number of the next one.
func knowsEarlierBackups(s *instance.State) bool {
	status := s.XR.Status
	return status.PreviousBackup == s.Latest() &&
		equality.Semantic.DeepEqual(status.RestoreSource, backup.RestoreSource(s)) &&
		equality.Semantic.DeepEqual(status.RecoverySource, backup.RecoverySource(s)) &&
		status.HeldBackup == backup.HeldBackup(s) && status.BackupNumber == backup.NextBackupNumber(s) &&
		status.BackupNeeds == backup.NeededRoom(s) &&
		equality.Semantic.DeepEqual(status.BackupNodes, backupNodes(s)) &&
		equality.Semantic.DeepEqual(status.ListedBackups(), v1.ListBackups(s.Records))
}

func previousBackupMessage(s *instance.State) string {
	previous := s.Latest()
	switch previous {
	case v1.PreviousNone:
		return "There is no backup of a previous instance with this name"
	case v1.PreviousHeld:
		return fmt.Sprintf("Backup %q of a previous instance with this name exists, but its BackupRecord is missing. No "+
			"empty server is started until this is resolved", s.Missing().Name)
	}
	return fmt.Sprintf("Backup %q of a previous instance with this name exists", previous)
}

// isDataPVMarked reports whether the data volume is retained when its PVC is deleted, and is labeled with its
// instance.
func isDataPVMarked(s *instance.State) bool {
	v := s.DataPV
	if !isDataBound(s) {
		return true // The volume is marked when it is bound.
	}
	if len(DataRisks(s)) > 0 || v.Annotations[v1.AnnotationReclaimPolicy] == "" {
		return false
	}
	for key, want := range backup.IdentityAnnotations(s) {
		if v.Annotations[key] != want {
			return false
		}
	}
	return steps.IsMarkedUID(v) && steps.IsMarkedUID(s.DataPVC)
}

// isDataPVUnknown reports whether the volume of a data PVC without a StorageClass has not been read yet. If it is a
// hostPath volume, the backup volume is created next to it.
func isDataPVUnknown(s *instance.State) bool {
	class := s.DataPVC.Spec.StorageClassName
	return s.DataPV == nil && class != nil && *class == ""
}

// waitForStore waits for a store whose contents cannot be read, because the store may have the only copy of the data.
// No event reports when the store responds again.
func waitForStore(s *instance.State) steps.Step {
	if step := decideBeforeStart(s); step.Action != steps.NoOp {
		return step
	}
	return steps.Step{Action: steps.Wait, After: steps.RequeueLater}
}
