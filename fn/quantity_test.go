package main

import (
	"context"
	"runtime/metrics"
	"strings"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"
)

// endless returns quantities with huge exponents or many digits. The Kubernetes library would need much memory, and
// at least several seconds, to calculate with each of them.
func endless() []string {
	var out []string
	for digits := 3; digits <= 40; digits++ {
		nines := strings.Repeat("9", digits)
		out = append(out, "1e-"+nines, "1e"+nines, " 1E-"+nines, "\n1e+"+nines, "12345678901234567890e"+nines)
	}
	return append(out, strings.Repeat("9", 100_000)+"e-999", "1e"+strings.Repeat("0", 1000)+"9")
}

// allocated returns the number of bytes that a call allocates. The runtime counts small allocations with a delay of
// up to some megabytes, so limits need a margin. A calculation with a huge exponent allocates tens of megabytes. The
// duration of the call is not a reliable measure on a busy machine.
func allocated(f func()) uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	before := s[0].Value.Uint64()
	f()
	metrics.Read(s)
	return s[0].Value.Uint64() - before
}

// A placed quantity is inserted into a specific field of a request.
type placed struct {
	// named is the field name that the refusal must contain. It is empty if the function may ignore the quantity.
	named string
	put   func(t *testing.T, req *fnv1.RunFunctionRequest, text string)
}

// placedInXR puts the quantity at a path of the XR.
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

// placedInInput puts the quantity into the input of the Composition.
func placedInInput(field, value string) placed {
	return placed{named: field + "." + value + "[memory]",
		put: func(t *testing.T, req *fnv1.RunFunctionRequest, text string) {
			t.Helper()
			req.Input = toStruct(t, setIn(req.GetInput().AsMap(), text, field, value, "memory"))
		}}
}

// placedInObserved puts the quantity into an observed resource, which the owner of the namespace may edit.
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

// placedInRequired puts the quantity into a required resource.
func placedInRequired(key string, path ...string) placed {
	return placed{put: func(t *testing.T, req *fnv1.RunFunctionRequest, text string) {
		t.Helper()
		for _, item := range req.GetRequiredResources()[key].GetItems() {
			item.Resource = toStruct(t, setIn(item.GetResource().AsMap(), text, path...))
		}
	}}
}

// TestQuantityAttack puts quantities with huge exponents into each field of a request that may contain a quantity.
// The function must refuse the field by name or ignore the quantity, and must never calculate with it. The test
// measures allocated bytes, because a calculation would allocate many.
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

// attacked returns the message of the refusal and the number of bytes that the function allocates.
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

// TestEveryQuantityIsAttacked checks that TestQuantityAttack includes every quantity of a claim.
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
