package gateway

import (
	"context"
	"strings"
	"sync"
	"time"
)

const (
	// maxAtOnce are the requests that are served at the same time, and maxOfGrant those of one Job: it needs two or three.
	maxAtOnce  = 64
	maxOfGrant = 8
	// maxWaiting are the requests of one namespace that wait for a place, for waitForPlace at most. A Job asks again.
	maxWaiting   = 16
	waitForPlace = 20 * time.Second
)

// places are shared by namespaces: one gets another place only while it has fewer than are free. A single namespace has half of them at
// most, and many that are busy leave one for the next (a dynamic threshold, as switches share their buffers: Choudhury and Hahne, 1998).
type places struct {
	all int

	mu      sync.Mutex
	used    int
	of      map[string]int
	grants  map[Grant]int
	waiting map[string]int
	// changed is closed when a place is free again.
	changed chan struct{}
}

func newPlaces(all int) *places {
	return &places{all: all, of: map[string]int{}, grants: map[Grant]int{}, waiting: map[string]int{}, changed: make(chan struct{})}
}

// mayTake reports whether a namespace that has so many places gets another one.
func mayTake(has, used, all int) bool { return has < all-used }

// take a place for a request of a grant, and return what frees it.
func (p *places) take(ctx context.Context, g Grant) (free func(), err error) {
	late := time.After(waitForPlace)
	p.mu.Lock()
	defer p.mu.Unlock()
	for first := true; ; first = false {
		switch {
		case p.grants[g] >= maxOfGrant:
			return nil, errManyOfGrant
		case mayTake(p.of[g.namespace()], p.used, p.all):
			return p.taken(g), nil
		case first && p.waiting[g.namespace()] >= maxWaiting:
			return nil, errManyOfNamespace
		}
		if !p.wait(ctx, g.namespace(), late) {
			return nil, errManyOfNamespace
		}
	}
}

// taken place, as it is counted.
func (p *places) taken(g Grant) func() {
	p.used++
	p.of[g.namespace()]++
	p.grants[g]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.used--
		countDown(p.of, g.namespace())
		countDown(p.grants, g)
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// wait until a place is free; false after its time. The lock is held before and after it.
func (p *places) wait(ctx context.Context, namespace string, late <-chan time.Time) bool {
	changed := p.changed
	p.waiting[namespace]++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		countDown(p.waiting, namespace)
	}()
	select {
	case <-changed:
		return true
	case <-late:
		return false
	case <-ctx.Done():
		return false
	}
}

func countDown[K comparable](of map[K]int, key K) {
	if of[key]--; of[key] <= 0 {
		delete(of, key)
	}
}

// namespace that a grant is for, as the folders of its objects have it: v1/NAMESPACE-UID/… of backups, and FOLDER/NAMESPACE/… of imports.
func (g Grant) namespace() string {
	first, rest, _ := strings.Cut(g.Folder+g.Object, "/")
	second, _, _ := strings.Cut(rest, "/")
	return first + "/" + second
}
