package compose

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// containerOf returns the server's container in the Deployment, and the my.cnf.
func containerOf(t *testing.T, in Input) (corev1.Container, string) {
	t.Helper()
	out := composed(t, in)
	config, _ := out.Resources[v1.ResourceConfig].Object.(*corev1.ConfigMap)
	if config == nil {
		config = &corev1.ConfigMap{}
	}
	pod := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment).Spec.Template.Spec
	return pod.Containers[0], config.Data[v1.ConfigKey]
}

// amountsOf returns the resources of a container as text, as in a claim.
func amountsOf(c corev1.Container) map[string]string {
	out := map[string]string{}
	for kind, list := range map[string]corev1.ResourceList{"requests.": c.Resources.Requests, "limits.": c.Resources.Limits} {
		for name, amount := range list {
			out[kind+string(name)] = amount.String()
		}
	}
	return out
}

func memoryLimit(amount v1.Amount) *v1.Resources {
	return &v1.Resources{Limits: map[corev1.ResourceName]v1.Amount{corev1.ResourceMemory: amount}}
}

// TestDefaultResources checks that a claim without resources gets them from the Composition, the Platform or this
// release, in this order.
func TestDefaultResources(t *testing.T) {
	ofClaim := func(r *v1.Resources) func(*Input) { return func(in *Input) { in.XR.Spec.Resources = r } }
	ofComposition := func(r *v1.Resources) func(*Input) { return func(in *Input) { in.Settings.DefaultResources = r } }
	ofPlatform := func(r *v1.Resources) func(*Input) {
		return platform(func(s *v1.PlatformSpec) { s.DefaultResources = r })
	}
	most := func(cpu, memory v1.Amount) func(*Input) {
		return platform(func(s *v1.PlatformSpec) {
			s.MaxResources = map[corev1.ResourceName]v1.Amount{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
		})
	}
	mongo := func(in *Input) {
		in.XR.Kind, in.Type, in.XR.Spec.StorageSize = v1.KindXDatabase, v1.TypeMongo, nil
		in.XR.Spec.Image, in.XR.Spec.Password = new("mongo:8.0"), nil
		in.XR.Spec.Database, in.XR.Spec.Config = "", nil
	}
	usual := map[string]string{"requests.cpu": "250m", "requests.memory": "512Mi", "limits.memory": "1Gi"}
	cases := map[string]struct {
		reason string
		in     Input
		want   map[string]string
	}{
		"Unset": {"Without any settings, the defaults of this release must be used.", given(), usual},
		"Mongo": {"The defaults of this release must also be used for MongoDB.", given(mongo), usual},
		"Claim": {"The resources of the claim must take precedence, and nothing must be added.",
			given(ofClaim(memoryLimit("2Gi")),
				ofComposition(memoryLimit("3Gi")), ofPlatform(memoryLimit("4Gi"))), map[string]string{"limits.memory": "2Gi"}},
		"ClaimNone": {"A claim may have no resources.", given(ofClaim(&v1.Resources{})), map[string]string{}},
		"Composition": {"The defaults of the Composition must take precedence over the Platform's.",
			given(ofComposition(memoryLimit("3Gi")), ofPlatform(memoryLimit("4Gi"))),
			map[string]string{"limits.memory": "3Gi"}},
		"Platform": {"The defaults of the Platform must be used if the Composition has none.",
			given(ofPlatform(memoryLimit("4Gi"))), map[string]string{"limits.memory": "4Gi"}},
		"PlatformNone": {"The defaults of the Platform may have no resources.",
			given(ofPlatform(&v1.Resources{})), map[string]string{}},
		"Most": {"The defaults of this release must not exceed the platform's maximum.",
			given(most("100m", "256Mi")), map[string]string{
				"requests.cpu": "100m", "requests.memory": "256Mi", "limits.cpu": "100m", "limits.memory": "256Mi"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, _ := containerOf(t, tc.in)
			if diff := cmp.Diff(tc.want, amountsOf(c)); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestDefaultsRestartNothing checks that a running server keeps its pod and its my.cnf if the defaults change.
func TestDefaultsRestartNothing(t *testing.T) {
	earlier := madeEarlier(t)
	for name, change := range map[string]func(*v1.PlatformSpec){
		"Resources": func(s *v1.PlatformSpec) { s.DefaultResources = memoryLimit("8Gi") },
		"Image":     func(s *v1.PlatformSpec) { s.DefaultImage = "mysql:9.7" },
	} {
		t.Run(name, func(t *testing.T) {
			out := composed(t, given(earlier, platform(change)))
			if out.Resources[v1.ResourceDeployment].AsObserved == nil {
				t.Error("the server gets another pod")
			}
			if got := out.Resources[v1.ResourceConfig].Object.(*corev1.ConfigMap).Data[v1.ConfigKey]; got != configHeader {
				t.Errorf("the server gets another my.cnf: %q", got)
			}
		})
	}
}

// TestDefaultImage checks that a claim without an image gets it from the Composition, the Platform or this release,
// in this order.
func TestDefaultImage(t *testing.T) {
	none := func(in *Input) { in.XR.Spec.Image, in.Settings.DefaultImage = nil, "" }
	ofPlatform := platform(func(s *v1.PlatformSpec) { s.DefaultImage = "mysql:9.1" })
	cases := map[string]struct {
		reason string
		in     Input
		want   string
	}{
		"Unset": {"Without any settings, the default image of this release must be used.", given(none), v1.DefaultImage},
		"Platform": {"The default image of the Platform must be used if the Composition has none.",
			given(none, ofPlatform), "mysql:9.1"},
		"Composition": {"The default image of the Composition must take precedence over the Platform's.",
			given(none, ofPlatform, func(in *Input) { in.Settings.DefaultImage = "mysql:9.2" }), "mysql:9.2"},
		"Claim": {"The image of the claim must take precedence.",
			given(none, ofPlatform, func(in *Input) { in.XR.Spec.Image = new("mysql:9.3") }), "mysql:9.3"},
		"Begun": {"An instance must keep the image that it was created with.",
			given(none, ofPlatform, func(in *Input) { in.XR.Status.Image = "mysql:9.4" }), "mysql:9.4"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if c, _ := containerOf(t, tc.in); c.Image != tc.want {
				t.Errorf("%s Want %s, got %s", tc.reason, tc.want, c.Image)
			}
		})
	}
}

// TestAgentImage checks that Jobs and init containers use the job image of the function's release, unless the
// Platform sets another image.
func TestAgentImage(t *testing.T) {
	without := platform(func(s *v1.PlatformSpec) { s.AgentImage = "" })
	release := func(text string) func(*Input) { return func(in *Input) { in.Release = text } }
	cases := map[string]struct {
		reason string
		in     Input
		want   string
	}{
		"Release": {"The job image has the same version as the function.",
			given(without, release("v1.2.3")), v1.AgentImage("v1.2.3")},
		"Candidate": {"The job image of a prerelease has the same version as the function.",
			given(without, release("v0.2.0-rc.1")), v1.AgentImage("v0.2.0-rc.1")},
		"Platform": {"The job image may be in a registry of the platform.",
			given(release("v1.2.3"), platform(func(s *v1.PlatformSpec) { s.AgentImage = "mirror/a:1" })), "mirror/a:1"},
		"Build": {"A development build has no job image in a registry.", given(without, release("dev")), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := tryCompose(t, tc.in)
			if tc.want == "" {
				if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || refusal.Reason != v1.ReasonNoPlatform ||
					!strings.Contains(err.Error(), "spec.agentImage") {
					t.Errorf("%s Want a refusal, got %v", tc.reason, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			pod := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment).Spec.Template.Spec
			if got := pod.InitContainers[0].Image; got != tc.want {
				t.Errorf("%s Want %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
}
