package compose

import (
	"encoding/json"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// restoreRetries is how often a restore is tried again after a fault that may
// pass, such as a node that goes away.
const restoreRetries int32 = 6

// restoreKept in seconds is how long a restore Job that has ended can be looked
// at: a day. One that failed is then tried again.
const restoreKept int32 = 24 * 60 * 60

// wantsRestoreJob is true while there is something to restore. A Job that was observed
// stays, and one that has done its work and is gone is not made again.
func wantsRestoreJob(r *resolved, begin start) bool {
	if r.Observed.Restore != nil {
		return true
	}
	if isFenced(r) || isVolumeUnseen(r) {
		return false
	}
	from := begin.restore
	return from != nil && from.Phase != v1.RestoreSucceeded && begin.replicas == 0 && !r.started
}

// restoreJob brings the data back before the server's first start. A Job cannot
// change: the spec of one that is observed is wanted as it is.
func restoreJob(r *resolved, from *v1.RestoreStatus) *batchv1.Job {
	j := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: r.meta(r.instance.RestoreJobName(), map[string]string{v1.LabelComponent: v1.ComponentRestore}),
	}
	j.Annotations = claimAnnotations(r.instance)
	if o := r.Observed.Restore; o != nil {
		j.Annotations[v1.AnnotationRestore] = o.Annotations[v1.AnnotationRestore]
		return j
	}
	choice, _ := json.Marshal(from) //nolint:errchkjson // Strings, numbers and booleans only.
	j.Annotations[v1.AnnotationRestore] = string(choice)
	j.Spec = batchv1.JobSpec{
		BackoffLimit:            new(restoreRetries),
		TTLSecondsAfterFinished: new(restoreKept),
		PodReplacementPolicy:    new(batchv1.Failed),
		PodFailurePolicy:        restoreFailurePolicy(),
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: r.labels(map[string]string{v1.LabelComponent: v1.ComponentRestore})},
			Spec:       restorePod(r, from),
		},
	}
	return j
}

// restoreFailurePolicy ends the Job at once on what no retry can mend, and does
// not count what happened to the pod from outside.
func restoreFailurePolicy() *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: new(v1.ComponentRestore),
				Operator:      batchv1.PodFailurePolicyOnExitCodesOpIn,
				Values:        v1.PermanentExits(),
			},
		},
		{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		},
	}}
}

// restorePod asks the server's own image for its version, with our binary copied
// into it, and then restores. It has no API credentials and no password.
func restorePod(r *resolved, from *v1.RestoreStatus) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		SecurityContext:              jobPodSecurity(r),
		InitContainers:               []corev1.Container{toolsContainer(r), versionContainer(r)},
		Containers: []corev1.Container{
			jobContainer(r, v1.ComponentRestore, r.Settings.AgentImage, []corev1.VolumeMount{
				toolsMount(),
				{Name: "data", MountPath: dataPath},
				{Name: "backup", MountPath: archivePath, ReadOnly: true},
			}, "/controller", "restore",
				"--archive="+archivePath+"/"+from.Archive.Path,
				"--sha256="+from.Archive.SHA256,
				"--volume="+dataPath,
				"--directory="+v1.DataDirectory,
				"--source-version="+from.Version,
				"--source-clean="+strconv.FormatBool(from.CleanShutdown),
				"--target-version="+toolsPath+"/version.json"),
		},
		Volumes: []corev1.Volume{
			emptyVolume("tools"),
			pvcVolume("data", r.instance.DataPVCName(), false),
			pvcVolume("backup", from.Archive.PVCName, true),
		},
	}
}
