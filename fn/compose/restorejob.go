package compose

import (
	"encoding/json"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// restoreRetries is the number of retries of a restore after temporary failures, such as the loss of its node.
const restoreRetries int32 = 6

// restoreKept is the time in seconds for which a finished restore Job is kept. A failed restore is then retried.
const restoreKept int32 = 24 * 60 * 60

// wantsRestoreJob reports whether the restore Job is required. An observed Job is kept. A Job that succeeded and was
// deleted is not created again.
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

// restoreJob returns the Job that restores the data before the server's first start. The spec of a Job is immutable,
// so an observed Job keeps its spec.
func restoreJob(r *resolved, from *v1.RestoreStatus) *batchv1.Job {
	if o := r.Observed.Restore; o != nil {
		j := newRestoreJob(r, corev1.PodSpec{})
		j.Annotations[v1.AnnotationRestore], j.Spec = o.Annotations[v1.AnnotationRestore], batchv1.JobSpec{}
		return j
	}
	j := newRestoreJob(r, jobPod(r, from))
	choice, _ := json.Marshal(from) //nolint:errchkjson // Strings, numbers and booleans only.
	j.Annotations[v1.AnnotationRestore] = string(choice)
	j.Spec.BackoffLimit, j.Spec.TTLSecondsAfterFinished = new(restoreRetries), new(restoreKept)
	j.Spec.PodFailurePolicy = restoreFailurePolicy(from)
	return j
}

// jobPod returns the pod of the restore Job, which imports data, recovers to a point in time, or restores a backup.
func jobPod(r *resolved, from *v1.RestoreStatus) corev1.PodSpec {
	if from.Import != nil {
		return importPod(r, from.Import)
	}
	if from.Recovery != nil {
		return recoveryPod(r, from)
	}
	return restorePod(r, from)
}

func newRestoreJob(r *resolved, pod corev1.PodSpec) *batchv1.Job {
	return agent.NewJob(r.instance, r.instance.Namespace, r.instance.Jobs().Restore(), v1.ComponentRestore, r.jobResources,
		r.templateInput.ImagePullSecrets, pod)
}

// restoreFailurePolicy makes the Job fail at once after an error that a retry cannot fix, and ignores disruptions of
// the pod. For an import or a recovery, it applies to all containers, because the init containers do most of the work.
func restoreFailurePolicy(from *v1.RestoreStatus) *batchv1.PodFailurePolicy {
	container := new(v1.ComponentRestore)
	if from.Import != nil || from.Recovery != nil {
		container = nil
	}
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: container,
				Operator:      batchv1.PodFailurePolicyOnExitCodesOpIn,
				Values:        agent.PermanentExits(),
			},
		},
		{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		},
	}}
}

// restorePod returns a pod that determines the version of the server's image and then restores the backup, which is
// mounted read-only.
func restorePod(r *resolved, from *v1.RestoreStatus) corev1.PodSpec {
	tools := agent.ToolsMount()
	tools.ReadOnly = true
	unpacking := agent.Unpacking{Volume: dataPath, SHA256: from.Archive.SHA256, Version: from.Version,
		Clean: from.CleanShutdown}
	backup, backupMount := whereArchiveIs(r, &from.Archive, &unpacking)
	pod := corev1.PodSpec{
		SecurityContext: agent.PodSecurity(r.hostPath),
		InitContainers: []corev1.Container{agent.ToolsContainer(r.platform.AgentImage),
			agent.VersionContainer(r.templateInput.Image)},
		Containers: []corev1.Container{
			agent.Container(v1.ComponentRestore, r.platform.AgentImage, agent.Memory, agent.UnpackSecurity(r.hostPath),
				[]corev1.VolumeMount{
					tools,
					{Name: "data", MountPath: dataPath},
					backupMount,
				}, unpacking.Restore(r.instance.XR)...)},
		Volumes: []corev1.Volume{
			agent.ToolsVolume(),
			agent.PVCVolume("data", r.instance.DataPVCName()),
			backup,
		},
	}
	schedule(r.serverInput, &pod)
	return pod
}
