package instance

import (
	"encoding/json"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A pod mounts a PersistentVolumeClaim by its name, and the name may refer to a different PVC by the time the pod
// starts. The controller therefore accepts the report of a Job only for the PVCs that the Job was created for. If
// such a PVC still exists with the same UID, the Job has used it and its volume.

// Mounted returns the PVC that a volume of a Job's pod refers to now, or nil if the PVC does not exist.
type Mounted func(volume string) *corev1.PersistentVolumeClaim

// RecordPVCs stores in a Job the PVCs that it was created for.
func RecordPVCs(j *batchv1.Job, mounted Mounted) {
	uids := map[string]types.UID{}
	for _, name := range pvcVolumes(j) {
		if pvc := mounted(name); pvc != nil {
			uids[name] = pvc.UID
		}
	}
	raw, _ := json.Marshal(uids) //nolint:errchkjson // Strings can always be encoded.
	j.Annotations[v1.AnnotationPVCs] = string(raw)
}

// HasMoved reports whether a Job may have used other volumes than the current ones. mayBeGone is the pod volume whose
// PVC may have been deleted later. This is allowed, because no other PVC has replaced it.
func (j *Job) HasMoved(mounted Mounted, mayBeGone string) bool {
	uids := map[string]types.UID{}
	names := pvcVolumes(j.Job)
	if err := json.Unmarshal([]byte(j.Annotations[v1.AnnotationPVCs]), &uids); err != nil {
		return len(names) > 0
	}
	for _, name := range names {
		switch pvc := mounted(name); {
		case pvc == nil && name == mayBeGone:
		case pvc == nil || uids[name] != pvc.UID:
			return true
		}
	}
	return false
}

// pvcVolumes returns the names of the volumes of a Job's pod that refer to a PVC.
func pvcVolumes(j *batchv1.Job) []string {
	var out []string
	for _, v := range j.Spec.Template.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			out = append(out, v.Name)
		}
	}
	return out
}
