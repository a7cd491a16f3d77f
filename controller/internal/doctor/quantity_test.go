package doctor

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestLookAtEndlessNumbers checks that an instance with huge quantities does not prevent the doctor from checking
// others.
func TestLookAtEndlessNumbers(t *testing.T) {
	const endless = "1e-999999999999"
	bad := xrObject()
	bad.SetName("endless")
	bad.SetUID("uid-endless")
	for _, path := range [][]string{{"storage_size"}, {"resources", "limits", "memory"},
		{"resources", "requests", "cpu"}} {
		if err := unstructured.SetNestedField(bad.Object, endless, append([]string{"spec"}, path...)...); err != nil {
			t.Fatal(err)
		}
	}
	reader := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(append(objects(), bad)...).Build()
	c, err := Look(t.Context(), reader, systemNamespace, now)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(c)[v1.KindXMySQL]; len(got) != 2 {
		t.Errorf("want both XRs, got %q", got)
	}
	if report := Examine(c); len(report.Instances) != 1 {
		t.Errorf("want one instance, got %d", len(report.Instances))
	}
}
