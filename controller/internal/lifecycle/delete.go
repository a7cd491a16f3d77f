package lifecycle

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// decideDelete deletes an instance. It creates a BackupRecord, stops the server, backs up the data and releases it,
// in this order. Without failures the actions are:
//
//	CreateBackup          a BackupRecord is created before the server stops.
//	StopServer            Crossplane has released the XR, and the server shuts down.
//	DeleteObjects         the Deployment is deleted, so that no server can start.
//	CreateBackupJob       a Job copies the volume and reads the copy back.
//	MarkRunning           the BackupRecord reports Running until the Job is finished.
//	RetainBackupPV        a backup volume that was provisioned for the Job is retained if its PVC is deleted.
//	RecordBackup            the catalog on the backup volume contains the backup, which is now verified.
//	MarkVerified            the BackupRecord reports it; a required restore test runs now.
//	ReleaseDataPV         expired backups and the contents of a hostPath directory are deleted before this action.
//	DeleteObjects         the Jobs are deleted, because their pods hold PVCs.
//	ReleaseDataPVC        the data PVC is deleted.
//	ReleaseDataPVC        its finalizer is removed, and Kubernetes deletes the PVC and the volume.
//	DeleteObjects         the Service and other objects are deleted, because the next instance needs their names.
//	RemoveXRFinalizer     only the backup is left.
//	RemoveClaimFinalizer  kubectl delete returns.
func decideDelete(s *instance.State) steps.Step {
	if isReleased(s) {
		return awaitRelease(s)
	}
	if unreadableSettings(s) != nil {
		return steps.Step{Action: steps.RemoveSettings, Phase: v1.DeletionStopping}
	}
	if left := s.Identity().Left; len(left) > 0 {
		return steps.Step{Action: steps.LetCopyGo, Targets: left}
	}
	if c := s.Identity().Copy; c != nil {
		return steps.Step{Action: steps.Wait, After: steps.RequeueForPerson, Phase: v1.DeletionBlocked, Message: blockedByCopy(c)}
	}
	if r := instance.UnreadableRecord(&s.Basis); r != nil && NeedsBackup(s) {
		return steps.Step{Action: steps.Wait, After: steps.RequeueForPerson, Phase: v1.DeletionBlocked,
			Message: r.WhyUnreadable() + ". Until it is repaired, the controller cannot determine whether it is the backup " +
				"of this instance"}
	}
	if n := s.ForeignEntry(); n != nil && NeedsBackup(s) {
		return backup.BlockedByForeign(s, n)
	}
	if r := s.Record(); r == nil && NeedsBackup(s) && s.OwnEntry() == nil {
		return steps.Step{Action: steps.CreateBackup, Phase: v1.DeletionAnnounced,
			Message: "Taking a backup before anything is deleted: " + s.Attempt().Record}
	}
	if s.Node != "" {
		return nodeAffinityStep(s, steps.Step{Phase: v1.DeletionAnnounced})
	}
	if v := s.DataPV; v != nil && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != "" && NeedsBackup(s) &&
		!s.IsDataPVRetained() {
		return steps.Step{Action: steps.RetainDataPV, Phase: v1.DeletionAnnounced,
			Message: fmt.Sprintf("Volume %q is retained until a backup of its data is verified", v.Name)}
	}
	if step, open := stopForBackup(s); open {
		return step
	}
	switch reason := backupSkippedBecause(s); {
	case !backup.HasVerifiedBackup(s) && s.OwnEntry() != nil:
		return backup.WriteIndex(s)
	case !backup.HasVerifiedBackup(s) && reason != "" && mustMarkNoData(s) && !isMarkedNoData(s):
		return steps.Step{Action: steps.MarkNoData, Phase: v1.DeletionReleasing, Message: reason}
	case backup.HasVerifiedBackup(s) && awaitsRestoreTest(s):
		return waitForRestoreTest(s)
	case backup.HasVerifiedBackup(s):
		return decideRelease(s, fmt.Sprintf("Backup %q is verified", s.Record().Name))
	case reason != "":
		return decideRelease(s, reason)
	}
	return backup.DecideBackup(s)
}

// isReleased reports whether the deletion of the XR does not wait for the controller. The XR never had the finalizer, or the
// controller has just removed it.
func isReleased(s *instance.State) bool {
	return s.XR != nil && !s.XR.HasFinalizer() && !isForegroundBlocked(s)
}

// isForegroundBlocked reports whether a foreground deletion of the XR waits for a PVC with the controller's finalizer.
// The XR may lack that finalizer, for example if it is deleted before the controller sees it. Kubernetes then keeps it
// until the composed objects are deleted, and only the controller can release the PVC.
func isForegroundBlocked(s *instance.State) bool {
	return controllerutil.ContainsFinalizer(s.XR, metav1.FinalizerDeleteDependents) &&
		slices.ContainsFunc([]*corev1.PersistentVolumeClaim{s.OriginalPVC, s.DataPVC},
			func(c *corev1.PersistentVolumeClaim) bool { return c != nil && instance.HasFinalizer(c) })
}

// NeedsBackup reports whether a backup must be taken before the data is deleted. This is not necessary if the backup
// is verified or the user skips it.
func NeedsBackup(s *instance.State) bool {
	return !backup.HasVerifiedBackup(s) && backupSkippedBecause(s) == ""
}

// hasDataAtStake reports whether data would be lost if the XR were removed now. Data that is already being released
// is not at stake. The phase in the status shows this even if the catalog on the volumes has not been read.
func hasDataAtStake(s *instance.State) bool {
	return NeedsBackup(s) && (s.XR == nil || s.XR.Status.Deletion == nil ||
		s.XR.Status.Deletion.Phase != v1.DeletionReleasing)
}

// backupSkippedBecause returns why the instance is deleted without a backup, or "" if a backup is required.
func backupSkippedBecause(s *instance.State) string {
	switch {
	case s.DeletionIntent().Policy() == v1.DeletionDiscard:
		return "The data is deleted without a backup, because deletionPolicy is Discard"
	case s.DeletionIntent().Skips():
		return "The backup is skipped, as requested by the annotation " + v1.AnnotationSkipBackup
	case isMarkedNoData(s):
		return "The volume contains no database, so there is nothing to back up"
	case wasNeverBound(s):
		return "The instance never had a volume, so there is nothing to back up"
	}
	return ""
}

// mustMarkNoData reports whether the proof that there is no data will be deleted before the last object of the
// instance. The proof is a PVC that never had a volume, or the volume of an instance that lost its XR.
func mustMarkNoData(s *instance.State) bool {
	if s.Orphan != nil {
		return s.DataPVC != nil || s.OriginalPVC != nil
	}
	return s.XR.Status.Started && wasNeverBound(s)
}

// isMarkedNoData reports whether the controller has recorded that there is no data to lose. It checks this after it
// has stopped the server.
func isMarkedNoData(s *instance.State) bool {
	return s.Identity().Annotations[v1.AnnotationNothingToLose] == string(s.Instance.XR)
}

// wasNeverBound reports whether the instance never had a data volume. Either its PVC is still pending, or it has no
// PVC because it never started.
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

// stopForBackup stops the server and everything else that can change the data, and waits until no pod uses the
// volume. decideDelete calls it again before every later step until the data is released, because another client may
// start the server again. It first waits for Crossplane, which could otherwise create the stopped objects again.
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
	case s.RestoreJob != nil && s.RestoreJob.DeletionTimestamp == nil:
		return steps.Step{Action: steps.DeleteObjects, Phase: v1.DeletionStopping, Message: "Stopping the restore",
			Targets: []client.Object{s.RestoreJob.Job}}, true
	}
	if targets := steps.WithoutDeleted(s.MisplacedJobs); len(targets) > 0 {
		return steps.Step{Action: steps.DeleteObjects, Phase: v1.DeletionStopping,
			Message: "Deleting Jobs that the deletion does not need", Targets: targets}, true
	}
	// A Job that is being deleted may still report a result.
	if old := overtakenBackups(s); len(old) > 0 && len(s.MisplacedJobs) == 0 {
		return steps.Step{Action: steps.DeleteUnprovenBackup, Phase: v1.DeletionStopping,
			Message: "Deleting an unfinished backup, because the backup of this deletion replaces it", Targets: old}, true
	}
	if p := backup.EndedPod(s); p != nil {
		return steps.Step{Action: steps.DeleteObjects, Phase: v1.DeletionStopping, Message: "Stopping the server",
			Targets: []client.Object{p}}, true
	}
	switch {
	case len(s.Pods) > 0:
		stopping.Message = backup.WhoUsesVolume(&s.Pods[0], string(s.Instance.XR))
		if s.PodFailure != "" {
			stopping.Message += ": " + s.PodFailure
		}
		return stopping, true
	case d != nil && d.DeletionTimestamp == nil:
		// The deletion prevents another client from scaling up the Deployment.
		return steps.Step{Action: steps.DeleteObjects, Phase: v1.DeletionStopping, Message: "The server has stopped",
			Targets: []client.Object{d}}, true
	case d != nil:
		stopping.Message = "The server has stopped"
		return stopping, true
	}
	return steps.Step{}, false
}

// overtakenBackups returns the unverified BackupRecords of earlier attempts. No Job will complete them, and they
// would block the next instance with the same name.
func overtakenBackups(s *instance.State) []client.Object {
	var out []client.Object
	for i := range s.Records {
		if r := &s.Records[i]; s.IsOwn(r) && r.Name != s.Attempt().Record && !r.IsVerified() &&
			instance.EntryNamed(s, r.Name) == nil {
			out = append(out, r)
		}
	}
	return out
}

// unreadableSettings returns the composite resource or claim that is being deleted and has settings in spec.config
// that the controller cannot read, or nil. The API server rejects every update of such an object, even the removal of
// a finalizer. It also validates unchanged values below x-kubernetes-preserve-unknown-fields (ratcheting.go in
// k8s.io/apiextensions-apiserver). The settings can be removed, because Crossplane does not compose a server for an
// instance that is being deleted.
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
