package compose

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

// serverPodSecurity is that of the Jobs on the server's files, but in a folder of the
// node. The kubelet makes it for root, and a server of uid 999 could not write there:
// the image's own user starts, with what it takes to hand the folder over and step
// down.
func serverPodSecurity(r *resolved) *corev1.PodSecurityContext {
	s := agent.PodSecurity(r.hostPath)
	if r.hostPath {
		s.RunAsUser, s.RunAsGroup = nil, nil
	}
	return s
}

// serverSecurity of a container of the server's image that runs the server. It may
// write where the image's entrypoint does.
func serverSecurity(r *resolved) *corev1.SecurityContext {
	s := agent.Security()
	s.ReadOnlyRootFilesystem = nil
	if r.hostPath {
		s.Capabilities.Add = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
	}
	return s
}
