package compose

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestNotAllowed: what the platform allows no more is kept where it is, and refused where it is not.
func TestNotAllowed(t *testing.T) {
	const key = "example.org/key"
	forbids := platform(func(s *v1.MySQLPlatformSpec) {
		s.AllowedImages, s.AllowedServiceTypes, s.AllowedServiceAnnotations = &[]string{"mariadb:"}, []v1.ServiceType{v1.ServiceHeadless}, &[]string{}
	})
	allows := platform(func(s *v1.MySQLPlatformSpec) {
		s.AllowedImages, s.AllowedServiceTypes, s.AllowedServiceAnnotations = &[]string{"mysql:"}, []v1.ServiceType{v1.ServiceNodePort}, &[]string{"example.org/"}
	})
	asks := func(in *Input) {
		in.XR.Spec.Image = new("mysql:8.4")
		in.XR.Spec.Service = v1.ServiceSpec{Type: v1.ServiceNodePort, Annotations: map[string]string{key: "x"}}
	}
	runs := func(in *Input) {
		asks(in)
		in.XR.Status.Started, in.XR.Status.Image = true, "mysql:8.4"
		in.Observed.Service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: "x"}}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort}}
	}
	cases := map[string]struct {
		reason  string
		in      Input
		refused bool
		warned  bool
	}{
		"Allowed":         {reason: "All of it is on the lists.", in: given(asks, allows)},
		"New":             {reason: "Nothing of it is.", in: given(asks, forbids), refused: true},
		"Runs":            {reason: "It goes on with what it has.", in: given(runs, forbids), warned: true},
		"RunsAllowed":     {reason: "There is nothing to say.", in: given(runs, allows)},
		"OtherImage":      {reason: "Another image is a new wish.", in: given(runs, forbids, func(in *Input) { in.XR.Spec.Image = new("mysql:8.4.6") }), refused: true},
		"OtherType":       {reason: "So is another type.", in: given(runs, forbids, func(in *Input) { in.XR.Spec.Service.Type = v1.ServiceLoadBalancer }), refused: true},
		"OtherAnnotation": {reason: "And another value.", in: given(runs, forbids, func(in *Input) { in.XR.Spec.Service.Annotations[key] = "y" }), refused: true},
		"ServiceLost":     {reason: "It would be made anew.", in: given(runs, forbids, func(in *Input) { in.Observed.Service = nil }), refused: true},
		"AllowedAgain": {reason: "It asks for what is allowed.", in: given(runs, forbids, func(in *Input) {
			in.XR.Spec.Image, in.XR.Spec.Service = new("mariadb:11"), v1.ServiceSpec{Type: v1.ServiceHeadless}
		})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := resolve(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			kept, err := checkAllowed(r)
			if refusal := (*Refusal)(nil); (err != nil) != tc.refused || err != nil && (!errors.As(err, &refusal) || refusal.Reason != v1.ReasonNotAllowed) {
				t.Errorf("%s Refused: %v", tc.reason, err)
			}
			if !tc.refused && (kept != nil) != tc.warned {
				t.Errorf("%s Kept: %v", tc.reason, kept)
			}
			_, composed := Compose(tc.in)
			if tc.refused && composed == nil {
				t.Errorf("%s It is composed all the same", tc.reason)
			}
		})
	}
}

// TestPlatformMissing: nothing is made before it is known, and nothing is changed where there is none.
func TestPlatformMissing(t *testing.T) {
	unknown := given(func(in *Input) { in.Required.Platform = Required[v1.MySQLPlatform]{} })
	out, err := Compose(unknown)
	if err != nil || len(out.Resources) > 0 || out.Requirements[RequiredPlatform].Name != v1.PlatformName {
		t.Errorf("unknown: %d resources, %v, %v", len(out.Resources), out.Requirements, err)
	}
	missing := given(func(in *Input) { in.Required.Platform.Items = nil })
	out, err = Compose(missing)
	if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || refusal.Reason != v1.ReasonNoPlatform || len(out.Requirements) == 0 {
		t.Errorf("missing: %v, %v", out.Requirements, err)
	}
}
