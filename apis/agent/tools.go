package agent

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The server's image does not contain the agent's program. A container of the agent's image copies the program to a
// directory that later containers mount.
const (
	toolsVolume = "tools"
	// ToolsPath is the mount path of the directory with the agent's program.
	ToolsPath = "/tools"
	// CopiedProgram is the path of the copied program.
	CopiedProgram = ToolsPath + Program
	// VersionFile is the file with the version of the server's image.
	VersionFile = ToolsPath + "/version.json"
)

// toolsSize is the size limit of the volume with the agent's program. It is several times the size of the program.
var toolsSize = resource.MustParse("512Mi")

// ToolsVolume returns the volume for the copy of the agent's program.
func ToolsVolume() corev1.Volume { return EmptyVolume(toolsVolume, toolsSize) }

// ToolsMount returns the mount of the volume with the agent's program.
func ToolsMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: toolsVolume, MountPath: ToolsPath}
}

// ToolsContainer returns the container that copies the agent's program. It needs no privileges.
func ToolsContainer(image string) corev1.Container {
	return Container("tools", image, Memory, Security(), []corev1.VolumeMount{ToolsMount()}, Program, "install",
		"--to="+CopiedProgram)
}

// OwnContainer returns a container that makes the server's user the owner of a hostPath directory, which the kubelet
// creates as root. It also denies access to other users.
func OwnContainer(image string, data corev1.VolumeMount) corev1.Container {
	security := UnpackSecurity(true)
	security.RunAsUser, security.RunAsGroup, security.RunAsNonRoot = new(int64(0)), new(int64(0)), new(false)
	return Container("own", image, Memory, security, []corev1.VolumeMount{data}, Own(data.MountPath)...)
}

// CloneContainerName is the name of the container that clones a running server in the Job of an online backup.
const CloneContainerName = "clone"

// Name and mount path of the volume with the Secret that describes the server to clone.
const (
	donorVolume = "donor"
	donorDir    = "/" + donorVolume
)

// ServerMemory is the memory request of a container that temporarily runs a server.
const ServerMemory = "512Mi"

// CloneContainer returns a container that clones a server to a volume. image is the image of that server.
func CloneContainer(image string, target corev1.VolumeMount) corev1.Container {
	ready := ToolsMount()
	ready.ReadOnly = true
	donor := corev1.VolumeMount{Name: donorVolume, MountPath: donorDir, ReadOnly: true}
	return Container(CloneContainerName, image, ServerMemory, ServerSecurity(), []corev1.VolumeMount{ready, donor, target},
		Clone(target.MountPath, donorDir)...)
}

// DonorVolume returns the volume with the Secret that describes the server to clone. All users can read its files,
// because the container that clones the server never runs as root.
func DonorVolume(secret string) corev1.Volume { return secretVolume(donorVolume, secret, 0o444) }

// VersionContainer returns a container with the server's image, which writes the version of the server to VersionFile.
func VersionContainer(image string) corev1.Container {
	return Container("version", image, Memory, ServerSecurity(), []corev1.VolumeMount{ToolsMount()}, CopiedProgram,
		"version-of-server", "--to="+VersionFile)
}
