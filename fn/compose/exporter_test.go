package compose

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

func withMetrics(in *Input) { in.XR.Spec.Metrics = &v1.MetricsSpec{Enabled: true} }

// TestExporter checks which pods contain the exporter, and its image.
func TestExporter(t *testing.T) {
	private := platform(func(s *v1.PlatformSpec) { s.ExporterImage = "registry.example/exporter:1" })
	strict := platform(func(s *v1.PlatformSpec) { s.AllowedImages = &[]string{v1.DefaultImage} })
	cases := map[string]struct {
		reason string
		in     Input
		want   string
	}{
		"Unset":    {reason: "The exporter must be off by default.", in: given(server(1))},
		"Disabled": {in: given(server(1), func(in *Input) { in.XR.Spec.Metrics = &v1.MetricsSpec{} })},
		"Enabled":  {in: given(server(1), withMetrics), want: v1.DefaultExporterImage},
		"Private": {reason: "The exporter image of the platform must be used.", in: given(server(1), withMetrics, private),
			want: "registry.example/exporter:1"},
		"NotOfTheClaim": {reason: "allowedImages restricts only the images that claims set.",
			in: given(server(1), withMetrics, strict), want: v1.DefaultExporterImage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := podOf(t, composed(t, tc.in))
			if pod.Containers[0].Name != "mysql" {
				t.Errorf("the first container is %s: kubectl exec and kubectl logs use the first one", pod.Containers[0].Name)
			}
			if tc.want == "" {
				if len(pod.Containers) != 1 {
					t.Errorf("%s %+v", tc.reason, pod.Containers)
				}
				return
			}
			if len(pod.Containers) != 2 || pod.Containers[1].Image != tc.want {
				t.Fatalf("%s want %s, got %+v", tc.reason, tc.want, pod.Containers)
			}
		})
	}
}

// TestExporterIsConfined checks that the exporter has no access to the data or to a password of root, and that it
// cannot make the server's pod unready.
func TestExporterIsConfined(t *testing.T) {
	pod := podOf(t, composed(t, given(server(1), withMetrics)))
	c := pod.Containers[1]
	mounts := make([]string, 0, len(c.VolumeMounts))
	for _, m := range c.VolumeMounts {
		mounts = append(mounts, m.Name+"/"+m.SubPath)
		if !m.ReadOnly {
			t.Errorf("it can write to %s", m.MountPath)
		}
	}
	if diff := cmp.Diff([]string{"tools/", "exporter/", "scratch/run"}, mounts); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if c.ReadinessProbe != nil || c.LivenessProbe != nil || c.StartupProbe != nil {
		t.Error("a probe of the exporter decides whether clients reach the server")
	}
	s := c.SecurityContext
	if *s.RunAsUser == *pod.Containers[0].SecurityContext.RunAsUser || *s.RunAsUser == 0 || !*s.RunAsNonRoot ||
		!*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || len(s.Capabilities.Drop) != 1 {
		t.Errorf("a process of the server's user can open the server's files: %+v", s)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
		t.Errorf("it has the resources %+v", c.Resources)
	}
	for _, v := range pod.Volumes {
		if v.Name != "exporter" {
			continue
		}
		if v.Secret.SecretName != "db-metrics" || !*v.Secret.Optional {
			t.Errorf("the server must start without the Secret: %+v", v.Secret)
		}
	}
	if want := []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9104, Protocol: corev1.ProtocolTCP}}; !cmp.Equal(
		want, c.Ports) {
		t.Errorf("the PodMonitor selects port metrics, got %+v", c.Ports)
	}
}

// TestMetricsPolicy checks which peers may scrape the metrics.
func TestMetricsPolicy(t *testing.T) {
	web := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	policy := func(changes ...func(*Input)) []networkingv1.NetworkPolicyIngressRule {
		out := composed(t, given(append(changes, server(1))...))
		return out.Resources[v1.ResourceServerPolicy].Object.(*networkingv1.NetworkPolicy).Spec.Ingress
	}
	rules := policy(withMetrics, reachedBy(web))
	if len(rules) != 2 || rules[1].Ports[0].Port.IntVal != v1.MetricsPort ||
		!cmp.Equal([]networkingv1.NetworkPolicyPeer{web}, rules[1].From) {
		t.Errorf("the peers of the claim must be able to scrape the metrics, got %+v", rules)
	}
	if rules := policy(withMetrics, reachedBy()); len(rules) != 1 {
		t.Errorf("a rule without peers allows every client: %+v", rules)
	}
	if rules := policy(reachedBy(web)); len(rules) != 1 {
		t.Errorf("there are no metrics: %+v", rules)
	}
}
