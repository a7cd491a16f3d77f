package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestChoiceIsUsedOnce checks that a claim that names an older backup restores it only once. Although the claim is
// unchanged, the next instance uses the newest data, until a user sets the field again.
func TestChoiceIsUsedOnce(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestDecide has each life")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	first := s.Backups().Only(t).GetName()

	s.Spec["restore"] = map[string]any{"backup": first}
	s.Create(t)
	s.Client().FirstAnswer(t, framework.Rows)
	s.Client().MustQuery(t, "INSERT INTO test (id, name) VALUES (1000, 'later')")
	later := s.Client().MustQuery(t, framework.Rows)
	xr, err := s.XR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := framework.Suite.Kube.Delete(t.Context(), xr); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "another XR of the claim", func(ctx context.Context) error {
		now, err := s.XR(ctx)
		if err == nil && now.GetUID() == xr.GetUID() {
			err = errors.New("it is the one that was deleted")
		}
		return err
	})
	if got := s.Client().FirstAnswer(t, framework.Rows); got != later {
		t.Errorf("want the rows of the life that the choice was made for\n%s\ngot\n%s", later, got)
	}

	s.Delete(t)
	s.Backups().AreVerified(t, 3)
	s.Spec["restore"] = map[string]any{"backup": first, "insteadOf": s.Backups().Newest(t).GetName()}
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want the rows of the backup that is named again\n%s\ngot\n%s", before, got)
	}
}

// TestRivals checks a claim that has backups of two instances which existed at the same time. The controller must not
// simply restore the latest backup, because both could be the right one. It must wait for manual action.
func TestRivals(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestDecide has rivals, and the model never starts from the wrong one")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	s.Delete(t)
	first := s.Backups().Only(t)
	s.Create(t)
	s.Client().FirstAnswer(t, framework.Rows)
	s.Client().MustQuery(t, "INSERT INTO test (id, name) VALUES (1000, 'later')")
	s.Delete(t)
	s.Backups().AreVerified(t, 2)
	rival := s.Backups().Newest(t)
	number, _, _ := unstructured.NestedInt64(first.Object, "spec", "number")
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"number":%d}}`, number))
	if err := framework.Suite.Kube.Patch(t.Context(), rival, patch); err != nil {
		t.Fatal(err)
	}

	s.Create(t)
	s.Says(t, fmt.Sprintf("Backups %q and %q are from two instances with this name", rival.GetName(), first.GetName()))
	s.Set(t, map[string]any{"restore": map[string]any{"backup": first.GetName()}})
	if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want the rows of the one that was chosen\n%s\ngot\n%s", before, got)
	}
}
