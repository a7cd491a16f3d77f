package stores

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

const (
	// maxAsking is the maximum number of concurrent calls to one store. Each call occupies a worker of the
	// controller. Other callers wait for at most waitForLane and then fail. A store that drops packets therefore
	// cannot block the workers that other instances need.
	maxAsking   = 4
	waitForLane = 2 * time.Second
	// restAfter is the time for which calls to a store fail immediately after the store has not answered. A
	// successful probe of the store ends this time early.
	restAfter = 15 * time.Second
)

// Lanes limits the concurrent calls to each store separately. Callers of one store therefore never wait for another
// one.
type Lanes struct {
	now func() time.Time

	mu      sync.Mutex
	byStore map[string]*lane
}

// A lane limits the concurrent calls to one store.
type lane struct {
	slots chan struct{}

	// silent is the error of the last call if the store did not answer it. until is when the store may be called
	// again.
	silent error
	until  time.Time
}

// NewLanes returns the Lanes of a process.
func NewLanes(now func() time.Time) *Lanes { return &Lanes{now: now, byStore: map[string]*lane{}} }

// Answered records that a store has answered, so that it may be called again at once.
func (l *Lanes) Answered(name string) {
	if l != nil {
		l.entry(l.lane(name), nil)
	}
}

// do calls a store if it may be called now. On a nil Lanes, there is no limit.
func (l *Lanes) do(ctx context.Context, backupStore *v1.BackupStore, ask func() error) error {
	if l == nil {
		return ask()
	}
	w, err := l.enter(ctx, backupStore)
	if err != nil {
		log.FromContext(ctx).V(1).Info("The store is not contacted now", "store", backupStore.Name, "error", err)
		return err
	}
	defer func() { <-w.slots }()
	err = ask()
	if l.entry(w, err) {
		log.FromContext(ctx).V(1).Info("The store did not respond, and is not contacted for a while", "store",
			backupStore.Name, "after", restAfter, "error", err)
	}
	return err
}

// enter waits for a slot in the lane of a store.
func (l *Lanes) enter(ctx context.Context, backupStore *v1.BackupStore) (*lane, error) {
	w := l.lane(backupStore.Name)
	if err := l.isSilent(w, backupStore); err != nil {
		return nil, err
	}
	late := time.NewTimer(waitForLane)
	defer late.Stop()
	select {
	case w.slots <- struct{}{}:
	case <-late.C:
		return nil, &store.Error{Kind: store.Busy, Verb: "contact", Key: backupStore.Name,
			Err: fmt.Errorf("%d callers wait for its response", maxAsking)}
	case <-ctx.Done():
		// The kind Stopped tells the caller that nothing is known about the contents of the store.
		return nil, &store.Error{Kind: store.Stopped, Verb: "contact", Key: backupStore.Name, Err: context.Cause(ctx)}
	}
	if err := l.isSilent(w, backupStore); err != nil { // The store may have failed while the caller was waiting.
		<-w.slots
		return nil, err
	}
	return w, nil
}

func (l *Lanes) lane(name string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byStore[name] == nil {
		l.byStore[name] = &lane{slots: make(chan struct{}, maxAsking)}
	}
	return l.byStore[name]
}

// isSilent returns the error of a store that did not answer a recent call or its last probe.
func (l *Lanes) isSilent(w *lane, backupStore *v1.BackupStore) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now().Before(w.until) {
		return w.silent
	}
	if c := meta.FindStatusCondition(backupStore.Status.Conditions, v1.ConditionReachable); c != nil &&
		c.Status == metav1.ConditionFalse && c.Reason == string(store.Unreachable) &&
		c.ObservedGeneration == backupStore.Generation {
		return &store.Error{Kind: store.Unreachable, Verb: "contact", Key: backupStore.Name,
			Err: fmt.Errorf("its last probe failed: %s", c.Message)}
	}
	return nil
}

// entry records whether a store has answered. If it has not, entry returns true, and further calls fail for a while.
func (l *Lanes) entry(w *lane, err error) (isSilent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.silent, w.until = nil, time.Time{}
	if isSilent = store.Is(err, store.Unreachable); isSilent {
		w.silent, w.until = err, l.now().Add(restAfter)
	}
	return isSilent
}
