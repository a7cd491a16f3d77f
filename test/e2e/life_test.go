package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// keep is the default number of verified backups that are retained for a claim.
const keep = 3

// skipBackup is the annotation that allows the deletion of one instance without a backup.
const skipBackup = "crossplane-mysql.io/skip-backup"

// TestFiveInstances deletes and recreates a claim five times, each time with more rows. Old backups must be pruned, but
// only after there are enough newer ones.
func TestFiveInstances(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "the model removes none too early, and TestNextOfArchives has the Job that removes one")
	s := framework.NewServer(t, framework.ClassComposition)
	h := startHistory(t, s)
	s.Create(t)
	s.Client().SeesVersion(t)
	s.Client().TypeSession(t)
	var names []string
	for instanceID := 1; instanceID <= 5; instanceID++ {
		s.Client().MustQuery(t, fmt.Sprintf(
			"INSERT INTO test (name) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT "+
				"'life %d' FROM n", instanceID))
		before := s.Client().MustQuery(t, framework.Rows)
		s.Delete(t)
		s.Backups().AreVerified(t, min(instanceID, keep))
		names = append(names, newestBackup(t, s, names))
		s.Create(t)
		if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
			t.Fatalf("life %d: want %d rows, got %d:\n%s", instanceID, strings.Count(before, "\n"), strings.Count(got, "\n"),
				cmp.Diff(before, got))
		}
	}
	neverTooFew(t, h.end(t))
	s.Backups().HaveArchives(t, names[len(names)-keep:])
}

// newestBackup returns the name of the backup that was created since the names in known were listed.
func newestBackup(t *testing.T, s *framework.Server, known []string) string {
	t.Helper()
	records, err := s.Backups().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if !slices.Contains(known, r.GetName()) {
			return r.GetName()
		}
	}
	t.Fatal("there is no new backup")
	return ""
}

// neverTooFew checks that no backup was pruned before a fourth one was verified, and that there were always at least
// three verified backups after that.
func neverTooFew(t *testing.T, moments []moment) {
	t.Helper()
	verified := map[string]bool{}
	enough, pruned := false, 0
	for _, m := range moments {
		name := m.object.GetName()
		switch kind := m.object.GetKind(); {
		case kind == "BackupRecord":
			phase, _, _ := unstructured.NestedString(m.object.Object, "status", "phase")
			delete(verified, name)
			if phase == framework.PhaseVerified && m.change != watch.Deleted {
				verified[name] = true
			}
		case m.change == watch.Added && strings.HasPrefix(name, "prune-"):
			pruned++
			if len(verified) <= keep {
				t.Errorf("at %d: backups are removed when only %d are proven", m.revision, len(verified))
			}
		}
		enough = enough || len(verified) >= keep
		if enough && len(verified) < keep {
			t.Errorf("at %d: only %d backups are proven", m.revision, len(verified))
		}
	}
	if pruned != 2 {
		t.Errorf("want older backups removed twice, it was %d times", pruned)
	}
}

// TestNamesakesAreApart uses two claims with different names in one namespace, and a third one in another namespace
// with the name of the first. All of them are deleted and recreated at the same time.
func TestNamesakesAreApart(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "the servers of the matrix are namesakes, and neighbours of all others")
	one := framework.NewServer(t, framework.ClassComposition)
	all := map[string]*framework.Server{"one": one, "neighbour": one.Neighbour(t, "another"),
		"namesake": framework.NewServer(t, framework.ClassComposition)}
	for _, s := range all {
		s.Create(t)
	}
	for subject, s := range all {
		s.Client().SeesVersion(t)
		s.Client().MustQuery(t, fmt.Sprintf("CREATE TABLE mine (who VARCHAR(20)); INSERT INTO mine VALUES ('%s')", subject))
	}
	for _, s := range all {
		s.StartDelete(t)
	}
	for _, s := range all {
		s.Gone(t)
		s.Backups().AreVerified(t, 1)
		leavesNothing(t, s)
	}
	for _, s := range all {
		s.Create(t)
	}
	for subject, s := range all {
		if got := s.Client().FirstAnswer(t, "SELECT who FROM mine"); got != subject+"\n" {
			t.Errorf("want the rows of %s, got %q", subject, got)
		}
	}
}

// TestDiscard checks that no backup is taken with deletionPolicy Discard, and that no data is restored later.
func TestDiscard(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "all tests clean up so")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Create(t)
	s.Client().SeesVersion(t)
	s.Client().TypeSession(t)
	s.Set(t, map[string]any{"deletionPolicy": discard})
	s.Delete(t)
	s.Backups().AreVerified(t, 0)
	leavesNothing(t, s)
	startsEmpty(t, s)
}

// TestSkippedBackup checks that the skip-backup annotation applies only to the instance whose UID it contains. The
// next instance must restore the newest existing backup.
func TestSkippedBackup(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "all tests clean up without a backup, and TestNext has whose annotation counts")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	s.Annotate(t, skipBackup, string(s.Claim.GetUID())) // This is the claim's UID instead of the composite resource's.
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want every row, got %q", got)
	}
	s.Client().MustQuery(t, "INSERT INTO test (name) VALUES ('not wanted')")
	s.Annotate(t, skipBackup, compositeUID(t, s))
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	leavesNothing(t, s)
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want the rows of the backup, got %q", got)
	}
}

// compositeUID returns the UID of the composite resource, which identifies the instance.
func compositeUID(t *testing.T, s *framework.Server) string {
	t.Helper()
	claim := s.Claim.DeepCopy()
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	name, _, _ := unstructured.NestedString(claim.Object, "spec", "resourceRef", "name")
	xr := framework.NewObject("otus.homework/v1", "XMySQL", "", name)
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(xr), xr); err != nil {
		t.Fatal(err)
	}
	return string(xr.GetUID())
}
