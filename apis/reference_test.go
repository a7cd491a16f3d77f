package apis_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Pages that document the fields for users.
const (
	pageDatabase = "../docs/reference/database-claim.md"
	pagePlatform = "../docs/how-to/platform-policy.md"
	pageSettings = "../docs/reference/composition-input.md"
)

// refused lists fields that exist in the schema, because they belong to a Kubernetes type. The function always refuses
// them.
var refused = []string{"resources.claims", "defaultResources.claims"}

// fieldsOf returns the JSON paths of all fields of a type of this API, such as networkPolicy.from.ipBlock. It omits
// the fields of Kubernetes types, which Kubernetes documents.
func fieldsOf(typ reflect.Type, path string) []string {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[v1.MySQLSpec]().PkgPath() {
		return nil
	}
	var out []string
	for f := range typ.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		child := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case slices.Contains(refused, child), name == "metadata":
			continue
		case options == "inline":
			child = path
		default:
			out = append(out, child)
		}
		out = append(out, fieldsOf(f.Type, child)...)
	}
	return out
}

// A row is a row of a table that documents fields. In a row, first contains the names in the first cell, and all
// contains the names in all cells and in the table's header.
type row struct{ first, all []string }

var (
	codeSpan = regexp.MustCompile("`[^`]+`")
	name     = regexp.MustCompile(`[A-Za-z_0-9]+`)
)

func namesIn(text string) []string {
	return name.FindAllString(strings.Join(codeSpan.FindAllString(text, -1), " "), -1)
}

// rowsOf returns the rows of all tables on a page that document fields or settings.
func rowsOf(page string) []row {
	var out []row
	head := ""
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		switch {
		case len(cells) < 3:
			head = ""
		case head == "":
			head = cells[1]
		case strings.HasPrefix(head, " field"), strings.HasPrefix(head, " setting"):
			out = append(out, row{namesIn(cells[1]), namesIn(head + line)})
		}
	}
	return out
}

// isDocumented reports whether a row documents the field. A nested field is in the row of the field that contains it.
func isDocumented(field string, rows []row) bool {
	names := strings.Split(field, ".")
	last := names[len(names)-1]
	return slices.ContainsFunc(rows, func(r row) bool {
		if len(names) == 1 {
			return slices.Contains(r.first, last)
		}
		return slices.Contains(r.all, last) && slices.Contains(r.all, names[len(names)-2])
	})
}

// TestEveryFieldIsDocumented checks that the pages have a row for each field of a Database, the Platform and the
// input of a Composition. TestReferenceIsComplete checks the generated reference of all kinds instead.
func TestEveryFieldIsDocumented(t *testing.T) {
	for _, c := range []struct {
		typ  reflect.Type
		page string
		rows []row
		// top is true if the page has rows only for top-level fields.
		top bool
	}{
		{typ: reflect.TypeFor[v1.DatabaseSpec](), page: pageDatabase, rows: rowsOf(text(t, pageDatabase)), top: true},
		{typ: reflect.TypeFor[v1.PlatformSpec](), page: pagePlatform, rows: rowsOf(text(t, pagePlatform))},
		{typ: reflect.TypeFor[v1.Settings](), page: pageSettings, rows: rowsOf(text(t, pageSettings)), top: true},
	} {
		for _, field := range fieldsOf(c.typ, "") {
			if isTop := !strings.Contains(field, "."); (isTop || !c.top) && !isDocumented(field, c.rows) {
				t.Errorf("%s of %s has no row: add it to a table of fields in %s, or to the row of the field that contains it",
					field, c.typ.Name(), c.page)
			}
		}
	}
}

// TestChartHasEveryField checks that the schema of the Helm chart's values has all fields of the Platform. Otherwise
// Helm would accept a misspelled field, which Kubernetes drops.
func TestChartHasEveryField(t *testing.T) {
	const file = "../package/chart/values.schema.json"
	schema := map[string]any{}
	read(t, file, &schema)
	for _, name := range []string{"platform", "spec"} {
		properties, _ := schema["properties"].(map[string]any)
		schema, _ = properties[name].(map[string]any)
	}
	got, _ := schema["properties"].(map[string]any)
	want := slices.DeleteFunc(fieldsOf(reflect.TypeFor[v1.PlatformSpec](), ""),
		func(field string) bool { return strings.Contains(field, ".") })
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("platform.spec in %s has other fields than PlatformSpec. -PlatformSpec, +values.schema.json:\n%s",
			file, diff)
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// yamlBlock matches a YAML block of a page.
var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// specsOn returns the MySQL specs of all objects and fragments in the YAML blocks of a page.
func specsOn(t *testing.T, page string) []string {
	t.Helper()
	var out []string
	for _, m := range yamlBlock.FindAllStringSubmatch(text(t, page), -1) {
		for document := range strings.SplitSeq(m[1], "---\n") {
			object := struct {
				Kind string         `json:"kind"`
				Spec map[string]any `json:"spec"`
			}{}
			if err := yaml.Unmarshal([]byte(document), &object); err != nil || object.Spec == nil ||
				object.Kind != "" && object.Kind != v1.KindMySQL {
				continue
			}
			delete(object.Spec, "crossplane") // Crossplane adds both fields to the schema.
			delete(object.Spec, "compositionRef")
			spec, err := yaml.Marshal(map[string]any{"spec": object.Spec})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(spec))
		}
	}
	return out
}

// TestEveryFieldHasAnExample checks that an example or a page uses each field of a claim. The API server must accept
// the specs on pages.
func TestEveryFieldHasAnExample(t *testing.T) {
	files, err := filepath.Glob("../examples/*/claim.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no example found", err)
	}
	var specs []any
	for _, f := range files {
		object := map[string]any{}
		read(t, f, &object)
		specs = append(specs, object["spec"])
	}
	v := newValidator(t, xrdMySQL)
	pages, err := filepath.Glob("../docs/how-to/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no page found", err)
	}
	for _, page := range pages {
		for _, shown := range specsOn(t, page) {
			part := map[string]map[string]any{}
			if err := yaml.UnmarshalStrict([]byte(shown), &struct{ Spec v1.MySQLSpec }{}); err != nil {
				t.Errorf("%s shows what is no claim: %v\n%s", page, err, shown)
			}
			if err := yaml.Unmarshal([]byte(shown), &part); err != nil {
				t.Fatal(err)
			}
			object := claim(runtime.DeepCopyJSON(part["spec"])) // Validation adds defaults, which the examples do not contain.
			for field, other := range map[string]string{"passwordSecretRef": "password", "storage_size": "storageSize"} {
				if part["spec"][field] != nil {
					delete(object["spec"].(map[string]any), other)
				}
			}
			if got := v.validate(integers(object), nil); got != "" {
				t.Errorf("%s shows what the API server refuses: %s\n%s", page, got, shown)
			}
			specs = append(specs, part["spec"])
		}
	}
	fields := append(fieldsOf(reflect.TypeFor[v1.MySQLSpec](), ""), fieldsOf(reflect.TypeFor[v1.DatabaseSpec](), "")...)
	slices.Sort(fields)
	for _, field := range slices.Compact(fields) {
		if !occurs(specs, strings.Split(field, ".")) {
			t.Errorf("spec.%s is in no example: add it to claim.yaml and xr.yaml of an example, or to a YAML block of a page in docs/how-to", field)
		}
	}
}

// occurs reports whether a value has a field at a path, in any item of its lists.
func occurs(value any, path []string) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return occurs(item, path) })
	case map[string]any:
		child, found := v[path[0]]
		return found && (len(path) == 1 || occurs(child, path[1:]))
	}
	return false
}
