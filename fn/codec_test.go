package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/compose"
)

// TestEncode compares the encoder with the libraries, for every object and status of every example.
func TestEncode(t *testing.T) {
	compared := 0
	for _, name := range examples(t) {
		req, _ := load(t, name).run(t)
		in, err := parseRequest(req)
		if err != nil {
			t.Fatal(err)
		}
		in.Release = v1.Release
		out, err := compose.Compose(*in)
		if err != nil {
			continue // A refused request has no objects.
		}
		objects := map[string]any{"status": &out.Status}
		for name, r := range out.Resources {
			objects[name] = r.Object
		}
		for _, o := range objects {
			m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				t.Fatal(err)
			}
			want, err := structpb.NewStruct(dropNulls(m))
			if err != nil {
				t.Fatal(err)
			}
			got, err := encodeObject(o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s: %T: -libraries, +ours:\n%s", name, o, diff)
			}
			compared++
		}
	}
	if compared < 50 {
		t.Errorf("only %d objects were compared", compared)
	}
}

// dropNulls removes null values of times that are not set. The encoder omits them.
func dropNulls(m map[string]any) map[string]any {
	for k, v := range m {
		if child, ok := v.(map[string]any); ok {
			m[k] = dropNulls(child)
		}
		if v == nil && k == "creationTimestamp" {
			delete(m, k)
		}
	}
	return m
}

// TestDecode compares the decoder with encoding/json, for every document of every example.
func TestDecode(t *testing.T) {
	files, err := filepath.Glob("../examples/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]func() any{
		"XMySQL": func() any { return &v1.XMySQL{} }, "BackupRecord": func() any { return &v1.BackupRecord{} },
		"PersistentVolume":      func() any { return &corev1.PersistentVolume{} },
		"PersistentVolumeClaim": func() any { return &corev1.PersistentVolumeClaim{} },
		"Secret":                func() any { return &corev1.Secret{} },
		"ConfigMap":             func() any { return &corev1.ConfigMap{} },
		"Service":               func() any { return &corev1.Service{} },
		"Deployment":            func() any { return &appsv1.Deployment{} }, "Job": func() any { return &batchv1.Job{} },
	}
	compared := 0
	for _, f := range files {
		for _, doc := range documents(t, f) {
			newObject, ok := types[kindOf(doc)]
			if !ok {
				continue
			}
			b, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			want, got := newObject(), newObject()
			if err := json.Unmarshal(b, want); err != nil {
				t.Fatal(err)
			}
			if err := decodeObject(toStruct(t, doc), got, false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s: -encoding/json, +ours:\n%s", f, kindOf(doc), diff)
			}
			compared++
		}
	}
	if compared < 100 {
		t.Errorf("only %d documents were compared", compared)
	}
}

// TestDecodeErrors checks for each type that a decoding error names the field. If several fields are invalid, the
// error names the first one in alphabetical order.
func TestDecodeErrors(t *testing.T) {
	type m = map[string]any
	cases := map[string]struct {
		reason string
		doc    m
		strict bool
		want   string
	}{
		"String": {reason: "A string field must not accept a number.", doc: m{"spec": m{"database": 1}},
			want: "spec.database: must be a string"},
		"Bool": {reason: "A boolean field must not accept a string.", doc: m{"status": m{"internal": m{"started": "yes"}}},
			want: "status.internal.started: must be true or false"},
		"Fraction": {reason: "An integer field must not accept a fraction.",
			doc:  m{"spec": m{"backup": m{"retention": m{"count": 1.5}}}},
			want: "spec.backup.retention.count: must be a whole number"},
		"Wraps": {reason: "A number that overflows 32 bits must be refused: 2^32+1 must not become 1.",
			doc:  m{"spec": m{"backup": m{"retention": m{"count": 4294967297}}}},
			want: "spec.backup.retention.count: must be a whole number"},
		"Endless": {reason: "A number that exceeds all integer types must be refused.",
			doc:  m{"spec": m{"backup": m{"retention": m{"count": 1e300}}}},
			want: "spec.backup.retention.count: must be a whole number"},
		"Object": {reason: "An object field must not accept a string.", doc: m{"spec": "x"}, want: "spec: must be an object"},
		"Map": {reason: "A map field must not accept a list.", doc: m{"spec": m{"config": []any{}}},
			want: "spec.config: must be an object"},
		"MapItem": {reason: "The error must contain the key of the map item.",
			doc:  m{"spec": m{"config": m{"b": m{}, "a": m{}}}},
			want: "spec.config[a]: a setting"},
		"First": {reason: "The error must name the first invalid field in alphabetical order.",
			doc:  m{"spec": m{"image": 1, "database": 1}},
			want: "spec.database: must be a string"},
		"Unknown": {reason: "Strict decoding must refuse an unknown field.", doc: m{"spec": m{"images": "x"}}, strict: true,
			want: "spec.images: unknown field"},
		"Case": {reason: "Field names are case-sensitive.", doc: m{"spec": m{"Image": "x"}}, strict: true,
			want: "spec.Image: unknown field"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := decodeObject(toStruct(t, tc.doc), &v1.XMySQL{}, tc.strict)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("%s want %q, got %v", tc.reason, tc.want, err)
			}
		})
	}
}
