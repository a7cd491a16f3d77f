package main

import (
	"context"
	"runtime/metrics"
	"strings"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"
)

// endless numbers: a parser of quantities would work on them for seconds, minutes
// or ever, and use so much memory.
func endless() []string {
	var out []string
	for digits := 3; digits <= 40; digits++ {
		nines := strings.Repeat("9", digits)
		out = append(out, "1e-"+nines, "1e"+nines, " 1E-"+nines, "\n1e+"+nines, "12345678901234567890e"+nines)
	}
	return append(out, strings.Repeat("9", 100_000)+"e-999", "1e"+strings.Repeat("0", 1000)+"9")
}

// allocated bytes of a call. Small ones are counted some time later, megabytes of
// them, so a limit has room for that; who calculates with an endless number needs
// tens. How long it takes says nothing on a busy machine.
func allocated(f func()) uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	before := s[0].Value.Uint64()
	f()
	metrics.Read(s)
	return s[0].Value.Uint64() - before
}

// A placed quantity is one that a request has somewhere.
type placed struct {
	// named is how the refusal names its field; empty where it need not be refused.
	named string
	put   func(t *testing.T, req *fnv1.RunFunctionRequest, text string)
}

// placedInXR at a path, which the refusal names.
func placedInXR(named string, path ...string) placed {
	return placed{named: named, put: func(t *testing.T, req *fnv1.RunFunctionRequest, text string) {
		t.Helper()
		c := req.GetObserved().GetComposite()
		xr := c.GetResource().AsMap()
		if path[0] == "storageSize" {
			xr = setIn(xr, nil, "spec", "storage_size")
		}
		c.Resource = toStruct(t, setIn(xr, text, append([]string{"spec"}, path...)...))
	}}
}

// placedInInput of the Composition.
func placedInInput(field, value string) placed {
	return placed{named: field + "." + value + "[memory]",
		put: func(t *testing.T, req *fnv1.RunFunctionRequest, text string) {
			t.Helper()
			req.Input = toStruct(t, setIn(req.GetInput().AsMap(), text, field, value, "memory"))
		}}
}

// placedInObserved resource of ours, which its owner may edit.
func placedInObserved(name, kind string, path ...string) placed {
	return placed{put: func(t *testing.T, req *fnv1.RunFunctionRequest, text string) {
		t.Helper()
		had := req.GetObserved().GetResources()[name].GetResource().AsMap()
		if req.Observed.Resources == nil {
			req.Observed.Resources = map[string]*fnv1.Resource{}
		}
		req.Observed.Resources[name] = &fnv1.Resource{Resource: toStruct(t, setIn(setIn(had, kind, "kind"), text, path...))}
	}}
}

// placedInRequired of the cluster.
func placedInRequired(key string, path ...string) placed {
	return placed{put: func(t *testing.T, req *fnv1.RunFunctionRequest, text string) {
		t.Helper()
		for _, item := range req.GetRequiredResources()[key].GetItems() {
			item.Resource = toStruct(t, setIn(item.GetResource().AsMap(), text, path...))
		}
	}}
}

// TestQuantityAttack: an endless number, wherever a request may have one, is
// refused by the name of its field or does nothing, and the function calculates
// with none. That is counted in bytes: who calculates needs them.
func TestQuantityAttack(t *testing.T) {
	cases := map[string]struct {
		placed

		example string
	}{
		"Legacy": {example: "running", placed: placedInXR("spec.storage_size", "storage_size")},
		"Size":   {example: "running", placed: placedInXR("spec.storageSize", "storageSize")},
		"Limits": {example: "running",
			placed: placedInXR("spec.resources.limits[memory]", "resources", "limits", "memory")},
		"Requests": {example: "running",
			placed: placedInXR("spec.resources.requests[cpu]", "resources", "requests", "cpu")},
		"DatabaseSize": {example: "database-storage", placed: placedInXR("spec.storageSize", "storageSize")},
		"DatabaseLimits": {example: "database-mongo",
			placed: placedInXR("spec.resources.limits[cpu]", "resources", "limits", "cpu")},
		"DatabaseRequests": {example: "database-mysql",
			placed: placedInXR("spec.resources.requests[memory]", "resources", "requests", "memory")},
		"PlatformServer": {example: "fresh-instance", placed: placedInInput("defaultResources", "limits")},
		"PlatformJob":    {example: "fresh-instance", placed: placedInInput("jobResources", "requests")},
		"Claim": {example: "running",
			placed: placedInObserved("data-claim", "PersistentVolumeClaim", "spec", "resources", "requests", "storage")},
		"Volume": {example: "hostpath",
			placed: placedInObserved("data-volume", "PersistentVolume", "spec", "capacity", "storage")},
		"Noted":  {example: "running", placed: placedInRequired("volume", "spec", "capacity", "storage")},
		"Record": {example: "restore-before", placed: placedInRequired("records", "spec", "storageSize")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			base, _ := load(t, tc.example).run(t)
			_, usual := attacked(t, base, tc.placed, "1Gi")
			for _, text := range endless() {
				message, cost := attacked(t, base, tc.placed, text)
				if limit := 2*usual + 8<<20 + uint64(64*len(text)); cost > limit {
					t.Fatalf("the function calculates with %.60q: %d bytes, of a good value %d", text, cost, usual)
				}
				if tc.named != "" && !strings.Contains(message, tc.named) {
					t.Fatalf("%.60q must be refused by the name of %s: %q", text, tc.named, message)
				}
				if len(message) > 1000 {
					t.Fatalf("the refusal of %.60q is as long as the number: %d bytes", text, len(message))
				}
			}
		})
	}
}

// attacked function: what it refuses, and how many bytes it takes.
func attacked(t *testing.T, base *fnv1.RunFunctionRequest, p placed, text string) (string, uint64) {
	t.Helper()
	req := proto.CloneOf(base)
	p.put(t, req, text)
	f := newFunction()
	var message string
	cost := allocated(func() {
		rsp, err := f.RunFunction(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		message = fatal(rsp)
	})
	return message, cost
}

// TestEveryQuantityIsAttacked: no field of a claim that holds a quantity is
// forgotten above.
func TestEveryQuantityIsAttacked(t *testing.T) {
	attackedFields := map[string]bool{"storage_size": true, "storageSize": true, "resources.limits[]": true,
		"resources.requests[]": true}
	for _, xrd := range []string{"xrd-xmysqls.yaml", "xrd-xdatabases.yaml"} {
		for _, field := range claimFields(t, xrd) {
			quantity := strings.HasPrefix(field, "resources.") && strings.HasSuffix(field, "[]") ||
				strings.HasSuffix(strings.ToLower(field), "size")
			if quantity != attackedFields[field] {
				t.Errorf("%s of %s: a quantity %t, attacked %t", field, xrd, quantity, attackedFields[field])
			}
		}
	}
}
