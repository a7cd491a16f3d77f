package lifecycle

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// decideDelete of an instance, which is announced, fenced, backed up and released, in this order,
// whatever happens in between. Where nothing does:
//
//	CreateBackup          a record says that it begins
//	StopServer            Crossplane has let the XR go; the server shuts down
//	DeleteObjects         the Deployment goes: nothing can start a server any more
//	CreateBackupJob       an agent copies the volume, and reads the copy again
//	MarkRunning           the record says so, until the Job has ended
//	RetainBackupPV        where the Job's pod had the volume made only now: it stays, whatever becomes of its PVC
//	NoteBackup            the volume of the backups knows it: from here on it is proven
//	MarkProven            the record says so; a restore test is waited for here, if one is required
//	ReleaseDataPV         too many backups, and what is in a hostPath folder, go before this
//	DeleteObjects         the Jobs, which hold PVCs
//	ReleaseDataPVC        is deleted,
//	ReleaseDataPVC        and then let go: Kubernetes removes it, and the volume
//	DeleteObjects         the Service, and what else has a name that the next life wants
//	RemoveXRFinalizer     nothing is left but the backup
//	RemoveClaimFinalizer  kubectl returns
func decideDelete(s *instance.State) steps.Step {
	if s.XR != nil && !s.XR.HasFinalizer() {
		return awaitRelease(s) // It was never held, or has just been let go.
	}
	if unreadableSettings(s) != nil {
		return steps.Step{Action: steps.RemoveSettings, Phase: v1.DeletionStopping}
	}
	if left := s.Identity().Left; len(left) > 0 {
		return steps.Step{Action: steps.LetCopyGo, Targets: left}
	}
	if c := s.Identity().Copy; c != nil {
		return steps.Step{Action: steps.Wait, After: steps.RequeueForPerson, Phase: v1.DeletionHeld, Message: heldByCopy(c)}
	}
	if r := s.UnreadableRecord(); r != nil && NeedsBackup(s) {
		return steps.Step{Action: steps.Wait, After: steps.RequeueForPerson, Phase: v1.DeletionHeld, Message: r.WhyUnreadable() + ". Until then it is not known whether it is the backup of this instance"}
	}
	if n := s.ForeignNote(); n != nil && NeedsBackup(s) {
		return backup.HeldByForeign(s, n)
	}
	if r := s.Record(); r == nil && NeedsBackup(s) && s.OwnNote() == nil {
		return steps.Step{Action: steps.CreateBackup, Phase: v1.DeletionAnnounced, Message: "A backup of the data is taken before anything goes: " + s.Attempt().Record}
	}
	if s.Node != "" {
		return nodeAffinityStep(s, steps.Step{Phase: v1.DeletionAnnounced})
	}
	if v := s.DataPV; v != nil && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != "" && NeedsBackup(s) && !s.IsDataPVRetained() {
		return steps.Step{Action: steps.RetainDataPV, Phase: v1.DeletionAnnounced, Message: fmt.Sprintf("Volume %q is kept until the data on it has a proven backup", v.Name)}
	}
	if step, open := stopForBackup(s); open {
		return step
	}
	switch why := backupSkippedBecause(s); {
	case !backup.HasProvenBackup(s) && s.OwnNote() != nil:
		return backup.WriteIndex(s)
	case !backup.HasProvenBackup(s) && why != "" && mustMarkNoData(s) && !isMarkedNoData(s):
		return steps.Step{Action: steps.MarkNoData, Phase: v1.DeletionReleasing, Message: why}
	case backup.HasProvenBackup(s) && awaitsRestoreTest(s):
		return waitForRestoreTest(s)
	case backup.HasProvenBackup(s):
		return decideRelease(s, fmt.Sprintf("Backup %q is proven", s.Record().Name))
	case why != "":
		return decideRelease(s, why)
	}
	return backup.DecideBackup(s)
}

// NeedsBackup is true if there may be data that only this instance has.
func NeedsBackup(s *instance.State) bool {
	return !backup.HasProvenBackup(s) && backupSkippedBecause(s) == ""
}

// HasDataAtStake is true of an instance whose data would be lost if it went now. What is being
// released already is not at stake, also for those who have not read the notes on volumes.
func HasDataAtStake(s *instance.State) bool {
	d := s.XR.Status.Deletion
	return NeedsBackup(s) && (d == nil || d.Phase != v1.DeletionReleasing)
}

// backupSkippedBecause says why the instance goes without a backup; empty where it does not.
func backupSkippedBecause(s *instance.State) string {
	switch {
	case s.Word().Policy() == v1.DeletionDiscard:
		return "The data is discarded, as deletionPolicy says"
	case s.Word().Skips():
		return "The backup is skipped, as the annotation " + v1.AnnotationSkipBackup + " says"
	case isMarkedNoData(s):
		return "There is no database on the volume: nothing to back up"
	case wasNeverBound(s):
		return "The instance never had a volume: nothing to back up"
	}
	return ""
}

// mustMarkNoData is true if what says that the data may go, goes before the rest: the
// PVC that never had a volume, or the volume of a life that lost its XR.
func mustMarkNoData(s *instance.State) bool {
	if s.Orphan != nil {
		return s.DataPVC != nil || s.OriginalPVC != nil
	}
	return s.XR.Status.Started && wasNeverBound(s)
}

// isMarkedNoData is true if it was found out after the fence that there is nothing to lose.
func isMarkedNoData(s *instance.State) bool {
	return s.Identity().Annotations[v1.AnnotationNothingToLose] == string(s.Life.XR)
}

// wasNeverBound is true if there never was a volume. A PVC that waits for one says
// so; without a PVC, it is an instance that never started.
func wasNeverBound(s *instance.State) bool {
	c := s.DataPVC
	if s.OriginalPVC != nil {
		c = s.OriginalPVC
	}
	if s.Identity().Volume != "" || s.DataPV != nil || s.XR != nil && s.XR.Unreadable.Has("status.volume") {
		return false
	}
	return c != nil && c.Spec.VolumeName == "" || c == nil && !s.Identity().Started
}

// stopForBackup fences the data: after it no write can be acknowledged. It is looked at before
// every later step, and holds until the data is released. Crossplane must have finished first:
// it could make again what is stopped here.
func stopForBackup(s *instance.State) (step steps.Step, open bool) {
	stopping := steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Phase: v1.DeletionStopping}
	d := s.Deployment
	switch {
	case s.XR != nil && s.XR.IsComposing():
		return finishForCrossplane(s), true
	case d != nil && (d.Spec.Replicas == nil || *d.Spec.Replicas > 0):
		step := steps.Step{Action: steps.StopServer, Phase: v1.DeletionStopping, Message: "Stopping the server"}
		if steps.RefusalOf(s, steps.StopServer) != nil && NeedsBackup(s) && s.XR != nil {
			step.Hint = backup.WithoutOutsideHint(s)
		}
		return step, true
	case s.Restore != nil && s.Restore.DeletionTimestamp == nil:
		return steps.Step{Action: steps.DeleteObjects, Phase: v1.DeletionStopping, Message: "Stopping the restore", Targets: []client.Object{s.Restore.Job}}, true
	}
	if targets := steps.WithoutDeleted(s.MisplacedJobs); len(targets) > 0 {
		return steps.Step{Action: steps.DeleteObjects, Phase: v1.DeletionStopping, Message: "Stopping what a deletion has no use for", Targets: targets}, true
	}
	if old := overtakenBackups(s); len(old) > 0 && len(s.MisplacedJobs) == 0 { // A Job that ends may still have something to say.
		return steps.Step{Action: steps.DeleteUnprovenBackup, Phase: v1.DeletionStopping, Message: "A backup that was begun before goes: that of the deletion has all that it would have", Targets: old}, true
	}
	if p := backup.EndedPod(s); p != nil {
		return steps.Step{Action: steps.DeleteObjects, Phase: v1.DeletionStopping, Message: "Stopping the server", Targets: []client.Object{p}}, true
	}
	switch {
	case len(s.Pods) > 0:
		stopping.Message = backup.WhoUsesVolume(&s.Pods[0], string(s.Life.XR))
		if s.PodFailure != "" {
			stopping.Message += ": " + s.PodFailure
		}
		return stopping, true
	case d != nil && d.DeletionTimestamp == nil:
		// Nobody can scale up what is not there.
		return steps.Step{Action: steps.DeleteObjects, Phase: v1.DeletionStopping, Message: "The server has stopped", Targets: []client.Object{d}}, true
	case d != nil:
		stopping.Message = "The server has stopped"
		return stopping, true
	}
	return steps.Step{}, false
}

// overtakenBackups were begun while this life went on, and nobody proves them any more: they would
// keep the next instance of the name from starting.
func overtakenBackups(s *instance.State) []client.Object {
	var out []client.Object
	for i := range s.Records {
		if r := &s.Records[i]; s.IsOwn(r) && r.Name != s.Attempt().Record && !r.IsProven() && instance.NoteNamed(s, r.Name) == nil {
			out = append(out, r)
		}
	}
	return out
}

// unreadableSettings returns the composite resource or claim that is being deleted and has settings in spec.config that the controller
// cannot read, or nil. The API server rejects every update of such an object, including the removal of a finalizer, because it also
// validates unchanged values below x-kubernetes-preserve-unknown-fields (ratcheting.go in k8s.io/apiextensions-apiserver). The settings
// can be removed: Crossplane does not compose a server for an instance that is being deleted.
func unreadableSettings(s *instance.State) *instance.Composite {
	for _, c := range []*instance.Composite{s.XR, s.Claim} {
		if c != nil && c.IsDeleting() && len(unreadablePaths(c)) > 0 {
			return c
		}
	}
	return nil
}

// unreadablePaths returns the paths of the settings in spec.config that the controller cannot read.
func unreadablePaths(c *instance.Composite) [][]string {
	var out [][]string
	for _, f := range c.Unreadable {
		if len(f.Path) > 1 && f.Path[0] == "spec" && f.Path[1] == "config" {
			out = append(out, f.Path)
		}
	}
	return out
}

// removeSettings removes the unreadable settings from the spec of one object.
func removeSettings(s *instance.State, _ steps.Step) []change.Change {
	c := unreadableSettings(s)
	return []change.Change{change.PatchObject(c.Unstructured, func(u *unstructured.Unstructured) {
		for _, path := range unreadablePaths(c) {
			unstructured.RemoveNestedField(u.Object, path...)
		}
	})}
}
