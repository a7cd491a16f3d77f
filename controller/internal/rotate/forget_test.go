package rotate

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestForgetInstance checks that only the data about deleted instances is removed.
func TestForgetInstance(t *testing.T) {
	instanceID := func(name string, xr types.UID) v1.Instance {
		return v1.Instance{Kind: v1.KindMySQL, Namespace: "team", Name: name, XR: xr}
	}
	r := &Rotator{}
	for _, l := range []v1.Instance{instanceID("shop", "1"), instanceID("shop", "2"), instanceID("crm", "3")} {
		r.rested.Store(l, "a")
		r.published.Store(l, publication{})
	}
	left := func() (n int) {
		r.rested.Range(func(any, any) bool { n++; return true })
		r.published.Range(func(any, any) bool { n++; return true })
		return n
	}
	r.ForgetInstance(instanceID("shop", ""), []types.UID{"2"})
	if _, ok := r.rested.Load(instanceID("shop", "2")); !ok || left() != 4 {
		t.Errorf("the life that goes on is forgotten, or the other one is not: %d are left", left())
	}
	r.ForgetInstance(instanceID("shop", ""), nil)
	if _, ok := r.published.Load(instanceID("crm", "3")); !ok || left() != 2 {
		t.Errorf("%d are left", left())
	}
}
