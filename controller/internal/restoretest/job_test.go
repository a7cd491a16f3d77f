package restoretest

import (
	"bytes"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/golden"
)

// TestManifests compares the Job of a restore test with a golden file.
func TestManifests(t *testing.T) {
	onNode := verified(func(s *State) { s.Volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/data"} })
	turn("")(onNode)
	fromStore, hostFromStore := verified(inStore, turn("")), verified(inStore, turn(""))
	hostFromStore.Record.Spec.StorageClass = ""
	for name, s := range map[string]*State{
		"restoretest-job": verified(turn("")), "restoretest-job-hostpath": onNode, "restoretest-job-store": fromStore,
		"restoretest-job-store-hostpath": hostFromStore,
	} {
		t.Run(name, func(t *testing.T) {
			raw := golden.Manifest(t, name, newJob(s, s.restoreTest().ID))
			if bytes.Contains(raw, []byte("assword")) {
				t.Error("the Job speaks of a password")
			}
		})
	}
}

// TestServerSeesTheCopyOnly checks that a container with the image from the claim cannot change the backups on the
// volume.
func TestServerSeesTheCopyOnly(t *testing.T) {
	pod := newJob(verified(), "turn").Spec.Template.Spec
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		if c.Image == agentImage {
			continue
		}
		if len(c.SecurityContext.Capabilities.Add) > 0 {
			t.Errorf("%s has capabilities", c.Name)
		}
		for _, m := range c.VolumeMounts {
			if m.Name != "tools" && m.SubPath != v1.RestoreTestDir {
				t.Errorf("%s mounts %s at %q", c.Name, m.Name, m.SubPath)
			}
		}
	}
}

// TestPullSecrets checks that the Job has the image pull Secrets of the instance that was backed up.
func TestPullSecrets(t *testing.T) {
	s := verified()
	s.Record.Spec.ImagePullSecrets = []v1.ImagePullSecret{{Name: "registry"}}
	if got := newJob(s, "turn").Spec.Template.Spec.ImagePullSecrets; !slices.Equal(got,
		[]corev1.LocalObjectReference{{Name: "registry"}}) {
		t.Errorf("The Job has the image pull secrets %v", got)
	}
}

// TestPlatformsResources checks that a quota which requires limits does not refuse the Job. The server container has
// the usual resources of a server.
func TestPlatformsResources(t *testing.T) {
	s := verified()
	s.JobResources = &corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}}
	pod := newJob(s, "turn").Spec.Template.Spec
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		if got := c.Resources.Limits.Memory().String(); (c.Name == containerBootCheck) == (got == "256Mi") {
			t.Errorf("%s may have %s of memory", c.Name, got)
		}
	}
}
