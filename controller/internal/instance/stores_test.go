package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A fakeStores is a fake of Stores. It contains catalog entries and counts the reads.
type fakeStores struct {
	entries []FoundEntry
	err     error
	asked   int
	// gone is the name of a store that does not respond. damaged is the name of a BackupRecord whose catalog entry
	// cannot be read.
	gone, damaged string
}

func (s *fakeStores) ReadEntry(_ context.Context, store string, origin v1.BackedUpInstance,
	record string) (*v1.StoreEntry, error) {
	s.asked++
	if s.gone == store {
		return nil, fmt.Errorf("there is no BackupStore %s", store)
	}
	if s.damaged == record {
		return nil, &UnreadableEntryError{Err: errors.New("its seal does not hold")}
	}
	for _, n := range s.entries {
		if n.StoreEntry != nil && n.Store == store && n.Spec.Instance.XR == origin.XR && n.Record == record {
			return n.StoreEntry, s.err
		}
	}
	return nil, s.err
}

func (s *fakeStores) FindRecovery(_ context.Context, choice, moment string, _ *v1.RecoverySource,
	records []v1.BackupRecord) (*v1.RecoverySource, error) {
	s.asked++
	out := &v1.RecoverySource{Choice: choice, Message: "there is no backup"}
	if len(records) > 0 {
		out = &v1.RecoverySource{Choice: choice, Backup: records[0].Name, Recovery: &v1.Recovery{At: moment}}
	}
	return out, s.err
}

func (s *fakeStores) FindEntries(_ context.Context, namespace types.UID, isKnown func(string) bool) ([]FoundEntry, error) {
	s.asked++
	var out []FoundEntry
	for _, n := range s.entries {
		if !isKnown(n.Record) && (n.StoreEntry == nil || n.Spec.Instance.NamespaceUID == namespace) {
			out = append(out, n)
		}
	}
	return out, s.err
}

// inStore returns a BackupRecord whose archive is in a store, and its catalog entry.
func inStore(name string, second int64) (*v1.BackupRecord, FoundEntry) {
	r := verifiedAt(name, second)
	r.Spec.Instance.NamespaceUID = "ns"
	r.Spec.Archive = &v1.Archive{Store: "offsite", Path: v1.StorePrefix(r.Spec.Instance, name) + "/x.tar.zst",
		SHA256: strings.Repeat("a", 64)}
	return r, FoundEntry{Store: "offsite", Record: name, XR: r.Spec.Instance.XR,
		StoreEntry: &v1.StoreEntry{BackupEntry: r.Entry(), Name: name, Manifest: []byte(`{}`)}}
}

// toStore adds the annotation that names the store of the backups to the data PVC, as the function does.
func toStore(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	c.Annotations[v1.AnnotationBackupStore] = "offsite"
	return c
}

// TestGatherStores checks when stores are read. Before the first start, the controller reads all stores, and an
// instance does not start if a store does not respond. Afterwards, it reads only an entry that it needs.
func TestGatherStores(t *testing.T) {
	a, entryA := inStore("default-db-0123456789", 1)
	other, entryOther := inStore("default-other-0123456789", 1)
	other.Spec.Instance.Name, entryOther.Spec.Instance.Name = "theirs", "theirs"
	forgotten := entryA
	forgotten.Forgotten = true
	unreadable := func(record string) FoundEntry { return FoundEntry{Store: "offsite", Record: record} }
	own, entryOwn := inStore(instanceID.RecordName(), 2)
	entryOwn.Spec.Instance.XR = instanceID.XR
	own.Spec.Instance.XR = instanceID.XR
	unproven := own.DeepCopy()
	unproven.Status.Phase = v1.BackupRunning
	down := errors.New("the store is down")
	status := func(u *unstructured.Unstructured, status map[string]any) *unstructured.Unstructured {
		u.Object["status"] = status
		return u
	}
	published := func(u *unstructured.Unstructured) *unstructured.Unstructured {
		u.SetAnnotations(map[string]string{v1.AnnotationPublished: entryOwn.PublishedArchive()})
		return u
	}
	data := toStore(protected(dataPVC(instanceID.Labels())))
	offers := &v1.Platform{ObjectMeta: metav1.ObjectMeta{Name: v1.PlatformName},
		Spec: v1.PlatformSpec{AllowedBackupStores: []string{"offsite"}}}
	cases := map[string]struct {
		reason   string
		xr       *unstructured.Unstructured
		existing []client.Object
		stores   *fakeStores
		latest   string
		failure  string
		own      bool
		asked    bool
	}{
		"Empty": {reason: "The store contains no backups.", stores: &fakeStores{}, latest: v1.PreviousNone, asked: true},
		"Known": {reason: "The backup in the store has a BackupRecord.", existing: []client.Object{a},
			stores: &fakeStores{entries: []FoundEntry{entryA}}, latest: a.Name, asked: true},
		"Gone": {reason: "The backup exists in the store, but its BackupRecord is deleted.",
			stores: &fakeStores{entries: []FoundEntry{entryA}}, latest: v1.PreviousHeld, asked: true},
		"Forgotten": {reason: "A user allowed the instance to start without the backup.",
			stores: &fakeStores{entries: []FoundEntry{forgotten}},
			latest: v1.PreviousNone, asked: true},
		"Other": {reason: "The backup in the store belongs to another instance.", stores: &fakeStores{entries: []FoundEntry{entryOther}},
			latest: v1.PreviousNone, asked: true},
		"Unreadable": {reason: "An unreadable entry with a name of this instance must be treated as its backup.",
			stores: &fakeStores{entries: []FoundEntry{unreadable("default-db-9876543210")}}, latest: v1.PreviousHeld, asked: true},
		"UnreadableOf": {reason: "The name of the unreadable entry shows that it belongs to another instance.",
			stores: &fakeStores{entries: []FoundEntry{unreadable("default-db-x-9876543210")}}, latest: v1.PreviousNone,
			asked: true},
		"Down": {reason: "The store does not respond, so it is unknown whether there is a backup.",
			stores: &fakeStores{err: down}, latest: v1.PreviousNone,
			failure: "the store is down", asked: true},
		"Started": {reason: "An instance that has started must not depend on a store.",
			xr: status(xr("x", "uid-1", "db", false), internal("started", true)), stores: &fakeStores{err: down}},
		"Deleting": {reason: "The annotation of the XR shows that the entry in the store is this instance's own backup.",
			xr:       published(xr("x", "uid-1", "db", true)),
			existing: []client.Object{data, unproven, offers}, stores: &fakeStores{entries: []FoundEntry{entryOwn}}, own: true,
			asked: true},
		"DeletingForeign": {reason: "Without the annotation, the entry may be from another cluster and must not be used.",
			xr:       xr("x", "uid-1", "db", true),
			existing: []client.Object{data, unproven, offers}, stores: &fakeStores{entries: []FoundEntry{entryOwn}}, asked: true},
		"DeletingForbidden": {reason: "A PVC must not select a store that the platform does not offer.",
			xr: xr("x", "uid-1", "db", true), existing: []client.Object{data, unproven},
			stores: &fakeStores{entries: []FoundEntry{entryOwn}}},
		"DeletingByXR": {reason: "The PVC is deleted, so the name of the store must come from the status.",
			xr:       status(published(xr("x", "uid-1", "db", true)), internal("backupStore", "offsite")),
			existing: []client.Object{unproven}, stores: &fakeStores{entries: []FoundEntry{entryOwn}}, own: true, asked: true},
		"DeletingDown": {reason: "The store does not respond, so it is unknown whether the backup exists.",
			xr:       xr("x", "uid-1", "db", true),
			existing: []client.Object{data, unproven, offers}, stores: &fakeStores{err: down}, failure: "the store is down",
			asked: true},
		"DeletingProven": {reason: "The BackupRecord is verified, so the store need not be read.", xr: xr("x", "uid-1", "db", true),
			existing: []client.Object{data, own}, stores: &fakeStores{err: down}},
		"DeletingVolume": {reason: "The backup is written to a volume, so the store need not be read.", xr: xr("x", "uid-1", "db", true),
			existing: []client.Object{protected(dataPVC(instanceID.Labels()))}, stores: &fakeStores{err: down}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.xr == nil {
				tc.xr = xr("x", "uid-1", "db", false)
			}
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}}
			g := &Gatherer{Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(append(tc.existing, tc.xr, ns)...).
				Build(), Stores: tc.stores, Clock: time.Now}
			instances, err := g.Gather(t.Context(), key)
			if err != nil || len(instances) != 1 {
				t.Fatalf("%d lives, %v", len(instances), err)
			}
			s := instances[0]
			if tc.latest != "" && s.Latest() != tc.latest || s.StoreFailure != tc.failure || (s.OwnEntry() != nil) != tc.own ||
				(tc.stores.asked > 0) != tc.asked {
				t.Errorf("%s want %q, %q, %t, %t, got %q, %q, %v, asked %d times", tc.reason, tc.latest, tc.failure, tc.own,
					tc.asked, s.Latest(), s.StoreFailure, s.OwnEntry(), tc.stores.asked)
			}
			if tc.failure != "" && !s.IsDeleting() && !strings.Contains(s.PodFailure, tc.failure) {
				t.Errorf("people are not told: %q", s.PodFailure)
			}
		})
	}
}

// internal returns a status with one field of status.internal.
func internal(field string, value any) map[string]any {
	return map[string]any{v1.StatusInternal: map[string]any{field: value}}
}

// TestStoreOf checks that an annotation on a PVC cannot direct backups to a store that the claim may not use.
func TestStoreOf(t *testing.T) {
	composite := func(store, volume string) *Composite {
		return &Composite{Status: v1.MySQLStatus{Volume: volume, InternalStatus: v1.InternalStatus{BackupStore: store}}}
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.AnnotationBackupStore: "theirs"}}}
	volume := func(a map[string]string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Annotations: a}}
	}
	marked := volume(map[string]string{v1.AnnotationNamespaceUID: "ns", v1.AnnotationBackupStore: "offsite"})
	toVolume := volume(map[string]string{v1.AnnotationNamespaceUID: "ns"})
	orphan := &Identity{Store: "theirs"}
	for name, tc := range map[string]struct {
		reason    string
		subject   Subject
		data      DataVolumes
		forbidden bool
		want      string
	}{
		"Status": {reason: "The function wrote the store to the status, so the PVC must be ignored.",
			subject: Subject{XR: composite("offsite", "v")}, data: DataVolumes{DataPVC: claim, DataPV: toVolume},
			want: "offsite"},
		"Volume": {reason: "The status names a volume but no store, so the backups are written to a volume.",
			subject: Subject{XR: composite("", "v")}, data: DataVolumes{DataPVC: claim, DataPV: marked}},
		"Lost": {reason: "The status is lost, so the store on the volume must be used, which users cannot change.",
			subject: Subject{XR: composite("", "")}, data: DataVolumes{DataPVC: claim, DataPV: marked}, want: "offsite"},
		"Orphan": {reason: "The XR is lost, so the store on the volume must be used.",
			subject: Subject{Orphan: orphan}, data: DataVolumes{DataPVC: claim, DataPV: marked}, want: "offsite"},
		"OrphanHere": {reason: "The labeled volume names no store, so the backups are written to a volume.",
			subject: Subject{Orphan: orphan}, data: DataVolumes{DataPVC: claim, DataPV: toVolume}},
		"Unmarked": {reason: "The volume has no annotations, so only the PVC names a store.",
			subject: Subject{Orphan: orphan}, data: DataVolumes{DataPVC: claim, DataPV: volume(nil)}, want: "theirs"},
		"Unbound": {reason: "The PVC is not bound to a volume yet, so only the PVC names a store.",
			subject: Subject{XR: composite("", "")}, data: DataVolumes{DataPVC: claim}, want: "theirs"},
		"Forbidden": {reason: "The platform does not offer the store that only the PVC names.",
			subject: Subject{Orphan: orphan}, data: DataVolumes{DataPVC: claim, DataPV: volume(nil)}, forbidden: true},
		"Withdrawn": {reason: "The status names the store, so a backup must go to it even if it is no longer offered.",
			subject: Subject{XR: composite("offsite", "v")}, data: DataVolumes{DataPVC: claim}, forbidden: true,
			want: "offsite"},
	} {
		basis := Basis{Subject: tc.subject, DataVolumes: tc.data, StoreForbidden: tc.forbidden}
		if got := basis.Store(); got != tc.want {
			t.Errorf("%s: %s want %q, got %q", name, tc.reason, tc.want, got)
		}
	}
}

// TestRestoreFrom checks that a restore Job gets access only to the backup that the function chose among the verified
// backups of the namespace.
func TestRestoreFrom(t *testing.T) {
	a, entryA := inStore("default-db-0123456789", 1)
	chosen := func(change func(archive map[string]any)) *unstructured.Unstructured {
		u := xr("x", "uid-1", "db", false)
		archive := map[string]any{"store": "offsite", "path": a.Spec.Archive.Path, "sha256": a.Spec.Archive.SHA256}
		change(archive)
		u.Object["status"] = map[string]any{
			"restore": map[string]any{"backup": a.Name, "phase": "Running", "archive": archive}}
		return u
	}
	unchanged := func(map[string]any) {}
	dump := xr("x", "uid-1", "db", false)
	dump.Object["status"] = map[string]any{
		"restore": map[string]any{"phase": "Running",
			"import": map[string]any{"dump": map[string]any{"storeRef": map[string]any{"name": "offsite"}, "name": "shop.sql"}}}}
	changed := func(change func(*v1.BackupRecord)) *v1.BackupRecord {
		r := a.DeepCopy()
		change(r)
		return r
	}
	secret := func(path string, labels map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: instanceID.Accesses().Restore(),
			Labels: labels, Annotations: map[string]string{v1.AnnotationAccessTo: path}}}
	}
	for name, tc := range map[string]struct {
		reason   string
		xr       *unstructured.Unstructured
		existing []client.Object
		stores   *fakeStores
		noJob    bool
		want     bool
		fails    string
	}{
		"NoJob": {reason: "The function has not created the restore Job that will own the Secret with the access.", xr: chosen(unchanged),
			existing: []client.Object{a}, noJob: true},
		"Chosen": {reason: "The restore Job waits for access to the chosen backup.",
			xr: chosen(unchanged), existing: []client.Object{a}, want: true},
		"Given": {reason: "The Secret with the access already exists.", xr: chosen(unchanged),
			existing: []client.Object{a, secret(a.Spec.Archive.Path, instanceID.Labels())}},
		"Another": {reason: "The existing Secret gives access to another archive.", xr: chosen(unchanged),
			existing: []client.Object{a, secret("v1/x.tar.zst", instanceID.Labels())}, want: true},
		"Theirs": {reason: "The Secret does not have the labels of the instance, so a user created it.", xr: chosen(unchanged),
			existing: []client.Object{a, secret(a.Spec.Archive.Path, nil)}, want: true},
		"NoRecord": {reason: "The chosen backup has no BackupRecord.", xr: chosen(unchanged), fails: "changed after it was chosen"},
		"Unproven": {reason: "The chosen backup is not verified.", xr: chosen(unchanged),
			existing: []client.Object{changed(func(r *v1.BackupRecord) { r.Status.Phase = v1.BackupRunning })},
			fails:    "changed after it was chosen"},
		"OtherSpace": {reason: "The chosen backup belongs to another namespace.", xr: chosen(unchanged),
			existing: []client.Object{changed(func(r *v1.BackupRecord) { r.Spec.Instance.Namespace = "elsewhere" })},
			fails:    "changed after it was chosen"},
		"OtherArchive": {reason: "The status names another archive than the BackupRecord.",
			xr: chosen(func(a map[string]any) { a["path"] = "v1/ns/other/x/x.tar.zst" }), existing: []client.Object{a},
			fails: "changed after it was chosen"},
		"Dump": {reason: "A dump has no BackupRecord and no catalog entry, but its import needs access.", xr: dump.DeepCopy(), want: true},
		"DumpNowhere": {reason: "A user must create the BackupStore before access to it can be given.", xr: dump.DeepCopy(),
			stores: &fakeStores{gone: "offsite"}, fails: "there is no BackupStore offsite"},
		"NoNote": {reason: "The store contains no catalog entry of the chosen backup.", xr: chosen(unchanged), existing: []client.Object{a},
			stores: &fakeStores{}, fails: "has no catalog entry"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.stores == nil {
				tc.stores = &fakeStores{entries: []FoundEntry{entryA}}
			}
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}}
			if !tc.noJob {
				tc.existing = append(tc.existing,
					&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: instanceID.Jobs().Restore(), UID: "restore-job",
						Labels: instanceID.Labels()}})
			}
			g := &Gatherer{Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(append(tc.existing, tc.xr, ns)...).
				Build(), Stores: tc.stores, Clock: time.Now}
			instances, err := g.Gather(t.Context(), key)
			if err != nil || len(instances) != 1 {
				t.Fatalf("%d lives, %v", len(instances), err)
			}
			if s := instances[0]; (s.RestoreFrom != nil) != tc.want || !strings.Contains(s.StoreFailure, tc.fails) ||
				(s.StoreFailure != "") != (tc.fails != "") || tc.want && s.RestoreTo.UID != "restore-job" {
				t.Errorf("%s want %t, %q, got %v, %q", tc.reason, tc.want, tc.fails, s.RestoreFrom, s.StoreFailure)
			}
		})
	}
}

// TestRestoring checks that an archive is not deleted if an instance of its namespace has chosen it but has not
// started yet. The name of the instance does not matter.
func TestRestoring(t *testing.T) {
	r := verifiedAt("default-db-0123456789", 1)
	r.UID, r.DeletionTimestamp, r.Finalizers = "record", &metav1.Time{Time: time.Now()}, []string{v1.Finalizer}
	chooses := func(name, uid, claim string, started, dying bool) *unstructured.Unstructured {
		u := xr(name, uid, claim, dying)
		u.SetLabels(map[string]string{labelClaimNamespace: "default", labelClaimName: claim})
		u.Object["status"] = map[string]any{"internal": map[string]any{"started": started},
			"restore": map[string]any{"backup": r.Name, "phase": "Running"}}
		return u
	}
	elsewhere := chooses("there", "uid-4", "other", false, false)
	elsewhere.SetLabels(map[string]string{labelClaimNamespace: "elsewhere", labelClaimName: "other"})
	withoutClaim := func(namespace string) *unstructured.Unstructured {
		u := ownObject("copy", "uid-5")
		u.SetNamespace(namespace)
		u.Object["status"] = map[string]any{"restore": map[string]any{"backup": r.Name, "phase": "Running"}}
		return u
	}
	for name, tc := range map[string]struct {
		existing *unstructured.Unstructured
		word     string
		want     string
	}{
		"Without claim":           {withoutClaim("default"), "record", "MySQL copy"},
		"Without claim elsewhere": {withoutClaim("elsewhere"), "record", ""},
		"Another":                 {chooses("copy", "uid-2", "copy", false, false), "record", "XMySQL copy"},
		"Its own":                 {chooses("again", "uid-3", "db", false, false), "record", "XMySQL again"},
		"Started":                 {chooses("copy", "uid-2", "copy", true, false), "record", ""},
		"Dying":                   {chooses("copy", "uid-2", "copy", false, true), "record", ""},
		"Elsewhere":               {elsewhere, "record", ""},
		"Kept":                    {chooses("copy", "uid-2", "copy", false, false), "", ""}, // No archive is deleted.
	} {
		t.Run(name, func(t *testing.T) {
			r := r.DeepCopy()
			r.Annotations = map[string]string{v1.AnnotationDeleteArchive: tc.word}
			g := &Gatherer{Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(r, tc.existing).Build(),
				Clock: time.Now}
			a, err := g.Archives(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Restoring[r.Name]; got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}

// TestUnasked checks that the controller reads a store only once if it does not respond, so that BackupRecords of
// other stores are not delayed.
func TestUnasked(t *testing.T) {
	in := func(store, name string) (*v1.BackupRecord, FoundEntry) {
		r, n := inStore(name, 1)
		r.Spec.Archive.Store, r.Status = store, v1.BackupRecordStatus{}
		n.Store = store
		return r, n
	}
	lost, _ := in("gone", "default-db-0123456789")
	other, _ := in("gone", "default-db-1123456789")
	existing, entry := in("offsite", "default-db-2123456789")
	damaged, _ := in("offsite", "default-db-3123456789")
	damaged.Spec.Number = 9 // The newest backup is read first.
	stores := &fakeStores{gone: "gone", damaged: damaged.Name, entries: []FoundEntry{entry}}
	g := &Gatherer{Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(lost, other, existing, damaged).
		Build(), Stores: stores, Clock: time.Now}
	a, err := g.Archives(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if !a.Unasked[lost.Name] || !a.Unasked[other.Name] || !a.Unasked[damaged.Name] || a.Unasked[existing.Name] ||
		len(a.Entries) != 1 || a.Entries[0].Name != existing.Name || stores.asked != 3 {
		t.Errorf("want only what lies in the store that is there to be known, after three questions, got %v, %v after %d",
			a.Unasked, a.Entries, stores.asked)
	}
}
