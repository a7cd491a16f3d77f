package lifecycle

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// A PersistentVolume is the identity of the data, and a PersistentVolumeClaim only
// mounts it. A PVC that is being deleted cannot be mounted by a new pod and cannot be
// brought back: it is let go when nothing uses it, and made again on its volume.

// replaceDeletedPVC of a living instance. Its volume is retained first, or it would go with
// the PVC; then the server stops, and the function makes the PVC again.
func replaceDeletedPVC(s *instance.State) Step {
	c := s.DataPVC
	switch {
	case c.Spec.VolumeName == "":
		return deletePVCStep(c, Step{Message: fmt.Sprintf("PersistentVolumeClaim %s was deleted before it had a volume: it is made again", c.Name)})
	case s.DataPV == nil:
		return Step{Action: NoOp, Message: fmt.Sprintf("PersistentVolumeClaim %s was deleted, and its volume %q cannot be found: it stays as it is. Bring the volume back", c.Name, c.Spec.VolumeName)}
	case !s.IsDataPVRetained() || !isDataPVMarked(s):
		return Step{Action: RetainDataPV, Message: fmt.Sprintf("Volume %q is kept until the data on it has a proven backup", s.DataPV.Name)}
	case !isFenced(s):
		return Step{Action: FenceServer, Message: fmt.Sprintf("PersistentVolumeClaim %s was deleted: the server stops until it is back on its volume %q", c.Name, c.Spec.VolumeName)}
	}
	if step, more := freePVC(s); more {
		return step
	}
	if step, more := deleteAndWait(jobsOnData(s)); more {
		return step
	}
	if len(s.Pods) > 0 {
		return Step{Action: Wait, After: requeueSoon}
	}
	return deletePVCStep(c, Step{})
}

// makeDataReachable where the data's PVC is not fit for a Job, or is where no Job can run: the
// volume gets another PVC. One that is not retained would go with the PVC that it has.
func makeDataReachable(s *instance.State) (step Step, open bool) {
	step = Step{Attempt: AttemptRunning, Message: fmt.Sprintf("Volume %q gets PersistentVolumeClaim %s/%s, to be backed up", volumeName(s), s.JobLocation().Namespace, s.JobLocation().Data)}
	switch c := s.DataPVC; {
	case !s.IsDataPVRetained() || s.PVCNameConflict:
		return Step{}, false
	case c != nil && c.DeletionTimestamp != nil && len(jobsOnData(s)) > 0:
		// Their pods hold the PVC, or wait for it in vain.
		step, _ = deleteAndWait(jobsOnData(s))
		step.Attempt, step.Message = AttemptRunning, "Backing up the data: trying again"
	case s.OriginalPVC != nil:
		return deletePVCStep(s.OriginalPVC, step), true
	case c != nil && c.DeletionTimestamp != nil:
		return deletePVCStep(c, step), true
	case s.IsDataPVReservedElsewhere():
		step.Action = ReserveDataPV
	case c == nil:
		step.Action = CreatePVC
	default:
		return Step{}, false
	}
	return step, true
}

// jobsOnData are the Jobs of this life, which mount the data PVC, the backup PVC or both.
func jobsOnData(s *instance.State) []client.Object {
	var out []client.Object
	for _, j := range []*instance.Job{s.Backup, s.Wipe, s.Prune} {
		if j != nil {
			out = append(out, j.Job)
		}
	}
	return out
}

// deletePVCStep deletes a PVC, drops its finalizer, and waits until it is gone.
func deletePVCStep(c *corev1.PersistentVolumeClaim, step Step) Step {
	step.Action, step.Targets = DeletePVC, []client.Object{c}
	if c.DeletionTimestamp != nil && !instance.HasFinalizer(c) {
		step.Action, step.After = Wait, requeueSoon
	}
	return step
}

// volumeName of the data, as far as anybody knows.
func volumeName(s *instance.State) string {
	switch {
	case s.DataPV != nil:
		return s.DataPV.Name
	case s.DataPVC != nil && s.DataPVC.Spec.VolumeName != "":
		return s.DataPVC.Spec.VolumeName
	}
	return s.Identity().Volume
}

// deletePVC deletes PVCs, and drops the finalizer of those that are being deleted. A
// crash in between leaves that to the next step, not to Crossplane.
func deletePVC(_ *instance.State, step Step) []change.Change {
	out := make([]change.Change, 0, len(step.Targets))
	for _, c := range step.Targets {
		out = append(out, deleteOrRelease(c))
	}
	return out
}

// deleteOrRelease deletes an object or, where that is done, drops our finalizer.
func deleteOrRelease(o client.Object) change.Change {
	if o.GetDeletionTimestamp() == nil {
		return change.DeleteObject(o, metav1.DeletePropagationBackground)
	}
	return removeFinalizer(o)
}

// reserveDataPV makes the volume one for the PVC that is wanted now, and for no other.
func reserveDataPV(s *instance.State, _ Step) []change.Change {
	return []change.Change{change.PatchObject(s.DataPV, func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = reservedFor(s.JobLocation().Namespace, s.JobLocation().Data)
	})}
}

// reservedFor a PVC that is not there yet.
func reservedFor(namespace, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name}
}

func createPVC(s *instance.State, _ Step) []change.Change {
	return []change.Change{change.NewObject(pvcOnDataPV(s))}
}

// pvcOnDataPV is a PVC of the data volume, with what must be known of it.
func pvcOnDataPV(s *instance.State) *corev1.PersistentVolumeClaim {
	v := s.DataPV
	annotations := agent.Annotations(s.Life)
	for _, key := range []string{
		v1.AnnotationImage, v1.AnnotationVersion, v1.AnnotationDeletionPolicy, v1.AnnotationBackupNumber, v1.AnnotationFirstBackupNumber, v1.AnnotationChoice,
		v1.AnnotationBackupStore, v1.AnnotationNodes,
	} {
		maps.Copy(annotations, entryOf(v.Annotations, key))
	}
	if s.Orphan != nil {
		maps.Copy(annotations, entryOf(s.Orphan.Annotations, v1.AnnotationNothingToLose))
	}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.JobLocation().Namespace, Name: s.JobLocation().Data, Labels: s.Life.Labels(), Annotations: annotations, Finalizers: []string{v1.Finalizer},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      v.Spec.AccessModes,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: v.Spec.Capacity[corev1.ResourceStorage]}},
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

// isFenced is true if a living instance's server must not run.
func isFenced(s *instance.State) bool {
	return s.XR.Status.DataPVCDeleted
}
