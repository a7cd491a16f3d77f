package readme

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// valuesOf returns the values of the string constants in a package directory for which selects returns true.
func valuesOf(t *testing.T, dir string, selects func(constant) bool) set {
	t.Helper()
	out := set{}
	for _, c := range constants(t, dir) {
		if selects(c) {
			out[c.value] = true
		}
	}
	return out
}

// column returns the code spans in a column of all tables below a heading of a page. head is the header of the column.
func column(t *testing.T, page, section, head string) set {
	t.Helper()
	out := set{}
	for _, r := range rows(file(t, page)) {
		if r.section != section && r.chapter != section {
			continue
		}
		for _, name := range r.cells[head] {
			out[name] = true
		}
	}
	return out
}

// TestValuesAreDocumented checks that tables of the reference list exactly the values that constants have.
func TestValuesAreDocumented(t *testing.T) {
	accounts := valuesOf(t, "controller/internal/mysqld/sql", func(c constant) bool { return strings.HasSuffix(c.name, "Account") })
	accounts["root"] = true
	for name, tc := range map[string]struct {
		want, got set
		least     int
	}{
		"accounts in a server": {accounts, column(t, pageLabels, "Accounts in a server", "user"), 4},
		"problems": {valuesOf(t, "controller/internal/reconciler", func(c constant) bool {
			return strings.HasPrefix(c.name, "problem")
		}), column(t, "docs/reference/metrics.md", "Problems", "problem"), 7},
	} {
		if diff := cmp.Diff(tc.want.sorted(), tc.got.sorted()); diff != "" || len(tc.want) < tc.least {
			t.Errorf("the page lists other %s than the code. -code, +page:\n%s", name, diff)
		}
	}
}

// TestPhasesAreDocumented checks that each row about the phases of a backup or a restore has exactly the values of the
// type of that field.
func TestPhasesAreDocumented(t *testing.T) {
	types := map[string]string{"status.phase": "BackupPhase", "status.restore.phase": "RestorePhase",
		"status.origin": "BackupOrigin", "On demand": "LastBackupPhase"}
	for _, r := range rows(file(t, pageConditions)) {
		if r.section != "Phases of backups and restores" || r.cells["values"] == nil {
			continue
		}
		field := r.cells["field"][0]
		want := valuesOf(t, "apis/v1", func(c constant) bool { return c.typ == types[field] && c.typ != "" })
		if diff := cmp.Diff(want.sorted(), slices.Sorted(slices.Values(r.cells["values"]))); diff != "" {
			t.Errorf("%s lists other values of %s than the code. -code, +page:\n%s", pageConditions, field, diff)
		}
		delete(types, field)
	}
	if len(types) > 0 {
		t.Errorf("%s has no row for %q", pageConditions, slices.Collect(maps.Keys(types)))
	}
}

// TestLogMessagesExist checks that each message in docs/reference/logs.md is a constant in the code. A test of the
// package controller checks that the page contains all messages.
func TestLogMessagesExist(t *testing.T) {
	all, count := messages(t), 0
	for line := range strings.Lines(file(t, "docs/reference/logs.md")) {
		cells := cellsOf(strings.TrimSpace(line))
		if len(cells) != 2 || !strings.HasPrefix(line, "| ") || strings.HasPrefix(cells[0], "`") || cells[0] == "key" {
			continue
		}
		for message := range strings.SplitSeq(cells[0], "; ") {
			if count++; !slices.Contains(all, message) {
				t.Errorf("docs/reference/logs.md lists a message that the code does not contain: %s", message)
			}
		}
	}
	if count < 30 {
		t.Errorf("only %d messages were compared", count)
	}
}

// TestMatrixCounts checks that docs/contribute/evidence.md has the counts of the results of the matrix.
func TestMatrixCounts(t *testing.T) {
	var results map[string]struct {
		Digest    string `json:"digest"`
		Senseless string `json:"senseless"`
		Passed    bool   `json:"passed"`
	}
	if err := json.Unmarshal([]byte(file(t, "docs/matrix/results.json")), &results); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`for commit (\w+)\. All files that can affect a result\s+have the digest (\w+)`).FindStringSubmatch(
		file(t, "docs/matrix/table.md"))
	if found == nil {
		t.Fatal("docs/matrix/table.md does not contain its digest")
	}
	want := map[string]int{}
	for _, r := range results {
		switch {
		case r.Senseless != "":
			want["not applicable"]++
		case !r.Passed:
			want["failed"]++
		case r.Digest == found[2]:
			want["passed with the code of that commit"]++
		default:
			want["passed with an earlier version of the code"]++
		}
	}
	page := file(t, "docs/contribute/evidence.md")
	if !strings.Contains(page, "`"+found[1]+"`") {
		t.Errorf("docs/contribute/evidence.md does not name the commit %s of the last results", found[1])
	}
	for _, what := range []string{"passed with the code of that commit", "passed with an earlier version of the code", "failed",
		"not applicable"} {
		if row := "\n| " + what + " | " + strconv.Itoa(want[what]) + " |\n"; !strings.Contains(page, row) {
			t.Errorf("docs/contribute/evidence.md lacks the row %s", row)
		}
	}
}
