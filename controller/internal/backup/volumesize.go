package backup

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// MustReplaceBackupPVC reports whether the backup PVC must be created again. This is the case if the PVC is unbound
// and either requests too little storage or does not name its hostPath volume. An unbound PVC cannot be expanded and
// contains no data.
func MustReplaceBackupPVC(s *instance.State) bool {
	size, ok := wantedSize(s)
	c := s.BackupPVC
	current, _ := v1.StorageOf(c.Spec.Resources.Requests)
	return (ok && size.Cmp(current) > 0 || s.HostPath()) && c.Spec.VolumeName == "" && c.DeletionTimestamp == nil &&
		c.Labels[v1.LabelInstance] == s.Instance.Key()
}

// ResizeMessage explains why the backup PVC is created again.
func ResizeMessage(s *instance.State) string {
	size, _ := wantedSize(s)
	return fmt.Sprintf("PersistentVolumeClaim %s for the backups has no volume yet, and is created again with %s",
		s.BackupPVC.Name, size.String())
}

// CanExpandBackupPVC reports whether the backup PVC should be expanded, and can be expanded.
func CanExpandBackupPVC(s *instance.State) bool {
	size, ok := wantedSize(s)
	return ok && mayAskForSize(s.BackupPVC, size)
}

// mayAskForSize reports whether a PVC is bound and has a StorageClass, and the given size has neither been requested
// nor refused yet.
func mayAskForSize(c *corev1.PersistentVolumeClaim, size resource.Quantity) bool {
	asked, _ := v1.StorageOf(c.Spec.Resources.Requests)
	class := c.Spec.StorageClassName
	return size.Cmp(asked) > 0 && c.Status.Phase == corev1.ClaimBound && class != nil && *class != "" &&
		c.Annotations[v1.AnnotationRefusedSize] != size.String()
}

// wantedSize returns the size that the backup volume should have. This is the size of the data volume, or the size
// that the backups need if that is larger. It never exceeds mostRoom.
func wantedSize(s *instance.State) (resource.Quantity, bool) {
	data, err := v1.ParseSize(s.Identity().Size)
	if err != nil || s.XR == nil || s.HostPath() {
		return data, err == nil
	}
	needs, err := v1.ParseQuantity(s.XR.Status.BackupNeeds)
	if err != nil || needs.Cmp(data) <= 0 {
		return data, true
	}
	return *resource.NewQuantity(min(needs.Value(), mostRoom(s, data)), resource.BinarySI), true
}

// mostRoom returns the maximum size of the backup volume in bytes for the given size of the data volume. This is
// enough for all retained backups and two more without compression.
func mostRoom(s *instance.State, data resource.Quantity) int64 {
	return int64(catalog.BackupsToKeep(s)+2) * data.Value()
}

// NeededRoom returns the size that the volume needs for the existing backups and the next one. The next backup is
// written before an old one is deleted. It returns "" if there is no backup.
func NeededRoom(s *instance.State) string {
	if s.Store() != "" {
		return ""
	}
	var all, newest int64
	for _, r := range catalog.VerifiedBackupsHere(s) {
		if r.Spec.Archive == nil {
			continue
		}
		size, err := v1.ParseQuantity(r.Spec.Archive.Size)
		if err != nil {
			continue // An unreadable size is ignored.
		}
		if newest == 0 {
			newest = size.Value()
		}
		all += min(size.Value(), math.MaxInt64/8-all)
	}
	if newest == 0 {
		return ""
	}
	return resource.NewQuantity(roundUp(all+min(newest, math.MaxInt64/8)*5/4), resource.BinarySI).String()
}

// RoomWarning returns a warning if the next backup will probably not fit, and the StorageClass or a quota prevents
// expansion.
func RoomWarning(s *instance.State) string {
	size, ok := wantedSize(s)
	c := s.BackupPVC
	if !ok || c == nil || s.Store() != "" || s.HostPath() || c.Annotations[v1.AnnotationRefusedSize] != size.String() ||
		s.XR.Status.BackupNeeds == "" {
		return ""
	}
	current, ok := v1.StorageOf(c.Status.Capacity)
	if !ok || current.Cmp(size) >= 0 {
		return ""
	}
	return fmt.Sprintf("The next backup probably does not fit: with the existing backups, it needs %s, but "+
		"PersistentVolumeClaim %s has only %s and cannot be expanded. Delete unneeded files there, or keep fewer backups "+
		"(spec.backup.retention.count)",
		size.String(), c.Name, current.String())
}

// grownSize returns the new size of a backup volume after a backup did not fit. It adds the missing space and a
// quarter of it, or doubles the size if the missing space is unknown. The limit is mostRoom. It returns false if the
// StorageClass cannot expand the volume, or if this size was requested or refused before.
func grownSize(s *instance.State) (resource.Quantity, bool) {
	c, j := s.BackupPVC, s.BackupJob
	if s.Store() != "" {
		return resource.Quantity{}, false
	}
	data, err := v1.ParseSize(s.Identity().Size)
	if err != nil || j.Report == nil || j.Report.ExitCode != agent.ExitNoSpace || s.HostPath() {
		return resource.Quantity{}, false
	}
	current, known := v1.StorageOf(c.Status.Capacity)
	if !known {
		current, _ = v1.StorageOf(c.Spec.Resources.Requests)
	}
	most := mostRoom(s, data)
	extra := current.Value()
	if lacks := j.Report.Lacks; lacks > 0 {
		extra = min(lacks, most) * 5 / 4
	}
	size := resource.NewQuantity(min(roundUp(current.Value()+extra), most), resource.BinarySI)
	return *size, mayAskForSize(c, *size)
}

// roundUp rounds a number of bytes up to whole MiB or GiB.
func roundUp(bytes int64) int64 {
	const mebi, gibi = 1 << 20, 1 << 30
	unit := int64(mebi)
	if bytes > gibi {
		unit = gibi
	}
	return (bytes + unit - 1) / unit * unit
}

// growBackupPVC expands the PVC and then deletes the Job that ran out of space.
func growBackupPVC(s *instance.State, _ steps.Step) []change.Change {
	size, _ := grownSize(s)
	return []change.Change{askForSize(s.BackupPVC, size),
		change.DeleteObject(s.BackupJob.Job, metav1.DeletePropagationForeground)}
}

// askForSize requests a size for a PVC if its StorageClass allows expansion. Otherwise it stores the refused size, so
// that the request is not repeated.
func askForSize(c *corev1.PersistentVolumeClaim, size resource.Quantity) change.Change {
	grow := change.PatchObject(c, func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[corev1.ResourceStorage] = size
	})
	entry := change.PatchObject(c, func(c *corev1.PersistentVolumeClaim) {
		steps.SetAnnotation(c, v1.AnnotationRefusedSize, size.String())
	})
	grow.Otherwise = &entry
	return grow
}

// whyNoRoom returns the failure of a backup and, if the volume was full, how to fix it.
func whyNoRoom(s *instance.State) string {
	reason, j, c := steps.FailureOf(s.BackupJob), s.BackupJob, s.BackupPVC
	switch {
	case j.Report == nil || j.Report.ExitCode != agent.ExitNoSpace || s.Store() != "":
		return reason
	case s.HostPath():
		return reason + ". Free space on the node's disk"
	}
	current, _ := v1.StorageOf(c.Spec.Resources.Requests)
	extra := resource.NewQuantity(2*current.Value(), current.Format)
	return fmt.Sprintf(
		"%s. Delete unneeded files from PersistentVolumeClaim %s, or expand it: kubectl patch pvc --namespace %s %s "+
			"--patch '{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"%s\"}}}}'",
		reason, c.Name, c.Namespace, c.Name, extra.String())
}
