package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// A role of controller/deploy, or a binding of one.
type role struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Rules           []rbacv1.PolicyRule     `json:"rules"`
	AggregationRule *rbacv1.AggregationRule `json:"aggregationRule"`
	RoleRef         rbacv1.RoleRef          `json:"roleRef"`
	Subjects        []rbacv1.Subject        `json:"subjects"`
}

// deployed roles and bindings.
func deployed(t *testing.T) []role {
	t.Helper()
	files, err := filepath.Glob("deploy/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []role
	for _, f := range files {
		for document := range strings.SplitSeq(read(t, f), "\n---\n") {
			r := role{}
			if err := yaml.Unmarshal([]byte(document), &r); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			if r.GroupVersionKind().Group == rbacv1.GroupName {
				out = append(out, r)
			}
		}
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A right is a rule as docs/permissions.md has it in a row.
type right struct {
	Role, On string
	Verbs    []string
}

// rights that the rules of a role give, in the words of kubectl.
func rights(r role) []right {
	out := make([]right, 0, len(r.Rules))
	for _, rule := range r.Rules {
		on := slices.Clone(rule.NonResourceURLs)
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name, sub, _ := strings.Cut(resource, "/")
				if group != "" {
					name += "." + group
				}
				if sub != "" {
					name += "/" + sub
				}
				if len(rule.ResourceNames) > 0 {
					name += " named " + strings.Join(rule.ResourceNames, ", ")
				}
				on = append(on, name)
			}
		}
		out = append(out, right{Role: strings.TrimPrefix(r.Name, "crossplane-mysql-"), On: strings.Join(on, ", "), Verbs: slices.Sorted(slices.Values(rule.Verbs))})
	}
	return out
}

var quoted = regexp.MustCompile("`([^`]+)`")

// promised rights are those of docs/permissions.md, with the reasons left out.
func promised(t *testing.T) []right {
	t.Helper()
	section := read(t, "../docs/permissions.md")
	var out []right
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || !strings.HasPrefix(line, "| `") {
			continue
		}
		r := right{Role: strings.Trim(cells[0], "| `"), On: strings.ReplaceAll(cells[1], "`", "")}
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			r.Verbs = append(r.Verbs, m[1])
		}
		slices.Sort(r.Verbs)
		out = append(out, r)
	}
	return out
}

// TestDocumentedRights: docs/permissions.md says what the roles allow, rule for rule.
func TestDocumentedRights(t *testing.T) {
	roles := deployed(t)
	have := make([]right, 0, len(roles))
	for _, r := range roles {
		have = append(have, rights(r)...)
	}
	order := func(a, b right) int { return strings.Compare(a.Role+a.On, b.Role+b.On) }
	slices.SortFunc(have, order)
	want := promised(t)
	slices.SortFunc(want, order)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("what controller/deploy allows is not what docs/permissions.md says: change one of them. -page, +deploy:\n%s", diff)
	}
}

// TestNoRightTooMany: nothing is allowed by a wildcard, nobody may read all
// Secrets or ConfigMaps, or give himself more, and only the controller has the controller's
// roles; who scrapes it has that of the metrics alone.
func TestNoRightTooMany(t *testing.T) {
	roles := deployed(t)
	for _, r := range roles {
		if r.AggregationRule != nil {
			t.Errorf("%s gets the rules of other roles", r.Name)
		}
		for _, rule := range r.Rules {
			for _, complaint := range tooMany(rule) {
				t.Errorf("%s: %s: %+v", r.Name, complaint, rule)
			}
		}
		for _, s := range r.Subjects {
			scrapes := r.RoleRef.Name == "crossplane-mysql-metrics" && s.Name == "crossplane-mysql-scraper"
			if s.Kind != rbacv1.ServiceAccountKind || s.Namespace != "crossplane-mysql-system" || s.Name != "crossplane-mysql" && !scrapes {
				t.Errorf("%s is bound to %+v, and not to the controller", r.RoleRef.Name, s)
			}
		}
	}
	if n := len(roles); n < 5 {
		t.Errorf("only %d roles and bindings were read", n)
	}
}

// tooMany says what a rule allows that no rule may.
func tooMany(rule rbacv1.PolicyRule) []string {
	var out []string
	if strings.Contains(rule.String(), "*") {
		out = append(out, "there is a wildcard: name what is meant")
	}
	if slices.ContainsFunc(rule.NonResourceURLs, func(path string) bool { return path != "/metrics" }) {
		out = append(out, "there is a path beside the resources and the metrics: nothing uses one")
	}
	may := func(resource, verb string) bool {
		return slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
	}
	for _, verb := range []string{"list", "watch", "deletecollection"} {
		for _, resource := range []string{"secrets", "configmaps"} {
			if may(resource, verb) {
				out = append(out, resource+" may be read without knowing their names ("+verb+"): get them by name")
			}
		}
	}
	for _, verb := range []string{"bind", "escalate", "impersonate"} {
		if slices.Contains(rule.Verbs, verb) {
			out = append(out, "it may make itself more than it is ("+verb+")")
		}
	}
	for _, resource := range []string{"pods", "pods/exec", "pods/portforward", "serviceaccounts/token"} {
		if may(resource, "create") {
			out = append(out, "it may get into pods ("+resource+"): its Jobs do what there is to do")
		}
	}
	return out
}
