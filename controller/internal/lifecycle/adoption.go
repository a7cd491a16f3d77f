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

// isUndecided reports whether the function may still choose a backup of a previous namespace. No backup volume is
// created before that, because the instance would use the volume that contains the chosen backup instead.
func isUndecided(s *instance.State) bool {
	return !s.XR.Status.Started && s.XR.Status.Restore == nil && s.BackupPV == nil &&
		(s.Missing() != nil || slices.ContainsFunc(s.Records, func(r v1.BackupRecord) bool { return s.Foreign(&r) }) ||
			foreignEntry(s))
}

// foreignEntry reports whether the catalog on a volume contains a backup from a previous namespace. The BackupRecord
// of such a backup may not exist yet.
func foreignEntry(s *instance.State) bool {
	return slices.ContainsFunc(s.Entries, func(n instance.Entry) bool {
		return !n.Forgotten && n.Spec.Instance.NamespaceUID != s.NamespaceUID()
	})
}

// decideAdoption adopts the backup volume of a previous namespace if the function chose a backup on it. An empty
// backup volume of this namespace is replaced. The controller does the following, in this order:
//
// 1. It releases the empty volume without deleting it.
// 2. It deletes the PVC of the empty volume.
// 3. It deletes the restore Job that used this PVC.
// 4. It assigns the volume with the chosen backup to this namespace.
func decideAdoption(s *instance.State) (step steps.Step, open bool) {
	c, v := s.BackupPVC, s.EarlierBackupPV
	if v == nil || hasBackups(s) {
		return steps.Step{}, false
	}
	switch {
	case s.BackupPV != nil && instance.HasFinalizer(s.BackupPV):
		return steps.Step{Action: steps.ReleaseBackupPV,
			Message: setAsideMessage(s.BackupPV,
				fmt.Sprintf("PersistentVolume %q with backup %q replaces it", v.Name, s.XR.Status.Restore.Backup))}, true
	case c != nil && c.DeletionTimestamp == nil:
		return steps.Step{Action: steps.DeleteBackupPVC,
			Message: fmt.Sprintf("PersistentVolumeClaim %s for the backups is created again on volume %q, which "+
				"contains backup %q",
				c.Name, v.Name, s.XR.Status.Restore.Backup)}, true
	case restoreHasNoArchive(s):
		return steps.DeleteAndWait([]client.Object{s.RestoreJob.Job})
	case c != nil || s.BackupBusy:
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}, true
	}
	return steps.Step{Action: steps.AdoptBackupPV,
		Message: fmt.Sprintf("Volume %q with the backups of a previous namespace %q now belongs to this namespace", v.Name,
			s.Instance.Namespace)}, true
}

// hasBackups reports whether the current backup PVC or volume belongs to another instance or contains backups.
func hasBackups(s *instance.State) bool {
	c := s.BackupPVC
	switch {
	case c == nil && s.BackupPV == nil:
		return false
	case c != nil && c.Labels[v1.LabelInstance] != s.Instance.Key():
		return true
	case s.BackupPV != nil && instance.HasEntries(s.BackupPV): // The BackupRecords of these backups may be deleted.
		return true
	}
	return slices.ContainsFunc(s.Records, func(r v1.BackupRecord) bool { return s.Here(&r) })
}

// restoreHasNoArchive reports whether the restore Job searches for its archive on the empty volume that is about to
// be replaced. The function creates the Job again after the controller has deleted it.
func restoreHasNoArchive(s *instance.State) bool {
	switch j := s.RestoreJob; {
	case j == nil:
		return false
	case s.BackupPVC == nil:
		return jobHasFailed(j.Job)
	default:
		return !j.CreationTimestamp.After(s.BackupPVC.DeletionTimestamp.Time)
	}
}

func jobHasFailed(j *batchv1.Job) bool {
	finished, succeeded := (&instance.Job{Job: j}).Finished()
	return finished != nil && !succeeded
}

// releaseBackupPV stops the management of a backup volume whose index contains no backup. It removes the annotation
// of the PVC first. If the controller is interrupted after that, it retains the volume again. The volume keeps the
// reclaim policy Retain, because an empty index does not prove that the disk is empty. Any user who can update the
// volume can remove the annotations of the index. A hostPath volume is deleted together with the XR, but its
// directory stays.
func releaseBackupPV(s *instance.State, _ steps.Step) []change.Change {
	var out []change.Change
	if c := s.BackupPVC; c != nil && c.Annotations[v1.AnnotationRetainedPV] != "" {
		out = append(out, change.PatchObject(c, func(c *corev1.PersistentVolumeClaim) {
			delete(c.Annotations, v1.AnnotationRetainedPV)
		}))
	}
	return append(out, change.PatchObject(s.BackupPV, func(v *corev1.PersistentVolume) {
		if v.Name == s.Instance.BackupPVName(s.NamespaceUID()) {
			addOwnerXR(v, s.Identity().XR)
		}
		controllerutil.RemoveFinalizer(v, v1.Finalizer)
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		delete(v.Annotations, v1.AnnotationNamespaceUID)
	}))
}

// setAsideMessage explains why a backup volume with an empty index is no longer used, and what the user can do with
// it.
func setAsideMessage(v *corev1.PersistentVolume, reason string) string {
	return fmt.Sprintf("PersistentVolume %s for backups is no longer used: its index contains no backup, and %s. The "+
		"controller does not delete it. Check that its disk contains nothing that you need. Then run kubectl delete pv "+
		"%s, and delete the disk", v.Name, reason,
		v.Name)
}

// adoptBackupPV assigns the volume to this namespace in a single write, so that a crash leaves no intermediate state.
func adoptBackupPV(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{change.PatchObject(s.EarlierBackupPV, func(v *corev1.PersistentVolume) {
		before := append(instance.EarlierNamespaces(v), string(instance.NamespaceOf(v)))
		v.Spec.ClaimRef = steps.ReservedFor(s.Instance.Namespace, s.Instance.BackupPVCName())
		steps.SetLabelsAndAnnotations(v, nil, map[string]string{
			v1.AnnotationEarlierNamespaces: strings.Join(before, ","),
			v1.AnnotationNamespaceUID:      string(s.NamespaceUID()),
		})
	})}
}
