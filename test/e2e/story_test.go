package e2e

import (
	"fmt"
	"testing"
)

// rows of the table that the session makes.
const rows = "SELECT id, name FROM test ORDER BY id"

// TestStory is what the product is for: the session that the original operators' users typed, on both Compositions.
func TestStory(t *testing.T) {
	t.Parallel()
	repeats(t, "TestDemo types that session, and TestEverythingComesBack sees it on both Compositions")
	onBoth(t, story)
}

func story(t *testing.T, composition string) {
	t.Helper()
	s := newServer(t, composition)
	before := s.begin(t)
	for round := 1; round <= 2; round++ {
		s.delete(t)
		s.proven(t, round)
		s.create(t)
		if got := s.firstAnswer(t, rows); got != before {
			t.Fatalf("round %d: want every row\n%s\ngot\n%s", round, before, got)
		}
		s.mustQuery(t, fmt.Sprintf("INSERT INTO test (name) VALUES ('round %d')", round))
		before = s.mustQuery(t, rows)
	}
	s.changePassword(t, `n3w "pass\'word`)
}
