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

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A role contains the fields of a Role, a ClusterRole or a binding in controller/deploy.
type role struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Rules           []rbacv1.PolicyRule     `json:"rules"`
	AggregationRule *rbacv1.AggregationRule `json:"aggregationRule"`
	RoleRef         rbacv1.RoleRef          `json:"roleRef"`
	Subjects        []rbacv1.Subject        `json:"subjects"`
}

// deployed returns the roles and bindings.
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

// A right is a row in a table of docs/reference/rbac.md: a role, the resources that it applies to, and the verbs.
type right struct {
	Role, On string
	Verbs    []string
}

// rights returns the rules of a role in the notation of kubectl.
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
		out = append(out, right{Role: strings.TrimPrefix(r.Name, "crossplane-mysql-"), On: strings.Join(on, ", "),
			Verbs: slices.Sorted(slices.Values(rule.Verbs))})
	}
	return out
}

var quoted = regexp.MustCompile("`([^`]+)`")

// promised returns the rules in docs/reference/rbac.md, without their reasons.
func promised(t *testing.T) []right {
	t.Helper()
	section := read(t, "../docs/reference/rbac.md")
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

// TestDocumentedRights checks that docs/reference/rbac.md contains exactly the rules of the roles.
func TestDocumentedRights(t *testing.T) {
	roles := deployed(t)
	found := make([]right, 0, len(roles))
	for _, r := range roles {
		found = append(found, rights(r)...)
	}
	order := func(a, b right) int { return strings.Compare(a.Role+a.On, b.Role+b.On) }
	slices.SortFunc(found, order)
	want := promised(t)
	slices.SortFunc(want, order)
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf(
			"what controller/deploy allows is not what docs/reference/rbac.md says: change one of them. -page, +deploy:\n%s", diff)
	}
}

// TestNoRightTooMany checks that no rule has a wildcard, reads all Secrets or ConfigMaps, or allows privilege
// escalation. Only the controller has the controller's roles. The metrics client has only the role for metrics.
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
			if s.Kind != rbacv1.ServiceAccountKind || s.Namespace != "crossplane-mysql-system" || s.Name != "crossplane-mysql" &&
				!scrapes {
				t.Errorf("%s is bound to %+v, and not to the controller", r.RoleRef.Name, s)
			}
		}
	}
	if n := len(roles); n < 5 {
		t.Errorf("only %d roles and bindings were read", n)
	}
}

// TestAggregatedRoles checks that Kubernetes' default roles include our kinds for users, and that no role allows
// users to write a status.
func TestAggregatedRoles(t *testing.T) {
	const prefix = "rbac.authorization.k8s.io/aggregate-to-"
	got := map[string][]string{}
	for _, r := range deployed(t) {
		for label, value := range r.Labels {
			target, found := strings.CutPrefix(label, prefix)
			if !found {
				continue
			}
			if value != "true" {
				t.Errorf("%s: label %s is %q, which Kubernetes ignores", r.Name, label, value)
			}
			for _, rule := range r.Rules {
				if !slices.Equal(rule.APIGroups, []string{v1.Group}) {
					t.Errorf("%s gives rights on kinds of others: %+v", r.Name, rule)
				}
				for _, resource := range rule.Resources {
					if strings.Contains(resource, "/") {
						t.Errorf("%s gives rights on %s, which is the controller's", r.Name, resource)
					}
					for _, verb := range rule.Verbs {
						got[target] = append(got[target], resource+": "+verb)
					}
				}
			}
		}
	}
	view := []string{"backups: get", "backups: list", "backups: watch"}
	edit := append([]string{"backups: create", "backups: delete", "backups: patch", "backups: update"}, view...)
	want := map[string][]string{"view": view, "edit": edit, "admin": edit}
	for _, list := range []map[string][]string{got, want} {
		for _, rights := range list {
			slices.Sort(rights)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// tooMany returns a message for each permission in a rule that no role may have.
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
