package alerts

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/double/flagpage"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/golden"
)

var reference = filepath.Join("..", "..", "docs", "reference") //nolint:gochecknoglobals // A constant path.

// fill compares the generated parts of a reference page with the given texts. With -update, it writes them to the page.
func fill(t *testing.T, page string, parts map[string]string) {
	t.Helper()
	path := filepath.Join(reference, page)
	got, unknown, missing := flagpage.Fill(read(t, path), parts)
	if len(unknown)+len(missing) > 0 {
		t.Errorf("%s: nothing generates the parts %q, and the parts %q are missing", page, unknown, missing)
	}
	golden.Text(t, filepath.Join("..", path), got)
}

// These patterns match a label and the value in the summary of an alert.
var (
	labelInSummary = regexp.MustCompile(`{{ \$labels\.(\w+) }}`)
	valueInSummary = regexp.MustCompile(`{{ \$value[^}]*}}`)
)

// TestAlertsPage checks that docs/reference/alerts.md contains each alert. With -update, it writes them.
func TestAlertsPage(t *testing.T) {
	var table, expressions strings.Builder
	table.WriteString("| alert | severity | for | fires if |\n|---|---|---|---|\n")
	expressions.WriteString("| alert | expression |\n|---|---|\n")
	for _, r := range rules(t) {
		summary := labelInSummary.ReplaceAllStringFunc(r.Annotations["summary"], func(label string) string {
			return "`" + strings.ToUpper(labelInSummary.FindStringSubmatch(label)[1]) + "`"
		})
		summary = valueInSummary.ReplaceAllString(summary, "`VALUE`")
		fmt.Fprintf(&table, "| [`%s`](../troubleshoot/by-alert.md#%s) | %s | %s | %s |\n", r.Alert, strings.ToLower(r.Alert),
			r.Labels["severity"], r.For, strings.ReplaceAll(summary, "``", "` `"))
		fmt.Fprintf(&expressions, "| `%s` | `%s` |\n", r.Alert, cell(r.Expr))
	}
	fill(t, "alerts.md", map[string]string{"alerts": table.String(), "expressions": expressions.String()})
}

// A dashboard is the part of a Grafana dashboard that the page describes.
type dashboard struct {
	Panels []struct {
		Type        string `json:"type"`
		Title       string `json:"title"`
		Description string `json:"description"`
		Targets     []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name  any `json:"name"`
			Label any `json:"label"`
			Query any `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

// TestDashboardPage checks that docs/reference/dashboard.md contains each variable and each panel of the dashboard.
// With -update, it writes them.
func TestDashboardPage(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, filepath.Join(deploy, "dashboard.json"))), &d); err != nil {
		t.Fatal(err)
	}
	var variables, panels strings.Builder
	variables.WriteString("| variable | label |\n|---|---|\n")
	for _, v := range d.Templating.List {
		fmt.Fprintf(&variables, "| `%s` | %s |\n", v.Name, v.Label)
	}
	count := 0
	for _, p := range d.Panels {
		if p.Type == "row" {
			fmt.Fprintf(&panels, "%s### %s\n\n| panel | shows | queries |\n|---|---|---|\n",
				map[bool]string{true: "\n"}[count > 0], p.Title)
			continue
		}
		count++
		queries := make([]string, 0, len(p.Targets))
		for _, q := range p.Targets {
			queries = append(queries, "`"+cell(q.Expr)+"`")
		}
		if p.Description == "" || len(queries) == 0 {
			t.Errorf("the panel %q has no description or no query", p.Title)
		}
		fmt.Fprintf(&panels, "| %s | %s | %s |\n", p.Title, cell(p.Description), strings.Join(queries, ", "))
	}
	if count < 20 || len(d.Templating.List) == 0 {
		t.Fatalf("only %d panels and %d variables were read", count, len(d.Templating.List))
	}
	fill(t, "dashboard.md", map[string]string{"variables": variables.String(), "panels": panels.String()})
}

// cell returns a text in one line, for a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
