package admission

import (
	"os"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// The following users send requests in the tests of instances without claims.
const (
	crossplane = "system:serviceaccount:crossplane-system:crossplane"
	// tenant is a user to whom RBAC allows everything in its own namespace.
	tenant = "tenant"
	// operator is a user who may do everything with MySQLs in all namespaces, as Crossplane's own roles allow.
	operator = "operator"
)

// crossplanes is the finalizer that Crossplane sets on an XR.
const crossplanes = "composite.apiextensions.crossplane.io"

// granted returns the permissions of the controller and of Crossplane from the manifests, and the permissions of
// users.
func granted(t *testing.T) []Grant {
	t.Helper()
	verbs := []string{"*"}
	return []Grant{
		{User: controller, Rules: rulesOf(t, "../../deploy/controller/rbac.yaml", "crossplane-mysql-controller")},
		{User: crossplane, Rules: rulesOf(t, "../../deploy/controller/crossplane-role.yaml", "crossplane-mysql-compose")},
		{User: tenant, Namespace: "default", Rules: []rbacv1.PolicyRule{
			{Verbs: verbs, APIGroups: []string{"*"}, Resources: []string{"*"}}}},
		{User: operator, Rules: []rbacv1.PolicyRule{
			{Verbs: verbs, APIGroups: []string{v1.Group}, Resources: []string{"mysqlinstances", "mysqlinstances/status"}}}},
	}
}

// rulesOf returns the rules of a ClusterRole in a file.
func rulesOf(t *testing.T, file, name string) []rbacv1.PolicyRule {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		role := rbacv1.ClusterRole{}
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind == "ClusterRole" && role.Name == name {
			return role.Rules
		}
	}
	t.Fatalf("%s has no ClusterRole %s", file, name)
	return nil
}

// withoutClaim returns a MySQL of the API without claims. It has the finalizers of Crossplane and of the controller.
func withoutClaim(image string) *unstructured.Unstructured {
	u := claim(image)
	u.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.KindMySQL))
	return withFinalizers(u, crossplanes, v1.Finalizer)
}

// in returns a copy of an object in which a field is set to a value.
func in(u *unstructured.Unstructured, value any, path ...string) *unstructured.Unstructured {
	u = u.DeepCopy()
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		panic(err)
	}
	return u
}

// TestProtectedMySQLs checks that only Crossplane and the controller can write the status, the controller's
// finalizers and the references to composed resources. Users cannot, even if RBAC allows them all operations on
// MySQLs.
func TestProtectedMySQLs(t *testing.T) {
	p := inForce(t)
	old := withoutClaim("mysql:8.4")
	refs := func(name string) []any { return []any{map[string]any{"kind": "Secret", "name": name}} }
	composed := in(old, refs("a"), "spec", "crossplane", "resourceRefs")
	const status, finalizer, references = "write the status", "remove their finalizers", "resourceRefs"
	for name, tc := range map[string]struct {
		reason, message string
		write           Write
	}{
		"Started": {"A restore would be written over the data of a server that runs.", status,
			Write{Old: in(old, true, "status", "internal", "started"), New: in(old, false, "status", "internal", "started"), Subresource: "status"}},
		"NoBackup": {"An empty server would start beside the archives.", status,
			Write{Old: old, New: in(old, "None", "status", "internal", "previousBackup"), Subresource: "status"}},
		"SameStatus": {"There is no reason to write it.", status, Write{Old: old, New: old, Subresource: "status"}},
		"NoFinalizers": {"The data would not be backed up.", finalizer,
			Write{Old: old, New: withFinalizers(withoutClaim("mysql:8.4"))}},
		"OurFinalizer": {"The data would not be backed up.", finalizer,
			Write{Old: old, New: withFinalizers(withoutClaim("mysql:8.4"), crossplanes)}},
		"CrossplanesFinalizer": {"Crossplane would not delete what it composed.", finalizer,
			Write{Old: old, New: withFinalizers(withoutClaim("mysql:8.4"), v1.Finalizer)}},
		"FinalizerOfDying": {"The backup is under way.", finalizer,
			Write{Old: dying(old.DeepCopy()), New: withFinalizers(dying(old.DeepCopy()), crossplanes)}},
		"LaterFinalizer": {"It has the name of a later release.", finalizer,
			Write{Old: withFinalizers(withoutClaim("mysql:8.4"), v1.Group+"/protect-data"),
				New: withFinalizers(withoutClaim("mysql:8.4"))}},
		"RefsMade":    {"Crossplane would delete it as its own.", references, Write{Old: old, New: composed}},
		"RefsCreated": {"So it would from the start.", references, Write{New: composed}},
		"RefsChanged": {"So it would.", references,
			Write{Old: composed, New: in(old, refs("b"), "spec", "crossplane", "resourceRefs")}},
		"RefsRemoved": {"Crossplane would leave it behind.", references, Write{Old: composed, New: old}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, user := range []string{tenant, operator} {
				w := tc.write
				w.By = user
				if err := p.Refusal(t.Context(), w); err == nil || !strings.Contains(err.Error(), tc.message) {
					t.Errorf("%s Want %s refused with %q, got %v", tc.reason, user, tc.message, err)
				}
			}
			w := tc.write
			w.By = crossplane
			if err := p.Refusal(t.Context(), w); err != nil {
				t.Errorf("want Crossplane to write it: %v", err)
			}
		})
	}
}

// TestOpenMySQLs checks that users may create and change MySQLs, and that the controller may write its own fields.
func TestOpenMySQLs(t *testing.T) {
	p := inForce(t)
	old := withoutClaim("mysql:8.4")
	composed := in(old, []any{map[string]any{"kind": "Secret", "name": "a"}}, "spec", "crossplane", "resourceRefs")
	chosen := in(composed, "mysql-namespaced", "spec", "crossplane", "compositionRef", "name")
	theirs := withFinalizers(old.DeepCopy(), crossplanes, v1.Finalizer, "theirs.example.org/x")
	for name, w := range map[string]Write{
		"create":              {New: withFinalizers(withoutClaim("mysql:8.4"))},
		"image":               {Old: composed, New: in(composed, "mysql:9", "spec", "image")},
		"composition":         {Old: composed, New: chosen},
		"annotation":          {Old: old, New: in(old, "b", "metadata", "annotations", "a")},
		"finalizer of theirs": {Old: old, New: theirs},
		"that goes again":     {Old: theirs, New: old},
		"delete":              {Old: old},
	} {
		for _, user := range []string{tenant, operator} {
			w.By = user
			if err := p.Refusal(t.Context(), w); err != nil {
				t.Errorf("%s, %s: %v", name, user, err)
			}
		}
	}
	for name, w := range map[string]Write{
		"status": {Old: old, New: in(old, "None", "status", "internal", "previousBackup"), Subresource: "status"},
		"finalizer": {Old: dying(old.DeepCopy()),
			New: withFinalizers(dying(old.DeepCopy()), crossplanes)},
		"protected": {Old: withFinalizers(withoutClaim("mysql:8.4"), crossplanes), New: old},
	} {
		if err := p.Refusal(t.Context(), w); err != nil {
			t.Errorf("the controller, %s: %v", name, err)
		}
	}
}
