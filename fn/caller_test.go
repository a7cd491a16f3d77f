package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/crossplane/function-sdk-go/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A caller calls the function as Crossplane does: after each response, it sends the resources that the function
// requires, until the function requires no others.
type caller struct {
	xr       map[string]any
	input    map[string]any
	observed []map[string]any
	cluster  []map[string]any
	// legacy is true for the protocol of Crossplane 1, which sends required resources only in the field
	// extra_resources.
	legacy bool
	// seeding is true if the first call contains the resources that the function required in the previous reconcile.
	// Crossplane 2.4 sends them with realtime compositions.
	seeding bool
}

// maxPasses is the maximum number of calls of a function in one reconcile. It is MaxRequirementsIterations in
// Crossplane.
const maxPasses = 5

// examples lists the directories of all examples.
func examples(tb testing.TB) []string {
	tb.Helper()
	entries, err := os.ReadDir(filepath.Join("..", "examples"))
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// load returns a caller with the objects in the YAML files of an example.
func load(tb testing.TB, example string) *caller {
	tb.Helper()
	dir := filepath.Join("..", "examples", example)
	c := &caller{observed: documents(tb, filepath.Join(dir, "observed.yaml")),
		cluster: documents(tb, filepath.Join(dir, "required.yaml"))}
	xr := documents(tb, filepath.Join(dir, "xr.yaml"))
	if len(xr) != 1 {
		tb.Fatalf("examples/%s has %d documents in xr.yaml, want one: write it, or remove the directory", example, len(xr))
	}
	c.xr = xr[0]
	name := map[any]string{v1.KindXMySQL: "mysql", v1.KindXDatabase: "database",
		v1.KindMySQL: "mysql-namespaced"}[c.xr["kind"]]
	if ref, ok := at(c.xr, "spec", "compositionRef", "name").(string); ok {
		name = ref
	}
	comp := documents(tb, filepath.Join("..", "apis", "composition-"+name+".yaml"))[0]
	step, _ := at(comp, "spec", "pipeline").([]any)[0].(map[string]any)
	c.input, _ = step["input"].(map[string]any)
	return c
}

// at returns the value at a path in nested maps, or nil.
func at(m map[string]any, path ...string) any {
	var v any = m
	for _, p := range path {
		child, _ := v.(map[string]any)
		v = child[p]
	}
	return v
}

// documents returns the documents of a YAML file, or nil if the file does not exist.
func documents(tb testing.TB, path string) []map[string]any {
	tb.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		tb.Fatal(err)
	}
	var out []map[string]any
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		m := map[string]any{}
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			tb.Fatal(err)
		}
		out = append(out, m)
	}
}

// newFunction returns a function of the current release.
func newFunction() *Function { return &Function{log: logging.NewNopLogger(), release: v1.Release} }

// request returns the request of the first call in a reconcile, which contains no required resources.
func (c *caller) request(tb testing.TB) *fnv1.RunFunctionRequest {
	tb.Helper()
	req := &fnv1.RunFunctionRequest{
		Meta: &fnv1.RequestMeta{Tag: "test"},
		Observed: &fnv1.State{Composite: &fnv1.Resource{Resource: toStruct(tb, c.xr)},
			Resources: map[string]*fnv1.Resource{}},
	}
	if c.input != nil {
		req.Input = toStruct(tb, c.input)
	}
	if !c.legacy {
		req.Meta.Capabilities = []fnv1.Capability{fnv1.Capability_CAPABILITY_CAPABILITIES,
			fnv1.Capability_CAPABILITY_REQUIRED_RESOURCES}
	}
	for _, o := range c.observed {
		name, _ := at(o, "metadata", "annotations").(map[string]any)["crossplane.io/composition-resource-name"].(string)
		req.Observed.Resources[name] = &fnv1.Resource{Resource: toStruct(tb, o)}
	}
	return req
}

// run calls the function until its requirements are stable. It returns the last response and its request.
func (c *caller) run(tb testing.TB) (*fnv1.RunFunctionRequest, *fnv1.RunFunctionResponse) {
	tb.Helper()
	req := c.request(tb)
	f := newFunction()
	if c.seeding {
		first := *c
		first.seeding = false
		_, rsp := first.run(tb)
		c.answer(tb, req, rsp.GetRequirements())
	}
	var needs *fnv1.Requirements
	for range maxPasses {
		rsp, err := f.RunFunction(context.Background(), req)
		if err != nil {
			tb.Fatal(err)
		}
		if fatal(rsp) != "" || proto.Equal(rsp.GetRequirements(), needs) {
			documentedEventsOnly(tb, rsp)
			return req, rsp
		}
		needs = rsp.GetRequirements()
		c.answer(tb, req, needs)
		req.Context = rsp.GetContext()
	}
	tb.Fatal("the function's requirements do not become stable")
	return nil, nil
}

// documentedEventsOnly checks that the API documents the reason of each warning. Crossplane turns warnings into
// events.
func documentedEventsOnly(tb testing.TB, rsp *fnv1.RunFunctionResponse) {
	tb.Helper()
	for _, r := range rsp.GetResults() {
		if r.GetSeverity() == fnv1.Severity_SEVERITY_WARNING && !slices.Contains(v1.FunctionEvents(), r.GetReason()) {
			tb.Errorf("%q is no event of the API: %s", r.GetReason(), r.GetMessage())
		}
		if n := slices.IndexFunc(rsp.GetResults(), func(other *fnv1.Result) bool { return proto.Equal(r, other) }); rsp.GetResults()[n] != r {
			tb.Errorf("the event is sent twice: %s", r.GetMessage())
		}
	}
}

func (c *caller) answer(tb testing.TB, req *fnv1.RunFunctionRequest, needs *fnv1.Requirements) {
	tb.Helper()
	selectors, target := needs.GetResources(), &req.RequiredResources
	if c.legacy {
		selectors, target = needs.GetExtraResources(), &req.ExtraResources //nolint:staticcheck // For Crossplane 1.
	}
	*target = map[string]*fnv1.Resources{}
	for key, s := range selectors {
		found := &fnv1.Resources{}
		for _, o := range c.cluster {
			if matches(s, o) {
				found.Items = append(found.Items, &fnv1.Resource{Resource: toStruct(tb, o)})
			}
		}
		(*target)[key] = found
	}
}

func matches(s *fnv1.ResourceSelector, o map[string]any) bool {
	namespace, _ := at(o, "metadata", "namespace").(string)
	if o["apiVersion"] != s.GetApiVersion() || o["kind"] != s.GetKind() || s.Namespace != nil &&
		s.GetNamespace() != namespace {
		return false
	}
	if s.GetMatchLabels() == nil {
		return at(o, "metadata", "name") == s.GetMatchName()
	}
	labels, _ := at(o, "metadata", "labels").(map[string]any)
	for k, v := range s.GetMatchLabels().GetLabels() {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func toStruct(tb testing.TB, m map[string]any) *structpb.Struct {
	tb.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	s := &structpb.Struct{}
	if err := s.UnmarshalJSON(b); err != nil {
		tb.Fatal(err)
	}
	return s
}

// fatal returns the message of the Fatal result of a response, or "".
func fatal(rsp *fnv1.RunFunctionResponse) string {
	for _, r := range rsp.GetResults() {
		if r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL {
			return r.GetMessage()
		}
	}
	return ""
}

// replicas returns the replicas of the desired Deployment, or -1 if the response has none.
func replicas(rsp *fnv1.RunFunctionResponse) int {
	d, ok := rsp.GetDesired().GetResources()["deployment"]
	if !ok {
		return -1
	}
	return int(d.GetResource().GetFields()["spec"].GetStructValue().GetFields()["replicas"].GetNumberValue())
}

// set sets a field of the XR's spec. The value nil removes the field.
func (c *caller) set(key string, value any) *caller {
	spec := maps.Clone(c.xr["spec"].(map[string]any))
	if spec[key] = value; value == nil {
		delete(spec, key)
	}
	c.xr["spec"] = spec
	return c
}

// yamlOf returns a message as YAML.
func yamlOf(tb testing.TB, m proto.Message) string {
	tb.Helper()
	b, err := marshal.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	y, err := sigsyaml.JSONToYAML(b)
	if err != nil {
		tb.Fatal(err)
	}
	return string(y)
}
