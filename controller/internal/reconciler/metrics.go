package reconciler

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// Results of a backup.
const (
	resultProven  = "proven"
	resultFailed  = "failed"
	resultEmpty   = "empty"
	resultSkipped = "skipped"
)

// A meter counts events and stores the states of instances for metrics.
type meter struct {
	backups *prometheus.CounterVec
	bytes   prometheus.Histogram
	seconds prometheus.Histogram
	// rotations counts password changes, and restoreTests counts restore tests.
	rotations, restoreTests *prometheus.CounterVec

	mu     sync.Mutex
	states map[instance.Key]string
	// These maps contain a time for each existing instance. proven is the time of its newest verified backup.
	// certificates is the expiration time of the certificate that its server presents. missed is the time since which
	// a scheduled backup is overdue.
	proven, certificates, missed map[instance.Key]time.Time
	clock                        func() time.Time
	// skew returns the skew of the controller's clock. It is nil if the two clocks cannot differ.
	skew func() clock.Skew

	instances, age, certificate, overdue, ahead *prometheus.Desc
}

// newMeter returns a meter and registers its metrics.
func newMeter(r prometheus.Registerer, now func() time.Time) *meter {
	m := &meter{
		backups: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "crossplane_mysql_backups_total",
			Help: "Number of ended backups, by result."}, []string{"result"}),
		bytes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "crossplane_mysql_backup_bytes",
			Help:    "Sizes of verified archives in bytes.",
			Buckets: prometheus.ExponentialBuckets(1<<20, 8, 8)}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "crossplane_mysql_backup_seconds",
			Help:    "Durations of verified backups in seconds, including the verification.",
			Buckets: prometheus.ExponentialBuckets(0.5, 2, 14)}),
		rotations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "crossplane_mysql_password_changes_total",
			Help: "Number of password changes in running servers, by result: changed, or failed for each attempt " +
				"that needs manual action."}, []string{
			"result"}),
		restoreTests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "crossplane_mysql_restore_tests_total",
			Help: "Number of restore tests, by result: passed, failed if no server starts from a copy of the " +
				"backup, undecided if the test could not run."}, []string{"result"}),
		states:       map[instance.Key]string{},
		proven:       map[instance.Key]time.Time{},
		certificates: map[instance.Key]time.Time{},
		missed:       map[instance.Key]time.Time{},
		clock:        now,
		ahead: prometheus.NewDesc("crossplane_mysql_clock_ahead_seconds",
			"Seconds that the controller's clock is ahead of the API server's. Backups are deleted because of "+
				"their age only if the clocks agree within five minutes.", nil, nil),
		certificate: prometheus.NewDesc("crossplane_mysql_certificate_expiration_timestamp_seconds",
			"Unix time at which the certificate of a server expires, for the 1000 instances whose certificates "+
				"expire first.",
			[]string{"kind", "namespace", "name"}, nil),
		overdue: prometheus.NewDesc("crossplane_mysql_backup_overdue_seconds",
			"Seconds since the first scheduled backup of an instance that is missing, for the 1000 instances that "+
				"wait the longest.", []string{"kind", "namespace", "name"}, nil),
		instances: prometheus.NewDesc("crossplane_mysql_instances",
			"Number of instances by state: Waiting, Running, Suspended, or the phase of their deletion.", []string{"state"}, nil),
		age: prometheus.NewDesc("crossplane_mysql_last_proven_age_seconds",
			"Seconds since the last verified backup of an existing instance, for the 1000 instances whose last "+
				"backups are the oldest.",
			[]string{"kind", "namespace", "name"}, nil),
	}
	r.MustRegister(m.backups, m.bytes, m.seconds, m.rotations, m.restoreTests, m)
	m.beginAtZero()
	return m
}

// maxSeries is the maximum number of instances with their own series. The instances with the oldest backups, or with
// certificates that expire first, are included. The limit is needed because the number of claims depends on users.
const maxSeries = 1000

// Describe describes the gauges.
func (m *meter) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.instances
	ch <- m.age
	ch <- m.certificate
	ch <- m.overdue
	ch <- m.ahead
}

// Collect collects the gauges.
func (m *meter) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	count := map[string]int{}
	for _, state := range m.states {
		count[state]++
	}
	for state, n := range count {
		ch <- prometheus.MustNewConstMetric(m.instances, prometheus.GaugeValue, float64(n), state)
	}
	if m.skew != nil {
		if skew := m.skew(); !skew.Unknown {
			ch <- prometheus.MustNewConstMetric(m.ahead, prometheus.GaugeValue, skew.Ahead.Seconds())
		}
	}
	for _, k := range earliest(m.certificates) {
		ch <- prometheus.MustNewConstMetric(m.certificate, prometheus.GaugeValue, float64(m.certificates[k].Unix()), k.Kind,
			k.Namespace, k.Name)
	}
	for _, k := range earliest(m.missed) {
		ch <- prometheus.MustNewConstMetric(m.overdue, prometheus.GaugeValue, m.clock().Sub(m.missed[k]).Seconds(), k.Kind,
			k.Namespace, k.Name)
	}
	for _, k := range earliest(m.proven) {
		ch <- prometheus.MustNewConstMetric(m.age, prometheus.GaugeValue, m.clock().Sub(m.proven[k]).Seconds(), k.Kind,
			k.Namespace, k.Name)
	}
}

// beginAtZero creates a series for each result. Without it, the first event of a kind would create a series that
// starts at 1, and alerts on an increase would not fire.
func (m *meter) beginAtZero() {
	for counter, results := range map[*prometheus.CounterVec][]string{
		m.backups: {resultProven, resultFailed, resultEmpty, resultSkipped}, m.rotations: {resultChanged,
			resultRefused}, m.restoreTests: {resultPassed, resultFailed, resultUndecided},
	} {
		for _, result := range results {
			counter.WithLabelValues(result)
		}
	}
}

// earliest returns the instances with the earliest times, up to maxSeries.
func earliest(times map[instance.Key]time.Time) []instance.Key {
	keys := slices.Collect(maps.Keys(times))
	slices.SortFunc(keys, func(a, b instance.Key) int { return times[a].Compare(times[b]) })
	return keys[:min(len(keys), maxSeries)]
}

// observeLives records the state of an instance, and returns the previous one and the new one. The state is empty if
// there is no composite resource, and before the first reconcile.
func (m *meter) observeLives(k instance.Key, lives []*instance.State) (from, after string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from = m.states[k]
	delete(m.states, k)
	delete(m.certificates, k)
	delete(m.missed, k)
	if !slices.ContainsFunc(lives, func(s *instance.State) bool { return s.XR != nil }) {
		delete(m.proven, k)
	}
	for _, s := range lives {
		switch {
		case s.XR != nil:
			m.states[k] = stateOf(s.XR)
			m.observeCertificate(k, s.XR)
			m.observeSchedule(k, s.XR)
		case s.Orphan != nil:
			m.states[k] = stateDeleting
		}
		for i := range s.Records {
			if r := &s.Records[i]; s.XR != nil && r.IsProven() && r.Status.CompletionTime != nil {
				m.proven[k] = r.Status.CompletionTime.Time
				break
			}
		}
	}
	return from, m.states[k]
}

// observeCertificate records the certificate that a server presents, or that was created for it.
func (m *meter) observeCertificate(k instance.Key, xr *instance.Composite) {
	if end := xr.Status.TLS.End(); end != nil && !xr.IsDeleting() {
		m.certificates[k] = end.Time
	}
}

// observeSchedule records whether a scheduled backup is overdue. A deletion takes its own backup.
func (m *meter) observeSchedule(k instance.Key, xr *instance.Composite) {
	if status := xr.Status.BackupSchedule; status != nil && status.MissedAt != nil && !xr.IsDeleting() {
		m.missed[k] = status.MissedAt.Time
	}
}

const stateDeleting = "Deleting"

func stateOf(xr *instance.Composite) string {
	switch {
	case xr.IsDeleting() && xr.Status.Deletion != nil && xr.Status.Deletion.Phase != "":
		return string(xr.Status.Deletion.Phase)
	case xr.IsDeleting():
		return stateDeleting
	case xr.IsSuspended():
		return v1.ReasonSuspended
	case xr.Status.Started:
		return "Running"
	}
	return "Waiting"
}

// Results of a password change.
const (
	resultChanged = "changed"
	resultRefused = "failed"
)

// Results of a restore test, in addition to resultFailed.
const (
	resultPassed    = "passed"
	resultUndecided = "undecided"
)

// countVerdict counts the result of a restore test.
func (m *meter) countVerdict(restorable metav1.ConditionStatus) {
	result := resultUndecided
	switch restorable {
	case metav1.ConditionTrue:
		result = resultPassed
	case metav1.ConditionFalse:
		result = resultFailed
	case metav1.ConditionUnknown:
	}
	m.restoreTests.WithLabelValues(result).Inc()
}

// countRotation counts the result of a password change.
func (m *meter) countRotation(r rotate.Result) {
	for _, did := range r.Done {
		if did == rotate.Promote {
			m.rotations.WithLabelValues(resultChanged).Inc()
		}
	}
	if r.Credentials.State == v1.CredentialsFailed {
		m.rotations.WithLabelValues(resultRefused).Inc()
	}
}

// countStep counts a backup that ends with this step.
func (m *meter) countStep(s *instance.State, step steps.Step) {
	switch a := step.Action; {
	case a == steps.NoteBackup:
		m.backups.WithLabelValues(resultProven).Inc()
		m.bytes.Observe(float64(s.BackupJob.Report.Size))
		m.seconds.Observe(s.BackupJob.Report.Seconds)
	case a == steps.MarkFailed, a == steps.GiveUpBackup:
		m.backups.WithLabelValues(resultFailed).Inc()
	case a == steps.MarkNoData:
		m.backups.WithLabelValues(resultEmpty).Inc()
	case a == steps.RemoveXRFinalizer && s.Record() == nil &&
		(s.DeletionIntent().Policy() == v1.DeletionDiscard || s.DeletionIntent().Skips()):
		m.backups.WithLabelValues(resultSkipped).Inc()
	}
}
