package backup

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// recordPVCs stores in a Job the PVCs that it was created for.
func recordPVCs(s *instance.State, j *batchv1.Job) { instance.RecordPVCs(j, mountedBy(s)) }

// mountedBy returns a function that maps each volume of a Job to the PVC that it refers to now.
func mountedBy(s *instance.State) instance.Mounted {
	return func(volume string) *corev1.PersistentVolumeClaim {
		if volume == steps.VolumeData {
			return s.DataPVC
		}
		return s.BackupPVC
	}
}

// HasMoved reports whether a Job may have used other volumes than the current ones. It returns false if the data PVC
// was deleted later, because no other PVC has replaced it.
func HasMoved(s *instance.State, j *instance.Job) bool {
	return j.HasMoved(mountedBy(s), steps.VolumeData)
}

// FreePVC deletes a finished restore Job. Its pods would otherwise block the deletion of the PersistentVolumeClaims
// that they mount.
func FreePVC(s *instance.State) (steps.Step, bool) {
	if s.RestoreJob == nil || s.RestoreJob.DeletionTimestamp != nil {
		return steps.Step{}, false
	}
	if finished, _ := s.RestoreJob.Finished(); finished == nil {
		return steps.Step{}, false
	}
	return steps.Step{Action: steps.DeleteObjects, Targets: []client.Object{s.RestoreJob.Job}}, true
}
