package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestDefaults checks that an XR gives the same result with and without the defaults of the schema. With crossplane
// render, no API server sets the defaults.
func TestDefaults(t *testing.T) {
	for _, name := range examples(t) {
		c := load(t, name)
		xrd := map[any]string{v1.KindXMySQL: "xrd-xmysqls.yaml", v1.KindXDatabase: "xrd-xdatabases.yaml",
			v1.KindMySQL: "xrd-mysqls.yaml"}[c.xr["kind"]]
		_, without := c.run(t)
		c.xr = setIn(c.xr, withDefaults(claimSchema(t, xrd), c.xr["spec"]), "spec")
		_, defaulted := c.run(t)
		if diff := cmp.Diff(desiredBy(defaulted), desiredBy(without)); diff != "" {
			t.Fatalf("%s: the function does not know a default of the schema: add it to withDefaults (compose/resolve.go). "+
				"-with it, +without it:\n%s", name, diff)
		}
	}
}

// withDefaults returns a value with the defaults of its schema.
func withDefaults(schema map[string]any, value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := maps.Clone(v)
		properties, _ := schema["properties"].(map[string]any)
		for name, child := range properties {
			child := child.(map[string]any)
			if _, ok := out[name]; !ok && child["default"] != nil {
				out[name] = child["default"]
			}
			if out[name] != nil {
				out[name] = withDefaults(child, out[name])
			}
		}
		return out
	case []any:
		items, _ := schema["items"].(map[string]any)
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, withDefaults(items, item))
		}
		return out
	}
	return value
}

// desiredBy returns the status and resources of a response, without fields that repeat the spec.
func desiredBy(rsp *fnv1.RunFunctionResponse) map[string]any {
	out := map[string]any{"message": fatal(rsp),
		"composite": setIn(rsp.GetDesired().GetComposite().GetResource().AsMap(), nil, "status", "restore", "import")}
	for name, r := range rsp.GetDesired().GetResources() {
		out[name] = setIn(r.GetResource().AsMap(), nil, "metadata", "annotations")
	}
	return out
}

// lenient lists fields for which the function accepts values that the schema refuses. The API server refuses these
// values in the composed object.
var lenient = []string{"service.annotations[]", "storageClassName"}

// TestRefusesWhatTheSchemaRefuses checks that the function refuses the same values of single fields as the schema.
// With crossplane render, no API server validates them.
func TestRefusesWhatTheSchemaRefuses(t *testing.T) {
	tried := 0
	for example, xrd := range map[string]string{"fresh-instance": "xrd-xmysqls.yaml",
		"database-storage": "xrd-xdatabases.yaml"} {
		prepared := load(t, example)
		prepared.cluster = append(prepared.cluster, strangers()...)
		prepared.letImport()
		for field, schema := range fieldsOf("", claimSchema(t, xrd)) {
			for _, value := range refusedBy(schema, append(slices.Clone(odd), reaches[field].odd...)) {
				tried++
				c := *prepared
				c.xr = runtime.DeepCopyJSON(c.xr)
				_, rsp := c.with(field, slices.Concat(reaches[field].keys, []string{""})[0], value).run(t)
				if fatal(rsp) == "" && !slices.Contains(lenient, field) {
					t.Errorf("the schema refuses spec.%s: %.80q, and the function accepts it: refuse it in compose/check.go", field,
						fmt.Sprint(value))
				}
			}
		}
	}
	if tried < 500 {
		t.Errorf("only %d values were tried", tried)
	}
}

// refusedBy adds some values that a schema refuses. It does not add an empty value, because the function cannot
// distinguish that from an unset field.
func refusedBy(schema map[string]any, values []any) []any {
	var out []any
	if schema["enum"] != nil {
		out = append(out, marker)
	}
	if longest, ok := schema["maxLength"].(float64); ok {
		out = append(out, strings.Repeat("1", int(longest)+1), strings.Repeat("a", int(longest)+1))
	}
	if most, ok := schema["maximum"].(float64); ok {
		out = append(out, most+1)
	}
	if least, ok := schema["minimum"].(float64); ok {
		out = append(out, min(least-1, -1))
	}
	if pattern, ok := schema["pattern"].(string); ok {
		for _, v := range values {
			if text, isText := v.(string); isText && text != "" && !regexp.MustCompile(pattern).MatchString(text) {
				out = append(out, text)
			}
		}
	}
	return out
}
