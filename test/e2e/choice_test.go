package e2e

import (
	"context"
	"errors"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestChoiceIsUsedOnce: a claim that names an older backup goes back to it once. The life after that one goes on from where it
// was, although the claim says what it said, until somebody says it again.
func TestChoiceIsUsedOnce(t *testing.T) {
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	s.Delete(t)
	s.Backups().AreProven(t, 1)
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
	s.Backups().AreProven(t, 3)
	s.Spec["restore"] = map[string]any{"backup": first, "insteadOf": s.Backups().Newest(t).GetName()}
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want the rows of the backup that is named again\n%s\ngot\n%s", before, got)
	}
}
