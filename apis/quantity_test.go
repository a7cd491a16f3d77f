package apis_test

import (
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// endless returns numbers with such large exponents that a quantity parser would need several seconds or longer. It
// also returns shorter numbers of the same form.
func endless() []string {
	var out []string
	for digits := 3; digits <= 40; digits++ {
		nines := strings.Repeat("9", digits)
		out = append(out, "1e-"+nines, "1e"+nines)
		if digits == 3 || digits == 7 {
			for _, form := range []string{"1E", "1E-", "1e+", "+1e-", "-1e", ".1e-", "1.e", "1.5e-", "0.000e", " 1e-", "\t1e",
				"1e-0", "12345678901234567890e"} {
				out = append(out, form+nines)
			}
		}
	}
	for _, digits := range []int{33, 100, 1000, 100_000} {
		out = append(out, "1e-"+strings.Repeat("9", digits)+"\n", "1e"+strings.Repeat("0", digits)+"9",
			strings.Repeat("9", digits)+"e-999")
	}
	return out
}

// written lists the fields with quantities that only the function or the controller writes. Their schemas set no
// limits, because the code reads them with v1.ParseQuantity or v1.ParseSize.
var written = map[string]bool{ //nolint:gochecknoglobals // A constant list.
	"crd-backuprecords.yaml .spec.storageSize":                      true,
	"crd-backuprecords.yaml .spec.archive.size":                     true,
	xrdMySQL + " .status.restore.archive.size":                      true,
	xrdDatabase + " .status.restore.archive.size":                   true,
	xrdMySQL + " .status.backups.last.size":                         true,
	xrdDatabase + " .status.backups.last.size":                      true,
	xrdMySQL + " .status.backups.recent[].size":                     true,
	xrdDatabase + " .status.backups.recent[].size":                  true,
	xrdMySQL + " .status.internal.backupNeeds":                      true,
	xrdDatabase + " .status.internal.backupNeeds":                   true,
	xrdMySQL + " .status.backups.recoveryPlan.fetchSize":            true,
	xrdMySQL + " .status.backups.recoveryPlan.applySize":            true,
	xrdMySQL + " .status.internal.recoverySource.plan.fetchSize":    true,
	xrdMySQL + " .status.internal.recoverySource.plan.applySize":    true,
	xrdDatabase + " .status.backups.recoveryPlan.fetchSize":         true,
	xrdDatabase + " .status.backups.recoveryPlan.applySize":         true,
	xrdDatabase + " .status.internal.recoverySource.plan.fetchSize": true,
	xrdDatabase + " .status.internal.recoverySource.plan.applySize": true,
	xrdMySQL + " .status.internal.storageGrowth.size":               true,
	xrdDatabase + " .status.internal.storageGrowth.size":            true,
	xrdMySQL + " .status.internal.storageGrowth.fileSystem":         true,
	xrdDatabase + " .status.internal.storageGrowth.fileSystem":      true,
}

// TestQuantitiesAreBounded checks that every quantity that a user may write has a limited length and exponent. This
// includes the values of maps.
func TestQuantitiesAreBounded(t *testing.T) {
	seen := 0
	for file, root := range schemas(t) {
		walk("", root, func(path string, s *extv1.JSONSchemaProps) {
			if !isQuantity(path, s) || written[file+" "+path] {
				return
			}
			seen++
			if s.MaxLength == nil || *s.MaxLength > v1.MaxQuantityLength {
				t.Errorf("%s: the quantity %q has no maxLength of at most %d", file, path, v1.MaxQuantityLength)
			}
			if !patterned(t, s) {
				t.Errorf("%s: the quantity %q has no pattern that refuses an exponent of three digits", file, path)
			}
		})
	}
	if want := 5 + 4; seen != want { // Five are sizes. Four are limits and requests of both kinds.
		t.Errorf("%d quantities were seen, not %d: say in isQuantity how one is known, or count them again", seen, want)
	}
}

// isQuantity reports whether a field contains a quantity. It recognizes a resource.Quantity by its type, and a string
// field by its rules, its description or its name.
func isQuantity(path string, s *extv1.JSONSchemaProps) bool {
	if s.XIntOrString {
		return true
	}
	if s.Type != typeString {
		return false
	}
	for _, r := range s.XValidations {
		if strings.Contains(r.Rule, "uantity(") {
			return true
		}
	}
	name := strings.ToLower(path[strings.LastIndex(path, ".")+1:])
	return strings.Contains(strings.ToLower(s.Description), "quantity") || strings.HasSuffix(name, "size")
}

// patterned reports whether the schema, or the first part of a rule, matches the field against a pattern.
func patterned(t *testing.T, s *extv1.JSONSchemaProps) bool {
	t.Helper()
	if s.Pattern != "" {
		return refusesEndless(s.Pattern)
	}
	for _, r := range s.XValidations {
		if unmatched, reads := readsUnmatched(t, r.Rule); reads > 0 && len(unmatched) == 0 {
			return true
		}
	}
	return false
}

// TestQuantityAttack checks that a claim with a huge exponent in any quantity is refused, on creation and on update.
// The API server must not calculate with such a quantity, even if it is already stored. The test measures allocated
// bytes, because a calculation would allocate many.
func TestQuantityAttack(t *testing.T) {
	for file, root := range schemas(t) {
		if file != xrdMySQL && file != xrdDatabase {
			continue
		}
		v := newValidator(t, file)
		walk("", root, func(path string, s *extv1.JSONSchemaProps) {
			if isQuantity(path, s) && !written[file+" "+path] {
				t.Run(file+path, func(t *testing.T) { attackField(t, v, file, path) })
			}
		})
	}
}

func attackField(t *testing.T, v *validator, file, path string) {
	t.Helper()
	goods := []any{"2Gi", "3000000000", "2e9"}
	if strings.HasSuffix(path, "[]") {
		goods = append(goods, int64(2), "1500m", ".5", "1e-2")
	}
	for _, good := range goods {
		if refused := v.validate(with(file, path, good), with(file, path, "1Gi")); refused != "" {
			t.Fatalf("%v is refused: %s", good, refused)
		}
	}
	usual := allocated(func() { v.validate(with(file, path, "2Gi"), with(file, path, "1Gi")) })
	attacks := endless()
	for _, text := range append([]string{"1e9", "1e-9", "1e99", "1e-99"}, attacks...) {
		limit := 2*usual + 8<<20 + uint64(64*len(text))
		for name, change := range map[string]struct {
			before, after any
			refused       bool
		}{
			"create":      {after: text, refused: true},
			"patch":       {before: "1Gi", after: text, refused: true},
			"patch back":  {before: text, after: "1Gi"},
			"patch again": {before: text, after: text},
		} {
			var old map[string]any
			if change.before != nil {
				old = with(file, path, change.before)
			}
			refused := ""
			if cost := allocated(func() { refused = v.validate(with(file, path, change.after), old) }); cost > limit {
				t.Fatalf("%s: the API server calculates with %.60q: %d bytes, of a good value %d", name, text, cost, usual)
			}
			if refused == "" && change.refused && slices.Contains(attacks, text) {
				t.Fatalf("%s: %.60q is accepted", name, text)
			}
		}
	}
}

// with returns a valid object with the given value in a quantity field.
func with(file, path string, value any) map[string]any {
	object := claim(map[string]any{})
	if file == xrdDatabase {
		object = database(map[string]any{"storageSize": "1Gi"})
	}
	spec := object["spec"].(map[string]any)
	if path == ".spec.storage_size" {
		delete(spec, "storageSize")
	}
	if strings.HasPrefix(path, ".spec.storageAutogrow.") {
		spec["storageSize"] = "1Mi"
	}
	steps := strings.Split(strings.TrimPrefix(strings.Replace(path, "[]", ".memory", 1), ".spec."), ".")
	for _, step := range steps[:len(steps)-1] {
		child := map[string]any{}
		if step == "storageAutogrow" {
			child["to"] = "9Gi"
		}
		spec[step] = child
		spec = child
	}
	spec[steps[len(steps)-1]] = value
	return object
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
