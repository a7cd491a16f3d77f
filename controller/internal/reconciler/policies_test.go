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
		"InForce": {reason: "The policies of this repository must have the required version.", answer: func(o client.Object) error {
			return p.Refusal(t.Context(), admission.Write{New: o})
		}},
		"None": {reason: "No policy refused the test write, so no policies are in force.", answer: func(client.Object) error { return nil },
			want: "no policy refused"},
		"Older": {reason: "Policies of an older version may refuse writes that the controller needs.", answer: func(client.Object) error {
			return forbidden("policies of version 1.")
		}, want: fmt.Sprintf("requires version %d", policyVersion)},
		"Newer": {reason: "Policies of a newer version may refuse writes that this controller makes.",
			answer: func(client.Object) error {
				return forbidden("policies of version 40.")
			}, want: fmt.Sprintf("requires version %d", policyVersion)},
		"Down": {reason: "The API server does not respond, so it is unknown whether the policies are in force.",
			answer: func(client.Object) error { return errors.New("connection refused") },
			want:   "connection refused"},
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
