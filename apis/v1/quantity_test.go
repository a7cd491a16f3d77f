package v1

import (
	"encoding/json"
	"reflect"
	"runtime/metrics"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestParseQuantity checks which quantities are accepted. Other quantities must be refused before any calculation.
func TestParseQuantity(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"Binary":   {reason: "A quantity may have a binary suffix.", text: "1Gi", want: "1Gi"},
		"Decimal":  {reason: "A quantity may have a decimal suffix.", text: "1G", want: "1G"},
		"Bare":     {reason: "A quantity without a suffix is a number of bytes.", text: "1024", want: "1024"},
		"Fraction": {reason: "A quantity may be a fraction, such as half a CPU.", text: "0.5", want: "500m"},
		"Milli":    {reason: "500m is the same as 0.5.", text: "500m", want: "500m"},
		"NoZero":   {reason: "Kubernetes accepts a number without a leading zero.", text: ".5Gi", want: "512Mi"},
		"Exponent": {reason: "Kubernetes accepts an exponent.", text: "1e9", want: "1e9"},
		"Exa":      {reason: "An E without an exponent is the suffix for exa.", text: "1E", want: "1E"},
		"Small": {reason: "A small number must be rounded up without an expensive calculation.",
			text: "1e-99", want: "1e-9"},
		"Large":    {reason: "This number has the largest exponent that is accepted.", text: "1e99", want: "1e99"},
		"Negative": {reason: "A negative number is a quantity, which the caller may refuse.", text: "-1Gi", want: "-1Gi"},
		"Longest": {reason: "This number has the maximum length.",
			text: strings.Repeat("9", 32), want: strings.Repeat("9", 32)},
		"TooLong": {reason: "The number exceeds the maximum length.", text: strings.Repeat("9", 33)},
		"Empty":   {reason: "An empty text is not a number.", text: ""},
		"Word":    {reason: "A word is not a number.", text: "lots"},
		"Three":   {reason: "An exponent must have at most two digits.", text: "1e100"},
		"Space": {reason: "The library removes spaces before the calculation, so they must be refused.",
			text: " 1e-999999"},
		"Line": {reason: "The pattern must match to the end of the text, not of the line.", text: "1Gi\n"},
		"Fractions": {reason: "An exponent with a fraction must be refused, although the old schema accepted it.",
			text: "1e1.5"},
		"Zeros": {reason: "Leading zeros count as digits of the exponent.", text: "1e-000000009"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseQuantity(tc.text)
			if tc.want == "" && err == nil || tc.want != "" && (err != nil || got.String() != tc.want) {
				t.Errorf("%s\nwant %q, got %q, %v", tc.reason, tc.want, got.String(), err)
			}
			if err != nil && len(err.Error()) > 200 {
				t.Errorf("the error is as long as the number: %v", err)
			}
		})
	}
}

// TestStorageOf checks that extreme quantities in stored objects are refused without a calculation.
func TestStorageOf(t *testing.T) {
	storage := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
	}
	cases := map[string]struct {
		reason string
		list   corev1.ResourceList
		want   string
	}{
		"Good": {reason: "A valid size must stay the same.", list: storage("1Gi"), want: "1Gi"},
		"None": {reason: "The list may contain no size.", list: corev1.ResourceList{}},
		"Endless": {reason: "The library parses this number quickly, but takes minutes to compare it.",
			list: storage("1e999999999")},
		"Large": {reason: "The number is too large.", list: storage("1e102")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := StorageOf(tc.list)
			if ok != (tc.want != "") || ok && got.String() != tc.want {
				t.Errorf("%s\nwant %q, got %q, %t", tc.reason, tc.want, got.String(), ok)
			}
		})
	}
}

// TestAmount checks that an Amount stores a number or a string unchanged.
func TestAmount(t *testing.T) {
	r := Resources{}
	if err := json.Unmarshal([]byte(`{"limits":{"a":2,"b":"1Gi","c":0.5,"d":"1e-99999999","e":true,"f":1e-99999999}}`),
		&r); err != nil {
		t.Fatal("An amount that is none must not keep the rest from being read:", err)
	}
	want := map[corev1.ResourceName]Amount{"a": "2", "b": "1Gi", "c": "0.5", "d": "1e-99999999", "e": "true",
		"f": "1e-99999999"}
	if !reflect.DeepEqual(r.Limits, want) {
		t.Errorf("want %v, got %v", want, r.Limits)
	}
	for name, good := range map[corev1.ResourceName]bool{"a": true, "b": true, "c": true, "d": false, "e": false,
		"f": false} {
		if _, err := ParseQuantity(string(r.Limits[name])); (err == nil) != good {
			t.Errorf("%s: %v", r.Limits[name], err)
		}
	}
}

// TestNothingDecodesQuantities checks that no API type contains a resource.Quantity, because the JSON decoder would
// calculate with it before any check.
func TestNothingDecodesQuantities(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var visit func(path string, typ reflect.Type)
	visit = func(path string, typ reflect.Type) {
		if typ == reflect.TypeFor[resource.Quantity]() {
			t.Errorf("%s is a resource.Quantity: make it an Amount", path)
		}
		if seen[typ] {
			return
		}
		seen[typ] = true
		switch typ.Kind() { //nolint:exhaustive // Other kinds contain no types.
		case reflect.Pointer, reflect.Slice, reflect.Array:
			visit(path, typ.Elem())
		case reflect.Map:
			visit(path+"[]", typ.Elem())
		case reflect.Struct:
			for f := range typ.Fields() {
				visit(path+"."+f.Name, f.Type)
			}
		}
	}
	for _, object := range []any{XMySQL{}, XDatabase{}, BackupRecord{}, BackupRecordList{}, Settings{}} {
		visit(reflect.TypeOf(object).Name(), reflect.TypeOf(object))
	}
	if !seen[reflect.TypeFor[Amount]()] {
		t.Error("no Amount was seen: this test sees nothing")
	}
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

// FuzzQuantity checks that it is cheap to parse any string as a quantity and to calculate with the result.
// ParseQuantity must accept every string that matches its pattern, because rules in the schemas depend on this.
//
//	go test ./apis/v1 -fuzz FuzzQuantity -fuzztime 1m
func FuzzQuantity(f *testing.F) {
	for _, seed := range []string{"1Gi", "0.5", "1e-99", "1e99", "1e-99999999", "1e99999999", " 1e-9", "+.5e+99",
		"9999999999999999999999999999e-99", "-1E", "1.Ei"} {
		f.Add(seed)
	}
	most := resource.MustParse("1Ei")
	f.Fuzz(func(t *testing.T, text string) {
		cost := allocated(func() {
			q, err := ParseQuantity(text)
			if err != nil {
				return
			}
			_, _, _ = q.Cmp(most), q.Value(), q.String()
			reparsed, err := ParseQuantity(q.String())
			if err == nil && reparsed.Cmp(q) != 0 {
				t.Errorf("%q is %s and then %s", text, q.String(), reparsed.String())
			}
		})
		if limit := uint64(8<<20 + 4*len(text)); cost > limit {
			t.Errorf("%.100q costs %d bytes", text, cost)
		}
		if _, err := ParseSize(text); err == nil && !quantityPattern.MatchString(text) {
			t.Errorf("%.100q is a size that is no quantity", text)
		}
		if len(text) <= MaxQuantityLength && quantityPattern.MatchString(text) {
			if _, err := ParseQuantity(text); err != nil {
				t.Errorf("%q matches, and cannot be read: %v", text, err)
			}
		}
	})
}
