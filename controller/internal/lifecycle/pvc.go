package lifecycle

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A PersistentVolume contains the data, and a PersistentVolumeClaim only gives pods access to it. A PVC that is being
// deleted cannot be mounted by a new pod, and its deletion cannot be canceled. The controller therefore releases the
// PVC when no pod uses it, and a new PVC is created for the same volume.

// replaceDeletedPVC replaces the PVC of an existing instance after a client deleted it. The volume is retained first,
// because it would be deleted with the PVC. The server is then stopped, and the function creates the PVC again.
func replaceDeletedPVC(s *instance.State) steps.Step {
	c := s.DataPVC
	switch {
	case c.Spec.VolumeName == "":
		return backup.DeletePVCStep(c,
			steps.Step{Message: fmt.Sprintf("PersistentVolumeClaim %s was deleted before it had a volume, and is "+
				"created again",
				c.Name)})
	case s.DataPV == nil:
		return steps.Step{Action: steps.NoOp,
			Message: fmt.Sprintf("PersistentVolumeClaim %s was deleted, and its volume %q does not exist. The "+
				"controller waits: restore the volume", c.Name, c.Spec.VolumeName)}
	case !s.IsDataPVRetained() || !isDataPVMarked(s):
		return steps.Step{Action: steps.RetainDataPV,
			Message: fmt.Sprintf("Volume %q is retained until a backup of its data is verified", s.DataPV.Name)}
	case !isFenced(s):
		return steps.Step{Action: steps.FenceServer,
			Message: fmt.Sprintf("PersistentVolumeClaim %s was deleted. The server is stopped until it is created "+
				"again on its volume %q",
				c.Name, c.Spec.VolumeName)}
	}
	if step, hasMore := backup.FreePVC(s); hasMore {
		return step
	}
	if step, hasMore := steps.DeleteAndWait(backup.JobsOnData(s)); hasMore {
		return step
	}
	if len(s.Pods) > 0 {
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}
	}
	return backup.DeletePVCStep(c, steps.Step{})
}

// deletePVC deletes PVCs, and removes the finalizer from PVCs that are already being deleted. After a crash in
// between, the next step removes the finalizer.
func deletePVC(_ *instance.State, step steps.Step) []change.Change {
	out := make([]change.Change, 0, len(step.Targets))
	for _, c := range step.Targets {
		out = append(out, steps.DeleteOrRelease(c))
	}
	return out
}

// reserveDataPV reserves the data volume for the data PVC that is used now, see JobLocation.
func reserveDataPV(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{change.PatchObject(s.DataPV, func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = steps.ReservedFor(s.JobLocation().Namespace, s.JobLocation().Data)
	})}
}

func createPVC(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{change.NewObject(pvcOnDataPV(s))}
}

// pvcOnDataPV returns a PVC for the data volume, with the annotations that describe the data.
func pvcOnDataPV(s *instance.State) *corev1.PersistentVolumeClaim {
	v := s.DataPV
	annotations := agent.Annotations(s.Instance)
	for _, key := range []string{
		v1.AnnotationImage, v1.AnnotationVersion, v1.AnnotationDeletionPolicy, v1.AnnotationBackupNumber,
		v1.AnnotationFirstBackupNumber, v1.AnnotationChoice,
		v1.AnnotationBackupStore, v1.AnnotationNodes,
	} {
		maps.Copy(annotations, entryOf(v.Annotations, key))
	}
	if s.Orphan != nil {
		maps.Copy(annotations, entryOf(s.Orphan.Annotations, v1.AnnotationNothingToLose))
	}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.JobLocation().Namespace, Name: s.JobLocation().Data, Labels: s.Instance.Labels(), Annotations: annotations,
			Finalizers: []string{v1.Finalizer},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: v.Spec.AccessModes,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: v.Spec.Capacity[corev1.ResourceStorage]}},
			StorageClassName: &v.Spec.StorageClassName,
			VolumeName:       v.Name,
		},
	}
}

func entryOf(from map[string]string, key string) map[string]string {
	if value, ok := from[key]; ok {
		return map[string]string{key: value}
	}
	return nil
}

// isFenced reports whether the server must not run, because the data PVC was deleted.
func isFenced(s *instance.State) bool {
	return s.XR.Status.PVCDeleted
}
