package lifecycle

import (
	"testing"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// TestChoiceIsKept: the record says what its instance began with, also where the XR is gone and
// the volume alone knows it.
func TestChoiceIsKept(t *testing.T) {
	s := running()
	s.XR.Status.Choice = "older"
	if got := newRecord(s).Spec.Choice; got != "older" {
		t.Errorf("want the choice of the XR in the record, got %q", got)
	}
	if isDataPVMarked(s) {
		t.Error("want the volume marked again: it does not know the choice")
	}
	kept := identityAnnotations(s)
	s.XR, s.Orphan = nil, &instance.Identity{Choice: kept[v1.AnnotationChoice]}
	if got := newRecord(s).Spec.Choice; got != "older" {
		t.Errorf("want the choice that the volume knows in the record, got %q", got)
	}
}
