package compose

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// isInitialized reports whether a client has logged in to the server, or its data was restored. If the volume is
// empty after that, it is the wrong volume. Ephemeral data is initialized again with each pod.
func isInitialized(r *resolved, from *v1.RestoreStatus) bool {
	return !r.ephemeral && (r.XR.Status.Initialized || from != nil && from.Phase == v1.RestoreSucceeded || r.started &&
		connectionSecret(r) != nil)
}

// mayInitialize reports whether a new database may be initialized. If data must be restored first, it returns false,
// even if the volume is empty.
func mayInitialize(r *resolved, from *v1.RestoreStatus) bool {
	return !isInitialized(r, from) && from == nil
}

// initContainers returns the containers that run before the server. One of them initializes the database, or checks
// that the data exists. With hostPath, another one makes the server's user the owner of the directory.
func initContainers(s *serverInput) []corev1.Container {
	tools := agent.ToolsContainer(s.platform.AgentImage)
	initialize := agent.Container("initialize", s.templateInput.Image, agent.Memory, agent.ServerSecurity(),
		append([]corev1.VolumeMount{
			agent.ToolsMount(),
			{Name: "data", MountPath: dataPath},
			{Name: "root-password", MountPath: passwordPath, ReadOnly: true},
			{Name: "config", MountPath: s.engine.config, ReadOnly: true},
		}, scratchMounts(s).mounts...), agent.Initialize(s.instance.XR, dataPath, passwordPath, socketsPath)...)
	if isCertified(s) { // The my.cnf contains the path of the certificate.
		initialize.VolumeMounts = append(initialize.VolumeMounts, tlsMount(s).mounts...)
	}
	if s.templateInput.Database != "" {
		initialize.Env = []corev1.EnvVar{{Name: "MYSQL_DATABASE", Value: s.templateInput.Database}}
	}
	// These containers finish before the server starts, so they can use the server's resources.
	tools.Resources, initialize.Resources = s.resources, s.resources
	if !s.hostPath {
		return []corev1.Container{tools, initialize}
	}
	own := agent.OwnContainer(s.platform.AgentImage, corev1.VolumeMount{Name: "data", MountPath: dataPath})
	own.Resources = s.resources
	return []corev1.Container{tools, own, initialize}
}

// initVolumes returns the volumes that only the init containers mount.
func initVolumes(s *serverInput) []corev1.Volume {
	return []corev1.Volume{
		agent.ToolsVolume(),
		{Name: "root-password", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: s.instance.RootSecretName()}}},
	}
}
