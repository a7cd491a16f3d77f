package volumestats

import (
	"context"
	"sync"
	"time"
)

const (
	// Interval is the time between two queries. The kubelet measures volumes about once a minute.
	Interval = time.Minute
	// longestRetry is the longest time between two queries while they fail.
	longestRetry = 4 * time.Minute
	// keep is the time for which a snapshot is used if the next queries fail.
	keep = 3 * time.Minute
)

// A Monitor reads the free space of all data volumes at intervals, and keeps the last Snapshot.
type Monitor struct {
	// Read reads a new Snapshot. It is nil if no source is configured.
	Read func(context.Context) (*Snapshot, error)
	// Now returns the current time.
	Now func() time.Time

	mu     sync.Mutex
	last   *Snapshot
	readAt time.Time
	fails  bool
}

// NewMonitor returns a Monitor for a source. Without a URL, the usage of all volumes is unknown.
func NewMonitor(s Source) *Monitor {
	m := &Monitor{Now: time.Now}
	if s.URL != "" {
		m.Read = s.Read
	}
	return m
}

// NotConfigured is the reason why the free space of a volume is unknown if no Prometheus is configured.
const NotConfigured = "The controller does not read the free space of volumes. Ask the platform team to configure it " +
	"(--volume-stats-url, or controller.volumeStats.prometheusURL of the chart)"

// ReadFails is the reason why the free space is unknown if the query fails. It does not contain the error, because
// users can read the reason, and the error contains addresses of the platform.
const ReadFails = "The controller cannot read the free space of volumes from Prometheus. Its log contains the reason"

// Lookup returns the usage of a volume from the last snapshot. If it is unknown, it returns the reason.
func (m *Monitor) Lookup(v Volume) (Usage, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.Read == nil:
		return Usage{}, NotConfigured
	case m.last != nil && m.Now().Sub(m.readAt) <= keep:
		return m.last.Lookup(v)
	case m.fails:
		return Usage{}, ReadFails
	}
	return Usage{}, "The controller has not read the free space of volumes yet"
}

// Refresh replaces the Snapshot by a new one. It returns the error of the query.
func (m *Monitor) Refresh(ctx context.Context) error {
	if m.Read == nil {
		return nil
	}
	next, err := m.Read(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.fails = true
		return err
	}
	m.last, m.readAt, m.fails = next, m.Now(), false
	return nil
}

// Pause returns the time until the next query after a number of failures.
func Pause(failures int) time.Duration {
	return min(Interval<<min(failures, 8), longestRetry)
}
