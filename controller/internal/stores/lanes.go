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
	// maxAsking is how many callers ask one store at the same time: each holds a worker of the controller. Others wait for waitForLane and
	// fail then, so that a store which swallows packets keeps no worker from the instances of another.
	maxAsking   = 4
	waitForLane = 2 * time.Second
	// restAfter a call that a store did not answer: calls fail at once for that long, or until a probe went well.
	restAfter = 15 * time.Second
)

// Lanes keep the callers of one store from waiting for another.
type Lanes struct {
	now func() time.Time

	mu sync.Mutex
	of map[string]*lane
}

// A lane is the way to one store.
type lane struct {
	slots chan struct{}

	// silent is why the store did not answer the last call, and until is when it is asked again.
	silent error
	until  time.Time
}

// NewLanes of a process.
func NewLanes(now func() time.Time) *Lanes { return &Lanes{now: now, of: map[string]*lane{}} }

// Answered ends the rest of a store that has answered.
func (l *Lanes) Answered(name string) {
	if l != nil {
		l.note(l.lane(name), nil)
	}
}

// do asks a store, if it may be asked now. Without lanes all callers ask at once.
func (l *Lanes) do(ctx context.Context, of *v1.BackupStore, ask func() error) error {
	if l == nil {
		return ask()
	}
	w, err := l.enter(ctx, of)
	if err != nil {
		log.FromContext(ctx).V(1).Info("The store is not contacted now", "store", of.Name, "error", err)
		return err
	}
	defer func() { <-w.slots }()
	err = ask()
	if l.note(w, err) {
		log.FromContext(ctx).V(1).Info("The store did not answer, and is not contacted for a while", "store", of.Name, "after", restAfter, "error", err)
	}
	return err
}

// enter the lane of a store.
func (l *Lanes) enter(ctx context.Context, of *v1.BackupStore) (*lane, error) {
	w := l.lane(of.Name)
	if err := l.isSilent(w, of); err != nil {
		return nil, err
	}
	late := time.NewTimer(waitForLane)
	defer late.Stop()
	select {
	case w.slots <- struct{}{}:
	case <-late.C:
		return nil, &store.Error{Kind: store.Busy, Verb: "ask", Key: of.Name, Err: fmt.Errorf("%d callers wait for its answer", maxAsking)}
	case <-ctx.Done():
		return nil, &store.Error{Kind: store.Stopped, Verb: "ask", Key: of.Name, Err: context.Cause(ctx)} // Which says nothing of what it has.
	}
	if err := l.isSilent(w, of); err != nil { // By now.
		<-w.slots
		return nil, err
	}
	return w, nil
}

func (l *Lanes) lane(name string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[name] == nil {
		l.of[name] = &lane{slots: make(chan struct{}, maxAsking)}
	}
	return l.of[name]
}

// isSilent returns the error of a store that did not answer a moment ago, or its last probe.
func (l *Lanes) isSilent(w *lane, of *v1.BackupStore) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now().Before(w.until) {
		return w.silent
	}
	if c := meta.FindStatusCondition(of.Status.Conditions, v1.ConditionReachable); c != nil && c.Status == metav1.ConditionFalse && c.Reason == string(store.Unreachable) && c.ObservedGeneration == of.Generation {
		return &store.Error{Kind: store.Unreachable, Verb: "ask", Key: of.Name, Err: fmt.Errorf("its last probe failed: %s", c.Message)}
	}
	return nil
}

// note whether a store answered, and return true if it did not and is left alone for a while.
func (l *Lanes) note(w *lane, err error) (isSilent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.silent, w.until = nil, time.Time{}
	if isSilent = store.Is(err, store.Unreachable); isSilent {
		w.silent, w.until = err, l.now().Add(restAfter)
	}
	return isSilent
}
