package reconciler

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// TestSeries checks that each existing instance with a verified backup has a series, up to the 1000 oldest backups.
func TestSeries(t *testing.T) {
	registry, now := prometheus.NewRegistry(), time.Unix(1_000_000, 0)
	m := newMeter(registry, func() time.Time { return now })
	key := func(n int) instance.Key {
		return instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: fmt.Sprintf("db-%d", n)}
	}
	backedUp := func(k instance.Key, ago time.Duration) *instance.State {
		s := livingDatabase(k)
		s.Records = []v1.BackupRecord{{
			Status: v1.BackupRecordStatus{Phase: v1.BackupProven, CompletionTime: &metav1.Time{Time: now.Add(-ago)}}}}
		return s
	}
	for n := range maxSeries + 5 {
		m.observeLives(key(n), []*instance.State{backedUp(key(n), time.Duration(n)*time.Second)})
	}
	ages := agesOf(t, registry)
	if len(ages) != maxSeries || ages["db-4"] != 0 || ages["db-5"] != 5 || ages["db-1004"] != 1004 {
		t.Errorf("want the 1000 oldest of 1005, got %d", len(ages))
	}
	m.observeLives(key(1004), []*instance.State{{Basis: instance.Basis{Records: backedUp(key(1004), time.Hour).Records}}})
	m.observeLives(key(1003), nil)
	m.observeLives(key(1002), []*instance.State{livingDatabase(key(1002))}) // Its BackupRecords were not read.
	if ages = agesOf(t, registry); len(ages) != maxSeries || ages["db-1004"] != 0 || ages["db-1003"] != 0 ||
		ages["db-3"] != 3 || ages["db-1002"] != 1002 {
		t.Errorf("want none of those that are gone, got %v", ages)
	}
}

// TestOverdueSeries checks that each instance with an overdue scheduled backup has a series.
func TestOverdueSeries(t *testing.T) {
	registry, now := prometheus.NewRegistry(), time.Unix(1_000_000, 0)
	m := newMeter(registry, func() time.Time { return now })
	k := instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "db"}
	s := livingDatabase(k)
	overdue := func() map[string]float64 {
		m.observeLives(k, []*instance.State{s})
		return seriesOf(t, registry, "crossplane_mysql_backup_overdue_seconds")
	}
	s.XR.Status.BackupSchedule = &v1.BackupScheduleStatus{NextAt: &metav1.Time{Time: now.Add(time.Hour)}}
	if got := overdue(); len(got) > 0 {
		t.Errorf("want none of one that is well, got %v", got)
	}
	s.XR.Status.BackupSchedule.MissedAt = &metav1.Time{Time: now.Add(-time.Minute)}
	if got := overdue(); got["db"] != 60 {
		t.Errorf("want a minute, got %v", got)
	}
	s.XR.SetDeletionTimestamp(&metav1.Time{Time: now})
	if got := overdue(); len(got) > 0 {
		t.Errorf("want none of one that is backed up anyway, got %v", got)
	}
}

// TestStates checks the state of an instance in the metrics.
func TestStates(t *testing.T) {
	s := livingDatabase(instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "db"})
	s.XR.Status.Started = false
	if got := stateOf(s.XR); got != "Waiting" {
		t.Errorf("one that has not begun is %q", got)
	}
	s.XR.Status.Started = true
	if got := stateOf(s.XR); got != "Running" {
		t.Errorf("one that has is %q", got)
	}
	s.XR.Spec.Suspend, s.XR.Conditions = true, []metav1.Condition{
		{Type: v1.ConditionServing, Status: metav1.ConditionFalse, Reason: v1.ReasonSuspended}}
	if got := stateOf(s.XR); got != v1.ReasonSuspended {
		t.Errorf("one that is off is %q", got)
	}
	s.XR.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	if got := stateOf(s.XR); got != stateDeleting {
		t.Errorf("one that goes is %q", got)
	}
}

// TestCertificateSeries checks that each existing server that presents a certificate has a series, up to the 1000
// that expire first.
func TestCertificateSeries(t *testing.T) {
	registry, now := prometheus.NewRegistry(), time.Unix(1_000_000, 0)
	m := newMeter(registry, func() time.Time { return now })
	showing := func(n int) (instance.Key, *instance.State) {
		k := instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: fmt.Sprintf("db-%d", n)}
		s := livingDatabase(k)
		s.XR.Status.TLS = &v1.TLSStatus{ExpirationTime: &metav1.Time{Time: now.Add(time.Hour)},
			PresentedExpirationTime: &metav1.Time{Time: now.Add(time.Duration(n) * time.Second)}}
		return k, s
	}
	for n := range maxSeries + 5 {
		k, s := showing(n)
		m.observeLives(k, []*instance.State{s})
	}
	ends := seriesOf(t, registry, "crossplane_mysql_certificate_expiration_timestamp_seconds")
	if _, last := ends["db-1000"]; len(ends) != maxSeries || last || ends["db-5"] != 1_000_005 {
		t.Errorf("want the 1000 first of 1005, got %d", len(ends))
	}
	for n := range 3 {
		k, s := showing(n)
		switch n {
		case 0:
			s.XR.Status.TLS = nil
		case 1:
			s.XR.SetDeletionTimestamp(&metav1.Time{Time: now})
		case 2:
			s.XR.Status.TLS.PresentedExpirationTime = nil
		}
		m.observeLives(k, []*instance.State{s})
	}
	ends = seriesOf(t, registry, "crossplane_mysql_certificate_expiration_timestamp_seconds")
	if ends["db-0"] != 0 || ends["db-1"] != 0 || len(ends) != maxSeries {
		t.Errorf("want none of servers without a certificate, or that go: %v, %v", ends["db-0"], ends["db-1"])
	}
}

// agesOf returns the age of the newest backup by the name of the instance.
func agesOf(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	return seriesOf(t, registry, "crossplane_mysql_last_proven_age_seconds")
}

// seriesOf returns the values of a metric by the name of the instance.
func seriesOf(t *testing.T, registry *prometheus.Registry, metric string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, series := range f.GetMetric() {
			for _, l := range series.GetLabel() {
				if l.GetName() == "name" {
					out[l.GetValue()] = series.GetGauge().GetValue()
				}
			}
		}
	}
	return out
}

// TestDocumentedMetrics checks that docs/reference/metrics.md contains exactly the existing metrics.
func TestDocumentedMetrics(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(crossplane_mysql_[a-z_]+)").FindAllSubmatch(page, -1)
	documented := make([]string, 0, len(rows))
	for _, found := range rows {
		documented = append(documented, string(found[1]))
	}
	described, names := make(chan *prometheus.Desc, 100), []string{}
	m := newMeter(prometheus.NewRegistry(), time.Now)
	for _, c := range []prometheus.Collector{m.backups, m.bytes, m.seconds, m.rotations, m.restoreTests, m} {
		c.Describe(described)
	}
	close(described)
	for d := range described {
		names = append(names, regexp.MustCompile(`fqName: "([a-z_]+)"`).FindStringSubmatch(d.String())[1])
	}
	slices.Sort(documented)
	slices.Sort(names)
	if diff := cmp.Diff(names, documented); diff != "" {
		t.Errorf("-there, +documented:\n%s", diff)
	}
}

// TestBackupsAreCounted checks that backups are counted by result, including on-demand backups. A running backup is
// not counted.
func TestBackupsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMeter(registry, time.Now)
	s := livingDatabase(instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "db"})
	s.BackupJob = &instance.Job{Report: &agent.Report{Size: 1 << 20, Seconds: 3}}
	for _, a := range []steps.Action{
		steps.CreateBackupJob, steps.NoteBackup, steps.MarkProven, steps.EndBackup, steps.MarkFailed, steps.GiveUpBackup,
		steps.MarkNoData, steps.RemoveXRFinalizer,
	} {
		m.countStep(s, steps.Step{Action: a})
	}
	s.XR.Spec.DeletionPolicy = v1.DeletionDiscard
	m.countStep(s, steps.Step{Action: steps.RemoveXRFinalizer})
	if diff := cmp.Diff(map[string]float64{resultProven: 1, resultFailed: 2, resultEmpty: 1, resultSkipped: 1},
		resultsOf(t, registry, "crossplane_mysql_backups_total")); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestVerdictsAreCounted checks that counters begin with 0 before the first result. Otherwise the first result would
// not be an increase.
func TestVerdictsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMeter(registry, time.Now)
	const tests = "crossplane_mysql_restore_tests_total"
	for name, want := range map[string]map[string]float64{
		tests:                            {resultPassed: 0, resultFailed: 0, resultUndecided: 0},
		"crossplane_mysql_backups_total": {resultProven: 0, resultFailed: 0, resultEmpty: 0, resultSkipped: 0},
		"crossplane_mysql_password_changes_total": {resultChanged: 0, resultRefused: 0},
	} {
		if diff := cmp.Diff(want, resultsOf(t, registry, name)); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", name, diff)
		}
	}
	for _, verdict := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionFalse,
		metav1.ConditionUnknown} {
		m.countVerdict(verdict)
	}
	if diff := cmp.Diff(map[string]float64{resultPassed: 1, resultFailed: 2, resultUndecided: 1},
		resultsOf(t, registry, tests)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// resultsOf returns the values of a counter by result.
func resultsOf(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() == name {
			for _, series := range f.GetMetric() {
				got[series.GetLabel()[0].GetValue()] = series.GetCounter().GetValue()
			}
		}
	}
	return got
}

// TestClockSeries checks that the clock skew is a metric as soon as it is known.
func TestClockSeries(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMeter(registry, time.Now)
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
