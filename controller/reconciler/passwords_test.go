package reconciler

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
