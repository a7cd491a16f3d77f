package lifecycle

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// A builder makes the changes of an action, whose name it has. It looks at the state, and changes nothing there.
type builder func(*instance.State, Step) []change.Change

// builders of all actions that change something. Where there are several changes, a crash after
// each of them must be harmless: what is done last is what says that the step is done.
var builders = map[Action]builder{
	AddFinalizers:        addFinalizers,
	DeleteOrphanedXR:     deleteOrphanedXR,
	ReleaseBackupPV:      releaseBackupPV,
	AdoptBackupPV:        adoptBackupPV,
	RecordPreviousBackup: recordPreviousBackup,
	ReportUnsynced:       reportUnsynced,
	WarnOfCrossplane:     warnOfCrossplane,
	RetryService:         retryService,
	ReportHeldClaim:      reportHeldClaim,
	WarnOfBackup:         warnOfBackup,
	LetCopyGo:            letCopyGo,
	RemoveSettings:       removeSettings,
	ClearStatus:          clearStatus,
	NoteRestored:         noteRestored,
	ReportPodFailure:     reportPodFailure,
	ReportCopy:           reportPodFailure,
	ReportSettings:       reportSettings,
	RetainDataPV:         retainDataPV,
	BeginImageChange:     beginImageChange,
	AllowImage:           allowImage,
	EndImageChange:       endOfImageChange,
	FenceServer:          fenceServer,
	UnfenceServer:        unfenceServer,
	DeletePVC:            deletePVC,
	ReserveDataPV:        reserveDataPV,
	CreatePVC:            createPVC,
	SetNodeAffinity:      setNodeAffinity,
	StopServer:           stopServer,
	DeleteObjects:        deleteObjects,
	MarkNoData:           markNoData,
	CreatePruneJob:       createPruneJob,
	GiveRestoreAccess:    giveRestoreAccess,
	CreateWipeJob:        createWipeJob,
	ReleaseDataPV:        releaseDataPV,
	ReleaseDataPVC:       releaseDataPVC,
	RemoveXRFinalizer:    removeXRFinalizer,
	RemoveClaimFinalizer: removeClaimFinalizer,
}

// builderOf an action; nil for one that changes nothing.
func builderOf(a Action) builder {
	for _, of := range []map[Action]builder{builders, backupBuilders, catalogBuilders} {
		if build, ok := of[a]; ok {
			return build
		}
	}
	return nil
}

// withChanges is a step with all that is written for it, what people see first.
func withChanges(s *instance.State, step Step) Step {
	var changes []change.Change
	if f := refusalOf(s, step.Action); f != nil {
		step.Refused = true
		step.Message = strings.TrimPrefix(step.Message+": "+f.Message, ": ")
	}
	if build := builderOf(step.Action); build != nil {
		changes = build(s, step)
	}
	step.Changes = append(slices.Concat(showProgress(s, step, changes), showRefusal(s, step)), changes...)
	return step
}

// refusalOf an action, if that was the last one; nil where it was carried out, or another.
func refusalOf(s *instance.State, a Action) *instance.Refusal {
	if f := s.Refusal; f != nil && f.Of == string(a) {
		return f
	}
	return nil
}

// showRefusal of what an instance that lives needs. The function makes a condition of it; a
// deletion has words of its own.
func showRefusal(s *instance.State, step Step) []change.Change {
	if !step.Refused || step.PhaseText() != "" || s.XR == nil || equality.Semantic.DeepEqual(s.XR.Status.BlockedBy, blocker(s)) {
		return nil
	}
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured, map[string]any{"blockedBy": blocker(s)}).WhoeverWrote()}
}

// addFinalizers to the claim first: it has the name.
func addFinalizers(s *instance.State, _ Step) []change.Change {
	var out []change.Change
	for _, c := range []*instance.Composite{s.Claim, s.XR} {
		if c != nil && !c.IsDeleting() && !c.HasFinalizer() {
			out = append(out, change.AddFinalizer(c.Unstructured, v1.Finalizer))
		}
	}
	return out
}

func addFinalizer(o client.Object) { controllerutil.AddFinalizer(o, v1.Finalizer) }

// removeFinalizer of an object: what nothing else holds is gone then.
func removeFinalizer(o client.Object) change.Change {
	return change.PatchObject(o, func(o client.Object) { controllerutil.RemoveFinalizer(o, v1.Finalizer) }).OrGone()
}

func removeXRFinalizer(s *instance.State, _ Step) []change.Change {
	if s.XR == nil {
		return nil
	}
	return []change.Change{removeFinalizer(s.XR.Unstructured)}
}

func removeClaimFinalizer(s *instance.State, _ Step) []change.Change {
	return []change.Change{removeFinalizer(s.Claim.Unstructured)}
}

// deleteOrphanedXR deletes it as a person would delete it.
func deleteOrphanedXR(s *instance.State, _ Step) []change.Change {
	return []change.Change{change.DeleteObject(s.XR.Unstructured, metav1.DeletePropagationBackground)}
}

// recordPreviousBackup writes what the function waits for.
func recordPreviousBackup(s *instance.State, _ Step) []change.Change {
	return patchXRStatus(s, map[string]any{
		"previousBackup": s.Latest(), "heldBackup": orNil(heldBackup(s)), "backupNumber": nextBackupNumber(s), "backupNeeds": orNil(neededRoom(s)),
		"backupNodes": backupNodes(s), "backups": v1.ListBackups(s.Records), "restoreSource": restoreSourceFields(s),
	})
}

// clearStatus but for what Crossplane has there.
func clearStatus(s *instance.State, _ Step) []change.Change {
	fields := map[string]any{}
	status, _, _ := unstructured.NestedMap(s.XR.Object, "status")
	for field := range status {
		if field != "conditions" && field != "connectionDetails" && field != "claimConditionTypes" {
			fields[field] = nil
		}
	}
	return patchXRStatus(s, fields)
}

// noteRestored writes what the function takes for the Job's end, until that is gone.
func noteRestored(s *instance.State, _ Step) []change.Change {
	if s.Restore == nil || s.Restore.IsComplete() {
		return patchXRStatus(s, map[string]any{"restoredBy": nil})
	}
	return patchXRStatus(s, map[string]any{"restoredBy": string(s.Restore.UID)})
}

// reportPodFailure writes what the function makes a condition of.
func reportPodFailure(s *instance.State, _ Step) []change.Change {
	return patchXRStatus(s, map[string]any{"blockedBy": blocker(s)})
}

// reportSettings for the function, which decides by it what the server runs with.
func reportSettings(s *instance.State, _ Step) []change.Change {
	return patchXRStatus(s, map[string]any{"settingsVerdict": s.SettingsVerdict})
}

// orNil is the value of a field that goes where there is no text.
func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// fenceServer writes what the function obeys.
func fenceServer(s *instance.State, _ Step) []change.Change {
	return patchXRStatus(s, map[string]any{"dataPVCDeleted": true})
}

func unfenceServer(s *instance.State, _ Step) []change.Change {
	return patchXRStatus(s, map[string]any{"dataPVCDeleted": nil})
}

func patchXRStatus(s *instance.State, fields map[string]any) []change.Change {
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured, fields)}
}

// deleteObjects in the foreground: a Job or Deployment that is gone has left no pod behind
// that could still use a volume.
func deleteObjects(_ *instance.State, step Step) []change.Change {
	out := make([]change.Change, 0, len(step.Targets))
	for _, o := range step.Targets {
		out = append(out, change.DeleteObject(o, metav1.DeletePropagationForeground))
	}
	return out
}

// stopServer the way that `kubectl scale` does.
func stopServer(s *instance.State, _ Step) (out []change.Change) {
	if NeedsBackup(s) {
		out = checkData(s)
	}
	if s.HasCloneAccount() {
		// The backup of the deletion is to have no account of a clone. A server that does not answer keeps it, and who restores
		// takes it away.
		out = append(out, withdrawal(s).OrNot())
	}
	return append(out, change.ScaleDeployment(s.Deployment, 0))
}

// checkData of a server that runs, before it stops for a backup.
func checkData(s *instance.State) []change.Change {
	if s.XR == nil || len(s.Pods) == 0 || s.Word().LeavesOutside() {
		return nil
	}
	return []change.Change{change.InServer(change.CheckData, s.XR.Unstructured, serverOf(s))}
}

// markNoData writes down that there is nothing to lose, on what goes last. The Job, the PVC or
// the volume that showed it goes earlier, and after a crash nothing else would say so.
func markNoData(s *instance.State, _ Step) []change.Change {
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
		setAnnotation(o, v1.AnnotationNothingToLose, string(s.Life.XR))
	})}
}

func createBackupJob(s *instance.State, _ Step) []change.Change {
	var out []change.Change
	if s.Store() != "" {
		out = append(out, giveBackupAccess(s))
	}
	if a := s.Attempt(); a.IsOnline() {
		out = append(out, offerClone(s))
	}
	return append(out, change.NewObject(backupJob(s)))
}

func createPruneJob(s *instance.State, step Step) []change.Change {
	return []change.Change{change.NewObject(pruneJob(s, step.Targets))}
}

func createWipeJob(s *instance.State, _ Step) []change.Change {
	return []change.Change{change.NewObject(wipeJob(s))}
}
