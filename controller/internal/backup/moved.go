package backup

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// notePVCs that a Job is made for.
func notePVCs(s *instance.State, j *batchv1.Job) { instance.NotePVCs(j, mountedBy(s)) }

// mountedBy one of our Jobs is what its volumes lead to now.
func mountedBy(s *instance.State) instance.Mounted {
	return func(volume string) *corev1.PersistentVolumeClaim {
		if volume == steps.VolumeData {
			return s.DataPVC
		}
		return s.BackupPVC
	}
}

// HasMoved is true if a Job may have worked on other volumes than those that are
// there now. A backup is proven also when the data has gone since: then there is
// none to take for another.
func HasMoved(s *instance.State, j *instance.Job) bool {
	return j.HasMoved(mountedBy(s), steps.VolumeData)
}

// FreePVC deletes the Job of a restore that has ended: until then its pods hold the
// PersistentVolumeClaims that they had.
func FreePVC(s *instance.State) (steps.Step, bool) {
	if s.Restore == nil || s.Restore.DeletionTimestamp != nil {
		return steps.Step{}, false
	}
	if at, _ := s.Restore.Finished(); at == nil {
		return steps.Step{}, false
	}
	return steps.Step{Action: steps.DeleteObjects, Targets: []client.Object{s.Restore.Job}}, true
}
