package compose

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestNotAllowed checks values that the platform no longer allows. An instance keeps such a value if it is in use.
// Otherwise the value is refused.
func TestNotAllowed(t *testing.T) {
	const key = "example.org/key"
	forbids := platform(func(s *v1.PlatformSpec) {
		s.AllowedImages, s.AllowedServiceTypes, s.AllowedServiceAnnotations = &[]string{"mariadb:"}, []v1.ServiceType{
			v1.ServiceClusterIP}, &[]string{}
		s.MaxResources = map[corev1.ResourceName]v1.Amount{corev1.ResourceMemory: "1Gi"}
	})
	allows := platform(func(s *v1.PlatformSpec) {
		s.AllowedImages, s.AllowedServiceTypes, s.AllowedServiceAnnotations = &[]string{"mysql:"}, []v1.ServiceType{
			v1.ServiceNodePort}, &[]string{"example.org/"}
		s.MaxResources = map[corev1.ResourceName]v1.Amount{corev1.ResourceMemory: "2Gi"}
	})
	asks := func(in *Input) {
		in.XR.Spec.Image = new("mysql:8.4")
		in.XR.Spec.Resources = &v1.Resources{Limits: map[corev1.ResourceName]v1.Amount{corev1.ResourceMemory: "2Gi"}}
		in.XR.Spec.Service = v1.ServiceSpec{Type: v1.ServiceNodePort, Annotations: map[string]string{key: "x"}}
	}
	runs := func(in *Input) {
		asks(in)
		in.XR.Status.Started, in.XR.Status.Image = true, "mysql:8.4"
		r, err := resolve(*in)
		if err != nil {
			t.Fatal(err)
		}
		in.Observed.Deployment = &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.AnnotationRevision: digestOf(r.templateInput) + ".x"}}}
		in.Observed.Service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: "x"}},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort}}
	}
	cases := map[string]struct {
		reason  string
		in      Input
		refused bool
		warned  bool
	}{
		"Allowed": {reason: "The platform allows all values of the claim.", in: given(asks, allows)},
		"New":     {reason: "The platform allows no value of the claim.", in: given(asks, forbids), refused: true},
		"Runs": {reason: "A running instance must keep values that the platform no longer allows.",
			in: given(runs, forbids), warned: true},
		"RunsAllowed": {reason: "The platform allows all values, so there must be no warning.", in: given(runs, allows)},
		"OtherImage": {reason: "A changed image must be refused.",
			in: given(runs, forbids, func(in *Input) { in.XR.Spec.Image = new("mysql:8.4.6") }), refused: true},
		"OtherType": {reason: "A changed Service type must be refused.",
			in: given(runs, forbids, func(in *Input) { in.XR.Spec.Service.Type = v1.ServiceLoadBalancer }), refused: true},
		"OtherAnnotation": {reason: "A changed annotation of the Service must be refused.",
			in: given(runs, forbids, func(in *Input) { in.XR.Spec.Service.Annotations[key] = "y" }), refused: true},
		"OtherResources": {reason: "Changed resources must be refused.", in: given(runs, forbids, func(in *Input) {
			in.XR.Spec.Resources = &v1.Resources{Limits: map[corev1.ResourceName]v1.Amount{corev1.ResourceMemory: "1.5Gi"}}
		}), refused: true},
		"Nodes": {reason: "A claim may tolerate taints and use priority classes only if the platform allows it.",
			in:      given(scheduled, forbidsScheduling),
			refused: true},
		"NodesGiven": {reason: "The platform allows the tolerations and the priority class.", in: given(scheduled)},
		"NodesLess": {reason: "The platform does not allow all tolerations of the claim.",
			in: given(scheduled, platform(func(s *v1.PlatformSpec) {
				s.AllowedTolerations, s.AllowedPriorityClasses = []string{"databases/"}, []string{"databases"}
			})), refused: true},
		"NodesRun": {reason: "A running instance must keep its scheduling.",
			in: given(scheduled, forbidsScheduling, runs), warned: true},
		"ServiceLost": {reason: "The Service does not exist, so it would be created with values that are not allowed.",
			in: given(runs, forbids, func(in *Input) { in.Observed.Service = nil }), refused: true},
		"AllowedAgain": {reason: "The claim now has only values that the platform allows.",
			in: given(runs, forbids, func(in *Input) {
				in.XR.Spec.Image, in.XR.Spec.Service = new("mariadb:11"), v1.ServiceSpec{Headless: true}
				in.XR.Spec.Resources = nil
			})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := resolve(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			kept, err := checkAllowed(r)
			if refusal := (*Refusal)(nil); (err != nil) != tc.refused || err != nil &&
				(!errors.As(err, &refusal) || refusal.Reason != v1.ReasonNotAllowed) {
				t.Errorf("%s Refused: %v", tc.reason, err)
			}
			if !tc.refused && (kept != nil) != tc.warned {
				t.Errorf("%s Kept: %v", tc.reason, kept)
			}
			_, composed := tryCompose(t, tc.in)
			if tc.refused && composed == nil {
				t.Errorf("%s It is composed all the same", tc.reason)
			}
		})
	}
}

// TestPlatformMissing checks that nothing is created before the Platform is known, and that nothing changes if it
// does not exist.
func TestPlatformMissing(t *testing.T) {
	unknown := given(func(in *Input) { in.Required.Platform = Required[v1.Platform]{} })
	out, err := tryCompose(t, unknown)
	if err != nil || len(out.Resources) > 0 || out.Requirements[RequiredPlatform].Name != v1.PlatformName {
		t.Errorf("unknown: %d resources, %v, %v", len(out.Resources), out.Requirements, err)
	}
	missing := given(func(in *Input) { in.Required.Platform.Items = nil })
	out, err = tryCompose(t, missing)
	if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || refusal.Reason != v1.ReasonNoPlatform ||
		len(out.Requirements) == 0 {
		t.Errorf("missing: %v, %v", out.Requirements, err)
	}
}

// TestLimitResources checks that a server never gets more resources than the platform allows, whether it sets a limit
// or not.
func TestLimitResources(t *testing.T) {
	amounts := func(memory string) map[corev1.ResourceName]v1.Amount {
		return map[corev1.ResourceName]v1.Amount{corev1.ResourceMemory: v1.Amount(memory)}
	}
	cases := map[string]struct {
		reason    string
		most      map[corev1.ResourceName]v1.Amount
		resources v1.Resources
		limit     string
		errs      int
	}{
		"NoMost": {reason: "The platform sets no maximum.", resources: v1.Resources{Limits: amounts("8Gi")}, limit: "8Gi"},
		"Less": {reason: "The limit is less than the maximum.",
			most: amounts("2Gi"), resources: v1.Resources{Limits: amounts("1Gi")},
			limit: "1Gi"},
		"Equal": {reason: "The limit is equal to the maximum.", most: amounts("2Gi"),
			resources: v1.Resources{Limits: amounts("2048Mi")}, limit: "2Gi"},
		"More": {reason: "The limit exceeds the maximum.",
			most: amounts("2Gi"), resources: v1.Resources{Limits: amounts("3Gi")},
			limit: "3Gi", errs: 1},
		"Unsaid": {reason: "A claim without a limit must get the maximum as its limit.", most: amounts("2Gi"), limit: "2Gi"},
		"Request": {reason: "A claim with only a request must get the maximum as its limit.", most: amounts("2Gi"),
			resources: v1.Resources{Requests: amounts("1Gi")}, limit: "2Gi"},
		"TooGreat": {reason: "The request exceeds the limit that the claim gets.", most: amounts("2Gi"),
			resources: v1.Resources{Requests: amounts("3Gi")}, limit: "2Gi", errs: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			given, errs := resolveResources(&tc.resources, usualResources(), field.NewPath("resources"))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			most, err := maxResources(tc.most)
			got, errs := limitResources(given, most, field.NewPath("resources"))
			if err != nil || len(errs) != tc.errs || got.Limits.Memory().String() != tc.limit {
				t.Errorf("%s Got %s, %v, %v", tc.reason, got.Limits.Memory(), errs, err)
			}
		})
	}
	if _, err := maxResources(amounts("1e-9999999")); err == nil {
		t.Error("want an amount out of all proportion refused")
	}
}
