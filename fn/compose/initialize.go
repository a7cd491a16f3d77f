package compose

import (
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Places inside the container that makes the database.
const (
	passwordPath = "/etc/mysql-root"
	socketsPath  = toolsPath + "/sockets"
)

// initialized is true once somebody has logged in to the server, or its data was
// restored: a volume that is empty from then on is the wrong one. What goes with
// its pod is made anew with each.
func (p *plan) initialized() bool {
	r := p.start.restore
	return !p.ephemeral() && (p.XR.Status.Initialized || r != nil && r.Phase == v1.RestoreSucceeded || p.started() && p.connectionSecret() != nil)
}

// mayInitialize is true while a start may make a new database. One whose backup is
// yet to be restored may not, although its volume is empty, and may be deleted so.
func (p *plan) mayInitialize() bool { return !p.initialized() && p.start.restore == nil }

// initContainers come before the server: the one that makes its database, or sees
// that it has its data.
func (p *plan) initContainers() []corev1.Container {
	tools := p.toolsContainer()
	initialize := p.jobContainer("initialize", p.image, []corev1.VolumeMount{
		toolsMount(),
		{Name: "data", MountPath: dataPath},
		{Name: "root-password", MountPath: passwordPath, ReadOnly: true},
		{Name: "config", MountPath: p.engine.config, ReadOnly: true},
	}, toolsPath+"/controller", "initialize",
		"--volume="+dataPath,
		"--directory="+v1.DataDirectory,
		"--secret="+passwordPath,
		"--sockets="+socketsPath)
	if p.spec.Database != "" {
		initialize.Env = []corev1.EnvVar{{Name: "MYSQL_DATABASE", Value: p.spec.Database}}
	}
	// They are over before the server begins, and so may have what it has.
	tools.Resources, initialize.Resources = p.serverResources, p.serverResources
	return []corev1.Container{tools, initialize}
}

// initVolumes are those that only the init containers mount.
func (p *plan) initVolumes() []corev1.Volume {
	return []corev1.Volume{
		emptyVolume("tools"),
		{Name: "root-password", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: p.instance.RootSecretName()}}},
	}
}
