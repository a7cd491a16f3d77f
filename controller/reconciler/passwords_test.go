package reconciler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// TestShowCredentials: a message that repeats what a webhook said prints, and is written once.
func TestShowCredentials(t *testing.T) {
	s := &instance.State{XR: &instance.Composite{Unstructured: &unstructured.Unstructured{Object: map[string]any{}}}}
	now := v1.CredentialsStatus{State: v1.CredentialsFailed, Message: "cannot create Secret: denied:\n\x1b[2Jno"}
	const want = "cannot create Secret: denied: [2Jno"
	changes := showCredentials(s, now)
	if len(changes) != 1 {
		t.Fatalf("want one change, got %d", len(changes))
	}
	if got, _ := changes[0].Fields["credentials"].(map[string]any); got["message"] != want {
		t.Errorf("want %q, got %v", want, got)
	}
	s.XR.Status.Credentials = &v1.CredentialsStatus{State: v1.CredentialsFailed, Message: want}
	if again := showCredentials(s, now); len(again) != 0 {
		t.Errorf("want nothing to say again, got %v", again)
	}
}

// TestPublishedPassword is that of the Secret which the claim asks Crossplane for, and nothing while there is none.
func TestPublishedPassword(t *testing.T) {
	there := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "for-clients"}, Data: map[string][]byte{v1.PasswordKey: []byte("a")}}
	c := &passwordReconciler{reader: fake.NewClientBuilder().WithObjects(there).Build()}
	for name, tc := range map[string]struct {
		spec     map[string]any
		in, want string
	}{
		"Published": {map[string]any{"writeConnectionSecretToRef": map[string]any{"name": "for-clients"}}, "for-clients", "a"},
		"NotYet":    {map[string]any{"writeConnectionSecretToRef": map[string]any{"name": "other"}}, "other", ""},
		"Nowhere":   {map[string]any{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &instance.Composite{Unstructured: &unstructured.Unstructured{Object: map[string]any{"spec": tc.spec}}}
			in, got, err := c.publishedPassword(t.Context(), &instance.State{Life: v1.Instance{Namespace: "default"}, Claim: claim})
			if in != tc.in || string(got) != tc.want || err != nil {
				t.Errorf("want %q in %q, got %q in %q, %v", tc.want, tc.in, got, in, err)
			}
		})
	}
}
