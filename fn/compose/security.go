package compose

import corev1 "k8s.io/api/core/v1"

// podSecurity of the server and of the Jobs that handle its files. On a storage
// class that is the restricted Pod Security level. In a folder of the node, made
// by the kubelet for root, a server of uid 999 could not write: there the pod
// starts as root, with what it takes to hand the folder over and step down.
func podSecurity(r *resolved) *corev1.PodSecurityContext {
	seccomp := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	if r.hostPath {
		return &corev1.PodSecurityContext{SeccompProfile: seccomp}
	}
	return &corev1.PodSecurityContext{
		RunAsNonRoot:        new(true),
		RunAsUser:           &r.engine.uid,
		RunAsGroup:          &r.engine.uid,
		FSGroup:             &r.engine.uid,
		FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      seccomp,
	}
}

// jobPodSecurity of the restore. The agent's image has a user of its own, who may not
// read or write what root made.
func jobPodSecurity(r *resolved) *corev1.PodSecurityContext {
	s := podSecurity(r)
	if r.hostPath {
		s.RunAsUser, s.RunAsGroup = new(int64(0)), new(int64(0))
	}
	return s
}

// containerSecurity of all containers.
func containerSecurity(r *resolved) *corev1.SecurityContext {
	s := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if r.hostPath {
		s.Capabilities.Add = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
	}
	return s
}
