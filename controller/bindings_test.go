package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bindingRows returns the rows of the table "Bindings" in docs/reference/rbac.md by the name of the role.
func bindingRows(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	_, section, _ := strings.Cut(read(t, "../docs/reference/rbac.md"), "\n## Bindings\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if len(cells) == 3 && cells[0] != "role" {
			out[cells[0]] = cells[1:]
		}
	}
	return out
}

// TestDocumentedBindings checks that the table "Bindings" has a row for each role, and names each ServiceAccount to
// which a role is bound, and where the binding applies.
func TestDocumentedBindings(t *testing.T) {
	rows, roles, bindings := bindingRows(t), map[string]bool{}, 0
	for _, r := range deployed(t) {
		if r.Kind == "ClusterRole" || r.Kind == "Role" {
			roles[strings.TrimPrefix(r.Name, "crossplane-mysql-")] = true
			continue
		}
		name := strings.TrimPrefix(r.RoleRef.Name, "crossplane-mysql-")
		row := rows[name]
		if row == nil {
			t.Errorf("docs/reference/rbac.md has no row for the binding %s of the role %s", r.Name, name)
			continue
		}
		for _, s := range r.Subjects {
			bindings++
			account := "`" + s.Name + "`"
			if s.Name == "crossplane-mysql" {
				account = "the controller"
			}
			if !strings.Contains(row[0], account) {
				t.Errorf("docs/reference/rbac.md does not say that %s is bound to %s %s", name, s.Kind, s.Name)
			}
		}
		scope := "all namespaces"
		if r.Kind == "RoleBinding" {
			scope = "`" + r.Namespace + "`"
		}
		if !strings.Contains(row[1], scope) {
			t.Errorf("docs/reference/rbac.md says that %s applies to %q, but the %s applies to %s", name, row[1], r.Kind, scope)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(roles)), slices.Sorted(maps.Keys(rows))); diff != "" || bindings < 4 {
		t.Errorf("%d bindings were compared. The roles are -deploy, +page:\n%s", bindings, diff)
	}
}
