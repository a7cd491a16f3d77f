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

// Next is the one thing to do now, with all that is written for it.
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

// nameUnreadable fields of claim and XR in the message of a deletion, which goes on from what can be read.
func nameUnreadable(s *instance.State, step steps.Step) steps.Step {
	if why := s.WhyUnreadable(); why != "" && step.Phase != "" && step.Action != steps.RemoveXRFinalizer {
		step.Message = strings.TrimPrefix(step.Message+". "+why, ". ")
	}
	return step
}

// decideNoXR: without an XR there is only a name, which is free when nothing holds data
// under it.
func decideNoXR(s *instance.State) steps.Step {
	switch c := s.DataPVC; {
	case c != nil && c.DeletionTimestamp != nil && instance.HasFinalizer(c) && c.Spec.VolumeName == "":
		return steps.Step{Action: steps.ReleaseDataPVC, Message: "The instance never had a volume: nothing to back up"}
	case c != nil && c.DeletionTimestamp != nil && instance.HasFinalizer(c):
		return steps.Step{Action: steps.Wait, After: steps.RequeueForPerson, Phase: v1.DeletionHeld, Message: fmt.Sprintf(
			"The composite resource is gone without a backup; volume %q still holds the data. Copy it away, then remove the finalizer %s from PersistentVolumeClaim %s/%s and PersistentVolume %q",
			c.Spec.VolumeName, v1.Finalizer, c.Namespace, c.Name, c.Spec.VolumeName)}
	case s.Claim == nil:
		return steps.Step{Action: steps.NoOp}
	case s.Claim.IsDeleting() && !s.Claim.HasFinalizer():
		return awaitRelease(s)
	case s.Ephemeral() && !s.Claim.HasFinalizer():
		return steps.Step{Action: steps.NoOp} // There will be nothing to keep.
	case s.Claim.IsDeleting() && s.Claim.HasFinalizer():
		return steps.Step{Action: steps.RemoveClaimFinalizer, Message: "All is released, and the name is free"}
	case !s.Claim.IsDeleting() && !s.Claim.HasFinalizer():
		return steps.Step{Action: steps.AddFinalizers}
	}
	return steps.Step{Action: steps.NoOp}
}

// decideLiving protects an instance before anything starts, and keeps it so.
//
//	finalizers ─▶ backup volume ─▶ previousBackup ─▶ the function starts the server ─▶ Retain
//
// Where there is a backup of an earlier namespace, the function chooses first:
//
//	finalizers ─▶ previousBackup ─▶ the function chooses ─▶ that backup's volume, or a new one
func decideLiving(s *instance.State) steps.Step {
	switch {
	case s.XR.Stale:
		return steps.Step{Action: steps.ClearStatus}
	case s.OrphanedFromClaim && (s.Ephemeral() || s.XR.HasFinalizer()):
		return steps.Step{Action: steps.DeleteOrphanedXR, Message: fmt.Sprintf("No claim has composite resource %q any more, nor will one have it: it is deleted, and its data backed up before", s.XR.GetName())}
	case s.Ephemeral() && !s.XR.HasFinalizer():
		return decideBeforeStart(s) // It just goes.
	case !s.XR.HasFinalizer() || s.Claim != nil && !s.Claim.IsDeleting() && !s.Claim.HasFinalizer():
		return steps.Step{Action: steps.AddFinalizers, Message: "Nothing of this instance goes before a backup of it is proven"}
	case s.Claim != nil && s.Claim.IsDeleting():
		return awaitCrossplane(s)
	case s.PredecessorTerminating && !equality.Semantic.DeepEqual(s.XR.Status.BlockedBy, blocker(s)):
		return steps.Step{Action: reportAction(s), Message: heldByCopy(s.PredecessorCopy)}
	case s.Namespace == nil || s.Namespace.DeletionTimestamp != nil:
		return steps.Step{Action: steps.NoOp}
	case s.IsDataPVReservedElsewhere():
		return steps.Step{Action: steps.ReserveDataPV}
	case s.DataPVC == nil:
		return steps.Step{Action: steps.NoOp} // The function makes it next, or says why not.
	case s.DataPVC.DeletionTimestamp != nil:
		return replaceDeletedPVC(s)
	case isFenced(s) && s.DataPVC.Status.Phase == corev1.ClaimBound:
		return steps.Step{Action: steps.UnfenceServer, Message: fmt.Sprintf("PersistentVolumeClaim %s is back on its volume %q: the server starts again", s.DataPVC.Name, s.DataPVC.Spec.VolumeName)}
	}
	if isVerdictNew(s) { // First: a server may be down until then.
		return steps.Step{Action: steps.ReportSettings}
	}
	return protectData(s)
}

// isVerdictNew reports whether the status does not say yet what became of new settings.
func isVerdictNew(s *instance.State) bool {
	return !equality.Semantic.DeepEqual(s.XR.Status.SettingsVerdict, s.SettingsVerdict)
}

// protectData keeps what outlives the instance in order.
func protectData(s *instance.State) steps.Step {
	if s.PredecessorTerminating {
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater} // What it leaves decides what this one starts from.
	}
	if step, open := decideAdoption(s); open {
		return step
	}
	if step, open := giveWay(s); open {
		return step
	}
	switch {
	case s.BackupPVC == nil && s.BackupBusy:
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater}
	case s.BackupPVC == nil && isDataPVUnknown(s):
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}
	case s.BackupPVC == nil && needsBackupPVC(s) && !isUndecided(s) && !instance.EarlierBackupPVMissing(s):
		return steps.Step{Action: steps.CreateBackupPVC, Message: fmt.Sprintf("Making PersistentVolumeClaim %s for the backups, which outlives the instance", s.Life.BackupPVCName())}
	case s.BackupPVCAwaited:
		return decideBeforeStart(s) // Where it is decides where the server may be.
	case !s.XR.Status.Started && s.StoreFailure != "":
		return waitForStore(s)
	case !s.XR.Status.Started && !knowsEarlierBackups(s):
		return steps.Step{Action: steps.RecordPreviousBackup, Message: previousBackupMessage(s)}
	case s.RestoreFrom != nil:
		return steps.Step{Action: steps.GiveRestoreAccess}
	case s.Node != "":
		return nodeAffinityStep(s, steps.Step{})
	case s.DataPV != nil && !isDataPVMarked(s):
		return steps.Step{Action: steps.RetainDataPV, Message: fmt.Sprintf("Volume %q is kept until the data on it has a proven backup", s.DataPV.Name)}
	case s.BackupPVC == nil && s.Store() == "":
		return decideBeforeStart(s) // The function chooses first, or a person brings the volume back.
	}
	if step, open := keepBackupPVC(s); open {
		return step
	}
	for _, decide := range []func(*instance.State) (steps.Step, bool){decideWarning, backup.FollowAttempt, decideImageChange, backup.DecideRequested, backup.ForgetExpired, backup.DecideScheduled} {
		if step, open := decide(s); open {
			return step
		}
	}
	step := decideBeforeStart(s)
	if step.Action == steps.NoOp {
		step.After = untilNextLook(s)
	}
	return step
}

// needsBackupPVC is true if backups go to a volume, or there is one with those of an earlier life.
func needsBackupPVC(s *instance.State) bool { return s.Store() == "" || s.BackupPV != nil }

// keepBackupPVC in order. One that no backup goes to any more stays as it is.
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

// decideBeforeStart says what keeps a server from taking clients.
func decideBeforeStart(s *instance.State) steps.Step {
	if step, open := endOutlivedRestore(s); open {
		return step
	}
	switch {
	case isVerdictNew(s):
		return steps.Step{Action: steps.ReportSettings}
	case !equality.Semantic.DeepEqual(s.XR.Status.BlockedBy, blocker(s)):
		return steps.Step{Action: steps.ReportPodFailure, Message: steps.Sentence(s.PodFailure)}
	case s.Restore != nil && s.XR.Status.RestoredBy == "" && s.XR.Status.Restore.IsRunning():
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon} // A server waits for it. What takes long is looked at less and less often.
	case s.Source != nil:
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater} // No event of another claim's backups leads here.
	case s.XR.IsBeginning() || s.BackupPVCAwaited || isSettling(s.XR.Status.Settings):
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater} // Its pods are not a source of events.
	}
	return steps.Step{Action: steps.NoOp}
}

// isSettling reports whether new settings are being validated or are on trial.
func isSettling(is *v1.SettingsStatus) bool {
	return is != nil && (is.Phase == v1.SettingsValidating || is.Phase == v1.SettingsOnTrial)
}

// endOutlivedRestore ends the Job of a restore whose pod goes on without the product's own
// container. One that has restored all is noted first, so that the function does not make it
// again; one that has failed loses its pod, and is tried again as any other.
func endOutlivedRestore(s *instance.State) (step steps.Step, open bool) {
	j, by := s.Restore, s.XR.Status.RestoredBy
	switch {
	case j == nil && by != "":
		return steps.Step{Action: steps.NoteRestored}, true
	case j != nil && j.Succeeded != nil && j.DeletionTimestamp == nil && by != j.UID:
		return steps.Step{Action: steps.NoteRestored}, true // Nobody has to wait for the Job to say so.
	case j != nil && by == j.UID && j.IsComplete():
		return steps.Step{Action: steps.NoteRestored}, !s.XR.Status.Restore.IsRunning() // The Job says it now.
	case j == nil || j.Outlived == nil || j.DeletionTimestamp != nil:
		return steps.Step{}, false
	}
	switch _, succeeded := j.Finished(); {
	case !succeeded:
		return steps.DeleteAndWait([]client.Object{j.Going})
	case by != j.UID:
		return steps.Step{Action: steps.NoteRestored, Message: fmt.Sprintf("All is restored; a container that somebody added to pod %s goes on, and is ended with it", j.Going.Name)}, true
	case s.XR.Status.Restore.IsRunning():
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}, true // The function says that it is over, and the Job may go.
	}
	return steps.Step{Action: steps.DeleteObjects, Targets: []client.Object{j.Job}}, true
}

// reportAction that writes status.blockedBy.
func reportAction(s *instance.State) steps.Action {
	if s.PredecessorCopy != nil {
		return steps.ReportCopy
	}
	return steps.ReportPodFailure
}

// blocker of a living instance, or nil.
func blocker(s *instance.State) *v1.Blocker {
	switch {
	case s.Refusal != nil:
		return &v1.Blocker{Reason: v1.ReasonRefused, Message: s.Refusal.Message}
	case s.PredecessorCopy != nil:
		return &v1.Blocker{Reason: v1.ReasonCopyFound, Message: heldByCopy(s.PredecessorCopy)}
	case s.PodFailure == "":
		return nil
	case !s.XR.Status.Started && s.StoreFailure != "":
		return &v1.Blocker{Reason: v1.ReasonStoreFailed, Message: s.PodFailure}
	case !s.XR.Status.Started && (s.Latest() == v1.PreviousHeld || s.Source != nil && s.Source.Missing() != nil):
		return &v1.Blocker{Reason: v1.ReasonRecordMissing, Message: s.PodFailure}
	}
	return &v1.Blocker{Reason: v1.ReasonPodFailure, Message: s.PodFailure}
}

// nodeAffinityStep pins hostPath volumes to their node before their pod goes away: on another
// node the folder is empty. Both at once: when the data is pinned nobody looks for the node any more.
func nodeAffinityStep(s *instance.State, step steps.Step) steps.Step {
	if c := s.BackupPVC; c != nil && c.Spec.VolumeName != "" && s.BackupPV == nil {
		return backup.KeepBackupPV(s, step)
	}
	return steps.Step{Action: steps.SetNodeAffinity, Message: fmt.Sprintf("The data is in a folder of node %s, and stays there", s.Node)}
}

// knowsEarlierBackups is true if the status says which backup is the newest, and what comes after it.
func knowsEarlierBackups(s *instance.State) bool {
	is := s.XR.Status
	return is.PreviousBackup == s.Latest() && equality.Semantic.DeepEqual(is.RestoreSource, backup.RestoreSource(s)) && is.HeldBackup == backup.HeldBackup(s) && is.BackupNumber == backup.NextBackupNumber(s) && is.BackupNeeds == backup.NeededRoom(s) &&
		equality.Semantic.DeepEqual(is.BackupNodes, backupNodes(s)) && equality.Semantic.DeepEqual(is.Backups, v1.ListBackups(s.Records))
}

func previousBackupMessage(s *instance.State) string {
	previous := s.Latest()
	switch previous {
	case v1.PreviousNone:
		return "There is no backup of an earlier instance of this name"
	case v1.PreviousHeld:
		return fmt.Sprintf("Backup %q of an earlier instance of this name is there without its record: no server starts empty beside it", s.Missing().Name)
	}
	return fmt.Sprintf("Backup %q of an earlier instance of this name is there", previous)
}

// isDataPVMarked is true if the data volume stays whatever becomes of its PVC, and
// says whose it is.
func isDataPVMarked(s *instance.State) bool {
	v := s.DataPV
	if v.Status.Phase != corev1.VolumeBound && s.DataPVC.Status.Phase != corev1.ClaimBound {
		return true // It is marked when it is bound.
	}
	if !instance.HasFinalizer(v) || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || v.Annotations[v1.AnnotationReclaimPolicy] == "" {
		return false
	}
	for key, want := range backup.IdentityAnnotations(s) {
		if v.Annotations[key] != want {
			return false
		}
	}
	return v.Labels[v1.LabelXR] == string(s.Life.XR) && steps.IsMarkedUID(v) && steps.IsMarkedUID(s.DataPVC)
}

// isDataPVUnknown is true while the volume of a data PVC of no class is not seen yet. It may be
// a folder on a node, and then the backup volume is made beside it.
func isDataPVUnknown(s *instance.State) bool {
	class := s.DataPVC.Spec.StorageClassName
	return s.DataPV == nil && class != nil && *class == ""
}

// waitForStore that does not say what it has: it may be the only copy of the rows. Nothing tells when it does.
func waitForStore(s *instance.State) steps.Step {
	if step := decideBeforeStart(s); step.Action != steps.NoOp {
		return step
	}
	return steps.Step{Action: steps.Wait, After: steps.RequeueLater}
}
