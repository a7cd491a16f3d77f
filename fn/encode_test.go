package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/crossplane-mysql/crossplane-mysql/fn/compose"
)

// TestEncode holds our encoder against the libraries', on every object and
// status of every example.
func TestEncode(t *testing.T) {
	dirs, err := os.ReadDir("../examples")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		req, _ := load(t, d.Name()).run(t)
		in, err := parse(req)
		if err != nil {
			t.Fatal(err)
		}
		out, err := compose.Compose(*in)
		if err != nil {
			continue // A refusal has no objects.
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
			want, err := structpb.NewStruct(m)
			if err != nil {
				t.Fatal(err)
			}
			got, err := encode(o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s: %T: -libraries, +ours:\n%s", d.Name(), o, diff)
			}
			compared++
		}
	}
	if compared < 50 {
		t.Errorf("only %d objects were compared", compared)
	}
}
