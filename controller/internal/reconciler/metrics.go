package reconciler

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// Results of a backup, as values of the label result.
const (
	resultVerified = "verified"
	resultFailed   = "failed"
	resultEmpty    = "empty"
	resultSkipped  = "skipped"
)

// A meter counts events, and stores the observed state of instances, their backups and stores.
type meter struct {
	observations

	backups *prometheus.CounterVec
	bytes   prometheus.Histogram
	seconds prometheus.Histogram
	// rotations counts password changes, and restoreTests counts restore tests.
	rotations, restoreTests *prometheus.CounterVec
	// growths counts requests for larger data volumes.
	growths *prometheus.CounterVec

	// mu guards the observations.
	mu sync.Mutex
}

// newMeter returns a meter and registers its metrics.
func newMeter(r prometheus.Registerer) *meter {
	m := &meter{
		backups: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "crossplane_mysql_backups_total",
			Help: "Number of finished backups, by result."}, []string{"result"}),
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
		growths: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "crossplane_mysql_storage_growths_total",
			Help: "Number of growths of data volumes by storageAutogrow, by result: requested, or failed for each request " +
				"that the API server refuses."}, []string{"result"}),
		observations: newObservations(),
	}
	r.MustRegister(m.backups, m.bytes, m.seconds, m.rotations, m.restoreTests, m.growths, m)
	m.beginAtZero()
	return m
}

// beginAtZero creates a series for each result. Otherwise the first event of a kind would create a series that starts
// at 1, and alerts on an increase would not fire.
func (m *meter) beginAtZero() {
	for counter, results := range map[*prometheus.CounterVec][]string{
		m.backups: {resultVerified, resultFailed, resultEmpty, resultSkipped}, m.rotations: {resultChanged,
			resultRefused}, m.restoreTests: {resultPassed, resultFailed, resultUndecided},
		m.growths: {resultRequested, resultFailed},
	} {
		for _, result := range results {
			counter.WithLabelValues(result)
		}
	}
}

// Results of a password change, as values of the label result.
const (
	resultChanged = "changed"
	resultRefused = "failed"
)

// Results of a restore test, in addition to resultFailed.
const (
	resultPassed    = "passed"
	resultUndecided = "undecided"
)

// resultRequested is the result of a growth of a data volume, in addition to resultFailed.
const resultRequested = "requested"

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

// countStep counts a backup that the given step completes or reports as failed.
func (m *meter) countStep(s *instance.State, step steps.Step) {
	switch a := step.Action; {
	case a == steps.RecordBackup:
		m.backups.WithLabelValues(resultVerified).Inc()
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
