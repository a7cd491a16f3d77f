package instance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// allocated returns the number of bytes that f allocates. The metric is updated for small objects only after several
// megabytes, so a limit needs that tolerance. A calculation with a huge number allocates tens of megabytes. The
// duration is not measured, because it varies on a busy machine.
func allocated(f func()) uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	before := s[0].Value.Uint64()
	f()
	metrics.Read(s)
	return s[0].Value.Uint64() - before
}

// composites returns the claims and XRs of the examples, for both kinds and in each state.
func composites(tb testing.TB) []map[string]any {
	tb.Helper()
	var out []map[string]any
	for _, name := range []string{"claim.yaml", "xr.yaml"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", "examples", "*", name))
		if err != nil || len(files) == 0 {
			tb.Fatal("no example found", err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				tb.Fatal(err)
			}
			m := map[string]any{}
			if err := yaml.Unmarshal(raw, &m); err != nil {
				tb.Fatal(f, err)
			}
			out = append(out, m)
		}
	}
	return out
}

// TestDecodeQuantityAttack checks a huge number in any quantity of a claim or an XR. The controller must still read
// the other fields, and must not calculate with the number. Otherwise neither this instance nor any other could be
// deleted.
func TestDecodeQuantityAttack(t *testing.T) {
	fields := map[string][]string{
		"Legacy": {"storage_size"}, "Size": {"storageSize"},
		"Limits": {"resources", "limits", "memory"}, "Requests": {"resources", "requests", "cpu"},
	}
	for name, path := range fields {
		t.Run(name, func(t *testing.T) {
			for _, base := range oneOfEach(composites(t)) {
				good := merge(base, nested("1Gi", append([]string{"spec"}, path...)))
				usual := allocated(func() { decodeAndUse(t, good) })
				for digits := 3; digits <= 40; digits++ {
					for _, form := range []string{"1e-", "1e", " 1E-", "12345678901234567890e"} {
						text := form + strings.Repeat("9", digits)
						bad := merge(base, nested(text, append([]string{"spec"}, path...)))
						if cost := allocated(func() { decodeAndUse(t, bad) }); cost > 2*usual+8<<20 {
							t.Fatalf("the controller calculates with %q of %s: %d bytes, of a good value %d", text, base["kind"], cost,
								usual)
						}
					}
				}
			}
		})
	}
}

// oneOfEach returns one object of each kind.
func oneOfEach(all []map[string]any) []map[string]any {
	var out []map[string]any
	seen := map[any]bool{}
	for _, m := range all {
		if !seen[m["kind"]] {
			out = append(out, m)
		}
		seen[m["kind"]] = true
	}
	return out
}

// decodeAndUse decodes a composite and uses its size.
func decodeAndUse(t *testing.T, m map[string]any) {
	t.Helper()
	c := Decode(&unstructured.Unstructured{Object: m})
	if len(c.Unreadable) > 0 {
		t.Fatalf("one bad quantity must not keep the rest from being read: %v", c.Unreadable)
	}
	size, _ := c.Spec.Size()
	_, _ = v1.ParseSize(size)
}

// nested returns maps that contain a value at a path.
func nested(value any, path []string) map[string]any {
	if len(path) == 1 {
		return map[string]any{path[0]: value}
	}
	return map[string]any{path[0]: nested(value, path[1:])}
}

// merge merges JSON into a copy according to RFC 7386.
func merge(base, change map[string]any) map[string]any {
	out := (&unstructured.Unstructured{Object: base}).DeepCopy().Object
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range change {
		child, isMap := v.(map[string]any)
		base, _ := out[k].(map[string]any)
		switch {
		case v == nil:
			delete(out, k)
		case isMap:
			out[k] = merge(base, child)
		default:
			out[k] = v
		}
	}
	return out
}

// FuzzDecode changes a claim or an XR of each kind with arbitrary JSON. Decoding must terminate, return the same
// result each time, and allocate memory in proportion to the length of the object. It must not depend on fields that
// only the function uses.
//
//	go test ./controller/internal/instance -fuzz FuzzDecode -fuzztime 5m
func FuzzDecode(f *testing.F) {
	bases := oneOfEach(composites(f))
	for i := range bases {
		for _, seed := range []string{
			`{}`, `{"spec":{"resources":{"limits":{"memory":"1e-99999999"}}}}`,
			`{"spec":{"storage_size":"1e-9999999","storageSize":null}}`,
			`{"spec":{"resources":{"limits":{"memory":1e-300},"requests":{"cpu":true}}}}`,
			`{"spec":null,"status":{"conditions":[{"type":"Serving","status":"True"}]}}`,
			`{"spec":{"claimRef":{"kind":"MySQL"},"resourceRef":{"name":"x"},"backup":{"retention":{"count":1e300}}}}`,
			`{"metadata":{"deletionTimestamp":"2026-03-01T10:00:00Z","finalizers":["x"]}}`,
			`{"status":{"volume":"v","restore":{"phase":"Running"},"internal":{"started":true,"pvcDeleted":true}}}`,
		} {
			f.Add(uint8(i), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, example uint8, raw []byte) {
		change := map[string]any{}
		if json.Unmarshal(raw, &change) != nil {
			return
		}
		m := merge(bases[int(example)%len(bases)], change)
		text, err := json.Marshal(m)
		if err != nil {
			return
		}
		u := &unstructured.Unstructured{}
		if u.UnmarshalJSON(text) != nil {
			return // The API server never sends such an object.
		}
		var c *Composite
		cost := allocated(func() { c = Decode(u) })
		if limit := uint64(8<<20 + 64*len(text)); cost > limit {
			t.Fatalf("reading %d bytes costs %d", len(text), cost)
		}
		useAll(c)
		same(t, u, c)
	})
}

// useAll calls the methods of a composite, which must not panic or calculate with huge numbers.
func useAll(c *Composite) {
	for _, ask := range []func() bool{c.HasFinalizer, c.IsComposing, c.IsDeleting, c.IsServing, c.IsBeginning} {
		ask()
	}
	size, _ := c.Spec.Size()
	_, _ = v1.ParseSize(size)
}

// same checks that a second decoding returns the same result, even without the fields that only the function uses.
func same(t *testing.T, u *unstructured.Unstructured, c *Composite) {
	t.Helper()
	without := u.DeepCopy()
	unstructured.RemoveNestedField(without.Object, "spec", "resources")
	other := Decode(without)
	spec := *c.Spec.DeepCopy()
	spec.Resources = nil
	if diff := cmp.Diff(spec, other.Spec); diff != "" {
		t.Fatalf("resources change the rest: %s", diff)
	}
	if diff := cmp.Diff(c.Status, other.Status); diff != "" {
		t.Fatalf("resources change the status: %s", diff)
	}
}
