// Package golden compares the output of tests with files in their testdata directory.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files") //nolint:gochecknoglobals // Flags are parsed before the tests run.

// Text compares got with a golden file in the testdata directory. With the flag -update, it writes got to the file.
func Text(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // It is a source file.
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // The test specifies the file.
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want, +got:\n%s", path, diff)
	}
}

// Manifest compares an object with the golden file NAME.yaml, like Text. It returns the object as YAML.
func Manifest(t *testing.T, name string, object any) []byte {
	t.Helper()
	raw, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	Text(t, name+".yaml", string(raw))
	return raw
}
