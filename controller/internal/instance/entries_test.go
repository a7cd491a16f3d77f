package instance

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// verifiedAt returns the BackupRecord of a verified backup. second is the second at which the backup started.
func verifiedAt(name string, second int64) *v1.BackupRecord {
	r := record(name, "db", second)
	r.UID, r.Spec.Instance.XR, r.Status.Phase = types.UID("uid-of-"+name), types.UID("xr-of-"+name), v1.BackupVerified
	r.Spec.Archive = &v1.Archive{Path: name}
	return r
}

// noting adds the catalog entries of the given BackupRecords to a volume.
func noting(v *corev1.PersistentVolume, records ...*v1.BackupRecord) *corev1.PersistentVolume {
	for _, r := range records {
		text, err := json.Marshal(r.Entry())
		if err != nil {
			panic(err)
		}
		v.Annotations[v1.AnnotationBackupPrefix+r.Name] = string(text)
	}
	return v
}

// TestGatherEntries checks that the catalog on a volume is used, even if the PVC of the volume is unknown.
func TestGatherEntries(t *testing.T) {
	type want struct {
		Previous, Missing string
		PodFailure        bool
	}
	usual := instanceID.BackupPVCName()
	here := func() *corev1.PersistentVolume { return backupsAt("pv-b", "ns", at("default", usual, "gone")) }
	a, b := verifiedAt("a", 1), verifiedAt("b", 2)
	other := verifiedAt("a", 1)
	other.Spec.Instance.Name = otherName
	repeated := verifiedAt("a", 9)
	repeated.Spec.AnnouncedAt = &metav1.Time{Time: time.Unix(1, 0)}
	annotated := func(v *corev1.PersistentVolume, key, value string) *corev1.PersistentVolume {
		v.Annotations[key] = value
		return v
	}
	unlabelled := noting(backupsAt("pv-b", "ns", at("default", usual, "pvc-uid")), a)
	unlabelled.Labels = nil
	bound := backupPVCOn("pv-b")
	bound.UID = "pvc-uid"
	cases := map[string]struct {
		reason   string
		existing []client.Object
		want     want
	}{
		"None": {reason: "There is no volume and no BackupRecord, so there is no previous backup.", want: want{Previous: v1.PreviousNone}},
		"Earlier": {reason: "A volume of an earlier release has no catalog, so the BackupRecords must be used.",
			existing: []client.Object{here(), a}, want: want{Previous: "a"}},
		"Known": {reason: "The catalog and the BackupRecord name the same backup.", existing: []client.Object{noting(here(), a), a},
			want: want{Previous: "a"}},
		"Gone": {reason: "The BackupRecord and the PVC are deleted, but the catalog shows that the backup exists.",
			existing: []client.Object{noting(here(), a)},
			want:     want{Previous: v1.PreviousHeld, Missing: "a", PodFailure: true}},
		"NewestGone": {reason: "The newest backup has no BackupRecord, and an older one must not replace it.",
			existing: []client.Object{noting(here(), a, b), a},
			want:     want{Previous: v1.PreviousHeld, Missing: "b", PodFailure: true}},
		"OlderGone": {reason: "The newest backup has a BackupRecord and is restored, so the older one is not needed.",
			existing: []client.Object{noting(here(), a, b), b},
			want:     want{Previous: "b"}},
		"NewerRecord": {reason: "The newer backup has a BackupRecord, but no catalog entry yet.",
			existing: []client.Object{noting(here(), a), b},
			want:     want{Previous: "b"}},
		"Again": {reason: "A BackupRecord that was created again must keep its original place in the order of backups.",
			existing: []client.Object{noting(here(), a, b), repeated},
			want:     want{Previous: v1.PreviousHeld, Missing: "b", PodFailure: true}},
		"Forgotten": {reason: "A user allowed the instance to start without the backup.",
			existing: []client.Object{annotated(noting(here(), a), v1.AnnotationForgetPrefix+"a", "uid-of-a")},
			want:     want{Previous: v1.PreviousNone}},
		"ForgottenIt": {reason: "The user's annotation names an earlier BackupRecord with the same name, so it does not apply.",
			existing: []client.Object{annotated(noting(here(), a), v1.AnnotationForgetPrefix+"a", "earlier")},
			want:     want{Previous: v1.PreviousHeld, Missing: "a", PodFailure: true}},
		"ForgetsOne": {reason: "The user's annotation names only one backup, so the other one must be reported as missing.",
			existing: []client.Object{annotated(noting(here(), a, b), v1.AnnotationForgetPrefix+"b", "uid-of-b")},
			want:     want{Previous: v1.PreviousHeld, Missing: "a", PodFailure: true}},
		"Elsewhere": {reason: "A backup on the volume of an earlier namespace with the same name must be found as well.",
			existing: []client.Object{noting(backupsAt("pv-0", "earlier", nil), a)},
			want:     want{Previous: v1.PreviousHeld, Missing: "a", PodFailure: true}},
		"Bound": {reason: "The catalog of the volume that is bound to the backup PVC must be read even without labels.",
			existing: []client.Object{bound, unlabelled}, want: want{Previous: v1.PreviousHeld, Missing: "a", PodFailure: true}},
		"Other": {reason: "A catalog entry of another instance must be ignored.",
			existing: []client.Object{noting(here(), other)}, want: want{Previous: v1.PreviousNone}},
		"Unreadable": {reason: "An unreadable catalog entry must be treated as a backup without a BackupRecord.",
			existing: []client.Object{annotated(here(), v1.AnnotationBackupPrefix+"a", "{"), b},
			want:     want{Previous: v1.PreviousHeld, Missing: "a", PodFailure: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			xr := xr("x", "uid-1", "db", false)
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}}
			g := &Gatherer{Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(append(tc.existing, xr, ns)...).
				Build(), Clock: time.Now}
			instances, err := g.Gather(context.Background(), key)
			if err != nil || len(instances) != 1 {
				t.Fatalf("%d lives, %v", len(instances), err)
			}
			s := instances[0]
			got := want{Previous: s.Latest(), PodFailure: s.PodFailure != ""}
			if n := s.Missing(); n != nil {
				got.Missing = n.Name
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestEntryCommands checks the commands that are shown to users.
func TestEntryCommands(t *testing.T) {
	v := noting(backupsAt("pv-b", "ns", nil), verifiedAt("a", 1))
	n := &entriesOn(v, instanceID)[0]
	if diff := cmp.Diff([]string{
		"kubectl annotate pv pv-b --overwrite crossplane-mysql.io/make-record=a",
		"kubectl annotate pv pv-b forget.crossplane-mysql.io/a=uid-of-a",
	}, []string{n.MakeRecord(), n.Forget()}); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	n = &Entry{Name: "a", Store: "offsite", BackupEntry: n.BackupEntry}
	n.Spec.Instance.NamespaceUID, n.Spec.Instance.XR = "ns-uid", "xr-uid"
	if diff := cmp.Diff([]string{
		"kubectl annotate backupstore offsite --overwrite crossplane-mysql.io/make-record=v1/ns-uid/xr-uid/a",
		"kubectl annotate backupstore offsite forget.crossplane-mysql.io/a=uid-of-a",
	}, []string{n.MakeRecord(), n.Forget()}); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	v.Annotations[v1.AnnotationForgetPrefix+"a"] = "uid-of-a"
	if !entriesOn(v, instanceID)[0].Forgotten {
		t.Error("want it forgotten once that is typed")
	}
}

// TestMissingSetBack checks a cluster that was restored from an etcd snapshot. The numbers of an instance's backups
// start again, and a store contains backups that are newer than the snapshot. A backup is not reported as missing if
// a verified backup of the same instance is newer. Backups of other instances are reported.
func TestMissingSetBack(t *testing.T) {
	record := func(name string, xr types.UID, number, second int64) *v1.BackupRecord {
		r := verifiedAt(name, second)
		r.Spec.Instance.XR, r.Spec.Number = xr, number
		return r
	}
	noted := func(r *v1.BackupRecord) Entry { return Entry{BackupEntry: r.Entry(), Name: r.Name, Store: "offsite"} }
	today := *record("today", "x", 5, 200)
	for name, tc := range map[string]struct {
		entries []Entry
		want    string
	}{
		"Lost":    {[]Entry{noted(record("lost", "x", 8, 50))}, ""},
		"Later":   {[]Entry{noted(record("later", "x", 8, 300))}, "later"},
		"Clocks":  {[]Entry{noted(record("clocks", "x", 8, 150))}, "clocks"}, // The clocks can differ.
		"Fewer":   {[]Entry{noted(record("fewer", "x", 4, 150))}, ""},
		"Another": {[]Entry{noted(record("lost", "x", 9, 50)), noted(record("theirs", "y", 8, 50))}, "theirs"},
		"Older":   {[]Entry{noted(record("lost", "x", 9, 50)), noted(record("theirs", "y", 2, 50))}, ""},
		"Own":     {[]Entry{noted(&today)}, ""},
	} {
		got := ""
		if n := Missing(tc.entries, []v1.BackupRecord{today}); n != nil {
			got = n.Name
		}
		if got != tc.want {
			t.Errorf("%s: want %q, got %q", name, tc.want, got)
		}
	}
}
