package main

import (
	"maps"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestDefaults: a CLI that renders has no API server that fills in the defaults of the schema. So the function must do the same
// for an XR with the defaults and for one without them.
func TestDefaults(t *testing.T) {
	for _, name := range exampleNames(t) {
		c := load(t, name)
		xrd := "xrd-xmysqls.yaml"
		if c.xr["kind"] == v1.KindXDatabase {
			xrd = "xrd-xdatabases.yaml"
		}
		_, without := c.run(t)
		c.xr = setIn(c.xr, withDefaults(claimSchema(t, xrd), c.xr["spec"]), "spec")
		_, with := c.run(t)
		if diff := cmp.Diff(desiredBy(with), desiredBy(without)); diff != "" {
			t.Fatalf("%s: the function does not know a default of the schema: add it to withDefaults (compose/resolve.go). -with it, +without it:\n%s", name, diff)
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
			if _, is := out[name]; !is && child["default"] != nil {
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

// desiredBy a response: its status and resources, without copies of the spec as it was written.
func desiredBy(rsp *fnv1.RunFunctionResponse) map[string]any {
	out := map[string]any{"message": fatal(rsp), "composite": setIn(rsp.GetDesired().GetComposite().GetResource().AsMap(), nil, "status", "restore", "import")}
	for name, r := range rsp.GetDesired().GetResources() {
		out[name] = setIn(r.GetResource().AsMap(), nil, "metadata", "annotations")
	}
	return out
}
