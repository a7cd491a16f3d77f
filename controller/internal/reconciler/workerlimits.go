package reconciler

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
)

const (
	// namespaceShare limits the workers of one namespace to a quarter of all workers.
	namespaceShare = 4
	// nextTurn is the delay before an instance is reconciled again if its namespace has no free worker.
	nextTurn = time.Second
)

// turns limits the workers of each namespace, for reconciles and for connections to servers. A user can create
// servers that do not respond, or deletions that hang. Because of the limit, this delays only that user's namespace.
type turns struct {
	most int

	mu   sync.Mutex
	busy map[string]int
}

// newTurns returns the limits for the given number of workers.
func newTurns(workers int) *turns {
	return &turns{most: max(workers/namespaceShare, 1), busy: map[string]int{}}
}

// takeTurn takes a worker for a namespace and reports whether one was free. The caller must return it with giveTurn.
func (t *turns) takeTurn(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[namespace] >= t.most {
		return false
	}
	t.busy[namespace]++
	return true
}

// giveTurn returns a worker of a namespace.
func (t *turns) giveTurn(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[namespace]--; t.busy[namespace] == 0 {
		delete(t.busy, namespace)
	}
}

// Delays before the controller contacts a server again that wasted its time, for example because it did not respond.
// The delay starts at firstPause and doubles up to longestPause.
const (
	firstPause   = 2 * time.Second
	longestPause = 5 * time.Minute
	// restartPause is the longest delay for a server that has been restarted since the last contact. The restart may
	// have fixed the server, but a malicious user can restart it at any time.
	restartPause = 30 * time.Second
)

// shareOfSlow is the factor for the delay after a pass that was slow but successful. Such a server then uses at most
// a quarter of a worker.
const shareOfSlow = 3

// A strain is the delay before the controller contacts a slow or failing server again.
type strain struct {
	pause time.Duration
	// isSlow is true if the last pass succeeded and was slow.
	isSlow bool
	// last is the time of the last pass, and start identifies the server's start at that time.
	last  time.Time
	start string
}

// pauseFor returns the delay for a server. start identifies the current start of the server.
func (s strain) pauseFor(start string) time.Duration {
	if start != s.start && !s.isSlow {
		return min(s.pause, restartPause)
	}
	return s.pause
}

// strains contains the delays of all instances. The work queue cannot store them, because an event of an instance
// must not end its delay.
type strains struct {
	mu         sync.Mutex
	byInstance map[instance.Key]strain
	backoff    workqueue.TypedRateLimiter[instance.Key]
}

func newStrains() *strains {
	return &strains{
		byInstance: map[instance.Key]strain{},
		backoff:    workqueue.NewTypedItemExponentialFailureRateLimiter[instance.Key](firstPause, longestPause),
	}
}

// pauseOf returns the delay of an instance, or zero, and the remaining part of it.
func (s *strains) pauseOf(k instance.Key, start string, now time.Time) (pause, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.byInstance[k]
	if !ok {
		return 0, 0
	}
	pause = last.pauseFor(start)
	return pause, pause - now.Sub(last.last)
}

// recordStrain stores whether a pass was slow or wasted time, and returns the next delay.
func (s *strains) recordStrain(k instance.Key, start string, now time.Time, result rotate.Result) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := strain{last: now, start: start}
	switch {
	case result.Strained:
		next.pause = s.backoff.When(k)
	case !result.Well: // The pass says nothing new, so the previous delay is kept.
		return 0
	default:
		s.backoff.Forget(k)
		next.pause, next.isSlow = min(shareOfSlow*result.Slow, longestPause), true
	}
	if next.pause == 0 {
		delete(s.byInstance, k)
		return 0
	}
	s.byInstance[k] = next
	return next.pause
}

// forgetStrain removes the delay of an instance.
func (s *strains) forgetStrain(k instance.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backoff.Forget(k)
	delete(s.byInstance, k)
}

// retries limits retries for instances whose server did not respond. The delay doubles at each retry, up to a
// maximum. An event of the instance causes a reconcile without this delay.
type retries struct {
	workqueue.TypedRateLimiter[instance.Key]
}

func newRetries() retries {
	const first, longest = 5 * time.Millisecond, 1000 * time.Second
	return retries{workqueue.NewTypedItemExponentialFailureRateLimiter[instance.Key](first, longest)}
}

// Forget is a no-op. The queue also calls Forget for an item that is waiting for a worker, which would reset the
// back-off of that item.
func (retries) Forget(instance.Key) {}

// endRetries resets the back-off of an instance after a success.
func (r retries) endRetries(k instance.Key) { r.TypedRateLimiter.Forget(k) }
