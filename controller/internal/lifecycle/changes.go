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

// builders of all actions that change something. Where there are several changes, a crash after
// each of them must be harmless: what is done last is what says that the step is done.
var builders = map[steps.Action]steps.Builder{
	steps.AddFinalizers:        addFinalizers,
	steps.DeleteOrphanedXR:     deleteOrphanedXR,
	steps.ReleaseBackupPV:      releaseBackupPV,
	steps.AdoptBackupPV:        adoptBackupPV,
	steps.RecordPreviousBackup: recordPreviousBackup,
	steps.ReportUnsynced:       reportUnsynced,
	steps.WarnOfCrossplane:     warnOfCrossplane,
	steps.RetryService:         retryService,
	steps.ReportHeldClaim:      reportHeldClaim,
	steps.WarnOfBackup:         warnOfBackup,
	steps.LetCopyGo:            letCopyGo,
	steps.RemoveSettings:       removeSettings,
	steps.ClearStatus:          clearStatus,
	steps.NoteRestored:         noteRestored,
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

// builderOf an action; nil for one that changes nothing.
func builderOf(a steps.Action) steps.Builder {
	for _, of := range []map[steps.Action]steps.Builder{builders, backup.Builders, catalog.Builders} {
		if build, ok := of[a]; ok {
			return build
		}
	}
	return nil
}

// withChanges is a step with all that is written for it, what people see first.
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

// showRefusal of what an instance that lives needs. The function makes a condition of it; a
// deletion has words of its own.
func showRefusal(s *instance.State, step steps.Step) []change.Change {
	if !step.Refused || step.PhaseText() != "" || s.XR == nil || equality.Semantic.DeepEqual(s.XR.Status.BlockedBy, blocker(s)) {
		return nil
	}
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured, map[string]any{"blockedBy": blocker(s)}).WhoeverWrote()}
}

// addFinalizers to the claim first: it has the name.
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

// deleteOrphanedXR deletes it as a person would delete it.
func deleteOrphanedXR(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{change.DeleteObject(s.XR.Unstructured, metav1.DeletePropagationBackground)}
}

// recordPreviousBackup writes what the function waits for.
func recordPreviousBackup(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRStatus(s, map[string]any{
		"previousBackup": s.Latest(), "heldBackup": steps.OrNil(backup.HeldBackup(s)), "backupNumber": backup.NextBackupNumber(s), "backupNeeds": steps.OrNil(backup.NeededRoom(s)),
		"backupNodes": backupNodes(s), "backups": v1.ListBackups(s.Records), "restoreSource": backup.RestoreSourceFields(s),
	})
}

// clearStatus but for what Crossplane has there.
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

// noteRestored writes what the function takes for the Job's end, until that is gone.
func noteRestored(s *instance.State, _ steps.Step) []change.Change {
	if s.Restore == nil || s.Restore.IsComplete() {
		return steps.PatchXRStatus(s, map[string]any{"restoredBy": nil})
	}
	return steps.PatchXRStatus(s, map[string]any{"restoredBy": string(s.Restore.UID)})
}

// reportPodFailure writes what the function makes a condition of.
func reportPodFailure(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRStatus(s, map[string]any{"blockedBy": blocker(s)})
}

// reportSettings for the function, which decides by it what the server runs with.
func reportSettings(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRStatus(s, map[string]any{"settingsVerdict": s.SettingsVerdict})
}

// fenceServer writes what the function obeys.
func fenceServer(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRStatus(s, map[string]any{"pvcDeleted": true})
}

func unfenceServer(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRStatus(s, map[string]any{"pvcDeleted": nil})
}

// deleteObjects in the foreground: a Job or Deployment that is gone has left no pod behind
// that could still use a volume.
func deleteObjects(_ *instance.State, step steps.Step) []change.Change {
	out := make([]change.Change, 0, len(step.Targets))
	for _, o := range step.Targets {
		out = append(out, change.DeleteObject(o, metav1.DeletePropagationForeground))
	}
	return out
}

// stopServer the way that `kubectl scale` does.
func stopServer(s *instance.State, _ steps.Step) (out []change.Change) {
	if NeedsBackup(s) {
		out = backup.CheckData(s)
	}
	if s.HasCloneAccount() {
		// The backup of the deletion is to have no account of a clone. A server that does not answer keeps it, and who restores
		// takes it away.
		out = append(out, backup.Withdrawal(s).OrNot())
	}
	return append(out, change.ScaleDeployment(s.Deployment, 0))
}

// markNoData writes down that there is nothing to lose, on what goes last. The Job, the PVC or
// the volume that showed it goes earlier, and after a crash nothing else would say so.
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
		steps.SetAnnotation(o, v1.AnnotationNothingToLose, string(s.Life.XR))
	})}
}

func createPruneJob(s *instance.State, step steps.Step) []change.Change {
	return []change.Change{change.NewObject(backup.PruneJob(s, step.Targets))}
}

func createWipeJob(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{change.NewObject(backup.WipeJob(s))}
}
