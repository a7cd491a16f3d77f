package lifecycle

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// notePVCs that a Job is made for.
func notePVCs(s *instance.State, j *batchv1.Job) { instance.NotePVCs(j, mountedBy(s)) }

// mountedBy one of our Jobs is what its volumes lead to now.
func mountedBy(s *instance.State) instance.Mounted {
	return func(volume string) *corev1.PersistentVolumeClaim {
		if volume == volumeData {
			return s.DataPVC
		}
		return s.BackupPVC
	}
}

// hasMoved is true if a Job may have worked on other volumes than those that are
// there now. A backup is proven also when the data has gone since: then there is
// none to take for another.
func hasMoved(s *instance.State, j *instance.Job) bool { return j.HasMoved(mountedBy(s), volumeData) }

// isGoing is true for a PersistentVolumeClaim that is being deleted. No new pod
// can mount it, and it stays as long as a pod that a node was found for has it, even
// one that has ended.
func isGoing(pvc *corev1.PersistentVolumeClaim) bool {
	return pvc != nil && pvc.DeletionTimestamp != nil
}

// isRunning is true while a pod of a Job runs.
func isRunning(j *instance.Job) bool {
	for i := range j.Pods {
		if j.Pods[i].Status.Phase == corev1.PodRunning {
			return true
		}
	}
	return false
}

// freePVC deletes the Job of a restore that has ended: until then its pods hold the
// PersistentVolumeClaims that they had.
func freePVC(s *instance.State) (Step, bool) {
	if s.Restore == nil || s.Restore.DeletionTimestamp != nil {
		return Step{}, false
	}
	if at, _ := s.Restore.Finished(); at == nil {
		return Step{}, false
	}
	return Step{Action: DeleteObjects, Targets: []client.Object{s.Restore.Job}}, true
}
