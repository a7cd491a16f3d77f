package clock

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A machine has a wall clock, which can be set to another time, and a monotonic clock, which cannot.
type machine struct {
	wall   time.Time
	uptime time.Duration
}

func (m *machine) pass(d time.Duration) { m.wall, m.uptime = m.wall.Add(d), m.uptime+d }

func (m *machine) watch() *Watch {
	return &Watch{wall: func() time.Time { return m.wall }, monotonic: func() time.Duration { return m.uptime }}
}

// ask sends a request to an API server that responds with this date.
func ask(t *testing.T, w *Watch, date func() string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header()["Date"] = nil // Otherwise net/http adds its own.
		if d := date(); d != "" {
			rw.Header().Set("Date", d)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: w.Wrap(http.DefaultTransport)}
	answer, err := client.Get(server.URL) //nolint:noctx // The test needs no context.
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
}

// TestWatch checks that the clock of this process is trusted if it differs from the API server's clock by a few
// minutes at most. A change of the wall clock is detected at once, even between two responses. Until the clocks
// agree, the API server's time is used.
func TestWatch(t *testing.T) {
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	const month = 31 * 24 * time.Hour
	for name, tc := range map[string]struct {
		reason string
		// server is the time by which the API server's clock is ahead. step is a later change of this machine's wall
		// clock.
		server, step time.Duration
		date         string
		trusted      bool
		says         string
		// now is the expected time after a minute, relative to the start.
		now time.Duration
	}{
		"Agree": {reason: "The clocks agree.", trusted: true, now: time.Minute},
		"Minutes": {reason: "A difference of some minutes must be accepted.", server: 4 * time.Minute, trusted: true,
			now: time.Minute},
		"ServerBehind": {reason: "The controller's clock is 31 days ahead of the API server's clock.", server: -month,
			says: "The controller's clock is 31d ahead of the API server's", now: time.Minute - month},
		"ServerAhead": {reason: "The controller's clock is 31 days behind the API server's clock.", server: month,
			says: "The controller's clock is 31d behind the API server's", now: time.Minute + month},
		"StepAhead": {reason: "The clock was set forward, which must be detected before the next response.",
			step: month, says: "31d ahead", now: time.Minute},
		"StepBack": {reason: "The clock was set back, which must be detected before the next response.",
			step: -month, says: "31d behind", now: time.Minute},
		"SixMinutes": {reason: "A difference of six minutes is too large.", step: 6 * time.Minute, says: "6m ahead", now: time.Minute},
		"NoDate": {reason: "A response without a date does not show that the clocks agree.",
			date: "none", says: "does not report its time", now: time.Minute},
		"BrokenDate": {reason: "A response with an invalid date does not show that the clocks agree.",
			date: "yesterday", says: "does not report its time", now: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{wall: start}
			w := m.watch()
			if w.Skew().IsTrusted() || !w.Now().Equal(start) {
				t.Errorf("before any answer: %v, %s", w.Skew(), w.Now())
			}
			ask(t, w, func() string {
				switch tc.date {
				case "":
					return start.Add(tc.server).Format(http.TimeFormat)
				case "none":
					return ""
				}
				return tc.date
			})
			m.wall = m.wall.Add(tc.step)
			m.pass(time.Minute)
			skew := w.Skew()
			if skew.IsTrusted() != tc.trusted || !strings.Contains(skew.String(), tc.says) {
				t.Errorf("%s want trusted %t, %q; got %v", tc.reason, tc.trusted, tc.says, skew)
			}
			if got := w.Now().Sub(start); got != tc.now {
				t.Errorf("%s want the time %s, got %s", tc.reason, tc.now, got)
			}
		})
	}
}

// TestSlowAnswer checks that the time in a slow response is ignored.
func TestSlowAnswer(t *testing.T) {
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	m := &machine{wall: start}
	w := m.watch()
	ask(t, w, func() string {
		date := m.wall.Format(http.TimeFormat)
		m.pass(time.Hour)
		return date
	})
	if got := w.Skew(); !got.Unknown {
		t.Errorf("got %v", got)
	}
}

// TestRealClock checks that the clock of this process agrees with a server on this machine.
func TestRealClock(t *testing.T) {
	w := NewWatch()
	ask(t, w, func() string { return time.Now().UTC().Format(http.TimeFormat) })
	if skew := w.Skew(); !skew.IsTrusted() || time.Since(w.Now()).Abs() > time.Minute {
		t.Errorf("got %v, %s", skew, w.Now())
	}
}
