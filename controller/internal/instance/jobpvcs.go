package instance

import (
	"encoding/json"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A pod mounts a PersistentVolumeClaim by its name, and under that name there may
// be another one when the pod starts. What a Job says counts only for those that it
// was made for: one that is still there now, with the same UID and so with the same
// volume, has been there all the time.

// A Mounted is what a volume of a Job's pod leads to now, by the volume's name; nil
// where nothing is there.
type Mounted func(volume string) *corev1.PersistentVolumeClaim

// NotePVCs that a Job is made for.
func NotePVCs(j *batchv1.Job, mounted Mounted) {
	uids := map[string]types.UID{}
	for _, name := range pvcVolumes(j) {
		if pvc := mounted(name); pvc != nil {
			uids[name] = pvc.UID
		}
	}
	raw, _ := json.Marshal(uids) //nolint:errchkjson // Strings only.
	j.Annotations[v1.AnnotationPVCs] = string(raw)
}

// HasMoved is true if a Job may have worked on other volumes than those that are
// there now. What is there no more can be taken for nothing else where mayBeGone.
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

// pvcVolumes of a Job's pod, by their names.
func pvcVolumes(j *batchv1.Job) []string {
	var out []string
	for _, v := range j.Spec.Template.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			out = append(out, v.Name)
		}
	}
	return out
}
