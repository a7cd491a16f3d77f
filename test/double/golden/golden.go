// Package golden compares what tests make with the files of their testdata.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files") //nolint:gochecknoglobals // A test binary has its flags before it runs.

// Text is compared with a file, or becomes it with -update.
func Text(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // It is a source file.
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // The test says which.
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want, +got:\n%s", path, diff)
	}
}

// Manifest of an object is compared in the same way, as YAML, which is returned.
func Manifest(t *testing.T, name string, object any) []byte {
	t.Helper()
	raw, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	Text(t, name+".yaml", string(raw))
	return raw
}
