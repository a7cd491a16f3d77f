package gateway

import (
	"context"
	"strings"
	"sync"
	"time"
)

const (
	// maxAtOnce is the number of requests that are served concurrently. maxOfGrant is the maximum for one Job. A Job
	// needs two or three.
	maxAtOnce  = 64
	maxOfGrant = 8
	// maxWaiting is the maximum number of requests per namespace that wait because all places are in use. Each waits
	// for at most waitForPlace and is then refused. The Job retries it.
	maxWaiting   = 16
	waitForPlace = 20 * time.Second
)

// places is a semaphore that limits the concurrent requests and shares them between namespaces. A place is a slot for
// one request. A namespace gets another place only if it uses fewer places than are free. A single namespace
// therefore gets at most half of all places, and several busy namespaces leave some for the next one. This is a
// dynamic threshold, as in the shared buffers of switches (Choudhury and Hahne, 1998).
type places struct {
	all int

	mu      sync.Mutex
	used    int
	byStore map[string]int
	grants  map[Grant]int
	waiting map[string]int
	// changed is closed when a place becomes free.
	changed chan struct{}
}

func newPlaces(all int) *places {
	return &places{all: all, byStore: map[string]int{}, grants: map[Grant]int{}, waiting: map[string]int{},
		changed: make(chan struct{})}
}

// mayTake reports whether a namespace that uses taken places may use another one.
func mayTake(taken, used, all int) bool { return taken < all-used }

// take acquires a place for a request, and waits for it if necessary. The returned function releases the place.
func (p *places) take(ctx context.Context, g Grant) (free func(), err error) {
	late := time.After(waitForPlace)
	p.mu.Lock()
	defer p.mu.Unlock()
	for first := true; ; first = false {
		switch {
		case p.grants[g] >= maxOfGrant:
			return nil, errManyOfGrant
		case mayTake(p.byStore[g.namespace()], p.used, p.all):
			return p.taken(g), nil
		case first && p.waiting[g.namespace()] >= maxWaiting:
			return nil, errManyOfNamespace
		}
		if !p.wait(ctx, g.namespace(), late) {
			return nil, errManyOfNamespace
		}
	}
}

// taken marks a place as used. The returned function releases the place.
func (p *places) taken(g Grant) func() {
	p.used++
	p.byStore[g.namespace()]++
	p.grants[g]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.used--
		countDown(p.byStore, g.namespace())
		countDown(p.grants, g)
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// wait waits until a request releases its place. It returns false after the timeout. The caller must hold the mutex,
// which is unlocked while wait waits.
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

func countDown[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// namespace returns the part of the prefix that identifies the namespace of the grant. Objects of backups are below
// v1/NAMESPACE-UID/, and objects of imports below FOLDER/NAMESPACE/.
func (g Grant) namespace() string {
	first, rest, _ := strings.Cut(g.Prefix+g.Object, "/")
	second, _, _ := strings.Cut(rest, "/")
	return first + "/" + second
}
