package backup

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// KeepBackupPV returns the step that retains the volume of the backup PVC. A PVC can name any volume, so the volume
// must also refer to the PVC.
func KeepBackupPV(s *instance.State, step steps.Step) steps.Step {
	if step.Action = steps.RetainBackupPV; s.BackupPV != nil {
		return step
	}
	step.Action, step.After = steps.Wait, steps.RequeueLater
	if step.PhaseText() != "" {
		step.Message = fmt.Sprintf("Volume %q is not bound to PersistentVolumeClaim %s/%s, which names it",
			s.BackupPVC.Spec.VolumeName, s.BackupPVC.Namespace, s.BackupPVC.Name)
	}
	return step
}

// createBackupPVC creates the backup PVC, or a new PVC for a volume that has lost its PVC. The volume is created or
// reserved first. If the controller crashes after that, the next reconcile creates the PVC. In the opposite order,
// the PVC could wait for its volume forever.
func createBackupPVC(s *instance.State, _ steps.Step) []change.Change {
	var out []change.Change
	switch v := s.BackupPV; {
	case v != nil:
		out = append(out, change.PatchObject(v, func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = steps.ReservedFor(s.JobLocation().Namespace, s.JobLocation().Backup)
		}))
	case s.HostPath():
		out = append(out, change.NewObject(NewPV(s)))
	}
	return append(out, change.NewObject(NewPVC(s)))
}

// retainBackupPV makes the volume survive the deletion of its PVC, and labels it with its instance. It writes the
// annotation on the PVC last, because that annotation marks the step as done.
func retainBackupPV(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{
		change.PatchObject(s.BackupPV, func(v *corev1.PersistentVolume) {
			steps.RetainPV(v)
			steps.SetLabelsAndAnnotations(v, steps.BackupLabels(s.Instance), PVAnnotations(s))
			steps.MarkUID(v)
		}),
		change.PatchObject(s.BackupPVC, func(c *corev1.PersistentVolumeClaim) {
			steps.MarkUID(c)
			steps.SetAnnotation(c, v1.AnnotationRetainedPV, s.BackupPV.Name)
		}),
	}
}

// expandBackupPVC expands the backup PVC if its StorageClass allows it. Otherwise it stores the refused size, so that
// the request is not repeated.
func expandBackupPVC(s *instance.State, _ steps.Step) []change.Change {
	size, _ := wantedSize(s)
	return []change.Change{askForSize(s.BackupPVC, size)}
}

// DeleteBackupPVC deletes the PVC only if it has not changed since it was read. A PVC that has been bound since then
// may contain data.
func DeleteBackupPVC(s *instance.State, _ steps.Step) []change.Change {
	c := change.DeleteObject(s.BackupPVC, "")
	c.If = change.AsRead
	return []change.Change{c}
}

// NewPVC returns the PVC for the backup volume of all instances with this name. It has no owner and no label of the
// XR, so that it is not deleted with an instance.
func NewPVC(s *instance.State) *corev1.PersistentVolumeClaim {
	size, _ := wantedSize(s)
	annotations := agent.Annotations(s.Instance)
	annotations[v1.AnnotationMadeFor] = string(s.Instance.XR)
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.JobLocation().Namespace, Name: s.JobLocation().Backup, Labels: steps.BackupLabels(s.Instance),
			Annotations: annotations,
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
			StorageClassName: s.Settings.BackupClass,
		},
	}
	if c.Spec.StorageClassName == nil {
		c.Spec.StorageClassName = s.DataPVC.Spec.StorageClassName
	}
	if s.HostPath() {
		c.Spec.StorageClassName, c.Spec.VolumeName = new(""), s.Instance.BackupPVName(s.NamespaceUID())
	}
	if v := s.BackupPV; v != nil {
		c.Spec.StorageClassName, c.Spec.VolumeName = &v.Spec.StorageClassName, v.Name
		if room, ok := v1.StorageOf(v.Spec.Capacity); ok && size.Cmp(room) > 0 {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = room // The PVC is bound first and expanded afterwards.
		}
	}
	return c
}

// NewPV returns a hostPath volume next to the data volume, on the same node.
func NewPV(s *instance.State) *corev1.PersistentVolume {
	size, _ := wantedSize(s)
	name := s.Instance.BackupPVName(s.NamespaceUID())
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: steps.BackupLabels(s.Instance), Annotations: PVAnnotations(s), Finalizers: []string{v1.Finalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: size},
			ClaimRef:                      steps.ReservedFor(s.JobLocation().Namespace, s.JobLocation().Backup),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			NodeAffinity:                  s.DataPV.Spec.NodeAffinity,
		},
	}
	v.Spec.HostPath = &corev1.HostPathVolumeSource{
		Path: path.Join(path.Dir(s.DataPV.Spec.HostPath.Path), name),
		Type: new(corev1.HostPathDirectoryOrCreate),
	}
	return v
}

// PVAnnotations returns the annotations that identify the instance of a backup volume.
func PVAnnotations(s *instance.State) map[string]string {
	a := agent.Annotations(s.Instance)
	a[v1.AnnotationNamespaceUID] = string(s.NamespaceUID())
	return a
}
