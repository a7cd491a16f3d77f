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

// One cluster at a time publishes and deletes backups below a prefix. The holder object there says which.
//
// Nothing that is kept in etcd tells a cluster from its copy, so the holder has a nonce that changes with each probe. The controller writes
// a new nonce to the status of the BackupStore first, and then to the store, under the condition that the object has not changed:
//
//	status: nonces a, b ─▶ store: b, if it still is a ─▶ status: nonces a, b, c ─▶ …
//
// A copy of the cluster knows the nonces up to the copy. Whichever of the two renews first leaves the other with an object whose nonce it
// never wrote. That one marks the object as contested, which the first one sees: from then on neither publishes nor deletes, until a
// person says which of them goes on. A cluster that never used the prefix contests nothing: it only waits.

const (
	// holderKey is the object that says which cluster holds the prefix.
	holderKey = v1.StoreLayout + "/holder.json"
	// maxNonces that a status keeps: the one in the store, and those of the last attempts to renew it. An attempt that seems to have failed
	// may have reached the store.
	maxNonces = 8
	// maxReplaced holders that a holder names.
	maxReplaced = 16
)

// A Holder is the content of the holder object, which is signed with the key of the BackupStore.
type Holder struct {
	// ID is random. It changes when a person hands the prefix over.
	ID string `json:"id"`
	// Nonce is random, and another one at each renewal.
	Nonce string `json:"nonce"`
	// RenewedAt is when it was last renewed, by the clock of the holder.
	RenewedAt metav1.Time `json:"renewedAt"`
	// Contested is true once another cluster has used the prefix as its own.
	Contested bool `json:"contested,omitempty"`
	// Replaced are the IDs of the holders before this one, newest last.
	Replaced []string `json:"replaced,omitempty"`
}

// holderID is what an ID looks like, which people type.
var holderID = regexp.MustCompile(`^[A-Z0-9]{26}$`)

// A HeldError says why this cluster does not publish to a store, nor delete from it.
type HeldError struct{ why string }

func (e *HeldError) Error() string { return e.why }

// A holdState is all that a decision about the holder depends on.
type holdState struct {
	// store is the name of the BackupStore.
	store string
	// found is the holder; nil if there is none, or if it cannot be read.
	found *Holder
	// unreadable is an ID for an object that is no holder of this BackupStore's key.
	unreadable string
	// known are the nonces that this cluster has written, by holder.
	known map[string][]string
	// used is true if this cluster has used the prefix before.
	used bool
	// takeOver is the holder that a person says is to be replaced.
	takeOver string
	// next is a holder with a new ID and a new nonce.
	next Holder
}

// A holdStep is what to write, and why the prefix is not this cluster's. Without a reason it is, once that is written.
type holdStep struct {
	write *Holder
	why   string
	// current is the nonce that is replaced; empty if that is none of this cluster's.
	current string
}

// decideHold decides who holds a prefix.
func decideHold(s holdState) holdStep {
	switch {
	case s.found == nil && s.unreadable == "":
		return holdStep{write: &s.next}
	case s.takeOver != "" && s.takeOver == s.holderID():
		return holdStep{write: s.replaced()}
	case s.found == nil:
		return holdStep{why: s.saysUnreadable()}
	case s.found.Contested:
		return holdStep{why: s.saysContested()}
	case slices.Contains(s.known[s.found.ID], s.found.Nonce):
		return holdStep{write: s.renewed(), current: s.found.Nonce}
	case s.isRival():
		contested := *s.found
		contested.Contested = true
		return holdStep{write: &contested, why: s.saysContested()}
	}
	return holdStep{why: s.saysHeld()}
}

func (s *holdState) holderID() string {
	if s.found == nil {
		return s.unreadable
	}
	return s.found.ID
}

// isRival reports whether this cluster has as good a claim to the prefix as its holder: it held it under the same ID, or used it before
// there were holders. A person who handed the prefix over has decided that.
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

func (s *holdState) saysHeld() string {
	return fmt.Sprintf("another cluster holds this bucket and prefix (holder %s, renewed at %s). Backups there can be read and restored, but this cluster neither publishes nor deletes any. "+
		"Give each cluster a bucket or prefix of its own. If the other cluster is gone for good, run: %s", s.found.ID, s.found.RenewedAt.UTC().Format(time.RFC3339), s.howToTakeOver())
}

func (s *holdState) saysContested() string {
	return fmt.Sprintf("two clusters use this bucket and prefix as their own, or this cluster was restored from an earlier state (holder %s, renewed at %s). Neither publishes nor deletes backups until a person decides. "+
		"Take the credentials of the store away from the copy. Then, on the cluster that goes on, run: %s", s.found.ID, s.found.RenewedAt.UTC().Format(time.RFC3339), s.howToTakeOver())
}

func (s *holdState) saysUnreadable() string {
	return fmt.Sprintf("the object %s below the prefix was not written with this BackupStore's key. Another cluster may use the prefix: this cluster neither publishes nor deletes backups. "+
		"Give each cluster a bucket or prefix of its own. If no other cluster uses it, run: %s", holderKey, s.howToTakeOver())
}

func (s *holdState) howToTakeOver() string {
	return fmt.Sprintf("kubectl annotate backupstore %s --overwrite %s=%s", s.store, v1.AnnotationTakeOverPrefix, s.holderID())
}

// Holders are the prefixes that this process holds. What it has not renewed itself it does not hold: a copy of the cluster starts with
// the status of the original.
type Holders struct {
	mu     sync.Mutex
	nonces map[string][]string
}

// NewHolders of a process.
func NewHolders() *Holders { return &Holders{nonces: map[string][]string{}} }

// addNonce to those that are known, and forget the oldest of them but the current one.
func addNonce(nonces []string, current, next string) []string {
	others := slices.DeleteFunc(slices.Clone(nonces), func(n string) bool { return n == current })
	others = others[max(0, len(others)-maxNonces+2):]
	if slices.Contains(nonces, current) {
		others = append([]string{current}, others...)
	}
	return append(others, next)
}

// Check returns a HeldError if this process does not hold the prefix of a store now. No holders mean that none are kept.
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
	return &HeldError{"nothing is published or deleted there: another cluster may hold its bucket and prefix, or the controller has just started. See: kubectl describe backupstore " + s.Name}
}

// readHolder returns the holder of the prefix, if there is one, and the ETag of the object. An object that is no holder of this key has
// an ID of its own.
func (s *Store) readHolder(ctx context.Context) (found *Holder, unreadable, etag string, err error) {
	raw, etag, err := s.ReadTagged(ctx, holderKey, store.MaxSealed)
	switch {
	case store.Is(err, store.NotFound):
		return nil, "", "", nil
	case err != nil && (errors.As(err, new(*store.Error)) || etag == ""):
		return nil, "", "", err
	}
	found = &Holder{}
	if err != nil || s.Seal.Open(holderKey, raw, found) != nil || !holderID.MatchString(found.ID) {
		sum := sha256.Sum256(append([]byte(etag), raw...))
		return nil, "unreadable-" + hex.EncodeToString(sum[:8]), etag, nil //nolint:nilerr // The error is that the object is too large: it is no holder either.
	}
	return found, "", etag, nil
}

// Hold renews this cluster's hold on the prefix of a store, or says in a HeldError who has it. The function note writes a nonce down
// before the store has it.
func (h *Holders) Hold(ctx context.Context, s *Store, of *v1.BackupStore, all []v1.BackupStore, now time.Time, note func(*v1.StoreHolder) error) error {
	found, unreadable, etag, err := s.readHolder(ctx)
	if err != nil {
		return err
	}
	state := holdState{
		store: of.Name, found: found, unreadable: unreadable, known: h.known(all), used: of.Status.ProbedAt != nil, takeOver: of.Annotations[v1.AnnotationTakeOverPrefix],
		next: Holder{ID: rand.Text(), Nonce: rand.Text(), RenewedAt: metav1.NewTime(now)},
	}
	step := decideHold(state)
	log.FromContext(ctx).V(1).Info("Checked who holds the prefix of the store", "holder", state.holderID(), "isOurs", step.why == "")
	if step.write != nil {
		if err := h.write(ctx, s, of, step, etag, note); err != nil {
			return err
		}
	}
	if step.why != "" {
		return &HeldError{step.why}
	}
	return nil
}

// remember a nonce that is about to be written.
func (h *Holders) remember(id, nonce string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nonces[id] = addNonce(h.nonces[id], "", nonce)
}

// written are the nonces of a holder that this process has written.
func (h *Holders) written(id string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.nonces[id])
}

// known are the nonces that this cluster has written, as its BackupStores and this process know them.
func (h *Holders) known(all []v1.BackupStore) map[string][]string {
	out := map[string][]string{}
	for i := range all {
		if of := all[i].Status.Holder; of != nil {
			out[of.ID] = append(out[of.ID], of.Nonces...)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, nonces := range h.nonces {
		out[id] = append(out[id], nonces...)
	}
	return out
}

// write a holder. A nonce that is this cluster's is written down first, so that it is known after a crash.
func (h *Holders) write(ctx context.Context, s *Store, of *v1.BackupStore, step holdStep, etag string, note func(*v1.StoreHolder) error) error {
	next := v1.StoreHolder{ID: step.write.ID}
	if was := of.Status.Holder; was != nil && was.ID == next.ID {
		next.Nonces = was.Nonces
	}
	if step.why == "" {
		next.Nonces = addNonce(next.Nonces, step.current, step.write.Nonce)
	}
	if err := note(&next); err != nil {
		return err
	}
	raw, err := s.Seal.Seal(holderKey, step.write)
	if err != nil {
		return err
	}
	if err := s.PutIf(ctx, holderKey, raw, etag); err != nil {
		return err
	}
	// It is read back: some stores write over what is there although they are asked not to.
	there, _, _, err := s.readHolder(ctx)
	switch {
	case err != nil:
		return err
	case there == nil || there.ID != step.write.ID || there.Nonce != step.write.Nonce:
		return &HeldError{"another client has written the holder of this bucket and prefix at the same time: it is looked at again"}
	case step.why == "":
		h.remember(step.write.ID, step.write.Nonce)
	}
	return nil
}
