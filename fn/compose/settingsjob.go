package compose

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

const (
	// settingsRetries is the number of retries of a Job that failed without validating the settings.
	settingsRetries int32 = 2
	// settingsKept is the time in seconds for which a failed Job is kept. The settings are then validated again.
	settingsKept int32 = 60 * 60
)

// settingsJob returns a Job that starts a server with the new settings, but without the instance's data and password.
// The Job contains the my.cnf, so that the ConfigMap of the running server does not change.
func settingsJob(r *resolved) *batchv1.Job {
	observed, pod := r.Observed.SettingsCheck, corev1.PodSpec{}
	if observed == nil {
		pod = settingsPod(r)
	}
	j := agent.NewJob(r.instance, r.instance.Namespace, r.instance.Jobs().SettingsCheck(), v1.ComponentSettings,
		r.jobResources, r.templateInput.ImagePullSecrets, pod)
	j.Annotations[v1.AnnotationSettings] = settingsID(r)
	if observed != nil {
		j.Spec = batchv1.JobSpec{}
		return j
	}
	limitAsServer(r, &j.Spec.Template.Spec.Containers[0])
	j.Spec.Template.Annotations[v1.AnnotationConfig] = r.config
	j.Spec.BackoffLimit, j.Spec.TTLSecondsAfterFinished = new(settingsRetries), new(settingsKept)
	j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: new(v1.ComponentSettings), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn,
				Values: []int32{agent.ExitSettings},
			},
		},
		{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		},
	}}
	return j
}

// settingsPod returns a pod like the server's, but without its data and password.
func settingsPod(r *resolved) corev1.PodSpec {
	scratch, tls := scratchMounts(r.serverInput), ""
	mounts := append([]corev1.VolumeMount{
		agent.ToolsMount(),
		{Name: "data", MountPath: dataPath},
		{Name: "config", MountPath: r.engine.config, ReadOnly: true},
	}, scratch.mounts...)
	volumes := []corev1.Volume{
		agent.ToolsVolume(),
		agent.EmptyVolume("data", diskOf(r.serverInput)),
		{Name: "config", VolumeSource: corev1.VolumeSource{
			DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
				Path: v1.ConfigKey, FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1",
					FieldPath: "metadata.annotations['" + v1.AnnotationConfig + "']"},
			}}}}},
		scratch.Volume,
	}
	if isCertified(r.serverInput) {
		certificate := tlsMount(r.serverInput)
		tls, mounts, volumes = tlsPath, append(mounts, certificate.mounts...), append(volumes, certificate.Volume)
	}
	pod := corev1.PodSpec{
		SecurityContext: agent.PodSecurity(false),
		InitContainers:  []corev1.Container{agent.ToolsContainer(r.platform.AgentImage)},
		Containers: []corev1.Container{
			agent.Container(v1.ComponentSettings, r.templateInput.Image, agent.ServerMemory, agent.ServerSecurity(), mounts,
				agent.ValidateSettings(dataPath, socketsPath, tls)...)},
		Volumes: volumes,
	}
	schedule(r.serverInput, &pod)
	return pod
}

// limitAsServer sets the server's limits on a container. The Job then fails if, and only if, the settings need more
// memory than the server may use. The container requests less than the server, which still has its own requests. If
// the server has no limit, the container has no request, because a request could exceed the default limit of a
// LimitRange.
func limitAsServer(r *resolved, c *corev1.Container) {
	limits, requests := r.resources.Limits, corev1.ResourceList{}
	for name, least := range map[corev1.ResourceName]string{corev1.ResourceMemory: agent.ServerMemory,
		corev1.ResourceCPU: "50m"} {
		if limit, ok := limits[name]; ok {
			requests[name] = resource.MustParse(least)
			if limit.Cmp(requests[name]) < 0 {
				requests[name] = limit
			}
		}
	}
	c.Resources = corev1.ResourceRequirements{Limits: limits.DeepCopy(), Requests: requests}
}
