package reconciler

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
)

const (
	// share of one namespace in the workers: one in four.
	share = 4
	// nextTurn is how long an instance waits whose namespace has no turn left.
	nextTurn = time.Second
)

// turns are what the instances of a namespace take to be looked after, or to have their servers
// spoken with. Who can make servers that do not answer, or deletions that hang, makes them in a
// namespace of its own, and holds up no other.
type turns struct {
	most int

	mu   sync.Mutex
	busy map[string]int
}

// newTurns for so many workers.
func newTurns(workers int) *turns {
	return &turns{most: max(workers/share, 1), busy: map[string]int{}}
}

// takeTurn of a namespace, which is to be given back; false if all of its turns are
// taken.
func (t *turns) takeTurn(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[namespace] >= t.most {
		return false
	}
	t.busy[namespace]++
	return true
}

// giveTurn of a namespace back.
func (t *turns) giveTurn(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[namespace]--; t.busy[namespace] == 0 {
		delete(t.busy, namespace)
	}
}

// Pauses after a server cost too much. They double from the first to the
// longest.
const (
	firstPause   = 2 * time.Second
	longestPause = 5 * time.Minute
	// restartPause is the longest for a server that has started since. That may have
	// mended it; but whoever means harm can start it as often as they like.
	restartPause = 30 * time.Second
)

// shareOfSlow is how much longer a server is left alone than it took, where that was too long
// and yet something came of it: it has a quarter of a worker at most.
const shareOfSlow = 3

// A strain is that a server cost too much, so many times in a row.
type strain struct {
	// times that nothing came of it; 0 where the last pass came to its end, and was slow.
	times int
	slow  time.Duration
	// at is when it did last, in that start of the server.
	at    time.Time
	start string
}

// pauseFor is the pause after a strain, for a server that is in this start.
func (s strain) pauseFor(start string) time.Duration {
	if s.times == 0 {
		return min(shareOfSlow*s.slow, longestPause)
	}
	out := firstPause
	for n := 1; n < s.times && out < longestPause; n++ {
		out *= 2
	}
	if start != s.start {
		return min(out, restartPause)
	}
	return min(out, longestPause)
}

// strains of all instances. An event of an instance does not end its pause.
type strains struct {
	mu sync.Mutex
	of map[instance.Key]strain
}

func newStrains() *strains { return &strains{of: map[instance.Key]strain{}} }

// pauseOf an instance, 0 where it has none, and what is left of it.
func (s *strains) pauseOf(k instance.Key, start string, now time.Time) (pause, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.of[k]
	if !ok {
		return 0, 0
	}
	pause = last.pauseFor(start)
	return pause, pause - now.Sub(last.at)
}

// noteStrain keeps what a server cost, and returns the pause that follows.
func (s *strains) noteStrain(k instance.Key, start string, now time.Time, by rotate.Result) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := strain{at: now, start: start, slow: by.Slow}
	switch {
	case by.Strained:
		next.times = s.of[k].times + 1
	case !by.Well: // What it cost before is still all that is known.
		return 0
	case by.Slow == 0:
		delete(s.of, k)
		return 0
	}
	s.of[k] = next
	return next.pauseFor(start)
}

// forgetStrain of an instance.
func (s *strains) forgetStrain(k instance.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, k)
}

// retries of instances whose server was asked in vain, after pauses that double
// from the first to the longest. An event of the instance does not wait for them.
type retries struct {
	workqueue.TypedRateLimiter[instance.Key]
}

func newRetries() retries {
	const first, longest = 5 * time.Millisecond, 1000 * time.Second
	return retries{workqueue.NewTypedItemExponentialFailureRateLimiter[instance.Key](first, longest)}
}

// Forget nothing: the queue calls this also for what only waits for its turn, which
// would then be asked in vain as often as if it were the first time.
func (retries) Forget(instance.Key) {}

// endRetries of an instance with which all went well.
func (r retries) endRetries(k instance.Key) { r.TypedRateLimiter.Forget(k) }
