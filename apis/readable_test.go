package apis_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// odd returns unusual values for a field of any type.
func odd() []any {
	return []any{
		map[string]any{}, map[string]any{"a": map[string]any{"b": int64(1)}}, []any{}, []any{"a", nil, map[string]any{}}, nil,
		"", "a", "1e-9999999", int64(-1), int64(math.MaxInt32) + 1, int64(math.MaxInt64), 1.5, 1e300, true,
	}
}

// TestAcceptedIsReadable puts unusual values into every field of each spec. If the API server accepts an object, the
// Go types must be able to decode it.
func TestAcceptedIsReadable(t *testing.T) {
	for name, api := range map[string]struct {
		file   string
		good   map[string]any
		target func() any
	}{
		v1.KindMySQL:    {xrdMySQL, claim(nil), func() any { return &v1.XMySQL{} }},
		v1.KindDatabase: {xrdDatabase, database(stored(nil)), func() any { return &v1.XDatabase{} }},
		"Namespaced":    {xrdNamespaced, namespaced(nil), func() any { return &v1.XMySQL{} }},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t, api.file)
			spec := v.structural.Properties["spec"]
			for _, path := range pathsOf(&spec, []string{"spec"}) {
				for _, value := range odd() {
					object := runtime.DeepCopyJSON(api.good)
					put(object, path, runtime.DeepCopyJSONValue(value))
					if v.validate(object, nil) != "" {
						continue
					}
					raw, err := json.Marshal(object)
					if err != nil {
						t.Fatal(err)
					}
					if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, api.target()); err != nil {
						t.Errorf("the API server accepts %v in %s, and it cannot be read: %v", value, strings.Join(path, "."), err)
					}
				}
			}
		})
	}
}

// pathsOf returns the paths of all fields of a schema, including fields in lists and maps.
func pathsOf(s *schema.Structural, path []string) [][]string {
	out := [][]string{path}
	if s.Items != nil {
		out = append(out, pathsOf(s.Items, append(slices.Clone(path), "[]"))...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		out = append(out, pathsOf(s.AdditionalProperties.Structural, append(slices.Clone(path), "odd_key"))...)
	}
	for name := range s.Properties {
		p := s.Properties[name]
		out = append(out, pathsOf(&p, append(slices.Clone(path), name))...)
	}
	return out
}

// put sets a value at a path, and creates missing parents.
func put(object map[string]any, path []string, value any) {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == "[]" {
			value = []any{value}
			continue
		}
		if parent, ok := find(object, path[:i]); ok {
			parent[path[i]] = value
			return
		}
		value = map[string]any{path[i]: value}
	}
	object[path[0]] = value
}

// find returns the existing map at a path.
func find(object map[string]any, path []string) (map[string]any, bool) {
	for _, step := range path {
		next, ok := object[step].(map[string]any)
		if !ok {
			return nil, false
		}
		object = next
	}
	return object, true
}
