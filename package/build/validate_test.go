package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// coreSchemas is the path of the schemas of Crossplane's own kinds in the CLI's cache. The test creates an empty
// entry there. The CLI then downloads no schemas, and validates only the input and not the Composition that contains
// it.
const coreSchemas = "xpkg.crossplane.io/crossplane/crossplane@stable"

// acceptedInput is the CLI's output for an input that it accepts.
const acceptedInput = "[✓] crossplane-mysql.io/v1alpha1, Kind=Settings"

// TestValidateInput checks that the real CLI reads the CRD of the input from the function's package in a registry.
// The CLI must accept the Compositions of this repository and refuse invalid ones.
func TestValidateInput(t *testing.T) {
	dist, r := fromEnv(t, "DIST"), newTarget(t)
	tag := r.tag(t, "function-mysql")
	r.mustPush(t, tag, filepath.Join(dist, "function-mysql-amd64.xpkg"))
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"cache/" + coreSchemas + "/package.yaml": "",
		"function.yaml": fmt.Sprintf("apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: f}\nspec: {package: %q}\n",
			tag.String()),
	})
	composition := func(file, change string) string {
		raw, err := os.ReadFile(filepath.Join(repository, "apis", file))
		if err != nil {
			t.Fatal(err)
		}
		const line = "      volumes: StorageClass\n"
		if change != "" && !strings.Contains(string(raw), line) {
			t.Fatalf("%s has no line %q", file, line)
		}
		if change == "" {
			return string(raw)
		}
		return strings.Replace(string(raw), line, change, 1)
	}
	const file = "composition-mysql.yaml"
	cases := map[string]struct {
		reason, composition, refused string
	}{
		"Claims": {reason: "The Composition of the package must be accepted.", composition: composition(file, "")},
		"HostPath": {reason: "The Composition with hostPath volumes must be accepted.",
			composition: composition("composition-mysql-hostpath.yaml", "")},
		"Database": {reason: "The Composition for Databases must be accepted.",
			composition: composition("composition-database.yaml", "")},
		"Namespaced": {reason: "The Composition of the API without claims must be accepted.",
			composition: composition("composition-mysql-namespaced.yaml", "")},
		"Nested": {reason: "An amount may be a number or a string.", composition: composition(file,
			"      volumes: StorageClass\n      defaultResources: {limits: {cpu: 2, memory: 4Gi}}\n")},
		"Value": {reason: "The value of volumes is not supported.", composition: composition(file, "      volumes: Tape\n"),
			refused: "volumes: Unsupported value: \"Tape\""},
		"Field": {reason: "The name of the field is misspelled.",
			composition: composition(file, "      defaultImages: mysql:8.4\n"),
			refused:     "unknown field: \"defaultImages\""},
		"Type": {reason: "The image must be a string.", composition: composition(file, "      defaultImage: [mysql]\n"),
			refused: "defaultImage in body must be of type string"},
		"Amount": {reason: "The amount is not a quantity.", composition: composition(file,
			"      defaultResources: {limits: {memory: much}}\n"), refused: "defaultResources.limits.memory in body should match"},
	}
	validate := func(t *testing.T, args ...string) (string, error) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), r.cli, append(args, "--cache-dir", filepath.Join(dir, "cache"))...)
		cmd.Dir, cmd.Env = repository, append(os.Environ(), "DOCKER_CONFIG="+t.TempDir())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// This is the command of docs/how-to/compositions.md.
	if out, err := validate(t, "resource", "validate", inputCRD, "apis/composition-mysql.yaml"); err != nil ||
		!strings.Contains(out, acceptedInput) {
		t.Errorf("want it accepted with the CRD, got %v\n%s", err, out)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "composition.yaml")
			if err := os.WriteFile(path, []byte(tc.composition), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := validate(t, "resource", "validate", filepath.Join(dir, "function.yaml"), path)
			switch {
			case tc.refused == "" && (err != nil || !strings.Contains(out, acceptedInput)):
				t.Errorf("\n%s\nwant it accepted, got %v\n%s", tc.reason, err, out)
			case tc.refused != "" && (err == nil || !strings.Contains(out, tc.refused)):
				t.Errorf("\n%s\nwant it refused with %q, got %v\n%s", tc.reason, tc.refused, err, out)
			}
		})
	}
}
