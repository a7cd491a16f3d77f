package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestJobResources: all containers of a Job have what the platform says, but one that runs a
// server.
func TestJobResources(t *testing.T) {
	platform, err := ReadResources(&v1.Resources{Limits: map[corev1.ResourceName]v1.Amount{"memory": "256Mi"}, Requests: map[corev1.ResourceName]v1.Amount{"cpu": "10m"}})
	if err != nil {
		t.Fatal(err)
	}
	const server = "512Mi"
	cases := map[string]struct {
		reason    string
		resources *corev1.ResourceRequirements
		want      []corev1.ResourceRequirements
	}{
		"Usual":    {reason: "Nobody said anything.", want: []corev1.ResourceRequirements{requests(Memory), requests(server), requests(Memory)}},
		"Platform": {reason: "A quota may ask for limits.", resources: platform, want: []corev1.ResourceRequirements{*platform, requests(server), *platform}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := NewJob(v1.Instance{}, "default", "job", v1.ComponentBackup, tc.resources, corev1.PodSpec{
				InitContainers: []corev1.Container{ToolsContainer("image"), Container("server", "image", server, Security(), nil)},
				Containers:     []corev1.Container{Container("agent", "image", Memory, Security(), nil)},
			})
			pod := j.Spec.Template.Spec
			got := []corev1.ResourceRequirements{pod.InitContainers[0].Resources, pod.InitContainers[1].Resources, pod.Containers[0].Resources}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestReadResources: what is no quantity is refused, the same each time.
func TestReadResources(t *testing.T) {
	if r, err := ReadResources(nil); r != nil || err != nil {
		t.Errorf("want nothing of nothing, got %v, %v", r, err)
	}
	amounts := map[corev1.ResourceName]v1.Amount{"memory": "1e-99999999", "cpu": "much"}
	for range 20 {
		_, err := ReadResources(&v1.Resources{Requests: amounts})
		if err == nil || err.Error()[:len("requests[cpu]")] != "requests[cpu]" {
			t.Fatalf("want the first to be named, got %v", err)
		}
	}
}
