package secrets

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestMeta checks that an XR owns the Secrets of its instance, so that Kubernetes deletes them with the XR. An XR in
// a namespace must not own a Secret in another namespace. The garbage collector would search for the owner in the
// Secret's namespace, not find it, and delete the Secret at once.
func TestMeta(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "a/v1", Kind: "K", Name: "x", UID: "uid", Controller: new(true),
		BlockOwnerDeletion: new(true)}
	owned := []metav1.OwnerReference{{APIVersion: "a/v1", Kind: "K", Name: "x", UID: "uid"}}
	claim := v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "db", XR: "uid"}
	own := v1.Instance{Kind: "MySQL.crossplane-mysql.io", Namespace: "default", Name: "db", XR: "uid"}
	for name, tc := range map[string]struct {
		instance  v1.Instance
		namespace string
		want      []metav1.OwnerReference
	}{
		"Claim":            {claim, "default", owned},
		"ClaimInSystem":    {claim, "system", owned},
		"Namespaced":       {own, "default", owned},
		"NamespacedSystem": {own, "system", nil},
	} {
		got := Meta(tc.instance, owner, tc.namespace, "s")
		want := metav1.ObjectMeta{Namespace: tc.namespace, Name: "s", Labels: tc.instance.Labels(), OwnerReferences: tc.want}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", name, diff)
		}
		if owner.Controller == nil {
			t.Error("Meta changed the reference of its caller")
		}
	}
}
