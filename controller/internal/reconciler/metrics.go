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

// A meter counts what was done, and knows how the instances are.
type meter struct {
	backups *prometheus.CounterVec
	bytes   prometheus.Histogram
	seconds prometheus.Histogram
	// rotations of passwords, and restoreTests of backups.
	rotations, restoreTests *prometheus.CounterVec

	mu     sync.Mutex
	states map[instance.Key]string
	// proven is when the newest backup was of each instance that lives, certificates when that ends which its server shows, and missed
	// since when there is no backup that was planned.
	proven, certificates, missed map[instance.Key]time.Time
	clock                        func() time.Time
	// skew of the controller's clock; nil where the two cannot differ.
	skew func() clock.Skew

	instances, age, certificate, overdue, ahead *prometheus.Desc
}

// newMeter, with its metrics on a registry.
func newMeter(r prometheus.Registerer, now func() time.Time) *meter {
	m := &meter{
		backups: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "crossplane_mysql_backups_total", Help: "Backups by result: proven, failed, empty, skipped."}, []string{"result"}),
		bytes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "crossplane_mysql_backup_bytes", Help: "Sizes of proven archives.",
			Buckets: prometheus.ExponentialBuckets(1<<20, 8, 8)}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "crossplane_mysql_backup_seconds", Help: "Seconds that a proven backup took, with its proof.",
			Buckets: prometheus.ExponentialBuckets(0.5, 2, 14)}),
		rotations:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "crossplane_mysql_password_changes_total", Help: "Changes of passwords in running servers, by result: changed, or failed for each try that must be looked at."}, []string{"result"}),
		restoreTests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "crossplane_mysql_restore_tests_total", Help: "Restore tests of backups, by result: passed, failed where no server starts from a copy, undecided where it could not be tried."}, []string{"result"}),
		states:       map[instance.Key]string{},
		proven:       map[instance.Key]time.Time{},
		certificates: map[instance.Key]time.Time{},
		missed:       map[instance.Key]time.Time{},
		clock:        now,
		ahead:        prometheus.NewDesc("crossplane_mysql_clock_ahead_seconds", "Seconds that the controller's clock is ahead of the API server's. Backups are deleted because of their age only if both agree within five minutes.", nil, nil),
		certificate:  prometheus.NewDesc("crossplane_mysql_certificate_expiration_timestamp_seconds", "When the certificate ends that a server shows, in seconds since 1970: of the 1000 whose end first.", []string{"kind", "namespace", "name"}, nil),
		overdue:      prometheus.NewDesc("crossplane_mysql_backup_overdue_seconds", "Seconds since the first minute that a backup of an instance was planned for which is not there: of the 1000 that wait the longest.", []string{"kind", "namespace", "name"}, nil),
		instances:    prometheus.NewDesc("crossplane_mysql_instances", "Instances by state: Waiting, Running, Suspended, or the step of their deletion.", []string{"state"}, nil),
		age:          prometheus.NewDesc("crossplane_mysql_last_proven_age_seconds", "Seconds since the newest proven backup of an instance that is there: of the 1000 whose are the oldest.", []string{"kind", "namespace", "name"}, nil),
	}
	r.MustRegister(m.backups, m.bytes, m.seconds, m.rotations, m.restoreTests, m)
	m.beginAtZero()
	return m
}

// maxSeries is for how many instances there is a series of their own: those whose backups are the
// oldest, or whose certificates end first. Whoever may create claims decides how many there are.
const maxSeries = 1000

// Describe the gauges.
func (m *meter) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.instances
	ch <- m.age
	ch <- m.certificate
	ch <- m.overdue
	ch <- m.ahead
}

// Collect the gauges.
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
		ch <- prometheus.MustNewConstMetric(m.certificate, prometheus.GaugeValue, float64(m.certificates[k].Unix()), k.Kind, k.Namespace, k.Name)
	}
	for _, k := range earliest(m.missed) {
		ch <- prometheus.MustNewConstMetric(m.overdue, prometheus.GaugeValue, m.clock().Sub(m.missed[k]).Seconds(), k.Kind, k.Namespace, k.Name)
	}
	for _, k := range earliest(m.proven) {
		ch <- prometheus.MustNewConstMetric(m.age, prometheus.GaugeValue, m.clock().Sub(m.proven[k]).Seconds(), k.Kind, k.Namespace, k.Name)
	}
}

// beginAtZero with each result: the first one of a kind would be no increase otherwise, of which somebody is to be woken.
func (m *meter) beginAtZero() {
	for of, results := range map[*prometheus.CounterVec][]string{
		m.backups: {resultProven, resultFailed, resultEmpty, resultSkipped}, m.rotations: {resultChanged, resultRefused}, m.restoreTests: {resultPassed, resultFailed, resultUndecided},
	} {
		for _, result := range results {
			of.WithLabelValues(result)
		}
	}
}

// earliest instances, as many as have a series.
func earliest(of map[instance.Key]time.Time) []instance.Key {
	keys := slices.Collect(maps.Keys(of))
	slices.SortFunc(keys, func(a, b instance.Key) int { return of[a].Compare(of[b]) })
	return keys[:min(len(keys), maxSeries)]
}

// observeLives records the state of an instance, and returns the previous one and the new one. The state is empty if there is no composite
// resource, and before the first look.
func (m *meter) observeLives(k instance.Key, lives []*instance.State) (from, to string) {
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
			if r := &s.Records[i]; s.XR != nil && r.IsProven() && r.Status.ProvenAt != nil {
				m.proven[k] = r.Status.ProvenAt.Time
				break
			}
		}
	}
	return from, m.states[k]
}

// observeCertificate that a server shows, or that was made for it.
func (m *meter) observeCertificate(k instance.Key, xr *instance.Composite) {
	if end := xr.Status.TLS.End(); end != nil && !xr.IsDeleting() {
		m.certificates[k] = end.Time
	}
}

// observeSchedule of backups, of which one is missing. A deletion has its own.
func (m *meter) observeSchedule(k instance.Key, xr *instance.Composite) {
	if is := xr.Status.BackupSchedule; is != nil && is.MissedAt != nil && !xr.IsDeleting() {
		m.missed[k] = is.MissedAt.Time
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

// Results of a change of a password.
const (
	resultChanged = "changed"
	resultRefused = "failed"
)

// Results of a restore test, beside resultFailed.
const (
	resultPassed    = "passed"
	resultUndecided = "undecided"
)

// countVerdict of a restore test.
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

// countRotation counts what became of a password.
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

// countStep counts the backup that ends with a step, if one does.
func (m *meter) countStep(s *instance.State, step steps.Step) {
	switch a := step.Action; {
	case a == steps.NoteBackup:
		m.backups.WithLabelValues(resultProven).Inc()
		m.bytes.Observe(float64(s.Backup.Report.Size))
		m.seconds.Observe(s.Backup.Report.Seconds)
	case a == steps.MarkFailed, a == steps.GiveUpBackup:
		m.backups.WithLabelValues(resultFailed).Inc()
	case a == steps.MarkNoData:
		m.backups.WithLabelValues(resultEmpty).Inc()
	case a == steps.RemoveXRFinalizer && s.Record() == nil && (s.Word().Policy() == v1.DeletionDiscard || s.Word().Skips()):
		m.backups.WithLabelValues(resultSkipped).Inc()
	}
}
