//go:build store

package stores

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/archive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/gateway"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/storetest"
)

// A realCluster is a fake API server with a BackupStore on a real S3 server.
type realCluster struct {
	Cluster

	kube        client.Client
	proxy       *storetest.Proxy
	open        *Store
	backupStore *v1.BackupStore
}

func newRealCluster(t *testing.T) *realCluster {
	t.Helper()
	id := newIdentity(t)
	p, s := storetest.Start(t)
	b, secrets := newBackupStore(id, id)
	b.Spec.Endpoint, b.Spec.CABundle, b.Spec.PathStyle, b.Spec.Prefix = s.Endpoint, s.CA, true, s.Prefix
	b.Status.ProbeTime = &metav1.Time{Time: now}
	secrets.Credentials.Data = map[string][]byte{v1.StoreAccessKey: []byte(s.AccessKey),
		v1.StoreSecretKey: []byte(s.SecretKey)}
	open, err := Open(b, secrets)
	if err != nil {
		t.Fatal(err)
	}
	secrets.Credentials.Namespace, secrets.Key.Namespace = systemNamespace, systemNamespace
	scheme, err := instance.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b, secrets.Credentials, secrets.Key).Build()
	return &realCluster{Cluster: Cluster{Reader: kube, Namespace: systemNamespace, Clock: time.Now}, kube: kube, proxy: p,
		open: open, backupStore: b}
}

func (c *realCluster) update(t *testing.T, change func(*v1.BackupStore)) {
	t.Helper()
	if err := c.kube.Get(t.Context(), client.ObjectKeyFromObject(c.backupStore), c.backupStore); err != nil {
		t.Fatal(err)
	}
	change(c.backupStore)
	if err := c.kube.Update(t.Context(), c.backupStore); err != nil {
		t.Fatal(err)
	}
}

// put uploads an archive to the path in a catalog entry.
func (c *realCluster) put(t *testing.T, n *v1.StoreEntry, size int) {
	t.Helper()
	n.Spec.Archive.Size = "100"
	if err := c.open.Put(t.Context(), n.Spec.Archive.Path, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
}

// publish publishes a backup with its archive.
func (c *realCluster) publish(t *testing.T, n *v1.StoreEntry) {
	t.Helper()
	c.put(t, n, 100)
	if err := c.Publish(t.Context(), "offsite", n); err != nil {
		t.Fatal(err)
	}
}

func nobody(string) bool { return false }

// TestRealCluster checks that a caller gets either all catalog entries or an error.
func TestRealCluster(t *testing.T) {
	c := newRealCluster(t)
	n, lies := newEntry("one", "x.tar.zst"), newEntry("two", "x.tar.zst")
	if got, err := c.FindEntries(t.Context(), "ns", nobody); err != nil || len(got) != 0 {
		t.Fatalf("want none, got %v, %v", got, err)
	}
	if err := c.Publish(t.Context(), "offsite", n); !errors.As(err, new(*change.MissingError)) {
		t.Errorf("a Job was led elsewhere: want that there is no archive, got %v", err)
	}
	c.put(t, lies, 99)
	if err := c.Publish(t.Context(), "offsite", lies); !errors.As(err, new(*change.MissingError)) ||
		!strings.Contains(err.Error(), "99 bytes") {
		t.Errorf("want that it is too small, got %v", err)
	}
	c.put(t, n, 100)
	for range 2 {
		if err := c.Publish(t.Context(), "offsite", n); err != nil {
			t.Fatal(err)
		}
	}
	other := newEntry("one", "y.tar.zst")
	c.put(t, other, 100)
	if err := c.Publish(t.Context(), "offsite", other); !kerrors.IsConflict(err) {
		t.Errorf("want a conflict, got %v", err)
	}
	if got, err := c.ReadEntry(t.Context(), "offsite", n.Spec.Instance, "one"); err != nil || !equalEntries(got, n) {
		t.Errorf("want the note, got %v, %v", got, err)
	}
	if got, err := c.ReadEntry(t.Context(), "offsite", n.Spec.Instance, "none"); err != nil || got != nil {
		t.Errorf("want none, got %v, %v", got, err)
	}
	if _, err := c.ReadEntry(t.Context(), "nobodys", n.Spec.Instance, "one"); err == nil || kerrors.IsNotFound(err) ||
		!strings.Contains(err.Error(), "use the same bucket") {
		t.Errorf("want what to do about a store that is gone, got %v", err)
	}
	if err := c.RemoveLeftovers(t.Context(), "offsite", n); err != nil {
		t.Error(err)
	}
	if got := c.open.keys(t, v1.StorePrefix(n.Spec.Instance, "one")); len(got) != 2 {
		t.Errorf("want archive and note, got %q", got)
	}
}

func TestRealFindEntries(t *testing.T) {
	c := newRealCluster(t)
	n := newEntry("one", "x.tar.zst")
	c.publish(t, n)
	find := func() []instance.FoundEntry {
		t.Helper()
		got, err := c.FindEntries(t.Context(), "ns", nobody)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := find(); len(got) != 1 || got[0].Forgotten || !equalEntries(got[0].StoreEntry, n) || got[0].Store != "offsite" ||
		got[0].Record != "one" || got[0].XR != "xr" {
		t.Errorf("want the note, got %+v", got)
	}
	if got, err := c.FindEntries(t.Context(), "ns", func(r string) bool { return r == "one" }); err != nil || len(got) != 0 {
		t.Errorf("it is known already, got %v, %v", got, err)
	}
	forget := func(word string) {
		c.update(t, func(b *v1.BackupStore) { b.Annotations = map[string]string{v1.AnnotationForgetPrefix + "one": word} })
	}
	for word, want := range map[string]bool{"one": false, "another-uid": false, string(n.Record): true} {
		if forget(word); find()[0].Forgotten != want {
			t.Errorf("%q: want %t", word, want)
		}
	}
	forget("")
	if err := c.open.Put(t.Context(), manifestOf(v1.StorePrefix(n.Spec.Instance, "one")), []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if got := find(); len(got) != 1 || got[0].StoreEntry != nil || got[0].Forgotten {
		t.Errorf("want one that cannot be read, got %+v", got)
	}
	if forget("one"); !find()[0].Forgotten {
		t.Error("of that its name is the word")
	}
	c.proxy.Break(func(*http.Request) storetest.Fault {
		return storetest.Fault{Status: http.StatusForbidden, Code: "InvalidAccessKeyId"}
	})
	if got, err := c.FindEntries(t.Context(), "ns", nobody); !store.Is(err, store.Unknown) ||
		!strings.Contains(err.Error(), "BackupStore offsite") {
		t.Errorf("want that it does not answer, got %v, %v", got, err)
	}
}

// TestRealFindEntriesInNew checks that a BackupStore which was created again is read even before its first probe. If it
// does not answer, instances wait only if claims may use it.
func TestRealFindEntriesInNew(t *testing.T) {
	c := newRealCluster(t)
	n := newEntry("one", "x.tar.zst")
	c.publish(t, n)
	c.update(t, func(b *v1.BackupStore) { b.Status.ProbeTime = nil })
	if got, err := c.FindEntries(t.Context(), "ns", nobody); err != nil || len(got) != 1 {
		t.Errorf("want the note, got %v, %v", got, err)
	}
	c.proxy.Break(func(*http.Request) storetest.Fault {
		return storetest.Fault{Status: http.StatusForbidden, Code: "InvalidAccessKeyId"}
	})
	for _, tc := range []struct {
		reason   string
		platform *v1.PlatformSpec
		waits    bool
	}{
		{"Nobody knows what it is for.", nil, true},
		{"Somebody is setting it up.", &v1.PlatformSpec{AllowedBackupStores: []string{"other"}}, false},
		{"Claims may have used it.", &v1.PlatformSpec{AllowedBackupStores: []string{"offsite"}}, true},
		{"Claims that name none use it.", &v1.PlatformSpec{DefaultBackupStore: "offsite"}, true},
	} {
		p := &v1.Platform{ObjectMeta: metav1.ObjectMeta{Name: v1.PlatformName}}
		if tc.platform != nil {
			p.Spec = *tc.platform
			if err := c.kube.Create(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := c.FindEntries(t.Context(), "ns", nobody); len(got) != 0 || (err != nil) != tc.waits {
			t.Errorf("%s want to wait: %t, got %v, %v", tc.reason, tc.waits, got, err)
		}
		if err := client.IgnoreNotFound(c.kube.Delete(t.Context(), p)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRealManyEntries reads more entries than are read concurrently. The result must have the order of the prefixes. If
// the store does not return an entry, the whole read must fail.
func TestRealManyEntries(t *testing.T) {
	c := newRealCluster(t)
	var want []string
	for i := range 3 * readAtOnce {
		n := newEntry(fmt.Sprintf("backup-%02d", i), "x.tar.zst")
		c.publish(t, n)
		want = append(want, n.Name)
	}
	found, err := c.FindEntries(t.Context(), "ns", nobody)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		if f.StoreEntry == nil || f.Name != f.Record {
			t.Errorf("the note of %s is %v", f.Record, f.StoreEntry)
		}
		got = append(got, f.Record)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	candidates, err := c.open.Candidates(t.Context())
	if err != nil || len(candidates) != len(want) {
		t.Errorf("want %d candidates, got %d, %v", len(want), len(candidates), err)
	}
	var reads atomic.Int32
	c.proxy.Break(func(r *http.Request) storetest.Fault {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, gateway.ManifestName) && reads.Add(1) == 5 {
			return storetest.Fault{Status: http.StatusForbidden, Code: "AccessDenied"}
		}
		return storetest.Fault{}
	})
	if found, err := c.FindEntries(t.Context(), "ns", nobody); !store.Is(err, store.Denied) || found != nil {
		t.Errorf("want what the store has said, got %d, %v", len(found), err)
	}
	if n := reads.Load(); n > 5+2*readAtOnce {
		t.Errorf("%d notes were read although one could not be", n)
	}
}

// TestRealAccess checks that the access of a Job is limited to one prefix or one archive.
func TestRealAccess(t *testing.T) {
	c := newRealCluster(t)
	for subject, r := range map[string]change.Remote{"no gateway": {Store: "offsite", Prefix: "v1/ns/xr/one"},
		"no store": {Store: "nobodys", Prefix: "v1/ns/xr/one"}} {
		if _, err := c.Access(t.Context(), &r); err == nil {
			t.Errorf("%s: access is given", subject)
		}
	}
	state := &GatewayState{Namespace: systemNamespace, Now: time.Now()}
	signer, err := NextSigner(state)
	if err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: GatewayName},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.7"}}
	if err := errors.Join(c.kube.Create(context.Background(), signer),
		c.kube.Create(context.Background(), service)); err != nil {
		t.Fatal(err)
	}
	writes, err := c.Access(t.Context(), &change.Remote{Store: "offsite", Prefix: "v1/ns/xr/one"})
	if err != nil {
		t.Fatal(err)
	}
	reads, err := c.Access(t.Context(),
		&change.Remote{Store: "offsite", Archive: "v1/ns/xr/one/x.tar.zst.age", Manifest: []byte(`{"format":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	if string(writes[gateway.URLFile]) != "https://10.0.0.7:8443" ||
		string(writes[archive.RecipientsFile]) != c.backupStore.Spec.Recipients[0] || writes[archive.ManifestFile] != nil {
		t.Errorf("a backup is told %q", writes)
	}
	if string(reads[archive.ManifestFile]) != `{"format":1}` || reads[archive.RecipientsFile] != nil {
		t.Errorf("a restore is told %q", reads)
	}
	for _, told := range []map[string][]byte{writes, reads} {
		for key, value := range told {
			for _, secret := range []string{storetest.Secret, c.open.Sign.Text(), c.open.file.Identity,
				string(signer.Data[signerKey]), string(signer.Data[caKeyKey])} {
				if strings.Contains(string(value), secret) {
					t.Errorf("%s has what no namespace may have", key)
				}
			}
		}
	}
	if _, err := c.Access(t.Context(), &change.Remote{Store: "offsite", Prefix: path.Join("..", "v1")}); err == nil {
		t.Error("a folder that leads out is given")
	}
}
