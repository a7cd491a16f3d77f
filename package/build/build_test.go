package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// write creates files below a directory, with their parent directories.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func list(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[e.Name()] = string(b)
	}
	return got
}

func newRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write(t, root, map[string]string{
		"go.mod":                                "module example.org/root\n\ngo 1.26.0\n",
		"fn/main.go":                            "package main\n\nvar version string\n\nfunc main() { println(version) }\n",
		"package/function/crossplane.yaml":      "function",
		"package/configuration/crossplane.yaml": "configuration",
		"package/configuration-namespaced/crossplane.yaml": "namespaced",
		"apis/xrd-mysqls.yaml":                             "xrd-namespaced",
		"apis/composition-mysql-namespaced.yaml":           "composition-namespaced",
		"package/configuration-hostpath/crossplane.yaml":   "hostpath",
		"package/configuration-database/crossplane.yaml":   "database",
		"apis/xrd-xdatabases.yaml":                         "xrd-database",
		"apis/composition-database.yaml":                   "composition-database",
		"apis/xrd-xmysqls.yaml":                            "xrd",
		"apis/composition-mysql.yaml":                      "composition",
		"apis/composition-mysql-hostpath.yaml":             "composition-hostpath",
		"apis/crd-backuprecords.yaml":                      "crd",
		inputCRD:                                           "input",
	})
	return root
}

func TestStage(t *testing.T) {
	cases := map[string]struct {
		reason string
		want   map[string]string
	}{
		"function-mysql-amd64.xpkg": {
			reason: "The program is in an image, so the package must contain only metadata and the input's CRD.",
			want:   map[string]string{"crossplane.yaml": "function", filepath.Base(inputCRD): "input"},
		},
		"configuration-mysql.xpkg": {
			reason: "Crossplane would refuse a CRD, so the package must contain only the API and a Composition.",
			want: map[string]string{"crossplane.yaml": "configuration", "xrd-xmysqls.yaml": "xrd",
				"composition-mysql.yaml": "composition"},
		},
		"configuration-mysql-namespaced.xpkg": {
			reason: "The API without claims must have its own package, because it can be installed alone.",
			want: map[string]string{"crossplane.yaml": "namespaced", "xrd-mysqls.yaml": "xrd-namespaced",
				"composition-mysql-namespaced.yaml": "composition-namespaced"},
		},
		"configuration-database.xpkg": {
			reason: "The API of Databases must have its own package, because it is optional.",
			want: map[string]string{"crossplane.yaml": "database", "xrd-xdatabases.yaml": "xrd-database",
				"composition-database.yaml": "composition-database"},
		},
		"configuration-mysql-hostpath.xpkg": {
			reason: "The package must not contain the XRD, because two packages must not own the same XRD.",
			want:   map[string]string{"crossplane.yaml": "hostpath", "composition-mysql-hostpath.yaml": "composition-hostpath"},
		},
	}
	root := newRoot(t)
	for _, p := range packages() {
		tc, ok := cases[p.file]
		if !ok {
			continue
		}
		t.Run(p.file, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "root")
			if err := p.stage(root, dir, thisVersion); err != nil {
				t.Fatalf("\n%s\nstage(): %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, list(t, dir)); diff != "" {
				t.Errorf("\n%s\nstage(): -want, +got:\n%s", tc.reason, diff)
			}
		})
		delete(cases, p.file)
	}
	if len(cases) > 0 {
		t.Errorf("packages() misses %v", sortedKeys(cases))
	}
}

// TestDependencies checks which versions the dependencies between packages of a release accept, by the rules with
// which Crossplane resolves them. They must accept the same version, and later versions with the same API.
func TestDependencies(t *testing.T) {
	cases := map[string]struct {
		reason            string
		version           string
		accepted, refused []string
	}{
		"Sources": {reason: "The sources must accept the range of their version.", version: thisVersion,
			accepted: []string{"v0.1.0", "v0.1.7"}, refused: []string{"v0.0.9", "v0.1.0-rc.1", "v0.1.1-rc.1", "v0.2.0"}},
		"Patch": {reason: "Before v1.0.0, a minor version may change the API.", version: "v0.3.2",
			accepted: []string{"v0.3.2", "v0.3.10"}, refused: []string{"v0.3.1", "v0.3.3-rc.1", "v0.4.0", "v0.4.0-rc.1", "v1.0.0"}},
		"Prerelease": {reason: "A prerelease must accept itself, later prereleases and the release.", version: "v0.1.0-rc.1",
			accepted: []string{"v0.1.0-rc.1", "v0.1.0-rc.2", "v0.1.0", "v0.1.1"},
			refused:  []string{"v0.1.0-beta.1", "v0.0.9", "v0.2.0-rc.1", "v0.2.0"}},
		"Major": {reason: "From v1.0.0, only a major version may change the API.", version: "v1.2.3",
			accepted: []string{"v1.2.3", "v1.9.0"}, refused: []string{"v1.2.2", "v2.0.0", "v2.0.0-rc.1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			found := 0
			for _, p := range packages() {
				for _, d := range dependenciesOf(t, p, tc.version) {
					found++
					constraint, err := semver.NewConstraint(d.Version)
					if err != nil {
						t.Fatalf("%s depends on %s of %q: %v", p.file, d.Package, d.Version, err)
					}
					for _, v := range slices.Concat(tc.accepted, tc.refused) {
						if got, want := constraint.Check(semver.MustParse(v)), slices.Contains(tc.accepted, v); got != want {
							t.Errorf("\n%s\n%s of %s depends on %s of %q: accepts %s: want %t, got %t", tc.reason, p.file, tc.version,
								d.Package, d.Version, v, want, got)
						}
					}
				}
			}
			if found < 4 {
				t.Errorf("%d dependencies were read", found)
			}
		})
	}
}

// A dependency is an entry in the dependencies of a package's metadata.
type dependency struct {
	Package string `yaml:"package"`
	Version string `yaml:"version"`
}

func dependenciesOf(t *testing.T, p pkg, version string) []dependency {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	if err := p.stage(filepath.Join("..", ".."), dir, version); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "crossplane.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	meta := struct {
		Spec struct {
			DependsOn []dependency `yaml:"dependsOn"`
		} `yaml:"spec"`
	}{}
	if err := yaml.Unmarshal(raw, &meta); err != nil {
		t.Fatal(err)
	}
	return meta.Spec.DependsOn
}

// TestBuildAllOrNothing checks builds that fail early or late. The go command is used as a CLI that does not have the
// command xpkg.
func TestBuildAllOrNothing(t *testing.T) {
	gocmd, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		damage func(root string) error
	}{
		"CLIFails": {"The CLI cannot build a package.", func(string) error { return nil }},
		"NoGolden": {"A generated file is missing.", func(root string) error {
			return os.Remove(filepath.Join(root, "apis", "xrd-xmysqls.yaml"))
		}},
		"NoProgram": {"The function does not compile.", func(root string) error {
			return os.Truncate(filepath.Join(root, "fn", "main.go"), 20)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			if err := tc.damage(root); err != nil {
				t.Fatal(err)
			}
			before := map[string]string{"configuration-mysql.xpkg": "of an earlier build"}
			out := filepath.Join(root, "dist")
			write(t, out, before)
			b := &builder{options: options{cli: gocmd, root: root, out: out, version: "v0.1.0"}, log: io.Discard}
			if err := b.Build(t.Context()); err == nil {
				t.Errorf("\n%s\nBuild(): want an error", tc.reason)
			}
			if diff := cmp.Diff(before, list(t, out)); diff != "" {
				t.Errorf("\n%s\nBuild() must leave the output as it was: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
