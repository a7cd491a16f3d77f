package agent

import corev1 "k8s.io/api/core/v1"

// The server's image cannot be asked anything without a program of ours in it: a
// container of the agent's image copies it to a folder that later ones mount.
const (
	toolsVolume = "tools"
	// ToolsPath is where that folder is mounted.
	ToolsPath = "/tools"
	// CopiedProgram is the agent's program in it.
	CopiedProgram = ToolsPath + Program
	// VersionFile has what the server's image says of its version.
	VersionFile = ToolsPath + "/version.json"
)

// ToolsVolume of a pod.
func ToolsVolume() corev1.Volume { return EmptyVolume(toolsVolume) }

// ToolsMount of a container.
func ToolsMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: toolsVolume, MountPath: ToolsPath}
}

// ToolsContainer copies the agent's program, and needs no rights for that.
func ToolsContainer(image string) corev1.Container {
	return Container("tools", image, Memory, Security(), []corev1.VolumeMount{ToolsMount()}, Program, "install", "--to="+CopiedProgram)
}

// VersionContainer asks the server's image for its version.
func VersionContainer(image string) corev1.Container {
	return Container("version", image, Memory, Security(), []corev1.VolumeMount{ToolsMount()}, CopiedProgram, "version-of-server", "--to="+VersionFile)
}
