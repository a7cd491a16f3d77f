package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/admission"
)

func TestPolicyCheck(t *testing.T) {
	p, err := admission.Read(t.Context(), "../../deploy/controller/admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	forbidden := func(reason string) error {
		return kerrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, policyProbe, errors.New(reason))
	}
	cases := map[string]struct {
		reason string
		answer func(client.Object) error
		want   string
	}{
		"InForce": {reason: "Those of the installation are of this version.", answer: func(o client.Object) error {
			return p.Refusal(t.Context(), admission.Write{New: o})
		}},
		"None": {reason: "The token may do what it may.", answer: func(client.Object) error { return nil },
			want: "no policy refused"},
		"Older": {reason: "They may refuse what is needed.", answer: func(client.Object) error {
			return forbidden("policies of version 1.")
		}, want: fmt.Sprintf("requires version %d", policyVersion)},
		"Newer": {reason: "Version 4 is not version 40.", answer: func(client.Object) error {
			return forbidden("policies of version 40.")
		}, want: fmt.Sprintf("requires version %d", policyVersion)},
		"Down": {reason: "Nobody knows.", answer: func(client.Object) error { return errors.New("connection refused") },
			want: "connection refused"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kube := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) != 1 {
						t.Error("the probe is kept")
					}
					return tc.answer(o)
				},
			})
			got := policyCheck{kube: kube, namespace: "system"}.trouble(t.Context())
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("\n%s\nwant %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}
