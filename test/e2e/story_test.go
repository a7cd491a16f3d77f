package e2e

import (
	"fmt"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestStory checks the main use case of the product with both Compositions: a claim is deleted and created again, and
// its data is restored.
func TestStory(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestDemo types that session, and TestEverythingComesBack sees it on both Compositions")
	framework.OnBoth(t, story)
}

func story(t *testing.T, composition string) {
	t.Helper()
	s := framework.NewServer(t, composition)
	before := s.Begin(t)
	for round := 1; round <= 2; round++ {
		s.Delete(t)
		s.Backups().AreVerified(t, round)
		s.Create(t)
		if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
			t.Fatalf("round %d: want every row\n%s\ngot\n%s", round, before, got)
		}
		s.Client().MustQuery(t, fmt.Sprintf("INSERT INTO test (name) VALUES ('round %d')", round))
		before = s.Client().MustQuery(t, framework.Rows)
	}
	s.Client().ChangePassword(t, `n3w "pass\'word`)
}
