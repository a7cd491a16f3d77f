// Package clock compares the clock of this process with the clock of the API server. A clock that is temporarily
// wrong must not expire anything that cannot be restored, such as a backup.
package clock

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Tolerance is how far the two clocks may differ. It is far below what a backup, a certificate or a schedule is counted
// in.
const Tolerance = 5 * time.Minute

// slowAnswer is how long an answer may take from its request on. The time in one that took longer says too little.
const slowAnswer = 30 * time.Second

// A Skew is how far the clock of this process is ahead of the API server's; negative if it is behind.
type Skew struct {
	Ahead time.Duration
	// Unknown is true if the API server has not told its time.
	Unknown bool
}

// IsTrusted reports whether both clocks agree, so that what has expired may be removed.
func (s Skew) IsTrusted() bool { return !s.Unknown && s.Ahead.Abs() <= Tolerance }

// String says by how much the clocks differ, in the same words until that changes much.
func (s Skew) String() string {
	switch {
	case s.Unknown:
		return "The API server does not report its time (its responses have no Date header)"
	case s.Ahead < 0:
		return fmt.Sprintf("The controller's clock is %s behind the API server's", duration.HumanDuration(-s.Ahead))
	}
	return fmt.Sprintf("The controller's clock is %s ahead of the API server's", duration.HumanDuration(s.Ahead))
}

// A Watch knows the time of the API server from the Date header of each response. Between two responses it uses the
// monotonic clock, which cannot be set, so that a step of the wall clock is detected immediately.
type Watch struct {
	wall      func() time.Time
	monotonic func() time.Duration

	mu sync.Mutex
	// told is the API server's time in its last answer, which came at the monotonic time at.
	told   time.Time
	toldAt time.Duration
}

// NewWatch of the clock of this process.
func NewWatch() *Watch {
	start := time.Now()
	return &Watch{wall: time.Now, monotonic: func() time.Duration { return time.Since(start) }}
}

// Wrap the transport to the API server, to read its time from its answers.
func (w *Watch) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{watch: w, next: next}
}

// Now is the time of this process, or the API server's if the two do not agree: what is compared with it was mostly
// written there.
func (w *Watch) Now() time.Time {
	now, skew := w.read()
	if skew.Unknown || skew.IsTrusted() {
		return now
	}
	return now.Round(0).Add(-skew.Ahead)
}

// Skew of the two clocks now.
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
	// Round(0) drops the monotonic reading: the wall clocks are compared.
	return now, Skew{Ahead: now.Round(0).Sub(w.told.Add(w.monotonic() - w.toldAt))}
}

// note the time in an answer to a request that was sent at a monotonic time.
func (w *Watch) note(date string, sent time.Duration) {
	told, err := http.ParseTime(date)
	if err != nil {
		return // Such as of an answer that switches protocols.
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if received := w.monotonic(); received-sent <= slowAnswer {
		w.told, w.toldAt = told, received
	}
}

// A transport notes the time of each answer.
type transport struct {
	watch *Watch
	next  http.RoundTripper
}

// RoundTrip sends a request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := t.watch.monotonic()
	answer, err := t.next.RoundTrip(r)
	if err == nil {
		t.watch.note(answer.Header.Get("Date"), sent)
	}
	return answer, err
}

// WrappedRoundTripper is how client-go finds the settings of TLS beneath.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }
