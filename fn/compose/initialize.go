package compose

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// isInitialized is true once somebody has logged in to the server, or its data was
// restored: a volume that is empty from then on is the wrong one. What goes with
// its pod is made anew with each.
func isInitialized(r *resolved, from *v1.RestoreStatus) bool {
	return !r.ephemeral && (r.XR.Status.Initialized || from != nil && from.Phase == v1.RestoreSucceeded || r.started && connectionSecret(r) != nil)
}

// mayInitialize is true while a start may make a new database. One whose backup is
// yet to be restored may not, although its volume is empty, and may be deleted so.
func mayInitialize(r *resolved, from *v1.RestoreStatus) bool {
	return !isInitialized(r, from) && from == nil
}

// initContainers come before the server: the one that makes its database, or sees
// that it has its data, and in a folder of the node the one that hands it over.
func initContainers(s *serverInput) []corev1.Container {
	tools := agent.ToolsContainer(s.platform.AgentImage)
	initialize := agent.Container("initialize", s.wish.Image, agent.Memory, agent.ServerSecurity(), append([]corev1.VolumeMount{
		agent.ToolsMount(),
		{Name: "data", MountPath: dataPath},
		{Name: "root-password", MountPath: passwordPath, ReadOnly: true},
		{Name: "config", MountPath: s.engine.config, ReadOnly: true},
	}, scratchMounts(s).mounts...), agent.Initialize(s.instance.XR, dataPath, passwordPath, socketsPath)...)
	if isCertified(s) { // The my.cnf names it.
		initialize.VolumeMounts = append(initialize.VolumeMounts, tlsMount(s).mounts...)
	}
	if s.wish.Database != "" {
		initialize.Env = []corev1.EnvVar{{Name: "MYSQL_DATABASE", Value: s.wish.Database}}
	}
	// They are over before the server begins, and so may have what it has.
	tools.Resources, initialize.Resources = s.resources, s.resources
	if !s.hostPath {
		return []corev1.Container{tools, initialize}
	}
	own := agent.OwnContainer(s.platform.AgentImage, corev1.VolumeMount{Name: "data", MountPath: dataPath})
	own.Resources = s.resources
	return []corev1.Container{tools, own, initialize}
}

// initVolumes are those that only the init containers mount.
func initVolumes(s *serverInput) []corev1.Volume {
	return []corev1.Volume{
		agent.ToolsVolume(),
		{Name: "root-password", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: s.instance.RootSecretName()}}},
	}
}
