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

// MustReplaceBackupPVC is true if a backup PVC of ours has no volume yet, and asks for too
// little, or does not name the folder that is to be its volume. It cannot grow, and nothing
// lies on it yet: it is made again.
func MustReplaceBackupPVC(s *instance.State) bool {
	size, ok := wantedSize(s)
	c := s.BackupPVC
	have, _ := v1.StorageOf(c.Spec.Resources.Requests)
	return (ok && size.Cmp(have) > 0 || s.HostPath()) && c.Spec.VolumeName == "" && c.DeletionTimestamp == nil && c.Labels[v1.LabelInstance] == s.Life.Key()
}

// ResizeMessage says why the backup PVC is made anew.
func ResizeMessage(s *instance.State) string {
	size, _ := wantedSize(s)
	return fmt.Sprintf("PersistentVolumeClaim %s of the backups has no volume yet and is made again with %s", s.BackupPVC.Name, size.String())
}

// CanExpandBackupPVC is true if the backup PVC is to grow with the instance, and can.
func CanExpandBackupPVC(s *instance.State) bool {
	size, ok := wantedSize(s)
	return ok && mayAskForSize(s.BackupPVC, size)
}

// mayAskForSize is true if a PVC has a volume of a class, and was neither asked for so much nor
// refused it.
func mayAskForSize(c *corev1.PersistentVolumeClaim, size resource.Quantity) bool {
	asked, _ := v1.StorageOf(c.Spec.Resources.Requests)
	class := c.Spec.StorageClassName
	return size.Cmp(asked) > 0 && c.Status.Phase == corev1.ClaimBound && class != nil && *class != "" && c.Annotations[v1.AnnotationRefusedSize] != size.String()
}

// wantedSize of the backup volume: that of the data, or what the backups on it need by now. It is
// at most what those that are to be kept and two more can take, if none can be compressed.
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

// mostRoom in bytes that the backup volume of so much data is to have.
func mostRoom(s *instance.State, data resource.Quantity) int64 {
	return int64(catalog.BackupsToKeep(s)+2) * data.Value()
}

// NeededRoom for the next backup, beside those that are there: it goes on the volume before an
// older one goes from it. Empty before the first.
func NeededRoom(s *instance.State) string {
	if s.Store() != "" {
		return ""
	}
	var all, newest int64
	for _, r := range catalog.ProvenBackupsHere(s) {
		if r.Spec.Archive == nil {
			continue
		}
		size, err := v1.ParseQuantity(r.Spec.Archive.Size)
		if err != nil {
			continue // It is for people, and never was needed.
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

// RoomWarning is what there is to say where the next backup will hardly fit and the class, or a quota,
// does not let the volume grow.
func RoomWarning(s *instance.State) string {
	size, ok := wantedSize(s)
	c := s.BackupPVC
	if !ok || c == nil || s.Store() != "" || s.HostPath() || c.Annotations[v1.AnnotationRefusedSize] != size.String() || s.XR.Status.BackupNeeds == "" {
		return ""
	}
	have, ok := v1.StorageOf(c.Status.Capacity)
	if !ok || have.Cmp(size) >= 0 {
		return ""
	}
	return fmt.Sprintf("The next backup will hardly fit: it and those that are there need %s, and PersistentVolumeClaim %s, which cannot grow by itself, has %s. Make room there, or keep fewer (spec.backup.keep)",
		size.String(), c.Name, have.String())
}

// grownSize of the backup volume, on which a backup did not fit: what that lacked and a quarter
// more, or twice as much where nobody knows, and at most mostRoom. False where the class cannot, where somebody
// has refused it, or where so much was asked for already.
func grownSize(s *instance.State) (resource.Quantity, bool) {
	c, j := s.BackupPVC, s.Backup
	if s.Store() != "" {
		return resource.Quantity{}, false
	}
	data, err := v1.ParseSize(s.Identity().Size)
	if err != nil || j.Report == nil || j.Report.ExitCode != agent.ExitNoSpace || s.HostPath() {
		return resource.Quantity{}, false
	}
	have, known := v1.StorageOf(c.Status.Capacity)
	if !known {
		have, _ = v1.StorageOf(c.Spec.Resources.Requests)
	}
	most := mostRoom(s, data)
	more := have.Value()
	if lacks := j.Report.Lacks; lacks > 0 {
		more = min(lacks, most) * 5 / 4
	}
	size := resource.NewQuantity(min(roundUp(have.Value()+more), most), resource.BinarySI)
	return *size, mayAskForSize(c, *size)
}

// roundUp bytes to what people would ask for.
func roundUp(bytes int64) int64 {
	const mebi, gibi = 1 << 20, 1 << 30
	unit := int64(mebi)
	if bytes > gibi {
		unit = gibi
	}
	return (bytes + unit - 1) / unit * unit
}

// growBackupPVC, and then let the Job go that found too little room.
func growBackupPVC(s *instance.State, _ steps.Step) []change.Change {
	size, _ := grownSize(s)
	return []change.Change{askForSize(s.BackupPVC, size), change.DeleteObject(s.Backup.Job, metav1.DeletePropagationForeground)}
}

// askForSize of a PVC where its class lets it grow. Where it does not, the size is noted, and not
// asked for again.
func askForSize(c *corev1.PersistentVolumeClaim, size resource.Quantity) change.Change {
	grow := change.PatchObject(c, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests[corev1.ResourceStorage] = size })
	note := change.PatchObject(c, func(c *corev1.PersistentVolumeClaim) { steps.SetAnnotation(c, v1.AnnotationRefusedSize, size.String()) })
	grow.Otherwise = &note
	return grow
}

// whyNoRoom is a backup's failure in words, with what to do if the volume had no room.
func whyNoRoom(s *instance.State) string {
	why, j, c := steps.FailureOf(s.Backup), s.Backup, s.BackupPVC
	switch {
	case j.Report == nil || j.Report.ExitCode != agent.ExitNoSpace || s.Store() != "":
		return why
	case s.HostPath():
		return why + ". Make room on the node's disk"
	}
	have, _ := v1.StorageOf(c.Spec.Resources.Requests)
	more := resource.NewQuantity(2*have.Value(), have.Format)
	return fmt.Sprintf(`%s. Remove from PersistentVolumeClaim %s what is not needed, or let it grow: kubectl patch pvc --namespace %s %s --patch '{"spec":{"resources":{"requests":{"storage":"%s"}}}}'`,
		why, c.Name, c.Namespace, c.Name, more.String())
}
