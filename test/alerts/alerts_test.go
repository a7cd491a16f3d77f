package alerts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var deploy = filepath.Join("..", "..", "controller", "deploy", "monitoring") //nolint:gochecknoglobals // A constant path.

// A rule is a Prometheus alerting rule.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// A ruleFile is a Prometheus rule file. The spec of a PrometheusRule has the same format.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func rules(t *testing.T) []rule {
	t.Helper()
	var r struct {
		Spec ruleFile `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(deploy, "rules.yaml"))), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Spec.Groups) != 1 || len(r.Spec.Groups[0].Rules) == 0 {
		t.Fatalf("want one group of rules, got %+v", r.Spec)
	}
	return r.Spec.Groups[0].Rules
}

// runbooks is the prefix of each alert's runbook_url. It is the page of the newest release.
const runbooks = "https://crossplane-mysql.github.io/crossplane-mysql/troubleshoot/by-alert/#"

// TestRunbooks checks that the runbook has a section for each alert, and no sections for alerts that do not exist.
func TestRunbooks(t *testing.T) {
	page, all := read(t, filepath.Join("..", "..", "docs", "troubleshoot", "by-alert.md")), rules(t)
	for _, r := range all {
		if want := runbooks + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want ||
			!strings.Contains(page, "\n## "+r.Alert+"\n") {
			t.Errorf("%s has the page %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if r.Annotations["summary"] == "" {
			t.Errorf("%s does not say what has happened", r.Alert)
		}
	}
	if n := strings.Count(page, "\n## "); n != len(all) {
		t.Errorf("there are %d pages of %d alerts", n, len(all))
	}
}

// TestMetricsAreOurs checks that docs/reference/metrics.md documents each of the product's metrics that an alert
// uses. Another test compares that page with the controller's metrics.
func TestMetricsAreOurs(t *testing.T) {
	page, used := read(t, filepath.Join("..", "..", "docs", "reference", "metrics.md")), 0
	for _, r := range rules(t) {
		for _, name := range regexp.MustCompile(`crossplane_mysql_[a-z_]+`).FindAllString(r.Expr, -1) {
			if used++; !strings.Contains(page, "\n| `"+name) {
				t.Errorf("%s asks for %s, which there is not", r.Alert, name)
			}
		}
	}
	if used == 0 {
		t.Error("no alert asks for a metric of ours")
	}
}

// TestEachIsTried checks that there are two test cases for each alert: one in which it fires and one in which it does
// not.
func TestEachIsTried(t *testing.T) {
	tried := read(t, "rules_test.yaml")
	for _, r := range rules(t) {
		quiet := strings.Contains(tried, "alertname: "+r.Alert+", exp_alerts: []")
		if loud := strings.Contains(tried, "alertname: "+r.Alert+"\n    exp_alerts:\n    - exp_labels"); !quiet || !loud {
			t.Errorf("%s is tried where it is quiet: %v, and where it is not: %v", r.Alert, quiet, loud)
		}
	}
}
