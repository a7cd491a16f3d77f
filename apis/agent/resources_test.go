package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestJobResources checks that all containers of a Job have the platform's resources, and that a container with a
// server keeps its memory.
func TestJobResources(t *testing.T) {
	platform := resourcesOf(t, map[corev1.ResourceName]v1.Amount{"memory": "256Mi"},
		map[corev1.ResourceName]v1.Amount{"cpu": "10m"})
	limited := resourcesOf(t, map[corev1.ResourceName]v1.Amount{"cpu": "500m"}, nil)
	both := resourcesOf(t, map[corev1.ResourceName]v1.Amount{"cpu": "500m"},
		map[corev1.ResourceName]v1.Amount{"cpu": "10m", "memory": "64Mi"})
	extra := resourcesOf(t, map[corev1.ResourceName]v1.Amount{"memory": "2Gi"}, nil)
	const server = "512Mi"
	cases := map[string]struct {
		reason    string
		resources *corev1.ResourceRequirements
		want      []corev1.ResourceRequirements
	}{
		"Usual": {reason: "The platform sets no resources.",
			want: []corev1.ResourceRequirements{requests(Memory), requests(server), requests(Memory)}},
		"Platform": {reason: "A quota may require a memory limit for each container.",
			resources: platform, want: []corev1.ResourceRequirements{
				*platform, {Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")},
					Requests: corev1.ResourceList{"cpu": resource.MustParse("10m"), "memory": resource.MustParse(server)}}, *platform,
			}},
		"More": {reason: "The platform's memory limit is more than twice the server's request.",
			resources: extra, want: []corev1.ResourceRequirements{
				*extra, {Limits: extra.Limits,
					Requests: corev1.ResourceList{"cpu": resource.MustParse("50m"), "memory": resource.MustParse(server)}}, *extra,
			}},
		"Limited": {reason: "With only a CPU limit, the CPU request is removed, so that it becomes the limit.",
			resources: limited,
			want: []corev1.ResourceRequirements{
				*limited, {Limits: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")},
					Requests: corev1.ResourceList{"memory": resource.MustParse(server)}}, *limited,
			}},
		"Both": {reason: "The CPU request of the platform is less than its CPU limit.",
			resources: both, want: []corev1.ResourceRequirements{
				*both, {Limits: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")},
					Requests: corev1.ResourceList{"cpu": resource.MustParse("10m"), "memory": resource.MustParse(server)}}, *both,
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := NewJob(v1.Instance{}, "default", "job", v1.ComponentBackup, tc.resources, nil, corev1.PodSpec{
				InitContainers: []corev1.Container{ToolsContainer("image"), Container("server", "image", server, Security(), nil)},
				Containers:     []corev1.Container{Container("agent", "image", Memory, Security(), nil)},
			})
			pod := j.Spec.Template.Spec
			got := []corev1.ResourceRequirements{pod.InitContainers[0].Resources, pod.InitContainers[1].Resources,
				pod.Containers[0].Resources}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func resourcesOf(t *testing.T, limits, requests map[corev1.ResourceName]v1.Amount) *corev1.ResourceRequirements {
	t.Helper()
	r, err := ReadResources(&v1.Resources{Limits: limits, Requests: requests})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReadResources checks that invalid amounts are refused in a stable order.
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
