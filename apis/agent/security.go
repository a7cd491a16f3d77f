package agent

import corev1 "k8s.io/api/core/v1"

// ServerUID is the UID and GID that own the server's files in the official images of MySQL and MongoDB (their
// Dockerfiles).
const ServerUID int64 = 999

// ImportGroups returns the groups of a pod that reads the volume of another server. They are the groups of the images
// of Oracle (27), Bitnami and Percona (1001), and moco (10000). The servers allow their group to read all data. With
// hostPath, the pod runs as root, which reads all files.
func ImportGroups(hostPath bool) []int64 {
	if hostPath {
		return nil
	}
	return []int64{27, 1001, 10000}
}

// PodSecurity returns the security context of a pod that accesses the server's files. The pod runs as the UID that
// owns the files, within the restricted Pod Security level. With hostPath, it runs as root, because the kubelet
// creates hostPath directories as root.
func PodSecurity(hostPath bool) *corev1.PodSecurityContext {
	seccomp := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	if hostPath {
		return &corev1.PodSecurityContext{RunAsUser: new(int64(0)), RunAsGroup: new(int64(0)), SeccompProfile: seccomp}
	}
	return &corev1.PodSecurityContext{
		RunAsNonRoot:        new(true),
		RunAsUser:           new(ServerUID),
		RunAsGroup:          new(ServerUID),
		FSGroup:             new(ServerUID),
		FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      seccomp,
	}
}

// Security returns the security context of a container without any privileges.
func Security() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// ServerSecurity returns the security context of a container with the server's image, which a user has chosen. It
// has no privileges and never runs as root.
func ServerSecurity() *corev1.SecurityContext {
	c := Security()
	c.RunAsUser, c.RunAsGroup, c.RunAsNonRoot = new(ServerUID), new(ServerUID), new(true)
	return c
}

// FileSecurity returns the security context of a container with the agent's image. With hostPath, it may read and
// change files of other owners.
func FileSecurity(hostPath bool) *corev1.SecurityContext {
	c := Security()
	if hostPath {
		c.Capabilities.Add = []corev1.Capability{"DAC_OVERRIDE", "FOWNER"}
	}
	return c
}

// UnpackSecurity returns the security context of a container that unpacks an archive. With hostPath, it may restore
// the owners of files.
func UnpackSecurity(hostPath bool) *corev1.SecurityContext {
	c := FileSecurity(hostPath)
	if hostPath {
		c.Capabilities.Add = append([]corev1.Capability{"CHOWN"}, c.Capabilities.Add...)
	}
	return c
}
