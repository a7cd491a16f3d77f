package reconciler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
)

// storeOf returns a BackupStore and its Secrets. No server listens on its endpoint.
func storeOf(name string) []client.Object {
	s := &v1.BackupStore{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Spec: v1.BackupStoreSpec{
		Endpoint: "https://127.0.0.1:1", Bucket: "backups", PathStyle: true,
		CredentialsSecretRef: &v1.LocalSecret{Name: name + "-credentials"}, KeySecretRef: v1.LocalSecret{Name: name + "-key"},
	}}
	credentials, key := secretOf("system", name+"-credentials"), secretOf("system", name+"-key")
	credentials.Data = map[string][]byte{v1.StoreAccessKey: []byte("access-of-" + name),
		v1.StoreSecretKey: []byte("secret")}
	key.Data = map[string][]byte{v1.StoreSigningKey: []byte(store.NewSigningKey().Text())}
	return []client.Object{s, credentials, key}
}

// TestStores checks that a BackupStore reports its problem, and that the gateway gets only the stores that can be
// opened.
func TestStores(t *testing.T) {
	kube := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithStatusSubresource(&v1.BackupStore{}).
		WithObjects(append(storeOf("one"), storeOf("two")...)...).Build()
	sent := events.NewFakeRecorder(10)
	r := &storeReconciler{kube: kube, reader: kube, writer: change.Writer{Client: kube}, events: sent, namespace: "system",
		meter: newMeter(prometheus.NewRegistry()),
		clock: time.Now, holders: stores.NewHolders()}
	probe := func(name string) (metav1.Condition, reconcile.Result) {
		t.Helper()
		after, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		s := &v1.BackupStore{}
		if err := kube.Get(t.Context(), client.ObjectKey{Name: name}, s); err != nil || len(s.Status.Conditions) != 1 {
			return metav1.Condition{}, after
		}
		return s.Status.Conditions[0], after
	}
	told := func() string {
		t.Helper()
		s := &corev1.Secret{}
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "system", Name: stores.GatewaySecret}, s); err != nil {
			t.Fatal(err)
		}
		return string(s.Data[stores.StoresFile])
	}
	if c, after := probe("one"); c.Status != metav1.ConditionFalse || c.Reason != string(store.Unreachable) ||
		after.RequeueAfter != lostStoreInterval {
		t.Errorf("want that it cannot be reached, got %+v, %v", c, after)
	}
	if raw := told(); !strings.Contains(raw, "access-of-one") || !strings.Contains(raw, "access-of-two") {
		t.Errorf("the gateway serves both, got %s", raw)
	}
	if err := kube.Delete(t.Context(), secretOf("system", "two-credentials")); err != nil {
		t.Fatal(err)
	}
	if c, _ := probe("two"); c.Reason != v1.ReasonSettings || !strings.Contains(c.Message, `no Secret "two-credentials"`) {
		t.Errorf("want what is missing, got %+v", c)
	}
	if raw := told(); !strings.Contains(raw, "access-of-one") || strings.Contains(raw, "access-of-two") {
		t.Errorf("the gateway serves the other one, got %s", raw)
	}
	if err := kube.Delete(t.Context(), storeOf("one")[0]); err != nil {
		t.Fatal(err)
	}
	if _, after := probe("one"); after.RequeueAfter != 0 {
		t.Errorf("it is gone, and looked for again after %s", after.RequeueAfter)
	}
	if raw := told(); strings.Contains(raw, "access-of") {
		t.Errorf("the gateway serves none, got %s", raw)
	}
	select {
	case e := <-sent.Events:
		t.Errorf("it never was reachable, and nobody need be told, got %q", e)
	default:
	}
}

// TestStoresUnread checks that an error of the API server is not reported as a problem of the store.
func TestStoresUnread(t *testing.T) {
	broken := errors.New("no API server")
	all := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithStatusSubresource(&v1.BackupStore{}).
		WithObjects(storeOf("one")...).Build()
	for _, name := range []string{"one", "one-credentials", "one-key", stores.SignerSecret, stores.GatewaySecret,
		stores.GatewayName} {
		t.Run(name, func(t *testing.T) {
			kube := interceptor.NewClient(all, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
					opts ...client.GetOption) error {
					if k.Name == name {
						return broken
					}
					return c.Get(ctx, k, o, opts...)
				},
			})
			r := &storeReconciler{kube: kube, reader: kube, writer: change.Writer{Client: kube},
				events: events.NewFakeRecorder(10), meter: newMeter(prometheus.NewRegistry()),
				namespace: "system", clock: time.Now, holders: stores.NewHolders()}
			if _, err := r.Reconcile(t.Context(),
				reconcile.Request{NamespacedName: types.NamespacedName{Name: "one"}}); !errors.Is(err, broken) {
				t.Errorf("want the error, got %v", err)
			}
			s := &v1.BackupStore{}
			if err := all.Get(t.Context(), client.ObjectKey{Name: "one"}, s); err != nil || len(s.Status.Conditions) != 0 {
				t.Errorf("nothing was found out, got %+v, %v", s.Status, err)
			}
		})
	}
}

// lookedAt returns a BackupStore after one reconcile. No server listens on its endpoint. asked adds an annotation of
// a user. gone is the name of a Secret that does not exist.
func lookedAt(t *testing.T, gone string, asked func(*v1.BackupStore)) (client.Client, *v1.BackupStore) {
	t.Helper()
	objects := slices.DeleteFunc(storeOf("one"), func(o client.Object) bool { return o.GetName() == gone })
	s, _ := objects[0].(*v1.BackupStore)
	asked(s)
	kube := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithStatusSubresource(&v1.BackupStore{}).
		WithObjects(objects...).Build()
	r := &storeReconciler{kube: kube, reader: kube, writer: change.Writer{Client: kube},
		events: events.NewFakeRecorder(10), meter: newMeter(prometheus.NewRegistry()),
		namespace: "system", clock: time.Now, holders: stores.NewHolders()}
	if _, err := r.Reconcile(t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Name: "one"}}); err != nil {
		t.Fatal(err)
	}
	got := &v1.BackupStore{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "one"}, got); err != nil {
		t.Fatal(err)
	}
	return kube, got
}

// TestMakeRecord checks that a request for a BackupRecord gets a result, but that no BackupRecord is created without
// data from the store.
func TestMakeRecord(t *testing.T) {
	done := &v1.StoreRecord{Asked: "v1/ns/xr/a", Made: true, Message: "BackupRecord a exists"}
	for name, tc := range map[string]struct {
		reason, asked string
		previous      *v1.StoreRecord
		gone          string
		want          *v1.StoreRecord
	}{
		"NotAsked": {reason: "If the annotation is removed, the result must be removed, so that a new request is possible.",
			previous: done},
		"Done": {reason: "A completed request must not be repeated, because a user may have deleted the BackupRecord.",
			asked: "v1/ns/xr/a", previous: done,
			want: done},
		"NoFolder": {reason: "The name of a BackupRecord alone does not identify a backup of one cluster.", asked: "a", previous: done,
			want: &v1.StoreRecord{Asked: "a",
				Message: `"a" is not the prefix of a backup, which is v1/NAMESPACE-UID/COMPOSITE-UID/RECORD`}},
		"Elsewhere": {reason: "A path with .. must be refused, so that nothing outside of the backup's prefix is read.",
			asked: "v1/ns/../a",
			want: &v1.StoreRecord{Asked: "v1/ns/../a",
				Message: `"v1/ns/../a" is not the prefix of a backup, which is v1/NAMESPACE-UID/COMPOSITE-UID/RECORD`}},
		"Settings": {reason: "The settings of the store cannot be used, so the request must be retried later.",
			asked: "v1/ns/xr/a", gone: "one-key",
			want: &v1.StoreRecord{Asked: "v1/ns/xr/a", Message: "the store's settings cannot be used"}},
		"Down": {reason: "The store does not respond, so the request must be retried later.", asked: "v1/ns/xr/b", previous: done,
			want: &v1.StoreRecord{Asked: "v1/ns/xr/b", Message: "cannot read"}},
	} {
		t.Run(name, func(t *testing.T) {
			kube, got := lookedAt(t, tc.gone, func(s *v1.BackupStore) {
				s.Annotations, s.Status.Record = map[string]string{v1.AnnotationMakeRecord: tc.asked}, tc.previous
			})
			if tc.want != nil && got.Status.Record != nil && strings.HasPrefix(got.Status.Record.Message, tc.want.Message) {
				got.Status.Record.Message = tc.want.Message // The rest depends on the network.
			}
			if diff := cmp.Diff(tc.want, got.Status.Record); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
			records := &v1.BackupRecordList{}
			if err := kube.List(t.Context(), records); err != nil || len(records.Items) != 0 {
				t.Errorf("want no record, got %v, %v", records.Items, err)
			}
		})
	}
}

// TestAdoptions checks that a request for an import gets a result, but that nothing is imported without data from the
// store.
func TestAdoptions(t *testing.T) {
	done := &v1.StoreAdoption{ID: "1", Message: "done"}
	for name, tc := range map[string]struct {
		reason, asked string
		previous      *v1.StoreAdoption
		gone          string
		want          *v1.StoreAdoption
	}{
		"NotAsked": {reason: "If the annotation is removed, the result must be removed from the status.", previous: done},
		"Done":     {reason: "A completed request must not be repeated.", asked: `{"id":"1"}`, previous: done, want: done},
		"NoRequest": {reason: "The value of the annotation is not a valid request.", asked: "shop",
			want: &v1.StoreAdoption{Message: "the annotation crossplane-mysql.io/adopt does not contain a valid adoption request"}},
		"NoID": {reason: "A request without an ID must be refused, because it would be repeated.", asked: `{"namespaces":{"a":"b"}}`,
			want: &v1.StoreAdoption{Message: "the annotation crossplane-mysql.io/adopt does not contain a valid adoption request"}},
		"Settings": {reason: "The settings of the store cannot be used, so it cannot be read.",
			asked: `{"id":"2"}`, previous: done, gone: "one-key",
			want: &v1.StoreAdoption{ID: "2", Message: "the store's settings cannot be used"}},
		"Down": {reason: "The store does not respond, so the result must contain the error.", asked: `{"id":"2"}`, previous: done,
			want: &v1.StoreAdoption{ID: "2", Message: "cannot list"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := lookedAt(t, tc.gone, func(s *v1.BackupStore) {
				s.Annotations, s.Status.Adoption = map[string]string{v1.AnnotationAdopt: tc.asked}, tc.previous
			})
			if tc.want != nil && got.Status.Adoption != nil && strings.HasPrefix(got.Status.Adoption.Message, tc.want.Message) {
				got.Status.Adoption.Message = tc.want.Message // The rest is advice or depends on the network.
			}
			if diff := cmp.Diff(tc.want, got.Status.Adoption); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestTakeCandidate checks that an imported BackupRecord refers to objects of this cluster, and that a dry run writes
// nothing.
func TestTakeCandidate(t *testing.T) {
	origin := v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "team", NamespaceUID: "ns", Name: "db", XR: "xr"}
	candidate := stores.Candidate{Found: stores.Found{NamespaceUID: "ns", XR: "xr", Record: "one"},
		Entry: &v1.StoreEntry{Name: "one", BackupEntry: v1.BackupEntry{
			Spec: v1.BackupRecordSpec{Instance: origin, Archive: &v1.Archive{Store: "one", Path: "v1/ns/xr/one/x.tar.zst"}},
		}}}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "new"}}
	adopting := func(request v1.AdoptionRequest, all []stores.Candidate, existing ...client.Object) *adoption {
		t.Helper()
		kube := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(append(existing, shop.DeepCopy())...).Build()
		return &adoption{
			storeReconciler: &storeReconciler{reader: kube, writer: change.Writer{Client: kube}, clock: time.Now,
				holders: stores.NewHolders()}, request: request, namespaces: map[string]*corev1.Namespace{},
			lineages: stores.Lineages(all), residents: map[instance.Key][]stores.Resident{},
		}
	}
	take := func(request v1.AdoptionRequest, existing ...client.Object) (v1.AdoptedBackup, error) {
		t.Helper()
		return adopting(request, []stores.Candidate{candidate}, existing...).take(t.Context(), candidate)
	}
	named := map[string]string{"team": "shop"}
	if got, err := take(v1.AdoptionRequest{Namespaces: named, DryRun: true}); err != nil || got.Verdict != v1.Adopted {
		t.Errorf("want what would be done, without a store, got %+v, %v", got, err)
	}
	if got, err := take(v1.AdoptionRequest{}); err != nil || got.Verdict != v1.AdoptionUnnamed {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := take(v1.AdoptionRequest{Namespaces: map[string]string{"team": "nobodys"}}); err != nil ||
		got.Verdict != v1.AdoptionRefused {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := take(v1.AdoptionRequest{Namespaces: named},
		&v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: "one"},
			Spec: candidate.Entry.Spec}); err != nil || got.Verdict != v1.AdoptedBefore {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := take(v1.AdoptionRequest{Namespaces: named},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team",
			UID: "ns"}}); err != nil || got.Verdict != v1.AdoptionRefused {
		t.Errorf("it is here, got %+v, %v", got, err)
	}

	record := func(xr types.UID) *v1.BackupRecord {
		in := v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "shop", NamespaceUID: "new", Name: "db", XR: xr}
		return &v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: "there",
			Labels: v1.Instance{Kind: in.Kind, Namespace: in.Namespace, Name: in.Name}.Labels()}, Spec: v1.BackupRecordSpec{
			Instance: in}}
	}
	composite := func(started bool, from string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"claimRef": map[string]any{"kind": v1.KindMySQL, "namespace": "shop", "name": "db"}},
			"status": map[string]any{"internal": map[string]any{"started": started},
				"restore": map[string]any{"backup": from, "phase": "Succeeded"}},
		}}
		u.SetGroupVersionKind(instance.XRKind)
		u.SetName("db-x")
		u.SetUID("living")
		u.SetLabels(map[string]string{"crossplane.io/claim-namespace": "shop", "crossplane.io/claim-name": "db"})
		return u
	}
	moved := func(r *v1.BackupRecord) *v1.BackupRecord { // The volume was moved from another cluster.
		r.Spec.Instance.NamespaceUID, r.Spec.AnnouncedAt = "there", &metav1.Time{Time: time.Unix(1, 0)}
		return r
	}
	inStore := func(r *v1.BackupRecord) *v1.BackupRecord {
		r.Spec.Archive = &v1.Archive{Store: "gone", Path: "v1/new/other/there/x.tar.zst"}
		return r
	}
	asks := v1.AdoptionRequest{Namespaces: map[string]string{"team": "shop", "crm": "shop"}, DryRun: true}
	for name, tc := range map[string]struct {
		reason   string
		existing client.Object
		want     v1.AdoptionVerdict
		says     string
	}{
		"Lineage": {"An adoption that was cut short goes on.", record("xr"), v1.Adopted, ""},
		"Stranger": {"Its rows are others.", record("other"), v1.AdoptionRefused,
			`backup "there" in namespace shop belongs to another`},
		"Merged": {"It is of an instance that was called otherwise.", moved(record("older")), v1.AdoptionRefused,
			`backup "there"`},
		"Unknown": {"Its store knows whose it was, and is not there.", inStore(record("older")), v1.AdoptionRefused,
			"there is no BackupStore gone"},
		"Started": {"Its server has rows of its own.", composite(true, ""), v1.AdoptionRefused,
			"MySQL db, which has started, in namespace shop"},
		"Restored": {"Its server began with what was adopted first.", composite(true, "one"), v1.Adopted, ""},
		"Waits":    {"It waits for what is adopted.", composite(false, ""), v1.Adopted, ""},
	} {
		if got, err := take(asks, tc.existing); err != nil || got.Verdict != tc.want || !strings.Contains(got.Why, tc.says) {
			t.Errorf("%s: %s got %+v, %v", name, tc.reason, got, err)
		}
	}
	sameName := moved(record("older"))
	sameName.Spec.Instance.Namespace, sameName.Labels = "team", v1.Instance{Kind: v1.KindMySQL, Namespace: "team",
		Name: "db"}.Labels()
	team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", UID: "new"}}
	if got, err := take(v1.AdoptionRequest{Namespaces: map[string]string{"team": "team"}, DryRun: true}, team,
		sameName); err != nil || got.Verdict != v1.Adopted {
		t.Errorf("another backup of it is there: got %+v, %v", got, err)
	}
	second := candidate
	n := *candidate.Entry
	n.Name, n.Spec.Instance.Namespace, n.Spec.Instance.NamespaceUID, n.Spec.Instance.XR = "two", "crm", "ns-2", "xr-2"
	second.Found, second.Entry = stores.Found{NamespaceUID: "ns-2", XR: "xr-2", Record: "two"}, &n
	a := adopting(asks, []stores.Candidate{candidate, second})
	for _, tc := range []struct {
		c    stores.Candidate
		want v1.AdoptionVerdict
	}{{candidate, v1.Adopted}, {second, v1.AdoptionRefused}} {
		if got, err := a.take(t.Context(), tc.c); err != nil || got.Verdict != tc.want {
			t.Errorf("two instances of one name: want %s of %s, got %+v, %v", tc.want, tc.c.Record, got, err)
		}
	}
}
