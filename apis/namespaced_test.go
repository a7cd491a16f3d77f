package apis_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	xapiextv1 "github.com/crossplane/crossplane/apis/v2/apiextensions/v1"
	xapiextv2 "github.com/crossplane/crossplane/apis/v2/apiextensions/v2"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// claimsOnly returns the fields of a MySQLSpec that the API without claims omits: the legacy name of the size, a
// plaintext password, and a field of Crossplane's claims.
func claimsOnly() []string { return []string{"storage_size", "password", "compositeDeletePolicy"} }

// xrdNamespaced returns the XRD of the API without claims. It has the same columns as claims, but different names for
// kubectl. With the names mysql, mysqls or ms, kubectl would no longer find claims, because this group comes first in
// the alphabet.
func (g *generator) xrdNamespaced(t *testing.T) *xapiextv2.CompositeResourceDefinition {
	t.Helper()
	claims := g.xrd(t)
	names := *claims.Spec.ClaimNames
	names.Plural, names.Singular, names.ShortNames = v1.PluralMySQL, "mysqlinstance", []string{"msi"}
	return &xapiextv2.CompositeResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: xapiextv2.SchemeGroupVersion.String(),
			Kind: xapiextv2.CompositeResourceDefinitionKind},
		ObjectMeta: metav1.ObjectMeta{Name: v1.PluralMySQL + "." + v1.Group},
		Spec: xapiextv2.CompositeResourceDefinitionSpec{
			Group:                 v1.Group,
			Names:                 names,
			Scope:                 xapiextv2.CompositeResourceScopeNamespaced,
			DefaultCompositionRef: &xapiextv2.CompositionReference{Name: "mysql-namespaced"},
			Versions: []xapiextv2.CompositeResourceDefinitionVersion{{
				Name: v1.Version, Served: true, Referenceable: true,
				Schema:                   &xapiextv2.CompositeResourceValidation{OpenAPIV3Schema: g.namespacedSchema(t)},
				AdditionalPrinterColumns: claims.Spec.Versions[0].AdditionalPrinterColumns,
			}},
		},
	}
}

// sizeForm is the pattern that a storage size must match in the rules of the schema.
const sizeForm = `^[0-9]+([.][0-9]+)?([eE][0-9]{1,2}|[kMGTPE]|[KMGTPE]i)?$`

// namespacedSchema returns the schema of the claims, without the fields that only claims have and the rules for these
// fields.
func (g *generator) namespacedSchema(t *testing.T) runtime.RawExtension {
	t.Helper()
	root := g.mysqlSchema(t)
	spec := root.Properties["spec"]
	rules := len(spec.XValidations)
	spec.XValidations = slices.DeleteFunc(spec.XValidations, func(r extv1.ValidationRule) bool {
		return slices.ContainsFunc(claimsOnly(), func(field string) bool {
			return strings.Contains(r.Rule, "self."+field+")")
		})
	})
	if gone := rules - len(spec.XValidations); gone != 5 {
		t.Fatalf("want 5 rules that are about claims only (two passwords, two sizes, how a size grows, by itself, how a "+
			"composite resource is deleted), there are %d", gone)
	}
	for _, field := range claimsOnly() {
		if _, ok := spec.Properties[field]; !ok {
			t.Fatalf("a claim has no field %s", field)
		}
		delete(spec.Properties, field)
	}
	size := spec.Properties["storageSize"]
	size.XValidations = append(size.XValidations, extv1.ValidationRule{
		Rule:    "quantity(self).compareTo(quantity(oldSelf)) >= 0",
		Message: "the storage size can grow, but it cannot shrink",
	})
	spec.Properties["storageSize"] = size
	spec.XValidations = append(spec.XValidations, extv1.ValidationRule{
		Rule: "!has(self.storageAutogrow) || !has(self.storageAutogrow.to) || !self.storageSize.matches('" + sizeForm +
			"') || !self.storageAutogrow.to.matches('" + sizeForm +
			"') || quantity(self.storageAutogrow.to).compareTo(quantity(self.storageSize)) >= 0",
		Message: "storageAutogrow.to must be at least the storage size",
	})
	spec.Required = append(spec.Required, "storageSize")
	slices.Sort(spec.Required)
	root.Properties["spec"] = spec
	return raw(t, root)
}

// compositionNamespaced returns a Composition of the API without claims.
func compositionNamespaced(name string, mode v1.VolumeMode) *xapiextv1.Composition {
	c := composition(name, mode)
	c.Spec.CompositeTypeRef = xapiextv1.TypeReference{APIVersion: v1.GroupVersion.String(), Kind: v1.KindMySQL}
	c.Spec.WriteConnectionSecretsToNamespace = nil
	return c
}

// specOfNamespaced returns the schema of the spec in an XRD.
func specOfNamespaced(t *testing.T, x *xapiextv2.CompositeResourceDefinition) extv1.JSONSchemaProps {
	t.Helper()
	root := extv1.JSONSchemaProps{}
	if err := json.Unmarshal(x.Spec.Versions[0].Schema.OpenAPIV3Schema.Raw, &root); err != nil {
		t.Fatal(err)
	}
	return root.Properties["spec"]
}

// namespaced returns a MySQL without a claim, with changes to its spec. A nil value removes a field.
func namespaced(changes map[string]any) map[string]any {
	spec := map[string]any{"image": "mysql:8.4", "database": "shop", "storageSize": "2Gi"}
	maps.Copy(spec, changes)
	maps.DeleteFunc(spec, func(_ string, v any) bool { return v == nil })
	return map[string]any{"apiVersion": "crossplane-mysql.io/v1alpha1", "kind": "MySQL",
		"metadata": map[string]any{"name": "db", "namespace": "default"}, "spec": spec}
}

// TestNamespacedSchema checks which MySQL objects without a claim, and which changes, the API server accepts.
func TestNamespacedSchema(t *testing.T) {
	type m = map[string]any
	v := newValidator(t, xrdNamespaced)
	cases := map[string]struct {
		reason string
		spec   m
		old    m
		update bool
		want   string
	}{
		"Good": {reason: "No password is required, because the controller generates one."},
		"FromSecret": {reason: "A user may choose the password.",
			spec: m{"passwordSecretRef": m{"name": "a", "key": "b"}}},
		"NoSize": {reason: "The size has only one spelling in this API, so the field is required.",
			spec: m{"storageSize": nil},
			want: "storageSize"},
		"NoDatabase": {reason: "The database is required, as in a claim.", spec: m{"database": nil}, want: "database"},
		"NotAQuantity": {reason: "The size must be a quantity.", spec: m{"storageSize": "big"},
			want: "must be a quantity"},
		"Grows": {reason: "The volume may grow.", old: m{}, spec: m{"storageSize": "3Gi"}, update: true},
		"Stays": {reason: "The size is the same in another unit.", old: m{}, spec: m{"storageSize": "2048Mi"}, update: true},
		"Shrinks": {reason: "The volume must not shrink.", old: m{}, spec: m{"storageSize": "1Gi"}, update: true,
			want: "cannot shrink"},
		"Unset": {reason: "The size must not be changed in two steps, by removing it first.", old: m{},
			spec: m{"storageSize": nil}, update: true, want: "storageSize"},
		"GrowsByItself": {reason: "The volume may grow automatically.", spec: m{"storageAutogrow": m{"to": "2Gi"}}},
		"GrowsToLess": {reason: "The volume must not shrink by automatic growth.", spec: m{"storageAutogrow": m{"to": "1Gi"}},
			want: "storageAutogrow.to must be at least"},
		"OtherClass": {reason: "The StorageClass must not change, as in a claim.",
			old: m{"storageClassName": "a"}, spec: m{"storageClassName": "b"},
			update: true, want: "storageClassName cannot change"},
		"SystemDatabase": {reason: "A system schema must be refused, as in a claim.",
			spec: m{"database": "MySQL"}, want: "system schema"},
		"RestoreBoth": {reason: "The policy Never and a named backup contradict each other, as in a claim.",
			spec: m{"restore": m{"policy": "Never", "backup": "b"}},
			want: "policy Never, which forbids a restore"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var old m
			if tc.update {
				old = namespaced(tc.old)
			}
			got := v.validate(namespaced(tc.spec), old)
			if tc.want == "" && got != "" || tc.want != "" && !strings.Contains(got, tc.want) {
				t.Errorf("%s\nwant %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

// TestClaimsOnly checks that the API without claims does not have the fields that only claims have. The API server
// reports an unknown field to kubectl and removes it from the object.
func TestClaimsOnly(t *testing.T) {
	claims, without := newValidator(t, xrdMySQL), newValidator(t, xrdNamespaced)
	for _, field := range claimsOnly() {
		object := map[string]any{"spec": map[string]any{field: "a"}}
		unknown := func(v *validator) []string {
			return pruning.PruneWithOptions(runtime.DeepCopyJSON(object), v.structural, false,
				schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
		}
		if got := unknown(claims); len(got) > 0 {
			t.Errorf("a claim has no field %v", got)
		}
		if got := unknown(without); !slices.Equal(got, []string{"spec." + field}) {
			t.Errorf("want spec.%s unknown without a claim, got %v", field, got)
		}
	}
}
