package agent

import corev1 "k8s.io/api/core/v1"

// ServerUID is the uid and gid of the server in the official images of MySQL and
// MongoDB (their Dockerfiles), which owns the files.
const ServerUID int64 = 999

// PodSecurity of what handles the server's files: the uid that owns them, which is
// the restricted Pod Security level, or root in a folder that the kubelet made for
// root.
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

// Security of a container that needs no rights at all.
func Security() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// ServerSecurity is that of a container of the server's image, which somebody else chose:
// it has no rights at all, and is root in no pod.
func ServerSecurity() *corev1.SecurityContext {
	c := Security()
	c.RunAsUser, c.RunAsGroup, c.RunAsNonRoot = new(ServerUID), new(ServerUID), new(true)
	return c
}

// FileSecurity is that of a container of the agent's image: on hostPath it may
// read and change files that are not its own.
func FileSecurity(hostPath bool) *corev1.SecurityContext {
	c := Security()
	if hostPath {
		c.Capabilities.Add = []corev1.Capability{"DAC_OVERRIDE", "FOWNER"}
	}
	return c
}

// UnpackSecurity is that of a container that unpacks an archive: on hostPath its
// files get the owner that they had.
func UnpackSecurity(hostPath bool) *corev1.SecurityContext {
	c := FileSecurity(hostPath)
	if hostPath {
		c.Capabilities.Add = append([]corev1.Capability{"CHOWN"}, c.Capabilities.Add...)
	}
	return c
}
