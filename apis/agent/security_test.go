package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestSecurity checks that a container has only the privileges that it needs, and none if it owns the files.
func TestSecurity(t *testing.T) {
	cases := map[string]struct {
		reason  string
		context *corev1.SecurityContext
		want    []corev1.Capability
	}{
		"Plain": {reason: "A container that only runs a program needs no privileges.", context: Security()},
		"Files": {reason: "The UID of the pod owns the files, so no privileges are needed.", context: FileSecurity(false)},
		"Unpack": {reason: "The UID of the pod will own the unpacked files, so no privileges are needed.",
			context: UnpackSecurity(false)},
		"FilesOnNode": {reason: "With hostPath, the pod runs as root, and the server's user owns the files.",
			context: FileSecurity(true),
			want:    []corev1.Capability{"DAC_OVERRIDE", "FOWNER"}},
		"UnpackedOnNode": {reason: "With hostPath, the server's user must become the owner of the unpacked files.",
			context: UnpackSecurity(true),
			want:    []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false),
				ReadOnlyRootFilesystem:   new(true),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: tc.want},
			}
			if diff := cmp.Diff(want, tc.context); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	if c := ServerSecurity(); c.RunAsUser == nil || *c.RunAsUser != ServerUID || c.RunAsNonRoot == nil ||
		!*c.RunAsNonRoot || len(c.Capabilities.Add) > 0 {
		t.Errorf("a container of somebody else's image is %+v", c)
	}
	if p := PodSecurity(false); p.RunAsNonRoot == nil || !*p.RunAsNonRoot || *p.RunAsUser != ServerUID ||
		*p.FSGroup != ServerUID {
		t.Errorf("a pod on a storage class is %+v", p)
	}
	if p := PodSecurity(true); *p.RunAsUser != 0 {
		t.Errorf("a pod in a folder of the node is %+v", p)
	}
}
