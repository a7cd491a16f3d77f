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
)

// keep is how many proven backups are kept where the claim does not say.
const keep = 3

// skipBackup is the annotation that lets one life go without a backup.
const skipBackup = "otus.homework/skip-backup"

// TestFiveLives deletes and creates again and again, with more rows each time. Old backups go, but never before there
// are newer ones enough.
func TestFiveLives(t *testing.T) {
	t.Parallel()
	repeats(t, "the model removes none too early, and TestRecordDeletedWithItsArchive has a Job that removes one")
	s := newServer(t, classComposition)
	h := s.startHistory(t)
	s.create(t)
	s.version(t)
	s.session(t)
	var names []string
	for life := 1; life <= 5; life++ {
		s.mustQuery(t, fmt.Sprintf("INSERT INTO test (name) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT 'life %d' FROM n", life))
		before := s.mustQuery(t, rows)
		s.delete(t)
		s.proven(t, min(life, keep))
		names = append(names, s.newest(t, names))
		s.create(t)
		if got := s.firstAnswer(t, rows); got != before {
			t.Fatalf("life %d: want %d rows, got %d:\n%s", life, strings.Count(before, "\n"), strings.Count(got, "\n"), cmp.Diff(before, got))
		}
	}
	neverTooFew(t, h.end(t))
	s.archives(t, names[len(names)-keep:])
}

// newest backup: the one that is not known yet.
func (s *server) newest(t *testing.T, known []string) string {
	t.Helper()
	records, err := s.records(t.Context())
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

// neverTooFew sees that from the third proven backup on there were always three, and that none was removed before a
// fourth was proven.
func neverTooFew(t *testing.T, moments []moment) {
	t.Helper()
	proven := map[string]bool{}
	enough, pruned := false, 0
	for _, m := range moments {
		name := m.object.GetName()
		switch kind := m.object.GetKind(); {
		case kind == "MySQLBackup":
			phase, _, _ := unstructured.NestedString(m.object.Object, "status", "phase")
			delete(proven, name)
			if phase == phaseProven && m.change != watch.Deleted {
				proven[name] = true
			}
		case m.change == watch.Added && strings.HasPrefix(name, "prune-"):
			pruned++
			if len(proven) <= keep {
				t.Errorf("at %d: backups are removed when only %d are proven", m.at, len(proven))
			}
		}
		enough = enough || len(proven) >= keep
		if enough && len(proven) < keep {
			t.Errorf("at %d: only %d backups are proven", m.at, len(proven))
		}
	}
	if pruned != 2 {
		t.Errorf("want older backups removed twice, it was %d times", pruned)
	}
}

// archives of these backups are on the backups' volume, and no others.
func (s *server) archives(t *testing.T, want []string) {
	t.Helper()
	pod(t, s.namespace, "archives", s.backupPVC())
	out, err := in(t.Context(), s.namespace, "archives", "", "ls", "/data")
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(strings.Fields(out), func(name string) bool { return name == "lost+found" })
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the archives are not those of the backups (-want, +got):\n%s", diff)
	}
}

// TestNamesakesAreApart has one claim beside one of another name, and a third of the first one's name in another
// namespace. All go and come back at the same time.
func TestNamesakesAreApart(t *testing.T) {
	t.Parallel()
	repeats(t, "the servers of the matrix are namesakes, and neighbours of all others")
	one := newServer(t, classComposition)
	all := map[string]*server{"one": one, "neighbour": one.neighbour(t, "another"), "namesake": newServer(t, classComposition)}
	for _, s := range all {
		s.create(t)
	}
	for who, s := range all {
		s.version(t)
		s.mustQuery(t, fmt.Sprintf("CREATE TABLE mine (who VARCHAR(20)); INSERT INTO mine VALUES ('%s')", who))
	}
	for _, s := range all {
		s.startDelete(t)
	}
	for _, s := range all {
		s.gone(t)
		s.proven(t, 1)
		s.nothingLeft(t)
	}
	for _, s := range all {
		s.create(t)
	}
	for who, s := range all {
		if got := s.firstAnswer(t, "SELECT who FROM mine"); got != who+"\n" {
			t.Errorf("want the rows of %s, got %q", who, got)
		}
	}
}

// TestDiscard takes no backup, and nothing of it comes back.
func TestDiscard(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	s.create(t)
	s.version(t)
	s.session(t)
	s.set(t, map[string]any{"deletionPolicy": "Discard"})
	s.delete(t)
	s.proven(t, 0)
	s.nothingLeft(t)
	s.startsEmpty(t)
}

// TestSkippedBackup has an annotation that counts for the very life that it names, and for no other: what the next one
// starts from is the newest backup there is.
func TestSkippedBackup(t *testing.T) {
	t.Parallel()
	repeats(t, "TestDiscard goes without a backup, and TestNext has whose annotation counts")
	s := newServer(t, classComposition)
	before := s.begin(t)
	s.annotate(t, skipBackup, string(s.claim.GetUID())) // The claim's UID is not its composite's.
	s.delete(t)
	s.proven(t, 1)
	s.create(t)
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row, got %q", got)
	}
	s.mustQuery(t, "INSERT INTO test (name) VALUES ('not wanted')")
	s.annotate(t, skipBackup, s.compositeUID(t))
	s.delete(t)
	s.proven(t, 1)
	s.nothingLeft(t)
	s.create(t)
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want the rows of the backup, got %q", got)
	}
}

func (s *server) annotate(t *testing.T, key, value string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	if err := suite.kube.Patch(t.Context(), s.claim.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
}

// compositeUID is the life's.
func (s *server) compositeUID(t *testing.T) string {
	t.Helper()
	claim := s.claim.DeepCopy()
	if err := suite.kube.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	name, _, _ := unstructured.NestedString(claim.Object, "spec", "resourceRef", "name")
	xr := object("otus.homework/v1", "XMySQL", "", name)
	if err := suite.kube.Get(t.Context(), client.ObjectKeyFromObject(xr), xr); err != nil {
		t.Fatal(err)
	}
	return string(xr.GetUID())
}
