package stores

import (
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestJudgeCandidates checks that each namespace must be assigned. If a namespace exists in this cluster, its backups
// cannot be assigned to another one.
func TestJudgeCandidates(t *testing.T) {
	namespace := func(name string, uid types.UID) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	}
	dying := namespace("shop", "new")
	dying.DeletionTimestamp = &metav1.Time{Time: now}
	origin := v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "team", NamespaceUID: "ns", Name: "db", XR: "xr"}
	becomes := func(name string, uid types.UID) v1.BackedUpInstance {
		i := origin
		i.Namespace, i.NamespaceUID = name, uid
		return i
	}
	earlier := newEntry("one", "x.tar.zst")
	earlier.From = &v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "first", NamespaceUID: "ns-0", Name: "db", XR: "xr"}
	for name, tc := range map[string]struct {
		reason      string
		given       Candidate
		facts       Facts
		verdict     v1.AdoptionVerdict
		explanation string
		want        v1.BackedUpInstance
		from        *v1.BackedUpInstance
	}{
		"Adopted": {facts: Facts{To: "shop", Target: namespace("shop", "new")}, verdict: v1.Adopted,
			want: becomes("shop", "new"), from: &origin},
		"SameName": {
			reason:  "On this cluster, the namespace with the same name has another UID.",
			facts:   Facts{To: "team", Target: namespace("team", "new"), Home: namespace("team", "new")},
			verdict: v1.Adopted, want: becomes("team", "new"), from: &origin,
		},
		"Again": {
			reason: "A second import must find the archive below the prefix of the first instance.", given: Candidate{Entry: earlier},
			facts:   Facts{To: "shop", Target: namespace("shop", "new")},
			verdict: v1.Adopted, want: becomes("shop", "new"), from: earlier.From,
		},
		"Own": {
			reason:  "Only the BackupRecord was lost, so the backup keeps its instance.",
			facts:   Facts{To: "team", Target: namespace("team", "ns"), Home: namespace("team", "ns")},
			verdict: v1.Adopted, want: origin,
		},
		"Anothers": {
			reason:  "An archive must belong to one namespace only.",
			facts:   Facts{To: "shop", Target: namespace("shop", "new"), Home: namespace("team", "ns")},
			verdict: v1.AdoptionRefused, explanation: "the backups already belong to it",
		},
		"Stranger": {
			reason:  "The backup numbers of two instances do not show which rows are newer.",
			facts:   Facts{To: "shop", Target: namespace("shop", "new"), Stranger: `backup "other"`},
			verdict: v1.AdoptionRefused, explanation: `backup "other" in namespace shop belongs to another instance with the name db`,
		},
		"Unknown": {
			reason:  "The unreadable backup may belong to the same instance.",
			facts:   Facts{To: "shop", Target: namespace("shop", "new"), Unknown: "the store is down"},
			verdict: v1.AdoptionRefused, explanation: "the store is down: try again",
		},
		"StrangerHome": {
			reason:  "The running instance began with the backups of its own namespace.",
			facts:   Facts{To: "team", Target: namespace("team", "ns"), Home: namespace("team", "ns"), Stranger: "MySQL db"},
			verdict: v1.Adopted, want: origin,
		},
		"Unnamed":  {facts: Facts{}, verdict: v1.AdoptionUnnamed},
		"NoTarget": {facts: Facts{To: "shop"}, verdict: v1.AdoptionRefused, explanation: "create it first"},
		"Dying":    {facts: Facts{To: "shop", Target: dying}, verdict: v1.AdoptionRefused, explanation: "create it first"},
		"Known": {facts: Facts{To: "shop", Target: namespace("shop", "new"),
			Record: &v1.BackupRecord{Spec: v1.BackupRecordSpec{
				Instance: becomes("crm", "x")}}}, verdict: v1.AdoptedBefore, explanation: "in namespace crm"},
		"Unbelieved": {given: Candidate{Problem: "no\x1b seal"}, facts: Facts{}, verdict: v1.AdoptionRefused,
			explanation: "no"},
	} {
		t.Run(name, func(t *testing.T) {
			c := tc.given
			if c.Problem == "" && c.Entry == nil {
				c.Entry = newEntry("one", "x.tar.zst")
			}
			c.Found = Found{NamespaceUID: "ns", XR: "xr", Record: "one"}
			if c.Problem != "" {
				c.Record = "one\x1b"
			}
			adopted, n := c.Judge(tc.facts)
			if adopted.Verdict != tc.verdict || !strings.Contains(adopted.Why, tc.explanation) ||
				strings.Contains(adopted.Why, "\x1b") || strings.Contains(adopted.Name, "\x1b") ||
				!strings.HasPrefix(adopted.Name, "one") {
				t.Errorf("%s: want %s, %q, got %+v", tc.reason, tc.verdict, tc.explanation, adopted)
			}
			if (n != nil) != (tc.verdict == v1.Adopted) {
				t.Fatalf("%s: got %+v", tc.reason, n)
			}
			if n == nil {
				return
			}
			if diff := cmp.Diff(tc.want, n.Spec.Instance); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.from, n.From); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if c.Entry.Spec.Instance != origin {
				t.Error("it has changed what was read")
			}
			if tc.from != nil && tc.from != earlier.From && path.Dir(n.Spec.Archive.Path) != n.ArchivePrefix() {
				t.Errorf("%s: its archive is looked for in %q", tc.reason, n.ArchivePrefix())
			}
		})
	}
}

// TestResident checks the three ways to recognize an instance: by its UIDs, by the backup that it was restored from,
// and by the original names of an imported backup.
func TestResident(t *testing.T) {
	n := newEntry("one", "x.tar.zst")
	n.From = &v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "first", NamespaceUID: "ns-0", Name: "db", XR: "xr"}
	c := Candidate{Found: Found{NamespaceUID: "ns", XR: "xr", Record: "one"}, Entry: n}
	lineages := Lineages([]Candidate{c, {Found: Found{Record: "damaged"}, Problem: "no seal"}})
	for name, tc := range map[string]struct {
		given Resident
		want  bool
	}{
		"Life":     {Resident{Instance: "xr"}, true},
		"Other":    {Resident{Instance: "other"}, false},
		"Restored": {Resident{Instance: "other", From: "one"}, true},
		"Damaged":  {Resident{Instance: "other", From: "damaged"}, false},
		"Adopted": {Resident{Instance: "other",
			Of: &v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "first", NamespaceUID: "ns-9", Name: "db", XR: "y"}}, true},
		"Merged": {Resident{Instance: "other", Of: &v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "second", Name: "db"}},
			false},
	} {
		if got := tc.given.IsOf(c.Origin(), lineages[c.Origin()]); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
