package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// isUndecided is true while the function may still choose a backup of an earlier
// namespace. That lies on a volume of its own, and a new one would be in its way.
func isUndecided(s *instance.State) bool {
	return !s.XR.Status.Started && s.XR.Status.Restore == nil && s.BackupPV == nil &&
		(s.Missing() != nil || slices.ContainsFunc(s.Records, func(r v1.MySQLBackup) bool { return s.Foreign(&r) }) || foreignNote(s))
}

// foreignNote is true if a volume knows a backup of an earlier namespace, whose record
// may be on its way.
func foreignNote(s *instance.State) bool {
	return slices.ContainsFunc(s.Notes, func(n instance.Note) bool {
		return !n.Forgotten && n.Spec.Instance.NamespaceUID != s.NamespaceUID()
	})
}

// decideAdoption of the backup volume of an earlier namespace, if the function chose a backup on it. An empty
// volume that is in its place gives way:
//
//	the empty volume is set aside ─▶ its PVC goes ─▶ so does the restore that ran on it ─▶ the other volume is this namespace's
func decideAdoption(s *instance.State) (step steps.Step, open bool) {
	c, v := s.BackupPVC, s.EarlierBackupPV
	if v == nil || hasBackups(s) {
		return steps.Step{}, false
	}
	switch {
	case s.BackupPV != nil && instance.HasFinalizer(s.BackupPV):
		return steps.Step{Action: steps.ReleaseBackupPV, Message: setAsideMessage(s.BackupPV, fmt.Sprintf("gives way to PersistentVolume %q with backup %q", v.Name, s.XR.Status.Restore.Backup))}, true
	case c != nil && c.DeletionTimestamp == nil:
		return steps.Step{Action: steps.DeleteBackupPVC, Message: fmt.Sprintf("PersistentVolumeClaim %s of the backups is made again on volume %q, which has backup %q", c.Name, v.Name, s.XR.Status.Restore.Backup)}, true
	case restoreHasNoArchive(s):
		return steps.DeleteAndWait([]client.Object{s.Restore.Job})
	case c != nil || s.BackupBusy:
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}, true
	}
	return steps.Step{Action: steps.AdoptBackupPV, Message: fmt.Sprintf("Volume %q with the backups of an earlier namespace %q is this one's now", v.Name, s.Life.Namespace)}, true
}

// hasBackups is true if what is in the way is somebody else's, or has backups.
func hasBackups(s *instance.State) bool {
	c := s.BackupPVC
	switch {
	case c == nil && s.BackupPV == nil:
		return false
	case c != nil && c.Labels[v1.LabelInstance] != s.Life.Key():
		return true
	case s.BackupPV != nil && instance.HasNotes(s.BackupPV): // Records may be gone.
		return true
	}
	return slices.ContainsFunc(s.Records, func(r v1.MySQLBackup) bool { return s.Here(&r) })
}

// restoreHasNoArchive is true for a restore that looks for its archive on the volume that is
// in the way. The function makes its Job again when that is gone.
func restoreHasNoArchive(s *instance.State) bool {
	switch j := s.Restore; {
	case j == nil:
		return false
	case s.BackupPVC == nil:
		return jobHasFailed(j.Job)
	default:
		return !j.CreationTimestamp.After(s.BackupPVC.DeletionTimestamp.Time)
	}
}

func jobHasFailed(j *batchv1.Job) bool {
	at, succeeded := (&instance.Job{Job: j}).Finished()
	return at != nil && !succeeded
}

// releaseBackupPV sets a volume aside that has no backup in its index. Its PVC forgets it first, so that it is
// retained again if it does not give way after all. The volume keeps the reclaim policy Retain: the index is a few annotations,
// which anybody who may change the volume can remove, and nobody has looked at the disk. A volume in a
// directory of a node goes with the XR, and its directory stays.
func releaseBackupPV(s *instance.State, _ steps.Step) []change.Change {
	var out []change.Change
	if c := s.BackupPVC; c != nil && c.Annotations[v1.AnnotationRetainedPV] != "" {
		out = append(out, change.PatchObject(c, func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, v1.AnnotationRetainedPV) }))
	}
	return append(out, change.PatchObject(s.BackupPV, func(v *corev1.PersistentVolume) {
		if v.Name == s.Life.BackupPVName(s.NamespaceUID()) {
			addOwnerXR(v, s.Identity().XR)
		}
		controllerutil.RemoveFinalizer(v, v1.Finalizer)
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		delete(v.Annotations, v1.AnnotationNamespaceUID)
	}))
}

// setAsideMessage says what becomes of a backup volume that has no backup in its index.
func setAsideMessage(v *corev1.PersistentVolume, why string) string {
	return fmt.Sprintf("PersistentVolume %s for backups has no backup in its index, and %s. It is set aside and not deleted: make sure that nothing is on its disk, then kubectl delete pv %s, and delete the disk", v.Name, why, v.Name)
}

// adoptBackupPV is one write: before it the volume is the earlier namespace's, after it
// this one's, with nothing left to do but what any volume without a PVC needs.
func adoptBackupPV(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{change.PatchObject(s.EarlierBackupPV, func(v *corev1.PersistentVolume) {
		before := append(instance.EarlierNamespaces(v), string(instance.NamespaceOf(v)))
		v.Spec.ClaimRef = steps.ReservedFor(s.Life.Namespace, s.Life.BackupPVCName())
		steps.SetLabelsAndAnnotations(v, nil, map[string]string{
			v1.AnnotationEarlierNamespaces: strings.Join(before, ","),
			v1.AnnotationNamespaceUID:      string(s.NamespaceUID()),
		})
	})}
}
