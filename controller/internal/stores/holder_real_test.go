//go:build store

package stores

import (
	"net/http"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/storetest"
)

// TestRealHolder checks that two clusters cannot hold the same prefix of a real store. A cluster must recognize its
// own hold even if the response to its write was lost.
func TestRealHolder(t *testing.T) {
	c := newRealCluster(t)
	ours := &holdingCluster{Holders: NewHolders(), open: c.open, backupStore: c.backupStore.DeepCopy()}
	ctx := t.Context()
	for range 3 {
		if err := ours.look(ctx); err != nil || !ours.holds(ctx) {
			t.Fatalf("want the hold, got %v", err)
		}
	}
	_, etag, err := c.open.ReadTagged(ctx, holderKey, store.MaxSigned)
	if err != nil {
		t.Fatal(err)
	}
	if err := ours.look(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.open.PutIf(ctx, holderKey, []byte("{}"), etag); !store.Is(err, store.Exists) {
		t.Errorf("the holder was renewed since: want that it is not written over, got %v", err)
	}
	c.proxy.Break(func(r *http.Request) storetest.Fault { return storetest.Fault{Forget: r.Method == http.MethodPut} })
	_ = ours.look(ctx) // The result does not matter.
	c.proxy.Break(nil)
	if err := ours.look(ctx); err != nil || !ours.holds(ctx) {
		t.Errorf("want the hold back, got %v", err)
	}
	theirs := ours.copy()
	if err := theirs.look(ctx); err != nil {
		t.Fatal(err)
	}
	for _, one := range []*holdingCluster{ours, theirs} {
		if err := one.look(ctx); !isHeld(err) || ours.holds(ctx) || theirs.holds(ctx) {
			t.Errorf("want neither of them to hold it, got %v", err)
		}
	}
	c.Holders = ours.Holders
	n := newEntry("one", "x.tar.zst")
	c.put(t, n, 100)
	for subject, err := range map[string]error{
		"Publish": c.Publish(ctx, "offsite", n), "Tidy": c.RemoveLeftovers(ctx, "offsite", n),
		"Remove":  c.Remove(ctx, "offsite", n.Spec.Instance, "one", ""),
		"Discard": c.RemoveAttempts(ctx, "offsite", n.Spec.Instance, "one"),
	} {
		if !isHeld(err) {
			t.Errorf("%s: want that nothing is done, got %v", subject, err)
		}
	}
	if _, err := c.open.Stat(ctx, n.Spec.Archive.Path); err != nil {
		t.Errorf("want the archive untouched, got %v", err)
	}
	if got, err := c.FindEntries(ctx, "ns", nobody); err != nil || len(got) != 0 {
		t.Errorf("reading goes on, got %v, %v", got, err)
	}
	ours.takeOver(t)
	if err := ours.look(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Publish(ctx, "offsite", n); err != nil {
		t.Error(err)
	}
}
