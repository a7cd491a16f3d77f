package main

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/crossplane-mysql/crossplane-mysql/fn/compose"
)

// fuzzed lists the examples that are changed. Each is in a different state.
var fuzzed = []string{"fresh-instance", "running", "restore-before", "restore-during", "restore-after",
	"restore-failed", "backup-unfinished", "backup-failed", "hostpath", "fenced", "restore-named", "volume-claim-vanished"}

// FuzzRunFunction merges arbitrary JSON into an example's XR, observed resources and required resources. It also
// removes some of the resources. drop has one bit for each of them, in the order of their names.
//
//	go test ./fn -fuzz FuzzRunFunction -fuzztime 5m
func FuzzRunFunction(f *testing.F) {
	bases := make([]*fnv1.RunFunctionRequest, len(fuzzed))
	for i, example := range fuzzed {
		bases[i], _ = load(f, example).run(f)
	}
	seeds := []struct{ xr, observed, answers string }{
		{`{}`, `{}`, `{}`},
		{`{"spec":{"image":null,"service":{"type":"NodePort"},"config":{"a":1,"log_bin":"/x"}}}`, `{}`, `{}`},
		{`{"status":{"internal":{"previousBackup":"None","started":true}}}`, `{"deployment":{"spec":{"replicas":0}}}`, `{"records":[]}`},
		{`{"spec":{"restore":{"policy":"Never"}}}`, `{"data-claim":{"status":{"phase":"Lost"}}}`,
			`{"records":[{"status":{"phase":"Verified"}}]}`},
		{`{"status":{"internal":{"pvcDeleted":true},"volume":"x"}}`,
			`{"restore":{"status":{"conditions":[{"type":"Complete","status":"True"}]}}}`, `{"volume":[{}]}`},
		{`{"spec":{"storage_size":"1e-9999999"}}`,
			`{"data-claim":{"spec":{"resources":{"requests":{"storage":"1e-9999999"}}}}}`, `{}`},
		{`{"spec":{"storage_size":"1e99","backup":{"retention":{"count":-1}}}}`, `{"service":{"spec":{"clusterIP":"None"}}}`,
			`{"connection":[{"data":{"password":"eA=="}}]}`},
	}
	for i := range fuzzed {
		for _, s := range seeds {
			f.Add(uint8(i), []byte(s.xr), []byte(s.observed), []byte(s.answers), uint32(0))
		}
		f.Add(uint8(i), []byte(`{}`), []byte(`{}`), []byte(`{}`), ^uint32(0))
	}
	f.Fuzz(func(t *testing.T, example uint8, xr, observed, answers []byte, drop uint32) {
		req := fuzzRequest(t, bases[int(example)%len(bases)], [3][]byte{xr, observed, answers}, drop)
		if req == nil {
			return
		}
		fn := newFunction()
		rsp, err := fn.RunFunction(context.Background(), req)
		if err != nil {
			t.Fatalf("an error return: %v", err)
		}
		second, _ := fn.RunFunction(context.Background(), req)
		if !proto.Equal(rsp, second) {
			t.Fatalf("not pure: %s", cmp.Diff(rsp, second, protocmp.Transform()))
		}
		if _, err := proto.Marshal(rsp); err != nil {
			t.Fatalf("the response cannot be sent: %v", err)
		}
		if fatal(rsp) != "" {
			return
		}
		for name := range req.GetObserved().GetResources() {
			if _, ok := rsp.GetDesired().GetResources()[name]; !ok && slices.Contains(compose.ResourceNames(), name) {
				t.Fatalf("the observed resource %q would be deleted", name)
			}
		}
		if reason := mayNotStart(req); replicas(rsp) > 0 && reason != "" {
			t.Fatalf("the server would start although %s", reason)
		}
	})
}

// fuzzRequest applies the changes to the last request of an example. It returns nil if a change is not a JSON object.
func fuzzRequest(t *testing.T, base *fnv1.RunFunctionRequest, changes [3][]byte, drop uint32) *fnv1.RunFunctionRequest {
	t.Helper()
	var docs [3]map[string]any
	for i, c := range changes {
		if json.Unmarshal(c, &docs[i]) != nil {
			return nil
		}
	}
	req := proto.CloneOf(base)
	req.Observed.Composite.Resource = toStruct(t, merge(req.GetObserved().GetComposite().GetResource().AsMap(), docs[0]))
	bit := 0
	for _, name := range sorted(req.GetObserved().GetResources()) {
		r := req.GetObserved().GetResources()[name]
		if change, ok := docs[1][name].(map[string]any); ok {
			r.Resource = toStruct(t, merge(r.GetResource().AsMap(), change))
		}
		if drop&(1<<bit) != 0 {
			delete(req.GetObserved().GetResources(), name)
		}
		bit++
	}
	for _, key := range sorted(req.GetRequiredResources()) {
		if items, ok := docs[2][key].([]any); ok {
			req.RequiredResources[key] = fuzzRequired(t, req.GetRequiredResources()[key], items)
		}
		if drop&(1<<bit) != 0 {
			delete(req.GetRequiredResources(), key)
		}
		bit++
	}
	return req
}

// fuzzRequired returns the items as required resources. Each item is merged into the previous resource at the same
// position.
func fuzzRequired(t *testing.T, previous *fnv1.Resources, items []any) *fnv1.Resources {
	t.Helper()
	out := &fnv1.Resources{}
	for i, item := range items {
		base := map[string]any{}
		if i < len(previous.GetItems()) {
			base = previous.GetItems()[i].GetResource().AsMap()
		}
		change, _ := item.(map[string]any)
		out.Items = append(out.Items, &fnv1.Resource{Resource: toStruct(t, merge(base, change))})
	}
	return out
}

// merge applies a JSON merge patch (RFC 7386).
func merge(base, change map[string]any) map[string]any {
	for k, v := range change {
		child, isMap := v.(map[string]any)
		previous, wasMap := base[k].(map[string]any)
		switch {
		case v == nil:
			delete(base, k)
		case isMap && wasMap:
			base[k] = merge(previous, child)
		default:
			base[k] = v
		}
	}
	return base
}

func sorted[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// mayNotStart returns the reason why the server must not run, or "". It evaluates invariants 3 and 9 of
// docs/contribute/design.md from the request, without any code of the function.
func mayNotStart(req *fnv1.RunFunctionRequest) string {
	xr := req.GetObserved().GetComposite().GetResource().AsMap()
	observed := func(name string) map[string]any {
		return req.GetObserved().GetResources()[name].GetResource().AsMap()
	}
	uid, _ := at(xr, "metadata", "uid").(string)
	started := at(xr, "status", "internal", "started") == true ||
		at(observed("deployment"), "metadata", "annotations", "crossplane-mysql.io/started") == "started-"+uid
	count, _ := at(observed("deployment"), "spec", "replicas").(float64)
	noted, _ := at(xr, "status", "volume").(string)
	_, volumeKnown := req.GetRequiredResources()["volume"]
	_, volumeSeen := req.GetObserved().GetResources()["data-volume"]
	switch {
	case at(xr, "status", "internal", "pvcDeleted") == true:
		return "it is fenced"
	case started && count > 0:
		return ""
	case noted != "" && !volumeKnown && !volumeSeen:
		return "its volume was not looked up"
	case started:
		return ""
	}
	if _, ok := req.GetObserved().GetResources()["restore"]; ok {
		conditions, _ := at(observed("restore"), "status", "conditions").([]any)
		for _, c := range conditions {
			if m, _ := c.(map[string]any); m["type"] == "Complete" && m["status"] == "True" {
				return ""
			}
		}
		return "its restore is not complete"
	}
	if phase, ok := at(xr, "status", "restore", "phase").(string); ok {
		if phase == "Succeeded" {
			return ""
		}
		return "its restore has not succeeded"
	}
	return historyForbids(req, xr)
}

// historyForbids returns the reason why backups of previous instances forbid an empty server, or "".
func historyForbids(req *fnv1.RunFunctionRequest, xr map[string]any) string {
	previous, _ := at(xr, "status", "internal", "previousBackup").(string)
	records, known := req.GetRequiredResources()["records"]
	if previous == "" || !known {
		return "nobody looked for backups"
	}
	if at(xr, "spec", "restore", "backup") != nil {
		return "a backup is named"
	}
	never := at(xr, "spec", "restore", "policy") == "Never"
	if !never && previous != "None" {
		return "the controller knows a backup"
	}
	for _, r := range records.GetItems() {
		m := r.GetResource().AsMap()
		own := at(m, "spec", "instance", "kind") == at(xr, "spec", "claimRef", "kind") &&
			at(m, "spec", "instance", "namespace") == at(xr, "spec", "claimRef", "namespace") &&
			at(m, "spec", "instance", "name") == at(xr, "spec", "claimRef", "name")
		phase := at(m, "status", "phase")
		if own && (!never || phase != "Verified" && phase != "Failed") {
			return "there is a record of an earlier life"
		}
	}
	return ""
}
