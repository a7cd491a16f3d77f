package stores

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/s3memory"
)

// TestDecideHold checks the decision for each state of the bucket and of this cluster.
func TestDecideHold(t *testing.T) {
	timestamp := metav1.NewTime(now)
	next := Holder{ID: "new", Nonce: "n9", RenewedAt: timestamp}
	ours := map[string][]string{"a": {"n1", "n2"}}
	for name, tc := range map[string]struct {
		reason string
		state  holdState
		want   *Holder
		says   string
	}{
		"First": {reason: "No cluster has held the prefix.", want: &next},
		"Renewed": {reason: "The holder has the last nonce of this cluster.", state: holdState{found: &Holder{ID: "a", Nonce: "n2"}, known: ours},
			want: &Holder{ID: "a", Nonce: "n9", RenewedAt: timestamp}},
		"Crash": {reason: "The process ended before it stored the next nonce.",
			state: holdState{found: &Holder{ID: "a", Nonce: "n1"}, known: ours},
			want:  &Holder{ID: "a", Nonce: "n9", RenewedAt: timestamp}},
		"Copy": {reason: "A cluster with a copy of the status has renewed the holder.",
			state: holdState{found: &Holder{ID: "a", Nonce: "n3"}, known: ours},
			want:  &Holder{ID: "a", Nonce: "n3", Contested: true}, says: "take-over-prefix=a"},
		"Contested": {reason: "A copy of this cluster has marked the holder as contested.",
			state: holdState{found: &Holder{ID: "a", Nonce: "n2", Contested: true}, known: ours},
			says:  "Neither cluster publishes or deletes"},
		"Newcomer": {reason: "A cluster that never used the prefix must not contest it.",
			state: holdState{found: &Holder{ID: "b", Nonce: "n5", RenewedAt: timestamp}},
			says:  "another cluster holds this bucket and prefix (holder b, renewed at 2026-02-03T04:05:06Z)"},
		"Used": {reason: "Both clusters used the prefix before holders existed, so one of them is a copy.",
			state: holdState{found: &Holder{ID: "b", Nonce: "n5"}, used: true},
			want:  &Holder{ID: "b", Nonce: "n5", Contested: true}, says: "two clusters"},
		"HandedOver": {reason: "A user has chosen the other cluster, so the holder must not be contested again.",
			state: holdState{found: &Holder{ID: "b", Nonce: "n5", Replaced: []string{"a"}}, known: ours, used: true},
			says:  "another cluster holds"},
		"TakesOver": {reason: "A user has chosen this cluster.",
			state: holdState{found: &Holder{ID: "b", Nonce: "n5", Contested: true, Replaced: []string{"a"}}, takeOver: "b"},
			want:  &Holder{ID: "new", Nonce: "n9", RenewedAt: timestamp, Replaced: []string{"a", "b"}}},
		"TookOver": {reason: "The annotation names an earlier holder.",
			state: holdState{found: &Holder{ID: "c", Nonce: "n5"}, takeOver: "b"}, says: "holder c"},
		"Unreadable": {reason: "The holder is signed with another key.", state: holdState{unreadable: "unreadable-1"},
			says: "take-over-prefix=unreadable-1"},
		"Mended": {reason: "A user has declared that no cluster uses the prefix.",
			state: holdState{unreadable: "unreadable-1", takeOver: "unreadable-1"}, want: &next},
	} {
		t.Run(name, func(t *testing.T) {
			tc.state.store, tc.state.next = "offsite", next
			got := decideHold(tc.state)
			if diff := cmp.Diff(tc.want, got.write); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
			if (tc.says == "") != (got.reason == "") || !strings.Contains(got.reason, tc.says) {
				t.Errorf("%s want %q, got %q", tc.reason, tc.says, got.reason)
			}
		})
	}
}

// A holdingCluster simulates a cluster with one BackupStore and its hold on the prefix.
type holdingCluster struct {
	*Holders

	open        *Store
	backupStore *v1.BackupStore
}

func newHoldingCluster(t *testing.T, m *s3memory.Server) *holdingCluster {
	t.Helper()
	backupStore, secrets := newBackupStore(nil, nil)
	settings := m.Settings()
	backupStore.Spec.Endpoint, backupStore.Spec.CABundle, backupStore.Spec.PathStyle, backupStore.Spec.Bucket =
		settings.Endpoint, settings.CA, true, settings.Bucket
	open, err := Open(backupStore, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return &holdingCluster{Holders: NewHolders(), open: open, backupStore: backupStore}
}

// copy returns a copy of the cluster, as if its etcd was restored elsewhere, with a new process.
func (c *holdingCluster) copy() *holdingCluster {
	return &holdingCluster{Holders: NewHolders(), open: c.open, backupStore: c.backupStore.DeepCopy()}
}

// look renews the hold, as each probe does.
func (c *holdingCluster) look(ctx context.Context) error {
	err := c.Hold(ctx, c.open, c.backupStore, []v1.BackupStore{*c.backupStore}, now, func(next *v1.StoreHolder) error {
		c.backupStore.Status.Holder = next
		return nil
	})
	if err == nil {
		c.backupStore.Status.ProbeTime = &metav1.Time{Time: now}
	}
	return err
}

func (c *holdingCluster) holds(ctx context.Context) bool { return c.Check(ctx, c.open) == nil }

func (c *holdingCluster) takeOver(t *testing.T) {
	t.Helper()
	found, unreadable, _, err := c.open.readHolder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state := holdState{found: found, unreadable: unreadable}
	c.backupStore.Annotations = map[string]string{v1.AnnotationTakeOverPrefix: state.holderID()}
}

func isHeld(err error) bool { return errors.As(err, new(*HeldError)) }

// TestTwoClustersOnePrefix checks, for each kind of store, that a cluster and its copy both stop publishing and
// deleting after both have probed. The cluster that a user chooses must continue.
func TestTwoClustersOnePrefix(t *testing.T) {
	for name, kind := range map[string]func(*s3memory.Server){
		"Conditional": func(*s3memory.Server) {}, "NotImplemented": func(m *s3memory.Server) { m.Unconditional = true },
		"Ignored": func(m *s3memory.Server) { m.Careless = true },
	} {
		t.Run(name, func(t *testing.T) {
			m := s3memory.New(t)
			kind(m)
			ctx := t.Context()
			ours := newHoldingCluster(t, m)
			if ours.holds(ctx) {
				t.Error("nothing was held before a look")
			}
			for range 3 {
				if err := ours.look(ctx); err != nil || !ours.holds(ctx) {
					t.Fatalf("want the hold renewed, got %v", err)
				}
			}
			theirs := ours.copy()
			if theirs.holds(ctx) {
				t.Error("a copy has not looked yet")
			}
			if err := theirs.look(ctx); err != nil || !theirs.holds(ctx) || ours.holds(ctx) {
				t.Fatalf("want one of them to hold it: %v, %t and %t", err, theirs.holds(ctx), ours.holds(ctx))
			}
			for _, c := range []*holdingCluster{ours, theirs, ours, theirs} {
				if err := c.look(ctx); !isHeld(err) || ours.holds(ctx) || theirs.holds(ctx) {
					t.Fatalf("want neither of them to hold it: %v", err)
				}
			}
			ours.takeOver(t)
			for range 3 {
				if err := ours.look(ctx); err != nil {
					t.Fatal(err)
				}
				if err := theirs.look(ctx); !isHeld(err) || !ours.holds(ctx) || theirs.holds(ctx) {
					t.Fatalf("want ours to hold it alone: %v, %t and %t", err, ours.holds(ctx), theirs.holds(ctx))
				}
			}
		})
	}
}

// TestHoldSurvivesCrash stops the process between the write to the status and the write to the store. The next
// process must continue.
func TestHoldSurvivesCrash(t *testing.T) {
	m := s3memory.New(t)
	ctx, c := t.Context(), newHoldingCluster(t, m)
	if err := c.look(ctx); err != nil {
		t.Fatal(err)
	}
	crash := errors.New("crash")
	for range 2 * maxNonces {
		err := c.Hold(ctx, c.open, c.backupStore, []v1.BackupStore{*c.backupStore}, now, func(next *v1.StoreHolder) error {
			c.backupStore.Status.Holder = next
			return crash
		})
		if !errors.Is(err, crash) {
			t.Fatal(err)
		}
	}
	if n := len(c.backupStore.Status.Holder.Nonces); n > maxNonces {
		t.Errorf("the status has %d nonces", n)
	}
	next := c.copy() // The same cluster with a new process.
	if err := next.look(ctx); err != nil || !next.holds(ctx) {
		t.Errorf("want the hold back, got %v", err)
	}
	if err := next.look(ctx); err != nil {
		t.Error(err)
	}
}

// TestHoldOfTwoStores checks that two BackupStores of one cluster can share a prefix.
func TestHoldOfTwoStores(t *testing.T) {
	m := s3memory.New(t)
	ctx, c := t.Context(), newHoldingCluster(t, m)
	second := &holdingCluster{Holders: c.Holders, open: c.open, backupStore: c.backupStore.DeepCopy()}
	second.backupStore.Name = "second"
	for range 6 {
		for _, one := range []*holdingCluster{c, second} {
			err := one.Hold(ctx, one.open, one.backupStore, []v1.BackupStore{*c.backupStore, *second.backupStore}, now,
				func(next *v1.StoreHolder) error {
					one.backupStore.Status.Holder = next
					return nil
				})
			if err != nil || !one.holds(ctx) {
				t.Fatal(err)
			}
		}
	}
}

// TestHoldNewcomer checks that a new cluster does not disturb the holder of a prefix that is in use. It must wait for
// a user's decision.
func TestHoldNewcomer(t *testing.T) {
	m := s3memory.New(t)
	ctx, c := t.Context(), newHoldingCluster(t, m)
	if err := c.look(ctx); err != nil {
		t.Fatal(err)
	}
	other := newHoldingCluster(t, m)
	if err := other.look(ctx); !isHeld(err) || !strings.Contains(err.Error(), "not written with this BackupStore's key") {
		t.Errorf("it has another key: want that nothing is published, got %v", err)
	}
	other.open.Sign = c.open.Sign
	for range 2 {
		if err := other.look(ctx); !isHeld(err) || !strings.Contains(err.Error(), "another cluster holds") {
			t.Errorf("want that nothing is published, got %v", err)
		}
		if err := c.look(ctx); err != nil || !c.holds(ctx) {
			t.Fatal(err)
		}
	}
	other.takeOver(t)
	if err := other.look(ctx); err != nil || !other.holds(ctx) || c.holds(ctx) {
		t.Errorf("want the prefix taken over, got %v", err)
	}
	if err := c.look(ctx); !isHeld(err) || c.holds(ctx) || !other.holds(ctx) {
		t.Errorf("want that the other one goes on alone, got %v", err)
	}
}

// TestNothingWithoutHold checks that a cluster that has lost the hold gets a HeldError. It also checks that Remove
// and RemoveLeftovers change nothing if the entry has a different checksum.
func TestNothingWithoutHold(t *testing.T) {
	m := s3memory.New(t)
	ctx, c := t.Context(), newHoldingCluster(t, m)
	if err := c.look(ctx); err != nil {
		t.Fatal(err)
	}
	n := newEntry("one", "x.tar.zst")
	n.Spec.Archive.Size = "3"
	if err := c.open.Put(ctx, n.Spec.Archive.Path, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	theirs := c.copy()
	if err := theirs.look(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(ctx, c.open); !isHeld(err) {
		t.Errorf("want that nothing is done, got %v", err)
	}
	if err := c.open.Remove(ctx, n.Spec.Instance, "one", "another sum"); err != nil { // There is no entry.
		t.Error(err)
	}
	if err := c.open.Put(ctx, n.Spec.Archive.Path, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	if err := c.open.Publish(ctx, n); err != nil {
		t.Fatal(err)
	}
	for subject, err := range map[string]error{
		"Remove": c.open.Remove(ctx, n.Spec.Instance, "one", strings.Repeat("b", 64)),
		"Tidy": c.open.RemoveLeftovers(ctx, func() *v1.StoreEntry {
			other := newEntry("one", "y.tar.zst")
			other.Spec.Archive.SHA256 = strings.Repeat("b", 64)
			return other
		}()),
	} {
		if other := new(otherEntryError); !errors.As(err, &other) {
			t.Errorf("%s of what another note says: want a refusal, got %v", subject, err)
		}
	}
	if _, err := c.open.Stat(ctx, n.Spec.Archive.Path); err != nil {
		t.Errorf("want the archive untouched, got %v", err)
	}
	if err := c.open.Remove(ctx, n.Spec.Instance, "one", n.Spec.Archive.SHA256); err != nil {
		t.Error(err)
	}
	if _, err := c.open.Stat(ctx, n.Spec.Archive.Path); !store.Is(err, store.NotFound) {
		t.Errorf("want it removed, got %v", err)
	}
}

// TestProbesOfOneName checks that BackupStores with the same name in two clusters do not overwrite each other's
// probe objects.
func TestProbesOfOneName(t *testing.T) {
	m := s3memory.New(t)
	c := newHoldingCluster(t, m)
	if _, err := c.open.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := process
	defer func() { process = before }()
	keys := map[string]bool{}
	for _, process = range []string{"one", "two"} {
		raw, err := c.open.encrypt("word")
		if err != nil {
			t.Fatal(err)
		}
		keys[c.open.probeKey()] = true
		if err := c.open.Put(t.Context(), c.open.probeKey(), raw); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) != 2 || len(m.Keys()) != 2 {
		t.Errorf("want an object for each, got %v", m.Keys())
	}
}

// TestBlockedCondition checks that the condition contains the complete command to take over the prefix.
func TestBlockedCondition(t *testing.T) {
	m := s3memory.New(t)
	c := newHoldingCluster(t, m)
	if err := c.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := newHoldingCluster(t, m)
	other.open.Sign = c.open.Sign
	held := other.look(t.Context())
	next, err := NextStatus(other.backupStore, other.open, store.Finding{}, held, now)
	if err != nil || len(next.Conditions) != 1 {
		t.Fatal(next, err)
	}
	command := "kubectl annotate backupstore offsite --overwrite crossplane-mysql.io/take-over-prefix=" +
		c.backupStore.Status.Holder.ID
	if condition := next.Conditions[0]; condition.Status != metav1.ConditionFalse ||
		condition.Reason != v1.ReasonPrefixInUse || !strings.HasSuffix(condition.Message, command) {
		t.Errorf("want the command, got %+v", condition)
	}
}
