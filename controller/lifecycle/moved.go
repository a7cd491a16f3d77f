package lifecycle

import (
	"encoding/json"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// A pod mounts a PersistentVolumeClaim by its name, and under that name there may
// be another one when the pod starts. What a Job says counts only for those that it
// was made for: one that is still there now, with the same UID and so with the same
// volume, has been there all the time.

// notePVCs that a Job is made for.
func notePVCs(s *instance.State, j *batchv1.Job) {
	uids := map[string]types.UID{}
	for _, v := range j.Spec.Template.Spec.Volumes {
		if pvc := mountedPVC(s, v.Name); pvc != nil {
			uids[v.Name] = pvc.UID
		}
	}
	raw, _ := json.Marshal(uids) //nolint:errchkjson // Strings only.
	j.Annotations[v1.AnnotationPVCs] = string(raw)
}

// mountedPVC is what a volume of one of our Jobs leads to now.
func mountedPVC(s *instance.State, volume string) *corev1.PersistentVolumeClaim {
	if volume == volumeData {
		return s.DataPVC
	}
	return s.BackupPVC
}

// hasMoved is true if a Job may have worked on other volumes than those that are
// there now. A backup is proven also when the data has gone since: then there is
// none to take for another.
func hasMoved(s *instance.State, j *instance.Job) bool {
	uids := map[string]types.UID{}
	if err := json.Unmarshal([]byte(j.Annotations[v1.AnnotationPVCs]), &uids); err != nil {
		return true
	}
	for _, v := range j.Spec.Template.Spec.Volumes {
		switch pvc := mountedPVC(s, v.Name); {
		case pvc == nil && v.Name == volumeData:
		case pvc == nil || uids[v.Name] != pvc.UID:
			return true
		}
	}
	return false
}

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
