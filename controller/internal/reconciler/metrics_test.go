package reconciler

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// TestDocumentedMetrics checks that docs/reference/metrics.md lists each metric with its labels, and no other.
func TestDocumentedMetrics(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(crossplane_mysql_[a-z_]+(?:{[a-z,]+})?)`").FindAllSubmatch(page, -1)
	documented := make([]string, 0, len(rows))
	for _, found := range rows {
		documented = append(documented, string(found[1]))
	}
	described, names := make(chan *prometheus.Desc, 100), []string{}
	m := newMeter(prometheus.NewRegistry())
	for _, c := range []prometheus.Collector{m.backups, m.bytes, m.seconds, m.rotations, m.restoreTests, m.growths, m} {
		c.Describe(described)
	}
	close(described)
	for d := range described {
		described := regexp.MustCompile(`fqName: "([a-z_]+)".*variableLabels: ({[a-z,]*})`).FindStringSubmatch(d.String())
		names = append(names, described[1]+strings.TrimSuffix(described[2], "{}"))
	}
	slices.Sort(documented)
	slices.Sort(names)
	if diff := cmp.Diff(names, documented); diff != "" {
		t.Errorf("-there, +documented:\n%s", diff)
	}
}

// TestBackupsAreCounted checks that backups are counted by result, including requested backups. A backup in progress
// is not counted.
func TestBackupsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMeter(registry)
	s := livingDatabase(instance.Key{Kind: v1.KindMySQL, Namespace: "team", Name: "db"})
	s.BackupJob = &instance.Job{Report: &agent.Report{Size: 1 << 20, Seconds: 3}}
	for _, a := range []steps.Action{
		steps.CreateBackupJob, steps.RecordBackup, steps.MarkVerified, steps.EndBackup, steps.MarkFailed, steps.GiveUpBackup,
		steps.MarkNoData, steps.RemoveXRFinalizer,
	} {
		m.countStep(s, steps.Step{Action: a})
	}
	s.XR.Spec.DeletionPolicy = v1.DeletionDiscard
	m.countStep(s, steps.Step{Action: steps.RemoveXRFinalizer})
	if diff := cmp.Diff(map[string]float64{resultVerified: 1, resultFailed: 2, resultEmpty: 1, resultSkipped: 1},
		resultsOf(t, registry, "crossplane_mysql_backups_total")); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestVerdictsAreCounted checks that restore tests are counted by result, and that each series starts at 0. A series
// that starts at 1 would have no increase.
func TestVerdictsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMeter(registry)
	const tests = "crossplane_mysql_restore_tests_total"
	for name, want := range map[string]map[string]float64{
		tests:                            {resultPassed: 0, resultFailed: 0, resultUndecided: 0},
		"crossplane_mysql_backups_total": {resultVerified: 0, resultFailed: 0, resultEmpty: 0, resultSkipped: 0},
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
