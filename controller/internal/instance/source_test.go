package instance

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// fromOther returns an XR that will be restored from the claim "other".
func fromOther(status map[string]any) *unstructured.Unstructured {
	u := xr("x", "uid-1", "db", false)
	spec, _ := u.Object["spec"].(map[string]any)
	spec["restore"] = map[string]any{"from": "other"}
	if status != nil {
		u.Object["status"] = status
	}
	return u
}

// ofOther returns a verified backup of the claim other, and its catalog entry in a store.
func ofOther(name string, second int64, namespace types.UID) (*v1.BackupRecord, FoundEntry) {
	r, n := inStore(name, second)
	r.Spec.Instance.Name, r.Spec.Instance.NamespaceUID = otherName, namespace
	origin := r.Spec.Instance
	r.Labels = origin.Instance().Labels()
	n.BackupEntry = r.Entry()
	return r, n
}

// TestSourceKnowsVolumesAndStores checks that backups of the claim in spec.restore.from are found on volumes and in
// stores, like an instance's own backups.
func TestSourceKnowsVolumesAndStores(t *testing.T) {
	older, _ := ofOther("default-other-0000000001", 1, "ns")
	newest, noted := ofOther("default-other-0000000002", 2, "ns")
	earlier, _ := ofOther("default-other-0000000003", 3, "earlier")
	earliest, notedEarlier := ofOther("default-other-0000000004", 4, "earlier")
	forgotten := noted
	forgotten.Forgotten = true
	onVolume := func(labels map[string]string, ref *corev1.ObjectReference) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "backups-of-other", Labels: labels},
			Spec: corev1.PersistentVolumeSpec{ClaimRef: ref}}
		v.Annotations = map[string]string{}
		return noting(v, newest)
	}
	labelled := v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "other"}.Labels()
	labelled[v1.LabelComponent] = v1.ComponentBackup
	other := v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "other"}
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: other.BackupPVCName(), UID: "pvc-uid"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "backups-of-other"}}
	bound := onVolume(nil, &corev1.ObjectReference{Namespace: "default", Name: pvc.Name, UID: pvc.UID})
	cases := map[string]struct {
		reason   string
		existing []client.Object
		stores   *fakeStores
		newest   string
		held     string
		failure  bool
	}{
		"Records": {reason: "All backups of the source claim have BackupRecords.", existing: []client.Object{older, newest},
			stores: &fakeStores{entries: []FoundEntry{noted}}, newest: newest.Name},
		"None": {reason: "The source claim has no backups.", stores: &fakeStores{}, newest: v1.PreviousNone},
		"OnVolume": {reason: "A catalog entry on the volume shows a newer backup without a BackupRecord.",
			existing: []client.Object{older, onVolume(labelled, nil)},
			stores:   &fakeStores{}, newest: v1.PreviousHeld, held: newest.Name},
		"OnBoundVolume": {reason: "The volume that is bound to the backup PVC of the source must be read even without labels.",
			existing: []client.Object{older, bound, pvc}, stores: &fakeStores{}, newest: v1.PreviousHeld, held: newest.Name},
		"InStore": {reason: "A catalog entry in the store shows a newer backup without a BackupRecord.", existing: []client.Object{older},
			stores: &fakeStores{entries: []FoundEntry{noted}}, newest: v1.PreviousHeld, held: newest.Name},
		"Forgotten": {reason: "A user allowed a start without the newest backup, so the older one must be used.",
			existing: []client.Object{older},
			stores:   &fakeStores{entries: []FoundEntry{forgotten}}, newest: older.Name},
		"EarlierNamespace": {reason: "The store contains a newer backup in the directory of an earlier namespace.",
			existing: []client.Object{earlier}, stores: &fakeStores{entries: []FoundEntry{notedEarlier}}, newest: v1.PreviousHeld,
			held: earliest.Name},
		"Down": {reason: "The store cannot be read, so a newer backup may exist and the failure must be reported.",
			existing: []client.Object{older},
			stores:   &fakeStores{err: errors.New("the store is down")}, newest: older.Name, failure: true},
	}
	for name, tc := range cases {
		s := gatherOne(t, tc.stores, append(tc.existing, fromOther(nil))...)
		if s.Source == nil || s.Source.Newest() != tc.newest || (s.StoreFailure != "") != tc.failure {
			t.Errorf("%s: %s got %+v, %q", name, tc.reason, s.Source, s.StoreFailure)
			continue
		}
		if n := s.Source.Missing(); tc.held != "" &&
			(n == nil || n.Name != tc.held || !strings.Contains(s.PodFailure, "To create the BackupRecord again")) {
			t.Errorf("%s: %s held is %+v, and people are told %q", name, tc.reason, n, s.PodFailure)
		}
		if s.Latest() != v1.PreviousNone {
			t.Errorf("%s: the instance itself has %s", name, s.Latest())
		}
	}
}

// TestSourceIsReadUntilTheChoice checks that the controller no longer reads the backups of another claim once a
// backup is chosen.
func TestSourceIsReadUntilTheChoice(t *testing.T) {
	for name, tc := range map[string]struct {
		xr   *unstructured.Unstructured
		want bool
	}{
		"Undecided": {xr: fromOther(nil), want: true},
		"Started":   {xr: fromOther(internal("started", true))},
		"Chosen":    {xr: fromOther(map[string]any{"restore": map[string]any{"backup": "b", "phase": "Running"}})},
		"Unasked":   {xr: xr("x", "uid-1", "db", false)},
	} {
		if s := gatherOne(t, &fakeStores{}, tc.xr); (s.Source != nil) != tc.want {
			t.Errorf("%s: %+v", name, s.Source)
		}
	}
}

// TestStoresAreAskedForEarlierNamespaces checks that an instance finds backups of a previous namespace in its store.
func TestStoresAreAskedForEarlierNamespaces(t *testing.T) {
	older, _ := inStore("default-db-0000000001", 1)
	older.Spec.Instance.NamespaceUID = "earlier"
	newest, noted := inStore("default-db-0000000002", 2)
	newest.Spec.Instance.NamespaceUID = "earlier"
	noted.BackupEntry = newest.Entry()
	s := gatherOne(t, &fakeStores{entries: []FoundEntry{noted}}, older, xr("x", "uid-1", "db", false))
	if n := s.Missing(); s.Latest() != v1.PreviousHeld || n.Name != newest.Name {
		t.Errorf("got %q, %+v", s.Latest(), n)
	}
}

// gatherOne returns the state of the only instance.
func gatherOne(t *testing.T, stores Stores, objects ...client.Object) *State {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}}
	g := &Gatherer{Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(append(objects, ns)...).Build(),
		Stores: stores, Clock: time.Now}
	instances, err := g.Gather(t.Context(), key)
	if err != nil || len(instances) != 1 {
		t.Fatalf("%d lives, %v", len(instances), err)
	}
	return instances[0]
}
