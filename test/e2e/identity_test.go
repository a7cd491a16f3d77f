package e2e

import (
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestCopyIsAnotherServer restricts root to another host. The claim must report that root cannot log in, but the next
// instance must become Ready. That instance and a clone (restore.from) have their own server UUIDs and IDs, so that
// replication can distinguish them. All of them have GTIDs.
func TestCopyIsAnotherServer(t *testing.T) {
	framework.Repeats(t, "TestRealRootElsewhere, TestRealGTIDs and TestRestoreLeavesServerUUID have each part")
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	const ask = "SELECT @@server_uuid, @@server_id, @@gtid_mode, @@enforce_gtid_consistency"
	original := s.Client().MustQuery(t, ask)

	s.Client().MustQuery(t, "RENAME USER root@'%' TO root@'10.99.0.%'")
	s.Set(t, map[string]any{"password": "after the rename"})
	hasCredentials(t, s, "Failed", "CREATE USER root@'%'")
	s.Says(t, "the account root@'%' was renamed or removed")
	s.Delete(t)
	s.Backups().AreVerified(t, 1)

	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	s.BecomesReady(t)
	restored := s.Client().MustQuery(t, ask)

	another := s.Neighbour(t, "another")
	another.Spec["restore"] = map[string]any{"from": s.Name}
	another.Spec["deletionPolicy"] = "Discard"
	another.Create(t)
	if got := another.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}

	identities := []string{original, restored, another.Client().MustQuery(t, ask)}
	seen := map[string]bool{}
	for _, identity := range identities {
		f := strings.Fields(identity)
		if len(f) != 4 || f[1] == "1" || f[2] != "ON" || f[3] != "ON" || seen[f[0]] || seen[f[1]] {
			t.Errorf("want servers that are told apart, and have GTIDs, got %q", identities)
			break
		}
		seen[f[0]], seen[f[1]] = true, true
	}
	if got := strings.TrimSpace(another.Client().
		MustQuery(t, "SELECT COUNT(*) FROM mysql.user WHERE User = 'root' AND Host = '10.99.0.%'")); got != "1" {
		t.Errorf("want the account that was renamed to stay as it is, there are %s", got)
	}
}
