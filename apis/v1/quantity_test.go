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
		"Binary":    {reason: "The usual way.", text: "1Gi", want: "1Gi"},
		"Decimal":   {reason: "The other one.", text: "1G", want: "1G"},
		"Bare":      {reason: "A number of bytes.", text: "1024", want: "1024"},
		"Fraction":  {reason: "Half a CPU.", text: "0.5", want: "500m"},
		"Milli":     {reason: "The same.", text: "500m", want: "500m"},
		"NoZero":    {reason: "Kubernetes takes it.", text: ".5Gi", want: "512Mi"},
		"Exponent":  {reason: "Kubernetes takes it.", text: "1e9", want: "1e9"},
		"Exa":       {reason: "An E alone is a unit.", text: "1E", want: "1E"},
		"Small":     {reason: "Rounded up, at no cost.", text: "1e-99", want: "1e-9"},
		"Large":     {reason: "The most there is to calculate with.", text: "1e99", want: "1e99"},
		"Negative":  {reason: "Who reads it may refuse it.", text: "-1Gi", want: "-1Gi"},
		"Longest":   {reason: "As long as it may be.", text: strings.Repeat("9", 32), want: strings.Repeat("9", 32)},
		"TooLong":   {reason: "Nobody has that.", text: strings.Repeat("9", 33)},
		"Empty":     {reason: "Nothing is no number.", text: ""},
		"Word":      {reason: "Nor is a word.", text: "lots"},
		"Three":     {reason: "An exponent has two digits.", text: "1e100"},
		"Space":     {reason: "The library cuts spaces off, and then calculates.", text: " 1e-999999"},
		"Line":      {reason: "The end of a line is not the end of the text.", text: "1Gi\n"},
		"Fractions": {reason: "The old schema let it pass.", text: "1e1.5"},
		"Zeros":     {reason: "A zero is a digit.", text: "1e-000000009"},
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
		"Good":    {reason: "As it is.", list: storage("1Gi"), want: "1Gi"},
		"None":    {reason: "There may be none.", list: corev1.ResourceList{}},
		"Endless": {reason: "The library reads this at once, and compares it for minutes.", list: storage("1e999999999")},
		"Large":   {reason: "Nobody has that.", list: storage("1e102")},
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
