// Package clock compares the clock of this process with the clock of the API server. While a clock is wrong, nothing
// may expire that cannot be restored, such as a backup.
package clock

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Tolerance is the maximum difference between the two clocks. It is far smaller than the periods of backups,
// certificates and schedules.
const Tolerance = 5 * time.Minute

// slowAnswer is the maximum duration of a request. If a response takes longer, its time is too old to be used.
const slowAnswer = 30 * time.Second

// A Skew is the difference between the clock of this process and the API server's clock. Ahead is positive if this
// process is ahead, and negative if it is behind.
type Skew struct {
	Ahead time.Duration
	// Unknown is true if no response of the API server contained a time.
	Unknown bool
}

// IsTrusted reports whether both clocks agree. The controller deletes expired objects only then.
func (s Skew) IsTrusted() bool { return !s.Unknown && s.Ahead.Abs() <= Tolerance }

// String describes the difference. The text changes only if the difference changes considerably.
func (s Skew) String() string {
	switch {
	case s.Unknown:
		return "The API server does not report its time (its responses have no Date header)"
	case s.Ahead < 0:
		return fmt.Sprintf("The controller's clock is %s behind the API server's", duration.HumanDuration(-s.Ahead))
	}
	return fmt.Sprintf("The controller's clock is %s ahead of the API server's", duration.HumanDuration(s.Ahead))
}

// A Watch reads the time of the API server from the Date header of each response. Between two responses it uses the
// monotonic clock, which cannot be set. It therefore detects at once if the wall clock is set to another time.
type Watch struct {
	wall      func() time.Time
	monotonic func() time.Duration

	mu sync.Mutex
	// told is the API server's time in its last response. toldAt is the monotonic time at which the response arrived.
	told   time.Time
	toldAt time.Duration
}

// NewWatch returns a Watch for the clock of this process.
func NewWatch() *Watch {
	start := time.Now()
	return &Watch{wall: time.Now, monotonic: func() time.Duration { return time.Since(start) }}
}

// Wrap returns a transport that reads the API server's time from its responses.
func (w *Watch) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{watch: w, next: next}
}

// Now returns the time of this process. If the clocks disagree, it returns the API server's time, because callers
// mostly compare the result with times that the API server has set.
func (w *Watch) Now() time.Time {
	now, skew := w.read()
	if skew.Unknown || skew.IsTrusted() {
		return now
	}
	return now.Round(0).Add(-skew.Ahead)
}

// Skew returns the current difference between the two clocks.
func (w *Watch) Skew() Skew {
	_, skew := w.read()
	return skew
}

func (w *Watch) read() (time.Time, Skew) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.wall()
	if w.told.IsZero() {
		return now, Skew{Unknown: true}
	}
	// Round(0) removes the monotonic reading, so that the wall clocks are compared.
	return now, Skew{Ahead: now.Round(0).Sub(w.told.Add(w.monotonic() - w.toldAt))}
}

// record stores the time from a response. sent is the monotonic time at which the request was sent.
func (w *Watch) record(date string, sent time.Duration) {
	told, err := http.ParseTime(date)
	if err != nil {
		return // For example, a response that switches protocols has no date.
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if received := w.monotonic(); received-sent <= slowAnswer {
		w.told, w.toldAt = told, received
	}
}

// A transport is an http.RoundTripper that reads the API server's time from the Date header of each response.
type transport struct {
	watch *Watch
	next  http.RoundTripper
}

// RoundTrip sends a request and reads the API server's time from the response.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := t.watch.monotonic()
	answer, err := t.next.RoundTrip(r)
	if err == nil {
		t.watch.record(answer.Header.Get("Date"), sent)
	}
	return answer, err
}

// WrappedRoundTripper returns the wrapped transport, from which client-go reads the TLS settings.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }
