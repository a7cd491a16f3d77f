package apis_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	xapiextv1 "github.com/crossplane/crossplane/apis/v2/apiextensions/v1"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Types of values in an OpenAPI schema.
const (
	typeString = "string"
	typeArray  = "array"
	typeObject = "object"
)

// TestSpecsAreBounded checks that every list, map and string in a spec has a maximum size, so that no object can
// reach etcd's limit. BackupRecords are an exception, because the controller writes them from accepted objects, and a
// refusal would stop a deletion.
func TestSpecsAreBounded(t *testing.T) {
	g := newGenerator(t)
	platform, store := g.platformCRD(t), g.crd(t, v1.KindBackupStore)
	for name, spec := range map[string]extv1.JSONSchemaProps{
		v1.KindMySQL:       specOf(t, g.xrd(t)),
		v1.KindDatabase:    specOf(t, g.xrdDatabase(t)),
		v1.KindPlatform:    platform.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"],
		v1.KindBackupStore: store.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"],
		v1.KindSettings:    g.spec(t, v1.KindSettings),
		xrdNamespaced:      specOfNamespaced(t, g.xrdNamespaced(t)),
	} {
		t.Run(name, func(t *testing.T) {
			for _, field := range unbounded("spec", &spec) {
				t.Error(field)
			}
		})
	}
}

// unbounded returns the fields of a schema that have no maximum size, and the limit that each of them lacks.
func unbounded(path string, s *extv1.JSONSchemaProps) []string {
	var out []string
	lacks := func(present bool, bound string) {
		if present {
			out = append(out, fmt.Sprintf("%s has no %s", path, bound))
		}
	}
	lacks(s.Type == typeArray && s.MaxItems == nil, "maxItems")
	lacks(s.AdditionalProperties != nil && s.MaxProperties == nil, "maxProperties")
	lacks((s.Type == typeString || s.XIntOrString) && s.MaxLength == nil && len(s.Enum) == 0 && s.Format == "",
		"maxLength")
	lacks(s.XPreserveUnknownFields != nil && (s.MaxLength == nil || s.MaxProperties == nil || s.MaxItems == nil),
		"rule for each type that it preserves")
	if s.Items != nil && s.Items.Schema != nil && s.Type == typeArray {
		out = append(out, unbounded(path+"[]", s.Items.Schema)...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		out = append(out, unbounded(path+"{}", s.AdditionalProperties.Schema)...)
	}
	for name, p := range s.Properties {
		if path == "spec" && (name == "apiVersion" || name == "kind") {
			continue // The values of both fields are the same for all objects of a kind.
		}
		out = append(out, unbounded(path+"."+name, &p)...)
	}
	slices.Sort(out)
	return out
}

// specOf returns the schema of the spec in an XRD.
func specOf(t *testing.T, xrd *xapiextv1.CompositeResourceDefinition) extv1.JSONSchemaProps {
	t.Helper()
	root := extv1.JSONSchemaProps{}
	if err := json.Unmarshal(xrd.Spec.Versions[0].Schema.OpenAPIV3Schema.Raw, &root); err != nil {
		t.Fatal(err)
	}
	return root.Properties["spec"]
}
