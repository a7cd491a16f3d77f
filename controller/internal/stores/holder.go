package stores

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// Only one cluster at a time publishes and deletes backups below a prefix. An object below the prefix, the holder,
// identifies this cluster.
//
// No data in etcd distinguishes a cluster from a copy of it, so the holder has a nonce that changes with each probe.
// The controller first writes a new nonce to the status of the BackupStore. It then writes the nonce to the store, on
// the condition that the object has not changed:
//
//	status: nonces a, b ─▶ store: b, if it still is a ─▶ status: nonces a, b, c ─▶ …
//
// A copy of the cluster knows only the nonces from before the copy. When one cluster renews its hold, the other one
// finds a nonce that it never wrote. It then marks the object as contested, and the first cluster detects the mark.
// After that, both clusters stop publishing and deleting until a user decides which of them continues. A cluster that
// has never used the prefix does not mark the object. It waits.

const (
	// holderKey is the key of the holder.
	holderKey = v1.StoreLayout + "/holder.json"
	// maxNonces is the maximum number of nonces in a status. A status contains the nonce in the store, and the nonces
	// of the last attempts to renew the hold. An attempt that has failed may nevertheless have reached the store.
	maxNonces = 8
	// maxReplaced is the maximum number of previous holders in a holder.
	maxReplaced = 16
)

// A Holder is the content of the holder object. It is signed with the key of the BackupStore.
type Holder struct {
	// ID is random. It changes when a user hands the prefix to another cluster.
	ID string `json:"id"`
	// Nonce is random and changes with each renewal.
	Nonce string `json:"nonce"`
	// RenewedAt is the time of the last renewal, according to the clock of the holder.
	RenewedAt metav1.Time `json:"renewedAt"`
	// Contested is true once another cluster has used the prefix as its own.
	Contested bool `json:"contested,omitempty"`
	// Replaced are the IDs of the holders before this one, newest last.
	Replaced []string `json:"replaced,omitempty"`
}

// holderID matches an ID. Users specify IDs in an annotation.
var holderID = regexp.MustCompile(`^[A-Z0-9]{26}$`)

// A HeldError explains why this cluster does not publish to a store or delete from it.
type HeldError struct{ reason string }

func (e *HeldError) Error() string { return e.reason }

// A holdState contains everything that determines whether this cluster may hold a prefix.
type holdState struct {
	// store is the name of the BackupStore.
	store string
	// found is the existing holder. It is nil if there is none, or if it cannot be read.
	found *Holder
	// unreadable is an ID for an existing object that is not signed with the key of this BackupStore. It is ""
	// otherwise.
	unreadable string
	// known contains the nonces that this cluster has written, by the ID of the holder.
	known map[string][]string
	// used is true if this cluster has used the prefix before.
	used bool
	// takeOver is the ID of the holder that a user wants to replace.
	takeOver string
	// next is a holder with a new ID and a new nonce.
	next Holder
}

// A holdStep is the result of decideHold. write is the holder to write to the store, or nil. reason is the reason why
// this cluster does not hold the prefix. It is empty if the cluster holds the prefix after the write.
type holdStep struct {
	write  *Holder
	reason string
	// current is the nonce that is replaced. It is empty if this cluster did not write it.
	current string
}

// decideHold decides whether this cluster holds the prefix, and what to write.
func decideHold(s holdState) holdStep {
	switch {
	case s.found == nil && s.unreadable == "":
		return holdStep{write: &s.next}
	case s.takeOver != "" && s.takeOver == s.holderID():
		return holdStep{write: s.replaced()}
	case s.found == nil:
		return holdStep{reason: s.unreadableMessage()}
	case s.found.Contested:
		return holdStep{reason: s.contestedMessage()}
	case slices.Contains(s.known[s.found.ID], s.found.Nonce):
		return holdStep{write: s.renewed(), current: s.found.Nonce}
	case s.isRival():
		contested := *s.found
		contested.Contested = true
		return holdStep{write: &contested, reason: s.contestedMessage()}
	}
	return holdStep{reason: s.heldMessage()}
}

func (s *holdState) holderID() string {
	if s.found == nil {
		return s.unreadable
	}
	return s.found.ID
}

// isRival reports whether this cluster has the same right to the prefix as its holder. This is the case if it held
// the prefix under the same ID, or used it before holders existed. It is not the case if a user has handed the prefix
// to another cluster.
func (s *holdState) isRival() bool {
	if _, held := s.known[s.found.ID]; held {
		return true
	}
	return s.used && !slices.ContainsFunc(s.found.Replaced, func(id string) bool {
		_, held := s.known[id]
		return held
	})
}

func (s *holdState) renewed() *Holder {
	out := s.next
	out.ID, out.Replaced = s.found.ID, s.found.Replaced
	return &out
}

func (s *holdState) replaced() *Holder {
	out := s.next
	if s.found != nil {
		out.Replaced = append(slices.Clone(s.found.Replaced), s.found.ID)
		out.Replaced = out.Replaced[max(0, len(out.Replaced)-maxReplaced):]
	}
	return &out
}

func (s *holdState) heldMessage() string {
	return fmt.Sprintf("another cluster holds this bucket and prefix (holder %s, renewed at %s). Backups there can be "+
		"read and restored, but this cluster neither publishes nor deletes any. Give each cluster a bucket or prefix of "+
		"its own. If the other cluster no longer exists, run: %s", s.found.ID,
		s.found.RenewedAt.UTC().Format(time.RFC3339), s.howToTakeOver())
}

func (s *holdState) contestedMessage() string {
	return fmt.Sprintf("two clusters use this bucket and prefix as their own, or this cluster was restored from an "+
		"earlier state (holder %s, renewed at %s). Neither cluster publishes or deletes backups until you decide. "+
		"Remove the credentials of the store from the cluster that is the copy. Then, on the cluster that stays in "+
		"use, run: %s", s.found.ID,
		s.found.RenewedAt.UTC().Format(time.RFC3339), s.howToTakeOver())
}

func (s *holdState) unreadableMessage() string {
	return fmt.Sprintf("the object %s below the prefix was not written with this BackupStore's key. Another cluster "+
		"may use the prefix: this cluster neither publishes nor deletes backups. "+
		"Give each cluster a bucket or prefix of its own. If no other cluster uses it, run: %s", holderKey, s.howToTakeOver())
}

func (s *holdState) howToTakeOver() string {
	return fmt.Sprintf("kubectl annotate backupstore %s --overwrite %s=%s", s.store, v1.AnnotationTakeOverPrefix,
		s.holderID())
}

// Holders contains the prefixes that this process holds. A process holds only prefixes that it has renewed itself,
// because a copy of the cluster starts with the status of the original.
type Holders struct {
	mu     sync.Mutex
	nonces map[string][]string
}

// NewHolders returns the Holders of a process.
func NewHolders() *Holders { return &Holders{nonces: map[string][]string{}} }

// addNonce adds a nonce to the known nonces. If there are too many, it removes the oldest, but not the current one.
func addNonce(nonces []string, current, next string) []string {
	others := slices.DeleteFunc(slices.Clone(nonces), func(n string) bool { return n == current })
	others = others[max(0, len(others)-maxNonces+2):]
	if slices.Contains(nonces, current) {
		others = append([]string{current}, others...)
	}
	return append(others, next)
}

// Check returns a HeldError if this process does not hold the prefix of a store. On a nil Holders, it always
// succeeds.
func (h *Holders) Check(ctx context.Context, s *Store) error {
	if h == nil {
		return nil
	}
	found, _, _, err := s.readHolder(ctx)
	switch {
	case err != nil:
		return err
	case found != nil && !found.Contested && slices.Contains(h.written(found.ID), found.Nonce):
		return nil
	}
	return &HeldError{"nothing is published or deleted there: another cluster may hold its bucket and prefix, or the " +
		"controller has just started. See: kubectl describe backupstore " + s.Name}
}

// readHolder returns the holder of the prefix, if there is one, and the ETag of the object. If the object is not
// signed with this key, it returns an ID for the object instead.
func (s *Store) readHolder(ctx context.Context) (found *Holder, unreadable, etag string, err error) {
	raw, etag, err := s.ReadTagged(ctx, holderKey, store.MaxSigned)
	switch {
	case store.Is(err, store.NotFound):
		return nil, "", "", nil
	case err != nil && (errors.As(err, new(*store.Error)) || etag == ""):
		return nil, "", "", err
	}
	found = &Holder{}
	if err != nil || s.Sign.Open(holderKey, raw, found) != nil || !holderID.MatchString(found.ID) {
		sum := sha256.Sum256(append([]byte(etag), raw...))
		return nil, "unreadable-" + hex.EncodeToString(sum[:8]), etag, nil //nolint:nilerr // If the object is too large to be read, it is not a holder either.
	}
	return found, "", etag, nil
}

// Hold renews this cluster's hold on the prefix of a store, or returns a HeldError. Before it writes to the store, it
// calls entry with the nonces, which entry must store.
func (h *Holders) Hold(ctx context.Context, s *Store, backupStore *v1.BackupStore, all []v1.BackupStore, now time.Time,
	entry func(*v1.StoreHolder) error) error {
	found, unreadable, etag, err := s.readHolder(ctx)
	if err != nil {
		return err
	}
	state := holdState{
		store: backupStore.Name, found: found, unreadable: unreadable, known: h.known(all),
		used: backupStore.Status.ProbeTime != nil, takeOver: backupStore.Annotations[v1.AnnotationTakeOverPrefix],
		next: Holder{ID: rand.Text(), Nonce: rand.Text(), RenewedAt: metav1.NewTime(now)},
	}
	step := decideHold(state)
	log.FromContext(ctx).V(1).Info("Checked who holds the prefix of the store", "holder", state.holderID(), "isOurs",
		step.reason == "")
	if step.write != nil {
		if err := h.write(ctx, s, backupStore, step, etag, entry); err != nil {
			return err
		}
	}
	if step.reason != "" {
		return &HeldError{step.reason}
	}
	return nil
}

// remember stores a nonce that is about to be written.
func (h *Holders) remember(id, nonce string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nonces[id] = addNonce(h.nonces[id], "", nonce)
}

// written returns the nonces that this process has written for a holder.
func (h *Holders) written(id string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.nonces[id])
}

// known returns the nonces that this cluster has written, according to its BackupStores and this process.
func (h *Holders) known(all []v1.BackupStore) map[string][]string {
	out := map[string][]string{}
	for i := range all {
		if holder := all[i].Status.Holder; holder != nil {
			out[holder.ID] = append(out[holder.ID], holder.Nonces...)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, nonces := range h.nonces {
		out[id] = append(out[id], nonces...)
	}
	return out
}

// write writes a holder. It stores a nonce of this cluster first, so that the nonce is known after a crash.
func (h *Holders) write(ctx context.Context, s *Store, backupStore *v1.BackupStore, step holdStep, etag string,
	entry func(*v1.StoreHolder) error) error {
	next := v1.StoreHolder{ID: step.write.ID}
	if previous := backupStore.Status.Holder; previous != nil && previous.ID == next.ID {
		next.Nonces = previous.Nonces
	}
	if step.reason == "" {
		next.Nonces = addNonce(next.Nonces, step.current, step.write.Nonce)
	}
	if err := entry(&next); err != nil {
		return err
	}
	raw, err := s.Sign.Sign(holderKey, step.write)
	if err != nil {
		return err
	}
	if err := s.PutIf(ctx, holderKey, raw, etag); err != nil {
		return err
	}
	// The object is read back, because some stores overwrite an object although the request forbids it.
	existing, _, _, err := s.readHolder(ctx)
	switch {
	case err != nil:
		return err
	case existing == nil || existing.ID != step.write.ID || existing.Nonce != step.write.Nonce:
		return &HeldError{"another client wrote the holder of this bucket and prefix at the same time. The " +
			"controller checks it again"}
	case step.reason == "":
		h.remember(step.write.ID, step.write.Nonce)
	}
	return nil
}
