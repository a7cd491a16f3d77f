package lifecycle

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// Pauses until the next look: for what the cluster does in a moment, for what takes it a
// while, and for what takes a person.
const (
	requeueSoon      = 500 * time.Millisecond
	requeueLater     = 5 * time.Second
	requeueForPerson = time.Minute
)

// Next is the one thing to do now, with all that is written for it.
func Next(s *instance.State) Step { return withChanges(s, decide(s)) }

func decide(s *instance.State) Step {
	switch {
	case s.IsDeleting():
		return nameUnreadable(s, decideDelete(s).ofDeletion())
	case s.XR == nil:
		return seesClaim(s, decideNoXR(s))
	}
	return seesUnsynced(s, decideLiving(s))
}

// nameUnreadable fields of claim and XR in the message of a deletion, which goes on from what can be read.
func nameUnreadable(s *instance.State, step Step) Step {
	if why := s.WhyUnreadable(); why != "" && step.Phase != "" && step.Action != RemoveXRFinalizer {
		step.Message = strings.TrimPrefix(step.Message+". "+why, ". ")
	}
	return step
}

// decideNoXR: without an XR there is only a name, which is free when nothing holds data
// under it.
func decideNoXR(s *instance.State) Step {
	switch c := s.DataPVC; {
	case c != nil && c.DeletionTimestamp != nil && instance.HasFinalizer(c) && c.Spec.VolumeName == "":
		return Step{Action: ReleaseDataPVC, Message: "The instance never had a volume: nothing to back up"}
	case c != nil && c.DeletionTimestamp != nil && instance.HasFinalizer(c):
		return Step{Action: Wait, After: requeueForPerson, Phase: v1.DeletionHeld, Message: fmt.Sprintf(
			"The composite resource is gone without a backup; volume %q still holds the data. Copy it away, then remove the finalizer %s from PersistentVolumeClaim %s/%s and PersistentVolume %q",
			c.Spec.VolumeName, v1.Finalizer, c.Namespace, c.Name, c.Spec.VolumeName)}
	case s.Claim == nil:
		return Step{Action: NoOp}
	case s.Claim.IsDeleting() && !s.Claim.HasFinalizer():
		return awaitRelease(s)
	case s.Ephemeral() && !s.Claim.HasFinalizer():
		return Step{Action: NoOp} // There will be nothing to keep.
	case s.Claim.IsDeleting() && s.Claim.HasFinalizer():
		return Step{Action: RemoveClaimFinalizer, Message: "All is released, and the name is free"}
	case !s.Claim.IsDeleting() && !s.Claim.HasFinalizer():
		return Step{Action: AddFinalizers}
	}
	return Step{Action: NoOp}
}

// decideLiving protects an instance before anything starts, and keeps it so.
//
//	finalizers ─▶ backup volume ─▶ previousBackup ─▶ the function starts the server ─▶ Retain
//
// Where there is a backup of an earlier namespace, the function chooses first:
//
//	finalizers ─▶ previousBackup ─▶ the function chooses ─▶ that backup's volume, or a new one
func decideLiving(s *instance.State) Step {
	switch {
	case s.XR.Stale:
		return Step{Action: ClearStatus}
	case s.OrphanedFromClaim && (s.Ephemeral() || s.XR.HasFinalizer()):
		return Step{Action: DeleteOrphanedXR, Message: fmt.Sprintf("No claim has composite resource %q any more, nor will one have it: it is deleted, and its data backed up before", s.XR.GetName())}
	case s.Ephemeral() && !s.XR.HasFinalizer():
		return decideBeforeStart(s) // It just goes.
	case !s.XR.HasFinalizer() || s.Claim != nil && !s.Claim.IsDeleting() && !s.Claim.HasFinalizer():
		return Step{Action: AddFinalizers, Message: "Nothing of this instance goes before a backup of it is proven"}
	case s.Claim != nil && s.Claim.IsDeleting():
		return awaitCrossplane(s)
	case s.PredecessorTerminating && !equality.Semantic.DeepEqual(s.XR.Status.BlockedBy, blocker(s)):
		return Step{Action: reportAction(s), Message: heldByCopy(s.PredecessorCopy)}
	case s.Namespace == nil || s.Namespace.DeletionTimestamp != nil:
		return Step{Action: NoOp}
	case s.IsDataPVReservedElsewhere():
		return Step{Action: ReserveDataPV}
	case s.DataPVC == nil:
		return Step{Action: NoOp} // The function makes it next, or says why not.
	case s.DataPVC.DeletionTimestamp != nil:
		return replaceDeletedPVC(s)
	case isFenced(s) && s.DataPVC.Status.Phase == corev1.ClaimBound:
		return Step{Action: UnfenceServer, Message: fmt.Sprintf("PersistentVolumeClaim %s is back on its volume %q: the server starts again", s.DataPVC.Name, s.DataPVC.Spec.VolumeName)}
	}
	if isVerdictNew(s) { // First: a server may be down until then.
		return Step{Action: ReportSettings}
	}
	return protectData(s)
}

// isVerdictNew reports whether the status does not say yet what became of new settings.
func isVerdictNew(s *instance.State) bool {
	return !equality.Semantic.DeepEqual(s.XR.Status.SettingsVerdict, s.SettingsVerdict)
}

// protectData keeps what outlives the instance in order.
func protectData(s *instance.State) Step {
	if s.PredecessorTerminating {
		return Step{Action: Wait, After: requeueLater} // What it leaves decides what this one starts from.
	}
	if step, open := decideAdoption(s); open {
		return step
	}
	if step, open := giveWay(s); open {
		return step
	}
	switch {
	case s.BackupPVC == nil && s.BackupBusy:
		return Step{Action: Wait, After: requeueLater}
	case s.BackupPVC == nil && isDataPVUnknown(s):
		return Step{Action: Wait, After: requeueSoon}
	case s.BackupPVC == nil && needsBackupPVC(s) && !isUndecided(s) && !instance.EarlierBackupPVMissing(s):
		return Step{Action: CreateBackupPVC, Message: fmt.Sprintf("Making PersistentVolumeClaim %s for the backups, which outlives the instance", s.Life.BackupPVCName())}
	case s.BackupPVCAwaited:
		return decideBeforeStart(s) // Where it is decides where the server may be.
	case !s.XR.Status.Started && s.StoreFailure != "":
		return waitForStore(s)
	case !s.XR.Status.Started && !knowsEarlierBackups(s):
		return Step{Action: RecordPreviousBackup, Message: previousBackupMessage(s)}
	case s.RestoreFrom != nil:
		return Step{Action: GiveRestoreAccess}
	case s.Node != "":
		return nodeAffinityStep(s, Step{})
	case s.DataPV != nil && !isDataPVMarked(s):
		return Step{Action: RetainDataPV, Message: fmt.Sprintf("Volume %q is kept until the data on it has a proven backup", s.DataPV.Name)}
	case s.BackupPVC == nil && s.Store() == "":
		return decideBeforeStart(s) // The function chooses first, or a person brings the volume back.
	}
	if step, open := keepBackupPVC(s); open {
		return step
	}
	for _, decide := range []func(*instance.State) (Step, bool){decideWarning, followAttempt, decideImageChange, decideRequested, forgetExpired, decideScheduled} {
		if step, open := decide(s); open {
			return step
		}
	}
	step := decideBeforeStart(s)
	if step.Action == NoOp {
		step.After = untilNextLook(s)
	}
	return step
}

// needsBackupPVC is true if backups go to a volume, or there is one with those of an earlier life.
func needsBackupPVC(s *instance.State) bool { return s.Store() == "" || s.BackupPV != nil }

// keepBackupPVC in order. One that no backup goes to any more stays as it is.
func keepBackupPVC(s *instance.State) (step Step, open bool) {
	switch c := s.BackupPVC; {
	case c == nil:
		return Step{}, false
	case c.Status.Phase == corev1.ClaimBound && !s.IsBackupPVRetained():
		return keepBackupPV(s, Step{}), true
	case isGoing(c):
		return freePVC(s)
	case s.Store() != "":
		return Step{}, false
	case mustReplaceBackupPVC(s):
		return Step{Action: DeleteBackupPVC, Message: resizeMessage(s)}, true
	case canExpandBackupPVC(s):
		return Step{Action: ExpandBackupPVC}, true
	}
	return Step{}, false
}

// decideBeforeStart says what keeps a server from taking clients.
func decideBeforeStart(s *instance.State) Step {
	if step, open := endOutlivedRestore(s); open {
		return step
	}
	switch {
	case isVerdictNew(s):
		return Step{Action: ReportSettings}
	case !equality.Semantic.DeepEqual(s.XR.Status.BlockedBy, blocker(s)):
		return Step{Action: ReportPodFailure, Message: sentence(s.PodFailure)}
	case s.Restore != nil && s.XR.Status.RestoredBy == "" && s.XR.Status.Restore.IsRunning():
		return Step{Action: Wait, After: requeueSoon} // A server waits for it. What takes long is looked at less and less often.
	case s.Source != nil:
		return Step{Action: Wait, After: requeueLater} // No event of another claim's backups leads here.
	case s.XR.IsBeginning() || s.BackupPVCAwaited || isSettling(s.XR.Status.Settings):
		return Step{Action: Wait, After: requeueLater} // Its pods are not a source of events.
	}
	return Step{Action: NoOp}
}

// isSettling reports whether new settings are being validated or are on trial.
func isSettling(is *v1.SettingsStatus) bool {
	return is != nil && (is.Phase == v1.SettingsValidating || is.Phase == v1.SettingsOnTrial)
}

// endOutlivedRestore ends the Job of a restore whose pod goes on without the product's own
// container. One that has restored all is noted first, so that the function does not make it
// again; one that has failed loses its pod, and is tried again as any other.
func endOutlivedRestore(s *instance.State) (step Step, open bool) {
	j, by := s.Restore, s.XR.Status.RestoredBy
	switch {
	case j == nil && by != "":
		return Step{Action: NoteRestored}, true
	case j != nil && j.Succeeded != nil && j.DeletionTimestamp == nil && by != j.UID:
		return Step{Action: NoteRestored}, true // Nobody has to wait for the Job to say so.
	case j != nil && by == j.UID && j.IsComplete():
		return Step{Action: NoteRestored}, !s.XR.Status.Restore.IsRunning() // The Job says it now.
	case j == nil || j.Outlived == nil || j.DeletionTimestamp != nil:
		return Step{}, false
	}
	switch _, succeeded := j.Finished(); {
	case !succeeded:
		return deleteAndWait([]client.Object{j.Going})
	case by != j.UID:
		return Step{Action: NoteRestored, Message: fmt.Sprintf("All is restored; a container that somebody added to pod %s goes on, and is ended with it", j.Going.Name)}, true
	case s.XR.Status.Restore.IsRunning():
		return Step{Action: Wait, After: requeueSoon}, true // The function says that it is over, and the Job may go.
	}
	return Step{Action: DeleteObjects, Targets: []client.Object{j.Job}}, true
}

// reportAction that writes status.blockedBy.
func reportAction(s *instance.State) Action {
	if s.PredecessorCopy != nil {
		return ReportCopy
	}
	return ReportPodFailure
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

// sentence begins with a capital letter.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// nodeAffinityStep pins hostPath volumes to their node before their pod goes away: on another
// node the folder is empty. Both at once: when the data is pinned nobody looks for the node any more.
func nodeAffinityStep(s *instance.State, step Step) Step {
	if c := s.BackupPVC; c != nil && c.Spec.VolumeName != "" && s.BackupPV == nil {
		return keepBackupPV(s, step)
	}
	return Step{Action: SetNodeAffinity, Message: fmt.Sprintf("The data is in a folder of node %s, and stays there", s.Node)}
}

// knowsEarlierBackups is true if the status says which backup is the newest, and what comes after it.
func knowsEarlierBackups(s *instance.State) bool {
	is := s.XR.Status
	return is.PreviousBackup == s.Latest() && equality.Semantic.DeepEqual(is.RestoreSource, restoreSource(s)) && is.HeldBackup == heldBackup(s) && is.BackupNumber == nextBackupNumber(s) && is.BackupNeeds == neededRoom(s) &&
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
	for key, want := range identityAnnotations(s) {
		if v.Annotations[key] != want {
			return false
		}
	}
	return v.Labels[v1.LabelXR] == string(s.Life.XR) && isMarkedUID(v) && isMarkedUID(s.DataPVC)
}

// keepBackupPV is the step that retains the volume of the backup PVC. A PVC may name any volume,
// and only one that names the PVC, too, is its own.
func keepBackupPV(s *instance.State, step Step) Step {
	if step.Action = RetainBackupPV; s.BackupPV != nil {
		return step
	}
	step.Action, step.After = Wait, requeueLater
	if step.PhaseText() != "" {
		step.Message = fmt.Sprintf("Volume %q is not bound to PersistentVolumeClaim %s/%s, which names it", s.BackupPVC.Spec.VolumeName, s.BackupPVC.Namespace, s.BackupPVC.Name)
	}
	return step
}

// isDataPVUnknown is true while the volume of a data PVC of no class is not seen yet. It may be
// a folder on a node, and then the backup volume is made beside it.
func isDataPVUnknown(s *instance.State) bool {
	class := s.DataPVC.Spec.StorageClassName
	return s.DataPV == nil && class != nil && *class == ""
}
