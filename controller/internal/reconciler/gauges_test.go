package reconciler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

const (
	metricVerified = "crossplane_mysql_last_verified_backup_timestamp_seconds"
	metricProblem  = "crossplane_mysql_instance_problem"
	metricServing  = "crossplane_mysql_instance_serving"
)

// A gaugeTest is a meter and the time at which the test runs.
type gaugeTest struct {
	*meter

	registry *prometheus.Registry
	now      time.Time
}

func newGaugeTest() *gaugeTest {
	registry := prometheus.NewRegistry()
	return &gaugeTest{meter: newMeter(registry), registry: registry, now: time.Unix(1_000_000, 0)}
}

// key returns the key of the instance db-n.
func (g *gaugeTest) key(n int) instance.Key {
	return instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: fmt.Sprintf("db-%d", n)}
}

// show changes the state of an instance and then observes it.
func (g *gaugeTest) show(k instance.Key, change func(*instance.Composite)) {
	s := livingDatabase(k)
	s.XR.Status.Started = true
	if change != nil {
		change(s.XR)
	}
	g.observeInstances(k, []*instance.State{s})
}

// verifiedAgo returns a verified backup that took 2 s. ago is the time since its completion.
func (g *gaugeTest) verifiedAgo(ago time.Duration, size string) v1.BackupRecord {
	end := g.now.Add(-ago)
	return v1.BackupRecord{Spec: v1.BackupRecordSpec{Archive: &v1.Archive{Size: size}},
		Status: v1.BackupRecordStatus{Phase: v1.BackupVerified, StartTime: &metav1.Time{Time: end.Add(-2 * time.Second)},
			CompletionTime: &metav1.Time{Time: end}}}
}

// series returns the values of a gauge. The keys are the instance's name and its other labels, such as "db-1" or
// "db-1 Blocked".
func (g *gaugeTest) series(t *testing.T, metric string) map[string]float64 {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, series := range f.GetMetric() {
			var labels []string
			for _, l := range series.GetLabel() {
				if l.GetName() != "kind" && l.GetName() != "namespace" {
					labels = append(labels, l.GetValue())
				}
			}
			out[strings.Join(labels, " ")] = series.GetGauge().GetValue()
		}
	}
	return out
}

// want compares the series of a gauge with the expected ones.
func (g *gaugeTest) want(t *testing.T, reason, metric string, want map[string]float64) {
	t.Helper()
	if diff := cmp.Diff(want, g.series(t, metric)); diff != "" {
		t.Errorf("%s\n%s: -want, +got:\n%s", reason, metric, diff)
	}
}

// TestVerifiedSeries checks that the gauge contains the 1000 existing instances whose last verified backups are the
// oldest.
func TestVerifiedSeries(t *testing.T) {
	g := newGaugeTest()
	for n := range maxSeries + 5 {
		g.show(g.key(n), nil)
		g.observeBackups(g.key(n), []v1.BackupRecord{g.verifiedAgo(time.Duration(n)*time.Second, "1Gi"),
			g.verifiedAgo(time.Hour, "2Gi")})
	}
	times := g.series(t, metricVerified)
	if _, newest := times["db-4"]; len(times) != maxSeries || newest || times["db-5"] != 999_995 || times["db-1004"] != 998_996 {
		t.Errorf("want the 1000 oldest of 1005, got %d", len(times))
	}
	g.observeInstances(g.key(1004), nil)
	g.observeBackups(g.key(1003), nil)
	times = g.series(t, metricVerified)
	for name, want := range map[string]bool{"db-1004": false, "db-1003": false, "db-3": true} {
		if _, got := times[name]; got != want {
			t.Errorf("%s has a series: want %v, got %v", name, want, got)
		}
	}
}

// TestBackupSeries checks that size and duration belong to the last verified backup, regardless of the order of the
// backups.
func TestBackupSeries(t *testing.T) {
	g := newGaugeTest()
	failed := g.verifiedAgo(0, "9Gi")
	failed.Status.Phase = v1.BackupFailed
	g.show(g.key(1), nil)
	g.observeBackups(g.key(1), []v1.BackupRecord{g.verifiedAgo(time.Hour, "1Gi"), g.verifiedAgo(time.Minute, "2Ki"), failed})
	g.want(t, "last backup", "crossplane_mysql_last_verified_backup_size_bytes", map[string]float64{"db-1": 2048})
	g.want(t, "last backup", "crossplane_mysql_last_verified_backup_duration_seconds", map[string]float64{"db-1": 2})
	imported := g.verifiedAgo(0, "unknown")
	imported.Status.StartTime = nil
	g.observeBackups(g.key(1), []v1.BackupRecord{imported})
	g.want(t, "unknown size", "crossplane_mysql_last_verified_backup_size_bytes", map[string]float64{})
	g.want(t, "unknown duration", "crossplane_mysql_last_verified_backup_duration_seconds", map[string]float64{})
}

// TestServingSeries checks that the gauge is 0 if a server should accept clients but does not. Other servers have the
// value 1 or have no series.
func TestServingSeries(t *testing.T) {
	g := newGaugeTest()
	serving := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1.ConditionServing, Status: status, Reason: reason}}
	}
	g.show(g.key(1), func(xr *instance.Composite) { xr.Conditions = serving(metav1.ConditionTrue, v1.ReasonRunning) })
	g.show(g.key(2), func(xr *instance.Composite) { xr.Conditions = serving(metav1.ConditionFalse, v1.ReasonStarting) })
	g.show(g.key(3), func(xr *instance.Composite) { xr.Conditions = serving(metav1.ConditionUnknown, "ReconcileError") })
	g.show(g.key(4), func(xr *instance.Composite) { xr.Status.Started, xr.Conditions = false, nil })
	g.show(g.key(5), func(xr *instance.Composite) {
		xr.Spec.Suspend, xr.Conditions = true, serving(metav1.ConditionFalse, v1.ReasonSuspended)
	})
	g.show(g.key(6), func(xr *instance.Composite) {
		xr.Conditions = serving(metav1.ConditionFalse, v1.ReasonStarting)
		xr.SetDeletionTimestamp(&metav1.Time{Time: g.now})
	})
	g.want(t, "each state", metricServing, map[string]float64{"db-1": 1, "db-2": 0, "db-3": 1})
	for n := range maxSeries + 5 {
		g.show(g.key(n), func(xr *instance.Composite) { xr.Conditions = serving(metav1.ConditionTrue, v1.ReasonRunning) })
	}
	last := g.key(maxSeries + 4)
	last.Name = "zz"
	g.show(last, func(xr *instance.Composite) { xr.Conditions = serving(metav1.ConditionFalse, v1.ReasonStarting) })
	if got := g.series(t, metricServing); len(got) != maxSeries || got["zz"] != 0 || !slices.Contains(slices.Collect(maps.Keys(got)), "zz") {
		t.Errorf("want 1000 series with the server that is down, got %d", len(got))
	}
}

// TestProblemSeries checks that each problem has a series while the status reports it.
func TestProblemSeries(t *testing.T) {
	g := newGaugeTest()
	condition := func(kind string, status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: status}}
	}
	deleting := func(phase v1.DeletionPhase) func(*instance.Composite) {
		return func(xr *instance.Composite) {
			xr.SetDeletionTimestamp(&metav1.Time{Time: g.now})
			xr.Conditions = condition(v1.ConditionBlocked, metav1.ConditionTrue)
			if phase != "" {
				xr.Status.Deletion = &v1.DeletionStatus{Phase: phase}
			}
		}
	}
	for n, change := range []func(*instance.Composite){
		nil,
		func(xr *instance.Composite) { xr.Conditions = condition(v1.ConditionBlocked, metav1.ConditionTrue) },
		func(xr *instance.Composite) {
			xr.Conditions = condition(v1.ConditionLastBackupSucceeded, metav1.ConditionFalse)
			xr.Status.Credentials = &v1.CredentialsStatus{State: v1.CredentialsFailed}
		},
		func(xr *instance.Composite) {
			xr.Conditions = condition(v1.ConditionLastBackupSucceeded, metav1.ConditionUnknown)
		},
		func(xr *instance.Composite) {
			xr.Status.Credentials = &v1.CredentialsStatus{State: v1.CredentialsChanging}
		},
		func(xr *instance.Composite) {
			xr.Status.Started, xr.Status.Restore = false, &v1.RestoreStatus{Phase: v1.RestoreFailed}
		},
		deleting(""), deleting(v1.DeletionBackingUp), deleting(v1.DeletionBlocked), deleting(v1.DeletionFailed),
	} {
		g.show(g.key(n), change)
	}
	g.want(t, "each problem", metricProblem, map[string]float64{"db-1 Blocked": 1, "db-2 BackupFailed": 1,
		"db-2 PasswordFailed": 1, "db-5 RestoreFailed": 1, "db-8 DeletionBlocked": 1, "db-9 DeletionFailed": 1})
	for n := range 10 {
		g.show(g.key(n), nil)
	}
	g.want(t, "problems that are solved", metricProblem, map[string]float64{})
}

// TestRestoreTestSeries checks that the last conclusive restore test determines the series, even if the instance no
// longer exists.
func TestRestoreTestSeries(t *testing.T) {
	g := newGaugeTest()
	tested := func(ago time.Duration, status metav1.ConditionStatus) v1.BackupRecord {
		r := g.verifiedAgo(ago, "1Gi")
		r.Status.Conditions = []metav1.Condition{{Type: v1.ConditionRestorable, Status: status,
			LastTransitionTime: metav1.Time{Time: g.now.Add(-ago)}}}
		return r
	}
	failed := map[string]float64{"db-1 RestoreTestFailed": 1}
	for name, tc := range map[string]struct {
		records []v1.BackupRecord
		want    map[string]float64
	}{
		"Failed":    {[]v1.BackupRecord{tested(time.Minute, metav1.ConditionFalse)}, failed},
		"Undecided": {[]v1.BackupRecord{tested(time.Minute, metav1.ConditionUnknown), tested(time.Hour, metav1.ConditionFalse)}, failed},
		"Untested":  {[]v1.BackupRecord{g.verifiedAgo(time.Minute, "1Gi"), tested(time.Hour, metav1.ConditionFalse)}, failed},
		"Passed": {[]v1.BackupRecord{tested(time.Hour, metav1.ConditionFalse), tested(time.Minute, metav1.ConditionTrue)},
			map[string]float64{}},
		"Deleted": {nil, map[string]float64{}},
	} {
		g.observeBackups(g.key(1), []v1.BackupRecord{tested(time.Minute, metav1.ConditionFalse)})
		g.observeBackups(g.key(1), tc.records)
		g.want(t, name, metricProblem, tc.want)
	}
}

// TestOverdueSeries checks that an instance has a series while a scheduled backup is overdue, unless it is being
// deleted. A deletion takes its own backup.
func TestOverdueSeries(t *testing.T) {
	g, missed := newGaugeTest(), func(xr *instance.Composite) {
		xr.Status.BackupSchedule = &v1.BackupScheduleStatus{MissedAt: &metav1.Time{Time: time.Unix(999_940, 0)}}
	}
	const overdue = "crossplane_mysql_backup_overdue_since_timestamp_seconds"
	g.show(g.key(1), func(xr *instance.Composite) {
		xr.Status.BackupSchedule = &v1.BackupScheduleStatus{NextAt: &metav1.Time{Time: g.now.Add(time.Hour)}}
	})
	g.want(t, "none is missing", overdue, map[string]float64{})
	g.show(g.key(1), missed)
	g.want(t, "one is missing", overdue, map[string]float64{"db-1": 999_940})
	g.show(g.key(1), func(xr *instance.Composite) {
		missed(xr)
		xr.SetDeletionTimestamp(&metav1.Time{Time: g.now})
	})
	g.want(t, "deletion", overdue, map[string]float64{})
}

// TestDeletionSeries checks that an instance has a series in the gauge of deletions while it is being deleted.
func TestDeletionSeries(t *testing.T) {
	g := newGaugeTest()
	const deletion = "crossplane_mysql_deletion_timestamp_seconds"
	g.show(g.key(1), nil)
	g.show(g.key(2), func(xr *instance.Composite) { xr.SetDeletionTimestamp(&metav1.Time{Time: g.now}) })
	g.want(t, "one is being deleted", deletion, map[string]float64{"db-2": 1_000_000})
	g.observeInstances(g.key(2), nil)
	g.want(t, "its deletion has ended", deletion, map[string]float64{})
}

// TestStates checks that the state of an instance follows its status.
func TestStates(t *testing.T) {
	s := livingDatabase(instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "db"})
	s.XR.Status.Started = false
	if got := stateOf(s.XR); got != "Waiting" {
		t.Errorf("want Waiting before the first start, got %q", got)
	}
	s.XR.Status.Started = true
	if got := stateOf(s.XR); got != "Running" {
		t.Errorf("want Running after the first start, got %q", got)
	}
	s.XR.Spec.Suspend, s.XR.Conditions = true, []metav1.Condition{
		{Type: v1.ConditionServing, Status: metav1.ConditionFalse, Reason: v1.ReasonSuspended}}
	if got := stateOf(s.XR); got != v1.ReasonSuspended {
		t.Errorf("want Suspended, got %q", got)
	}
	s.XR.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	if got := stateOf(s.XR); got != stateDeleting {
		t.Errorf("want Deleting, got %q", got)
	}
}

// TestCertificateSeries checks that the gauge contains the 1000 servers whose certificates expire first.
func TestCertificateSeries(t *testing.T) {
	g := newGaugeTest()
	presenting := func(n int) func(*instance.Composite) {
		return func(xr *instance.Composite) {
			xr.Status.TLS = &v1.TLSStatus{ExpirationTime: &metav1.Time{Time: g.now.Add(time.Hour)},
				PresentedExpirationTime: &metav1.Time{Time: g.now.Add(time.Duration(n) * time.Second)}}
		}
	}
	const expiration = "crossplane_mysql_certificate_expiration_timestamp_seconds"
	for n := range maxSeries + 5 {
		g.show(g.key(n), presenting(n))
	}
	ends := g.series(t, expiration)
	if _, last := ends["db-1000"]; len(ends) != maxSeries || last || ends["db-5"] != 1_000_005 {
		t.Errorf("want the 1000 first of 1005, got %d", len(ends))
	}
	g.show(g.key(0), func(xr *instance.Composite) { xr.Status.TLS = nil })
	g.show(g.key(1), func(xr *instance.Composite) {
		presenting(1)(xr)
		xr.SetDeletionTimestamp(&metav1.Time{Time: g.now})
	})
	g.show(g.key(2), func(xr *instance.Composite) {
		presenting(2)(xr)
		xr.Status.TLS.PresentedExpirationTime = nil
	})
	ends = g.series(t, expiration)
	if ends["db-0"] != 0 || ends["db-1"] != 0 || len(ends) != maxSeries {
		t.Errorf("want no server without a certificate, and none that is being deleted: %v, %v", ends["db-0"], ends["db-1"])
	}
}

// TestStoreSeries checks that each BackupStore has a series until it is deleted.
func TestStoreSeries(t *testing.T) {
	g := newGaugeTest()
	const reachable = "crossplane_mysql_store_reachable"
	g.observeStore("one", true)
	g.observeStore("two", false)
	g.want(t, "two stores", reachable, map[string]float64{"one": 1, "two": 0})
	g.observeStore("two", true)
	g.forgetStore("one")
	g.want(t, "one is deleted", reachable, map[string]float64{"two": 1})
}

// TestClockSeries checks that the clock skew has a series once it is known.
func TestClockSeries(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMeter(registry)
	skew := clock.Skew{Unknown: true}
	m.skew = func() clock.Skew { return skew }
	gather := func() (out []float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "crossplane_mysql_clock_ahead_seconds" {
				out = append(out, f.GetMetric()[0].GetGauge().GetValue())
			}
		}
		return out
	}
	if got := gather(); len(got) > 0 {
		t.Errorf("before it is known: %v", got)
	}
	skew = clock.Skew{Ahead: -time.Hour}
	if got := gather(); !slices.Equal(got, []float64{-3600}) {
		t.Errorf("got %v", got)
	}
}
