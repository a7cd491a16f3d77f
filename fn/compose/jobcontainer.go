package compose

import corev1 "k8s.io/api/core/v1"

// Places inside the pods in which the agent runs.
const (
	toolsPath   = "/tools"
	dataPath    = "/data"
	archivePath = "/backup"

	passwordPath = "/etc/mysql-root"
	socketsPath  = toolsPath + "/sockets"
)

func toolsMount() corev1.VolumeMount { return corev1.VolumeMount{Name: "tools", MountPath: toolsPath} }

// toolsContainer brings our binary to where the server's image can run it.
func toolsContainer(r *resolved) corev1.Container {
	return jobContainer(r, "tools", r.Settings.AgentImage, []corev1.VolumeMount{toolsMount()}, "/controller", "install", "--to="+toolsPath+"/controller")
}

// versionContainer asks the server's image for its version.
func versionContainer(r *resolved) corev1.Container {
	return jobContainer(r, "version", r.image, []corev1.VolumeMount{toolsMount()}, toolsPath+"/controller", "version-of-server", "--to="+toolsPath+"/version.json")
}

// jobContainer runs the agent.
func jobContainer(r *resolved, name, image string, mounts []corev1.VolumeMount, command ...string) corev1.Container {
	return corev1.Container{
		Name:                     name,
		Image:                    image,
		Command:                  command,
		VolumeMounts:             mounts,
		Resources:                r.jobResources,
		SecurityContext:          containerSecurity(r),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

func pvcVolume(name, pvc string, readOnly bool) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc, ReadOnly: readOnly},
	}}
}

func emptyVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}
