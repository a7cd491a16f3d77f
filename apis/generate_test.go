// Package apis_test writes and checks the files that are generated from the Go types of package v1: the XRDs, the
// Compositions, the CRDs and the deep copy functions.
package apis_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/deepcopy"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// header is the beginning of every golden YAML file. It also separates a file from the previous one, because `helm
// show crds` adds no separator.
const header = "---\n# Made from the Go types in apis/v1 by `go test ./apis -update`. Do not edit.\n"

func update() bool { return flag.Lookup("update").Value.String() == "true" }

func init() { flag.Bool("update", false, "write the golden files instead of comparing them") } //nolint:gochecknoinits // The flag must exist before the test binary parses its flags.

// TestGolden compares the files in this directory with the Go types, and writes them with -update.
func TestGolden(t *testing.T) {
	g := newGenerator(t)
	xrd := g.xrd(t)
	cases := map[string]struct {
		reason string
		want   any
	}{
		"xrd-xmysqls.yaml": {reason: "The XRD must have the schema of MySQLSpec and MySQLStatus.",
			want: xrd},
		"crd-backups.yaml": {reason: "The CRD must have the schema of Backup.",
			want: g.crd(t, v1.KindBackup)},
		"crd-backuprecords.yaml": {reason: "The CRD must have the schema of BackupRecord.",
			want: g.crd(t, v1.KindBackupRecord)},
		"crd-backupstores.yaml": {reason: "The CRD must have the schema of BackupStore.",
			want: g.crd(t, v1.KindBackupStore)},
		"crd-platforms.yaml": {reason: "The CRD must have the schema of Platform.",
			want: g.platformCRD(t)},
		"../package/input/crossplane-mysql.io_settings.yaml": {
			reason: "The CRD of the function's input must have the schema of Settings.",
			want:   g.settingsCRD(t)},
		"xrd-xdatabases.yaml": {reason: "The XRD must have the schema of DatabaseSpec and MySQLStatus.",
			want: g.xrdDatabase(t)},
		"xrd-mysqls.yaml": {
			reason: "The XRD of the API without claims must have the schema of MySQLSpec and MySQLStatus.",
			want:   g.xrdNamespaced(t)},
		"composition-mysql-namespaced.yaml": {reason: "The Composition of the API without claims must call the function.",
			want: compositionNamespaced("mysql-namespaced", v1.VolumesStorageClass)},
		"composition-database.yaml": {reason: "The Database's Composition must call the function.",
			want: compositionDatabase()},
		"composition-mysql.yaml": {reason: "The StorageClass Composition must call the function.",
			want: composition("mysql", v1.VolumesStorageClass)},
		"composition-mysql-hostpath.yaml": {reason: "The hostPath Composition must call the function.",
			want: composition("mysql-hostpath", v1.VolumesHostPath)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			golden(t, name, tc.reason, marshal(t, tc.want))
		})
	}
	t.Run("zz_generated.deepcopy.go", func(t *testing.T) {
		golden(t, filepath.Join("v1", "zz_generated.deepcopy.go"), "The deep copies must cover every field.", g.deepCopies(t))
	})
}

func golden(t *testing.T, path, reason string, got []byte) {
	t.Helper()
	if update() {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("\n%s\nIf the change is wanted: go test ./apis -update\n%s: -want, +got:\n%s", reason, path, diff)
	}
}

func marshal(t *testing.T, o any) []byte {
	t.Helper()
	b, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	if err := yaml.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "status")
	delete(m["metadata"].(map[string]any), "creationTimestamp")
	b, err = yaml.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(header), b...)
}

// A generator generates the OpenAPI schemas for the CRDs and XRDs from the Go types of package v1.
type generator struct {
	parser *crd.Parser
	pkg    *loader.Package
	roots  []*loader.Package
	col    *markers.Collector
}

func newGenerator(t *testing.T) *generator {
	t.Helper()
	roots, err := loader.LoadRoots("./v1")
	if err != nil {
		t.Fatal(err)
	}
	reg := &markers.Registry{}
	if err := (crd.Generator{}).RegisterMarkers(reg); err != nil {
		t.Fatal(err)
	}
	if err := (deepcopy.Generator{}).RegisterMarkers(reg); err != nil {
		t.Fatal(err)
	}
	col := &markers.Collector{Registry: reg}
	p := &crd.Parser{Collector: col,
		Checker: &loader.TypeChecker{NodeFilters: []loader.NodeFilter{crd.Generator{}.CheckFilter()}}}
	crd.AddKnownTypes(p)
	for _, r := range roots {
		p.NeedPackage(r)
	}
	p.Schemata[crd.TypeIdent{Package: roots[0], Name: "Amount"}] = amountSchema()
	return &generator{parser: p, pkg: roots[0], roots: roots, col: col}
}

// amountSchema returns the schema of an Amount: the schema of resource.Quantity with additional limits, which markers
// cannot express.
func amountSchema() extv1.JSONSchemaProps {
	return extv1.JSONSchemaProps{
		Description:  "An Amount is a number, or a text such as 1Gi.",
		XIntOrString: true,
		AnyOf:        []extv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}},
		Pattern:      v1.QuantityPattern,
		MaxLength:    new(int64(v1.MaxQuantityLength)),
	}
}

// schema returns the schema of a type, with all references resolved.
func (g *generator) schema(t *testing.T, name string) extv1.JSONSchemaProps {
	t.Helper()
	id := crd.TypeIdent{Package: g.pkg, Name: name}
	g.parser.NeedFlattenedSchemaFor(id)
	if loader.PrintErrors(g.roots, packages.TypeError) {
		t.Fatal("cannot read the types of package v1")
	}
	flat := g.parser.FlattenedSchemata[id]
	return *flat.DeepCopy()
}

func (g *generator) crd(t *testing.T, kind string) extv1.CustomResourceDefinition {
	t.Helper()
	gk := v1.GroupVersion.WithKind(kind).GroupKind()
	g.parser.NeedCRDFor(gk, nil)
	if loader.PrintErrors(g.roots, packages.TypeError) {
		t.Fatal("cannot make the CRD")
	}
	return g.parser.CustomResourceDefinitions[gk]
}

// settingsCRD returns a CRD for the function's input. No object of this kind is stored. Editors and `crossplane
// resource validate` use it to check the input of Compositions.
func (g *generator) settingsCRD(t *testing.T) extv1.CustomResourceDefinition {
	t.Helper()
	out := g.crd(t, v1.KindSettings)
	out.Spec.Versions[0].Schema.OpenAPIV3Schema = new(g.spec(t, v1.KindSettings))
	return out
}

// platformCRD returns the CRD of the Platform. Its resource amounts may be numbers or strings.
func (g *generator) platformCRD(t *testing.T) extv1.CustomResourceDefinition {
	t.Helper()
	out := g.crd(t, v1.KindPlatform)
	spec := g.spec(t, "PlatformSpec")
	// kubectl apply --server-side writes null if the last field is removed, and the API server replaces null with the
	// default.
	spec.Default = &extv1.JSON{Raw: []byte("{}")}
	out.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	return out
}

// deepCopies returns the file with the deep copy functions of package v1, as controller-tools generates it.
func (g *generator) deepCopies(t *testing.T) []byte {
	t.Helper()
	out := &memory{}
	ctx := &genall.GenerationContext{
		Collector:  g.col,
		Roots:      g.roots,
		Checker:    &loader.TypeChecker{NodeFilters: []loader.NodeFilter{deepcopy.Generator{}.CheckFilter()}},
		OutputRule: out,
	}
	if err := (deepcopy.Generator{}).Generate(ctx); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// memory is an output rule that keeps the generated file in memory.
type memory struct{ bytes.Buffer }

func (m *memory) Open(*loader.Package, string) (io.WriteCloser, error) { return m, nil }
func (m *memory) Close() error                                         { return nil }
