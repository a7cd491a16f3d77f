package agent

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

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

// toolsSize is some times that of the program.
var toolsSize = resource.MustParse("512Mi")

// ToolsVolume of a pod.
func ToolsVolume() corev1.Volume { return EmptyVolume(toolsVolume, toolsSize) }

// ToolsMount of a container.
func ToolsMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: toolsVolume, MountPath: ToolsPath}
}

// ToolsContainer copies the agent's program, and needs no rights for that.
func ToolsContainer(image string) corev1.Container {
	return Container("tools", image, Memory, Security(), []corev1.VolumeMount{ToolsMount()}, Program, "install", "--to="+CopiedProgram)
}

// OwnContainer gives a folder of the node, which the kubelet made for root, to the server's
// user, and nobody else a way into it.
func OwnContainer(image string, data corev1.VolumeMount) corev1.Container {
	security := UnpackSecurity(true)
	security.RunAsUser, security.RunAsGroup, security.RunAsNonRoot = new(int64(0)), new(int64(0)), new(false)
	return Container("own", image, Memory, security, []corev1.VolumeMount{data}, Own(data.MountPath)...)
}

// CloneContainerName is that of the container which clones a server, in a Job that backs one up while it runs.
const CloneContainerName = "clone"

// Where that container has its volumes.
const (
	donorVolume = "donor"
	donorFolder = "/" + donorVolume
)

// ServerMemory that is reserved for a container which runs a server for a while.
const ServerMemory = "512Mi"

// CloneContainer clones a server, with one of the same image, to where a volume is mounted.
func CloneContainer(image string, to corev1.VolumeMount) corev1.Container {
	ready := ToolsMount()
	ready.ReadOnly = true
	donor := corev1.VolumeMount{Name: donorVolume, MountPath: donorFolder, ReadOnly: true}
	return Container(CloneContainerName, image, ServerMemory, ServerSecurity(), []corev1.VolumeMount{ready, donor, to}, Clone(to.MountPath, donorFolder)...)
}

// DonorVolume has the way to the server, for that container, which is not root where the others are.
func DonorVolume(secret string) corev1.Volume { return secretVolume(donorVolume, secret, 0o444) }

// VersionContainer asks the server's image for its version.
func VersionContainer(image string) corev1.Container {
	return Container("version", image, Memory, ServerSecurity(), []corev1.VolumeMount{ToolsMount()}, CopiedProgram, "version-of-server", "--to="+VersionFile)
}
