package lifecycle

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// builders maps each action that changes something to the function that builds its changes. If an action has several
// changes, a crash after any of them must be harmless. The last change therefore marks the step as done.
var builders = map[steps.Action]steps.Builder{
	steps.AddFinalizers:        addFinalizers,
	steps.DeleteOrphanedXR:     deleteOrphanedXR,
	steps.ReleaseBackupPV:      releaseBackupPV,
	steps.AdoptBackupPV:        adoptBackupPV,
	steps.RecordPreviousBackup: recordPreviousBackup,
	steps.PlanRecovery:         recordPlan,
	steps.ReportUnsynced:       reportUnsynced,
	steps.WarnOfCrossplane:     warnOfCrossplane,
	steps.RetryService:         retryService,
	steps.ReportBlockedClaim:   reportBlockedClaim,
	steps.WarnOfBackup:         warnOfBackup,
	steps.LetCopyGo:            releaseCopy,
	steps.RemoveSettings:       removeSettings,
	steps.ClearStatus:          clearStatus,
	steps.RecordRestored:       recordRestored,
	steps.ReportPodFailure:     reportPodFailure,
	steps.ReportCopy:           reportPodFailure,
	steps.ReportSettings:       reportSettings,
	steps.RetainDataPV:         retainDataPV,
	steps.BeginImageChange:     beginImageChange,
	steps.AllowImage:           allowImage,
	steps.EndImageChange:       endOfImageChange,
	steps.FenceServer:          fenceServer,
	steps.UnfenceServer:        unfenceServer,
	steps.DeletePVC:            deletePVC,
	steps.ReserveDataPV:        reserveDataPV,
	steps.CreatePVC:            createPVC,
	steps.SetNodeAffinity:      setNodeAffinity,
	steps.StopServer:           stopServer,
	steps.DeleteObjects:        deleteObjects,
	steps.MarkNoData:           markNoData,
	steps.CreatePruneJob:       createPruneJob,
	steps.GiveRestoreAccess:    backup.GiveRestoreAccess,
	steps.CreateWipeJob:        createWipeJob,
	steps.ReleaseDataPV:        releaseDataPV,
	steps.ReleaseDataPVC:       releaseDataPVC,
	steps.RemoveXRFinalizer:    removeXRFinalizer,
	steps.RemoveClaimFinalizer: removeClaimFinalizer,
}

// builderOf returns the builder of an action, or nil if the action changes nothing.
func builderOf(a steps.Action) steps.Builder {
	for _, group := range []map[steps.Action]steps.Builder{builders, backup.Builders, catalog.Builders} {
		if build, ok := group[a]; ok {
			return build
		}
	}
	return nil
}

// withChanges returns the step with all of its changes. Changes to the status come first, so that users see them.
func withChanges(s *instance.State, step steps.Step) steps.Step {
	var changes []change.Change
	if f := steps.RefusalOf(s, step.Action); f != nil {
		step.Refused = true
		step.Message = strings.TrimPrefix(step.Message+": "+f.Message, ": ")
	}
	if build := builderOf(step.Action); build != nil {
		changes = build(s, step)
	}
	step.Changes = append(slices.Concat(showProgress(s, step, changes), showRefusal(s, step)), changes...)
	return step
}

// showRefusal stores in the status why an object that an existing instance needs was refused. The function turns it
// into a condition. A deletion reports refusals in its own messages.
func showRefusal(s *instance.State, step steps.Step) []change.Change {
	if !step.Refused || step.PhaseText() != "" || s.XR == nil ||
		equality.Semantic.DeepEqual(s.XR.Status.BlockedBy, blocker(s)) {
		return nil
	}
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured,
		steps.Internal(map[string]any{"blockedBy": blocker(s)})).WhoeverWrote()}
}

// addFinalizers adds the finalizer to the claim first, because the claim reserves the name of the instance.
func addFinalizers(s *instance.State, _ steps.Step) []change.Change {
	var out []change.Change
	for _, c := range []*instance.Composite{s.Claim, s.XR} {
		if c != nil && !c.IsDeleting() && !c.HasFinalizer() {
			out = append(out, change.AddFinalizer(c.Unstructured, v1.Finalizer))
		}
	}
	return out
}

func removeXRFinalizer(s *instance.State, _ steps.Step) []change.Change {
	if s.XR == nil {
		return nil
	}
	return []change.Change{steps.RemoveFinalizer(s.XR.Unstructured)}
}

func removeClaimFinalizer(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{steps.RemoveFinalizer(s.Claim.Unstructured)}
}

// deleteOrphanedXR deletes the XR in the background, as kubectl does by default.
func deleteOrphanedXR(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{change.DeleteObject(s.XR.Unstructured, metav1.DeletePropagationBackground)}
}

// recordPreviousBackup writes the status fields that the function waits for before it starts a server.
func recordPreviousBackup(s *instance.State, _ steps.Step) []change.Change {
	fields := steps.Internal(map[string]any{
		"previousBackup": s.Latest(), "heldBackup": steps.OrNil(backup.HeldBackup(s)),
		"backupNumber": backup.NextBackupNumber(s), "backupNeeds": steps.OrNil(backup.NeededRoom(s)),
		"backupNodes": backupNodes(s), "restoreSource": backup.RestoreSourceFields(s),
		"recoverySource": backup.RecoverySourceFields(s),
	})
	fields["backups"] = backup.RecentBackups(s)
	return steps.PatchXRStatus(s, fields)
}

// recordPlan writes the result of the search for a recovery, with its plan.
func recordPlan(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRInternal(s, map[string]any{"recoverySource": backup.RecoverySourceFields(s)})
}

// clearStatus removes all status fields except those that Crossplane owns.
func clearStatus(s *instance.State, _ steps.Step) []change.Change {
	fields := map[string]any{}
	status, _, _ := unstructured.NestedMap(s.XR.Object, "status")
	for field := range status {
		if field != "conditions" && field != "connectionDetails" && field != "claimConditionTypes" {
			fields[field] = nil
		}
	}
	return steps.PatchXRStatus(s, fields)
}

// recordRestored stores the UID of the restore Job, so that the function treats the Job as complete. When the Job is
// complete or deleted, recordRestored removes the UID.
func recordRestored(s *instance.State, _ steps.Step) []change.Change {
	if s.RestoreJob == nil || s.RestoreJob.IsComplete() {
		return steps.PatchXRInternal(s, map[string]any{"restoredBy": nil})
	}
	return steps.PatchXRInternal(s, map[string]any{"restoredBy": string(s.RestoreJob.UID)})
}

// reportPodFailure writes status.internal.blockedBy, which the function turns into a condition.
func reportPodFailure(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRInternal(s, map[string]any{"blockedBy": blocker(s)})
}

// reportSettings stores the verdict on new settings, from which the function chooses the settings of the server.
func reportSettings(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRInternal(s, map[string]any{"settingsVerdict": s.SettingsVerdict})
}

// fenceServer sets status.internal.pvcDeleted, so that the function stops the server.
func fenceServer(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRInternal(s, map[string]any{"pvcDeleted": true})
}

func unfenceServer(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRInternal(s, map[string]any{"pvcDeleted": nil})
}

// deleteObjects deletes objects in the foreground. A Job or Deployment then exists until its pods are deleted and no
// longer use a volume.
func deleteObjects(_ *instance.State, step steps.Step) []change.Change {
	out := make([]change.Change, 0, len(step.Targets))
	for _, o := range step.Targets {
		out = append(out, change.DeleteObject(o, metav1.DeletePropagationForeground))
	}
	return out
}

// stopServer scales the Deployment to zero, as `kubectl scale` does.
func stopServer(s *instance.State, _ steps.Step) (out []change.Change) {
	if NeedsBackup(s) {
		out = backup.CheckData(s)
	}
	if instance.HasCloneAccount(s.XR) {
		// The final backup must not contain the account that a clone uses. If the server does not respond, the backup
		// contains the account, and a restore removes it.
		out = append(out, backup.Withdrawal(s).OrNot())
	}
	return append(out, change.ScaleDeployment(s.Deployment, 0))
}

// markNoData annotates the object that is deleted last, to record that there is no data to lose. The Job, PVC or
// volume that proves it is deleted earlier, and a crash would lose this information.
func markNoData(s *instance.State, _ steps.Step) []change.Change {
	var on client.Object
	switch {
	case s.XR != nil:
		on = s.XR.Unstructured
	case s.OriginalPVC != nil:
		on = s.OriginalPVC
	default:
		on = s.DataPVC
	}
	return []change.Change{change.PatchObject(on, func(o client.Object) {
		steps.SetAnnotation(o, v1.AnnotationNothingToLose, string(s.Instance.XR))
	})}
}

func createPruneJob(s *instance.State, step steps.Step) []change.Change {
	return []change.Change{change.NewObject(backup.PruneJob(s, step.Targets))}
}

func createWipeJob(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{change.NewObject(backup.WipeJob(s))}
}
