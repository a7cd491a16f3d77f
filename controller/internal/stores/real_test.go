//go:build store

package stores

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/storetest"
)

func openReal(t *testing.T, recipient, identity *age.X25519Identity) (*storetest.Proxy, *Store) {
	t.Helper()
	p, s := storetest.Start(t)
	b, secrets := newBackupStore(recipient, identity)
	b.Spec.Endpoint, b.Spec.CABundle, b.Spec.PathStyle, b.Spec.Prefix = s.Endpoint, s.CA, true, s.Prefix
	secrets.Credentials.Data = map[string][]byte{v1.StoreAccessKey: []byte(s.AccessKey),
		v1.StoreSecretKey: []byte(s.SecretKey)}
	open, err := Open(b, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return p, open
}

func TestRealLook(t *testing.T) {
	id, other := newIdentity(t), newIdentity(t)
	for name, c := range map[string]struct {
		recipient, identity *age.X25519Identity
		want                error
	}{
		"Plain": {}, "Encrypted": {recipient: id, identity: id}, "NoIdentity": {recipient: id},
		"OtherIdentity": {recipient: id, identity: other, want: errIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			_, s := openReal(t, c.recipient, c.identity)
			if f, err := s.Look(t.Context()); !errors.Is(err, c.want) || f != (store.Finding{WritesOnce: true, Deletes: true}) {
				t.Errorf("want %v, got %+v, %v", c.want, f, err)
			}
		})
	}
}

func (s *Store) keys(t *testing.T, dir string) []string {
	t.Helper()
	os, err := s.List(t.Context(), dir, 100)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, 0, len(os))
	for _, o := range os {
		out = append(out, strings.TrimPrefix(o.Key, dir+"/"))
	}
	return out
}

// TestRealPublish checks that a catalog entry is published exactly once, even if any of the requests fails in any
// way.
func TestRealPublish(t *testing.T) {
	p, s := openReal(t, nil, nil)
	for name, f := range map[string]storetest.Fault{
		"Reset": {Reset: true}, "Lost": {Forget: true}, "Twice": {Twice: true}, "CutOff": {CutOff: true},
		"500":    {Status: http.StatusInternalServerError, Code: "InternalError"},
		"501":    {Status: http.StatusNotImplemented, Code: "NotImplemented"},
		"Denied": {Status: http.StatusForbidden, Code: "AccessDenied"}, "Lies": {Status: http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; n < 20; n++ {
				want := newEntry(strings.ToLower(fmt.Sprintf("%s-%d", name, n)), "x.tar.zst")
				seen := 0
				p.Break(func(*http.Request) storetest.Fault {
					if seen++; seen == n {
						return f
					}
					return storetest.Fault{}
				})
				err := s.Publish(t.Context(), want)
				p.Break(nil)
				if err != nil { // The controller retries.
					err = s.Publish(t.Context(), want)
				}
				got, rerr := s.ReadEntry(t.Context(), want.Spec.Instance, want.Name)
				if err != nil || rerr != nil || !equalEntries(got, want) {
					t.Errorf("%d: want the note, got %v, %v, %v", n, got, err, rerr)
				}
				if err := s.Publish(t.Context(), newEntry(want.Name, "other.tar.zst")); !errors.As(err, new(*otherEntryError)) {
					t.Errorf("%d: want that another one is there, got %v", n, err)
				}
				if seen < n {
					break
				}
			}
		})
	}
}

// TestRealRivals publishes different entries for one backup concurrently. One must win, and the others must get an
// error.
func TestRealRivals(t *testing.T) {
	_, s := openReal(t, nil, nil)
	for round := range 10 {
		var all sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			all.Go(func() {
				n := newEntry(fmt.Sprintf("record-%d", round), fmt.Sprintf("%d.tar.zst", i))
				errs[i] = s.Publish(t.Context(), n)
				// The other entry may exist but not be readable yet. The controller would retry.
				for tries := 0; store.Is(errs[i], store.NotFound) && tries < 100; tries++ {
					time.Sleep(20 * time.Millisecond)
					errs[i] = s.Publish(t.Context(), n)
				}
			})
		}
		all.Wait()
		won := -1
		for i, err := range errs {
			if other := new(otherEntryError); err == nil && won < 0 {
				won = i
			} else if !errors.As(err, &other) {
				t.Errorf("round %d: want one that wins, got %v", round, errs)
			}
		}
		n := newEntry(fmt.Sprintf("record-%d", round), fmt.Sprintf("%d.tar.zst", won))
		if got, err := s.ReadEntry(t.Context(), n.Spec.Instance, n.Name); err != nil || !equalEntries(got, n) {
			t.Errorf("round %d: want that of %d, got %v, %v", round, won, got, err)
		}
	}
}

// TestRealHostileEntries checks that invalid catalog entries are refused.
func TestRealHostileEntries(t *testing.T) {
	_, s := openReal(t, nil, nil)
	n := newEntry("one", "x.tar.zst")
	if err := s.Publish(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	key := manifestOf(v1.StorePrefix(n.Spec.Instance, "one"))
	whole, err := s.ReadSmall(t.Context(), key, store.MaxSigned)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := store.NewSigningKey().Sign(key, n)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := newEntry("two", "x.tar.zst")
	ours, err := s.Sign.Sign(key, elsewhere) // This simulates a bug of the product.
	if err != nil {
		t.Fatal(err)
	}
	noArchive := newEntry("one", "x.tar.zst")
	noArchive.Spec.Archive.Path = "v1/ns/other/one/x.tar.zst"
	other, err := s.Sign.Sign(key, noArchive)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{
		"Stranger": stranger, "OfAnother": ours, "ArchiveElsewhere": other, "CutOff": whole[:len(whole)/2], "Empty": {},
		"Endless": bytes.Repeat([]byte(" "), store.MaxSigned+1),
		"Changed": bytes.Replace(whole, []byte("aaaa"), []byte("aaab"), 1),
	} {
		if err := s.Put(t.Context(), key, raw); err != nil {
			t.Fatal(err)
		}
		if got, err := s.ReadEntry(t.Context(), n.Spec.Instance, "one"); err == nil {
			t.Errorf("%s: believed: %+v", name, got)
		}
		if err := s.Publish(t.Context(), n); err == nil {
			t.Errorf("%s: a note that cannot be read was published over", name)
		}
	}
	// An entry that is written again at its original key is still valid. At a different key it is not.
	if err := s.Put(t.Context(), manifestOf(v1.StorePrefix(n.Spec.Instance, "three")), whole); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ReadEntry(t.Context(), n.Spec.Instance, "three"); err == nil {
		t.Errorf("moved and believed: %+v", got)
	}
}

// TestRealTidy checks which files RemoveLeftovers and Remove delete, even if they are interrupted at each request.
func TestRealTidy(t *testing.T) {
	p, s := openReal(t, nil, nil)
	put := func(keys ...string) {
		t.Helper()
		for _, k := range keys {
			if err := s.Put(t.Context(), k, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	begun := func(dir string) {
		t.Helper()
		if _, err := s.BeginUpload(t.Context(), dir+"/u.tar.zst"); err != nil {
			t.Fatal(err)
		}
	}
	left := func(dir string) []string {
		t.Helper()
		uploads, err := s.Uploads(t.Context(), dir, 10)
		if err != nil {
			t.Fatal(err)
		}
		out := s.keys(t, dir)
		for range uploads {
			out = append(out, "upload")
		}
		return out
	}
	failed := newEntry("failed", "x.tar.zst")
	prefix := v1.StorePrefix(failed.Spec.Instance, "failed")
	put(prefix+"/x.tar.zst", prefix+"/y.tar.zst.age")
	begun(prefix)
	if err := s.RemoveAttempts(t.Context(), failed.Spec.Instance, "failed"); err != nil || len(left(prefix)) > 0 {
		t.Errorf("what no note is of stays: %q, %v", left(prefix), err)
	}
	put(prefix + "/x.tar.zst")
	if err := s.Publish(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveAttempts(t.Context(), failed.Spec.Instance, "failed"); err != nil || len(left(prefix)) != 2 {
		t.Errorf("what is proven goes: %q, %v", left(prefix), err)
	}
	other := newEntry("other", "x.tar.zst")
	others := v1.StorePrefix(other.Spec.Instance, "other")
	put(others+"/x.tar.zst", others+"/y.tar.zst")
	begun(others)
	for n := 1; n < 20; n++ {
		entry := newEntry(fmt.Sprintf("record-%d", n), "good.tar.zst")
		dir := v1.StorePrefix(entry.Spec.Instance, entry.Name)
		put(dir+"/bad.tar.zst", dir+"/good.tar.zst", dir+"/worse.tar.zst.age")
		begun(dir)
		if err := s.RemoveLeftovers(t.Context(), entry); err == nil {
			t.Fatal("nothing is published: nobody knows which is the good one")
		}
		if err := s.Publish(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
		seen := 0
		cut := func(*http.Request) (f storetest.Fault) {
			if seen++; seen == n {
				f.Status, f.Code = http.StatusForbidden, "AccessDenied"
			}
			return f
		}
		p.Break(cut)
		err := s.RemoveLeftovers(t.Context(), entry)
		p.Break(nil)
		if all := left(dir); !slices.Contains(all, "good.tar.zst") || !slices.Contains(all, "manifest.json") {
			t.Fatalf("%d: the backup is gone, got %q, %v", n, all, err)
		}
		if err != nil {
			err = s.RemoveLeftovers(t.Context(), entry)
		}
		if diff := cmp.Diff([]string{"good.tar.zst", "manifest.json"}, left(dir)); diff != "" || err != nil {
			t.Fatalf("%d: %v, -want, +got:\n%s", n, err, diff)
		}
		tidied := seen
		seen = 0
		p.Break(cut)
		err = s.Remove(t.Context(), entry.Spec.Instance, entry.Name, entry.Spec.Archive.SHA256)
		p.Break(nil)
		if all := left(dir); slices.Contains(all, "manifest.json") && !slices.Contains(all, "good.tar.zst") {
			t.Fatalf("%d: a note without its archive, got %q, %v", n, all, err)
		}
		if err != nil {
			err = s.Remove(t.Context(), entry.Spec.Instance, entry.Name, entry.Spec.Archive.SHA256)
		}
		if all := left(dir); len(all) != 0 || err != nil {
			t.Fatalf("%d: want nothing left, got %q, %v", n, all, err)
		}
		if tidied < n && seen < n {
			break
		}
	}
	if diff := cmp.Diff([]string{"x.tar.zst", "y.tar.zst", "upload"}, left(others)); diff != "" {
		t.Errorf("another's: -want, +got:\n%s", diff)
	}
}

// TestRealRemoveMany writes very many objects with a Job's token. They must not prevent the verification or the
// deletion of the backup.
func TestRealRemoveMany(t *testing.T) {
	_, s := openReal(t, nil, nil)
	n := newEntry("one", "x.tar.zst")
	dir := v1.StorePrefix(n.Spec.Instance, n.Name)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range (atATime + 100) / 8 {
				if err := s.Put(t.Context(), fmt.Sprintf("%s/a%d-%d.tar.zst", dir, i, k), []byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(s.Put(t.Context(), n.Spec.Archive.Path, []byte("x")), s.Publish(t.Context(), n),
		s.RemoveLeftovers(t.Context(), n)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"manifest.json", "x.tar.zst"}, s.keys(t, dir)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestRealRemoveHostile checks that a backup can be deleted even if its catalog entry was replaced by an invalid
// object.
func TestRealRemoveHostile(t *testing.T) {
	_, s := openReal(t, nil, nil)
	for name, raw := range map[string][]byte{"stranger": []byte("{}"),
		"endless": bytes.Repeat([]byte(" "), store.MaxSigned+1)} {
		n := newEntry(name, "x.tar.zst")
		dir := v1.StorePrefix(n.Spec.Instance, n.Name)
		if err := errors.Join(s.Put(t.Context(), manifestOf(dir), raw),
			s.Put(t.Context(), n.Spec.Archive.Path, []byte("x"))); err != nil {
			t.Fatal(err)
		}
		err := s.Remove(t.Context(), n.Spec.Instance, n.Name, n.Spec.Archive.SHA256)
		if left := s.keys(t, dir); len(left) != 0 || err != nil {
			t.Errorf("%s: want nothing left, got %q, %v", name, left, err)
		}
	}
}

// TestRealBackupsIn checks that BackupsIn lists the backups of only one namespace, and only backups with a catalog
// entry.
func TestRealBackupsIn(t *testing.T) {
	_, s := openReal(t, nil, nil)
	if got, err := s.BackupsIn(t.Context(), "ns", nobody); err != nil || len(got) != 0 {
		t.Errorf("want none, got %v, %v", got, err)
	}
	for _, k := range []string{"v1/ns/xr/a/manifest.json", "v1/ns/xr/a/x.tar.zst", "v1/ns/xr/b/x.tar.zst",
		"v1/ns/xr2/c/manifest.json", "v1/ns2/xr/d/manifest.json", "v1/ns/manifest.json", "v1/ns/a/b/c/manifest.json"} {
		if err := s.Put(t.Context(), k, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.BackupsIn(t.Context(), "ns", nobody)
	if diff := cmp.Diff([]Found{{"ns", "xr", "a"}, {"ns", "xr2", "c"}}, got); diff != "" || err != nil {
		t.Errorf("%v, -want, +got:\n%s", err, diff)
	}
}

// TestRealAdopt checks that backups of another cluster are found in order and imported once. Each must be deleted
// completely, even if the deletion is interrupted at any request.
func TestRealAdopt(t *testing.T) {
	p, s := openReal(t, nil, nil)
	first, second := newEntry("one", "x.tar.zst"), newEntry("two", "y.tar.zst")
	second.Spec.Number++
	existing := *s
	existing.Name = "as-it-was-called-there"
	for _, n := range []*v1.StoreEntry{second, first} {
		n.Spec.Archive.Store = existing.Name
		if err := errors.Join(existing.Put(t.Context(), n.Spec.Archive.Path, []byte("x")),
			existing.Publish(t.Context(), n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(t.Context(), "v1/a/b/three/manifest.json", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	find := func(want ...string) []Candidate {
		t.Helper()
		all, err := s.Candidates(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := make([]string, 0, len(all))
		for _, c := range all {
			got = append(got, c.Prefix())
			if c.Entry != nil && c.Entry.Spec.Archive.Store != s.Name {
				t.Errorf("%s lies in store %s", c.Record, c.Entry.Spec.Archive.Store)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want, +got:\n%s", diff)
		}
		return all
	}
	all := find("v1/ns/xr/one", "v1/ns/xr/two", "v1/a/b/three")
	if all[2].Entry != nil || all[2].Problem == "" {
		t.Errorf("the last one has no seal, got %+v", all[2])
	}
	for n := 1; ; n++ {
		_, entry := find("v1/ns/xr/one", "v1/ns/xr/two", "v1/a/b/three")[0].Judge(
			Facts{To: "shop", Target: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "new"}}})
		for range 2 {
			if err := s.Publish(t.Context(), entry); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.ReadEntry(t.Context(), entry.Spec.Instance, "one"); err != nil {
			t.Fatal(err)
		}
		find("v1/new/xr/one", "v1/ns/xr/two", "v1/a/b/three")
		if err := s.RemoveLeftovers(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
		seen := 0
		p.Break(func(*http.Request) (f storetest.Fault) {
			if seen++; seen == n {
				f.Status, f.Code = http.StatusForbidden, "AccessDenied"
			}
			return f
		})
		err := s.Remove(t.Context(), entry.Spec.Instance, "one", entry.Spec.Archive.SHA256)
		p.Break(nil)
		if left := s.keys(t, "v1/new/xr/one"); len(left) == 0 && len(s.keys(t, "v1/ns/xr/one")) != 0 {
			t.Fatalf("%d: nobody finds its archive any more: %v", n, err)
		}
		if err != nil {
			err = s.Remove(t.Context(), entry.Spec.Instance, "one", entry.Spec.Archive.SHA256)
		}
		if left := append(s.keys(t, "v1/new"), s.keys(t, "v1/ns/xr/one")...); len(left) != 0 || err != nil {
			t.Fatalf("%d: want nothing left, got %q, %v", n, left, err)
		}
		find("v1/ns/xr/two", "v1/a/b/three")
		if seen < n {
			break
		}
		if err := errors.Join(existing.Put(t.Context(), first.Spec.Archive.Path, []byte("x")),
			existing.Publish(t.Context(), first)); err != nil {
			t.Fatal(err)
		}
	}
}
