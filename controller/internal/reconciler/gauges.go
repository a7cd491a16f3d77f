package reconciler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// maxSeries is the maximum number of instances in one gauge. A limit is necessary because users can create any number
// of instances.
const maxSeries = 1000

// Problems of an instance that need attention, as values of the label problem.
const (
	problemBlocked           = "Blocked"
	problemBackupFailed      = "BackupFailed"
	problemDeletionFailed    = "DeletionFailed"
	problemDeletionBlocked   = "DeletionBlocked"
	problemPasswordFailed    = "PasswordFailed"
	problemRestoreFailed     = "RestoreFailed"
	problemRestoreTestFailed = "RestoreTestFailed"
	problemGrowthBlocked     = "StorageGrowthBlocked"
	problemCommitsWait       = "CommitsWait"
)

// observations are the last observed states of all instances, their backups, and the stores.
type observations struct {
	instances map[instance.Key]observedInstance
	records   map[instance.Key]observedBackups
	// stores maps the name of each BackupStore to whether it is reachable.
	stores map[string]bool
	// archivers return the current states of the archivers of binary logs.
	archivers map[instance.Key]func() observedArchiver
	// skew returns the skew of the controller's clock. It is nil if the controller and the API server use the same
	// clock.
	skew func() clock.Skew
}

func newObservations() observations {
	return observations{instances: map[instance.Key]observedInstance{}, records: map[instance.Key]observedBackups{},
		stores: map[string]bool{}, archivers: map[instance.Key]func() observedArchiver{}}
}

// An observedArchiver is the state of the archive of an instance's binary log.
type observedArchiver struct {
	isArchiving bool
	// until is the time up to which all transactions are archived. It is zero if it is unknown.
	until time.Time
}

// An observedInstance is the observed state of an instance. A time is zero if it is not set.
type observedInstance struct {
	state string
	// hasXR is false if only the data of a deleted composite resource is left.
	hasXR bool
	// shouldServe is true if the server has started once, and is neither suspended nor being deleted.
	shouldServe, serves bool
	problems            []string
	// certificateEnd is the expiration time of the certificate that the server presents. overdueSince is the time at
	// which the first missing scheduled backup was due.
	certificateEnd, overdueSince time.Time
	// deletedAt is the time at which a user deleted the instance.
	deletedAt time.Time
}

// An observedBackups is the observed state of an instance's backups. It is kept after the instance is deleted.
type observedBackups struct {
	// verifiedAt, bytes and duration describe the last verified backup. verifiedAt is zero if there is none.
	verifiedAt time.Time
	bytes      int64
	duration   time.Duration
	// restoreTestFailed is true if the last restore test with a conclusive result has failed.
	restoreTestFailed bool
}

//nolint:gochecknoglobals // Descriptions of metrics are constants.
var (
	ofInstance     = []string{"kind", "namespace", "name"}
	descClockAhead = prometheus.NewDesc("crossplane_mysql_clock_ahead_seconds",
		"Seconds that the controller's clock is ahead of the API server's. Backups are deleted because of "+
			"their age only if the clocks agree within five minutes.", nil, nil)
	descInstances = prometheus.NewDesc("crossplane_mysql_instances",
		"Number of instances by state: Waiting, Running, Suspended, or the phase of their deletion.", []string{"state"}, nil)
	descServing = prometheus.NewDesc("crossplane_mysql_instance_serving",
		"1 if the server of an instance accepts clients or its state is unknown, otherwise 0. Instances that are "+
			"suspended, being deleted or not yet started are not included. At most 1000 instances are included, starting "+
			"with those whose server does not accept clients.", ofInstance, nil)
	descProblem = prometheus.NewDesc("crossplane_mysql_instance_problem",
		"1 while an instance has the problem. At most 1000 instances are included.",
		append(slices.Clone(ofInstance), "problem"), nil)
	descCertificate = prometheus.NewDesc("crossplane_mysql_certificate_expiration_timestamp_seconds",
		"Unix time at which the certificate of a server expires, for the 1000 instances whose certificates "+
			"expire first.", ofInstance, nil)
	descOverdue = prometheus.NewDesc("crossplane_mysql_backup_overdue_since_timestamp_seconds",
		"Unix time at which the first missing scheduled backup of an instance was due, for the 1000 instances whose "+
			"backups are the most overdue.", ofInstance, nil)
	descVerified = prometheus.NewDesc("crossplane_mysql_last_verified_backup_timestamp_seconds",
		"Unix time of the last verified backup of an instance, for the 1000 instances whose last backups are the "+
			"oldest.", ofInstance, nil)
	descSize = prometheus.NewDesc("crossplane_mysql_last_verified_backup_size_bytes",
		"Size in bytes of the last verified backup, for the 1000 instances whose last backups are the oldest.",
		ofInstance, nil)
	descDuration = prometheus.NewDesc("crossplane_mysql_last_verified_backup_duration_seconds",
		"Duration in seconds of the last verified backup, including the verification, for the 1000 instances whose last "+
			"backups are the oldest.", ofInstance, nil)
	descDeleted = prometheus.NewDesc("crossplane_mysql_deletion_timestamp_seconds",
		"Unix time at which a user deleted an instance whose deletion has not ended, for the 1000 instances that "+
			"wait the longest.", ofInstance, nil)
	descArchiving = prometheus.NewDesc("crossplane_mysql_instance_archiving",
		"1 while the binary log of an instance is archived, otherwise 0. Only instances that use a BackupStore are "+
			"included, and only if they have started and are neither suspended nor being deleted. At most 1000 instances are included, "+
			"starting with those whose binary log is not archived.", ofInstance, nil)
	descArchivedUntil = prometheus.NewDesc("crossplane_mysql_instance_archived_until_timestamp_seconds",
		"Unix time up to which all transactions of an instance are archived, for the 1000 instances whose archives are "+
			"the furthest behind.", ofInstance, nil)
	descStore = prometheus.NewDesc("crossplane_mysql_store_reachable",
		"1 if the last probe of a BackupStore succeeded, otherwise 0.", []string{"store"}, nil)
)

// Describe implements prometheus.Collector.
func (m *meter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descClockAhead, descInstances, descServing, descProblem, descCertificate,
		descOverdue, descDeleted, descVerified, descSize, descDuration, descArchiving, descArchivedUntil, descStore} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It computes the gauges from the last observations.
func (m *meter) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	count := map[string]int{}
	for _, i := range m.instances {
		count[i.state]++
	}
	for state, n := range count {
		send(descInstances, float64(n), state)
	}
	for name, reachable := range m.stores {
		send(descStore, number(reachable), name)
	}
	if m.skew != nil {
		if skew := m.skew(); !skew.Unknown {
			send(descClockAhead, skew.Ahead.Seconds())
		}
	}
	m.collectInstances(send)
	m.collectBackups(send)
	m.collectArchivers(send)
}

// collectInstances collects the gauges of each instance.
func (m *meter) collectInstances(send func(*prometheus.Desc, float64, ...string)) {
	serving, certificates, overdue := map[instance.Key]time.Time{}, map[instance.Key]time.Time{}, map[instance.Key]time.Time{}
	problems, deleted := map[instance.Key]time.Time{}, map[instance.Key]time.Time{}
	for k, i := range m.instances {
		if i.shouldServe {
			serving[k] = time.Unix(int64(number(i.serves)), 0) // Servers that do not accept clients come first.
		}
		if !i.certificateEnd.IsZero() {
			certificates[k] = i.certificateEnd
		}
		if !i.overdueSince.IsZero() {
			overdue[k] = i.overdueSince
		}
		if !i.deletedAt.IsZero() {
			deleted[k] = i.deletedAt
		}
		if len(i.problems) > 0 {
			problems[k] = time.Time{}
		}
	}
	for k, b := range m.records {
		if b.restoreTestFailed {
			problems[k] = time.Time{}
		}
	}
	for _, k := range earliest(serving) {
		send(descServing, number(m.instances[k].serves), k.Kind, k.Namespace, k.Name)
	}
	for _, k := range earliest(certificates) {
		send(descCertificate, float64(certificates[k].Unix()), k.Kind, k.Namespace, k.Name)
	}
	for _, k := range earliest(overdue) {
		send(descOverdue, float64(overdue[k].Unix()), k.Kind, k.Namespace, k.Name)
	}
	for _, k := range earliest(deleted) {
		send(descDeleted, float64(deleted[k].Unix()), k.Kind, k.Namespace, k.Name)
	}
	for _, k := range earliest(problems) {
		for _, problem := range m.instances[k].problems {
			send(descProblem, 1, k.Kind, k.Namespace, k.Name, problem)
		}
		if m.records[k].restoreTestFailed {
			send(descProblem, 1, k.Kind, k.Namespace, k.Name, problemRestoreTestFailed)
		}
	}
}

// collectBackups collects the gauges about the last verified backup of each existing instance.
func (m *meter) collectBackups(send func(*prometheus.Desc, float64, ...string)) {
	verified := map[instance.Key]time.Time{}
	for k, b := range m.records {
		if m.instances[k].hasXR && !b.verifiedAt.IsZero() {
			verified[k] = b.verifiedAt
		}
	}
	for _, k := range earliest(verified) {
		b := m.records[k]
		send(descVerified, float64(b.verifiedAt.Unix()), k.Kind, k.Namespace, k.Name)
		if b.bytes > 0 {
			send(descSize, float64(b.bytes), k.Kind, k.Namespace, k.Name)
		}
		if b.duration > 0 {
			send(descDuration, b.duration.Seconds(), k.Kind, k.Namespace, k.Name)
		}
	}
}

// collectArchivers collects the gauges about archived binary logs.
func (m *meter) collectArchivers(send func(*prometheus.Desc, float64, ...string)) {
	archiving, until := map[instance.Key]time.Time{}, map[instance.Key]time.Time{}
	for k, observe := range m.archivers {
		a := observe()
		archiving[k] = time.Unix(int64(number(a.isArchiving)), 0) // Archives that fail come first.
		if !a.until.IsZero() {
			until[k] = a.until
		}
	}
	for _, k := range earliest(archiving) {
		send(descArchiving, float64(archiving[k].Unix()), k.Kind, k.Namespace, k.Name)
	}
	for _, k := range earliest(until) {
		send(descArchivedUntil, float64(until[k].UnixMilli())/1000, k.Kind, k.Namespace, k.Name)
	}
}

func number(value bool) float64 {
	if value {
		return 1
	}
	return 0
}

// earliest returns the instances with the earliest times, up to maxSeries. Instances with the same time are sorted by
// name, so that the result is always the same.
func earliest(times map[instance.Key]time.Time) []instance.Key {
	keys := slices.Collect(maps.Keys(times))
	slices.SortFunc(keys, func(a, b instance.Key) int {
		return cmp.Or(times[a].Compare(times[b]), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Kind, b.Kind))
	})
	return keys[:min(len(keys), maxSeries)]
}

// observeInstances records the state of an instance, and returns the previous and the new state. The state is empty if
// there is no composite resource, and before the first reconcile.
func (m *meter) observeInstances(k instance.Key, allInstances []*instance.State) (from, after string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from = m.instances[k].state
	delete(m.instances, k)
	for _, s := range allInstances {
		switch {
		case s.XR != nil:
			m.instances[k] = observe(s.XR)
		case s.Orphan != nil && !m.instances[k].hasXR:
			m.instances[k] = observedInstance{state: stateDeleting}
		}
	}
	return from, m.instances[k].state
}

// observe returns the observed state of an instance with a composite resource.
func observe(xr *instance.Composite) observedInstance {
	out := observedInstance{state: stateOf(xr), hasXR: true, problems: problemsOf(xr)}
	if xr.IsDeleting() {
		out.deletedAt = xr.GetDeletionTimestamp().Time
		return out
	}
	// The condition is unknown while Crossplane cannot call the function. The server runs independently of both.
	out.serves = !meta.IsStatusConditionFalse(xr.Conditions, v1.ConditionServing)
	out.shouldServe = xr.Status.Started && !xr.IsSuspended()
	if end := xr.Status.TLS.End(); end != nil {
		out.certificateEnd = end.Time
	}
	if status := xr.Status.BackupSchedule; status != nil && status.MissedAt != nil {
		out.overdueSince = status.MissedAt.Time
	}
	return out
}

// problemsOf returns the problems that the status of an instance reports.
func problemsOf(xr *instance.Composite) (out []string) {
	if xr.IsDeleting() {
		switch d := xr.Status.Deletion; {
		case d == nil:
		case d.Phase == v1.DeletionBlocked:
			out = append(out, problemDeletionBlocked)
		case d.Phase == v1.DeletionFailed:
			out = append(out, problemDeletionFailed)
		}
		return out
	}
	if meta.IsStatusConditionTrue(xr.Conditions, v1.ConditionBlocked) {
		out = append(out, problemBlocked)
	}
	if meta.IsStatusConditionFalse(xr.Conditions, v1.ConditionLastBackupSucceeded) {
		out = append(out, problemBackupFailed)
	}
	if meta.IsStatusConditionFalse(xr.Conditions, v1.ConditionStorageAutogrow) {
		out = append(out, problemGrowthBlocked)
	}
	if hasWaitingCommits(xr) {
		out = append(out, problemCommitsWait)
	}
	if c := xr.Status.Credentials; c != nil && c.State == v1.CredentialsFailed {
		out = append(out, problemPasswordFailed)
	}
	if xr.HasFailedRestore() {
		out = append(out, problemRestoreFailed)
	}
	return out
}

// observeBackups records the backups of an instance.
func (m *meter) observeBackups(k instance.Key, records []v1.BackupRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, k)
	if len(records) > 0 {
		m.records[k] = backupsOf(records)
	}
}

// backupsOf returns the observed state of the backups of an instance.
func backupsOf(records []v1.BackupRecord) observedBackups {
	out, testedAt := observedBackups{}, time.Time{}
	for i := range records {
		r := &records[i]
		if done := r.Status.CompletionTime; r.IsVerified() && done != nil && done.After(out.verifiedAt) {
			out.verifiedAt, out.bytes, out.duration = done.Time, 0, 0
			if start := r.Status.StartTime; start != nil {
				out.duration = done.Sub(start.Time)
			}
			if r.Spec.Archive != nil {
				size, _ := v1.ParseQuantity(r.Spec.Archive.Size) // The size is zero if it is unreadable.
				out.bytes = size.Value()
			}
		}
		c := meta.FindStatusCondition(r.Status.Conditions, v1.ConditionRestorable)
		if c != nil && c.Status != metav1.ConditionUnknown && c.LastTransitionTime.After(testedAt) {
			testedAt, out.restoreTestFailed = c.LastTransitionTime.Time, c.Status == metav1.ConditionFalse
		}
	}
	return out
}

// observeStore records whether a BackupStore is reachable, and forgetStore removes a deleted BackupStore.
func (m *meter) observeStore(name string, reachable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stores[name] = reachable
}

func (m *meter) forgetStore(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.stores, name)
}

// observeArchiver adds the archiver of an instance. It is removed if observe is nil.
func (m *meter) observeArchiver(k instance.Key, observe func() observedArchiver) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.archivers, k)
	if observe != nil {
		m.archivers[k] = observe
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
