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

// Pages that users read about fields.
const (
	pageClaims   = "../docs/claims.md"
	pageImport   = "../docs/import.md"
	pagePlatform = "../docs/platform.md"
)

// refused is a field that is there to be refused.
const refused = "resources.claims"

// fieldsOf returns all fields of a type of this API, such as networkPolicy.from.ipBlock, in JSON. The fields of a type of
// Kubernetes are documented there.
func fieldsOf(of reflect.Type, path string) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[v1.MySQLSpec]().PkgPath() {
		return nil
	}
	var out []string
	for f := range of.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		child := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case child == refused, name == "metadata":
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

// A row of a table of fields: the names in its first cell, and all names in it and in the head of the table.
type row struct{ first, all []string }

var (
	codeSpan = regexp.MustCompile("`[^`]+`")
	name     = regexp.MustCompile(`[A-Za-z_0-9]+`)
)

func namesIn(text string) []string {
	return name.FindAllString(strings.Join(codeSpan.FindAllString(text, -1), " "), -1)
}

// rowsOf the tables of a page of fields or settings.
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

// isDocumented reports whether a row has the field. A nested field is in a row with the field that contains it.
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

// TestEveryFieldIsDocumented: the pages have a row of each field of a claim, of the MySQLPlatform and of a Composition's input.
func TestEveryFieldIsDocumented(t *testing.T) {
	mysql, database, found := strings.Cut(text(t, pageClaims), "\n## Database\n")
	if !found {
		t.Fatalf("%s has no section on the Database", pageClaims)
	}
	for _, c := range []struct {
		of   reflect.Type
		page string
		rows []row
		// top is true if only the fields that no other field contains have a row there.
		top bool
	}{
		{of: reflect.TypeFor[v1.MySQLSpec](), page: pageClaims, rows: rowsOf(mysql + text(t, pageImport))},
		{of: reflect.TypeFor[v1.DatabaseSpec](), page: pageClaims + ", in the section on the Database", rows: rowsOf(database), top: true},
		{of: reflect.TypeFor[v1.MySQLPlatformSpec](), page: pagePlatform, rows: rowsOf(text(t, pagePlatform))},
		{of: reflect.TypeFor[v1.Settings](), page: pagePlatform, rows: rowsOf(text(t, pagePlatform)), top: true},
	} {
		for _, field := range fieldsOf(c.of, "") {
			if isTop := !strings.Contains(field, "."); (isTop || !c.top) && !isDocumented(field, c.rows) {
				t.Errorf("%s of %s has no row: add it to a table of fields in %s, or to the row of the field that contains it", field, c.of.Name(), c.page)
			}
		}
	}
}

// TestChartHasEveryField: the schema of the Helm chart's values has the fields of the MySQLPlatform. Without it Kubernetes drops a
// field that it does not know, and Helm says nothing.
func TestChartHasEveryField(t *testing.T) {
	const file = "../package/chart/values.schema.json"
	schema := map[string]any{}
	read(t, file, &schema)
	for _, name := range []string{"platform", "spec"} {
		properties, _ := schema["properties"].(map[string]any)
		schema, _ = properties[name].(map[string]any)
	}
	got, _ := schema["properties"].(map[string]any)
	want := slices.DeleteFunc(fieldsOf(reflect.TypeFor[v1.MySQLPlatformSpec](), ""), func(field string) bool { return strings.Contains(field, ".") })
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("platform.spec in %s has other fields than MySQLPlatformSpec. -MySQLPlatformSpec, +values.schema.json:\n%s", file, diff)
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

// yamlBlock of a page that shows a part of a claim.
var yamlBlock = regexp.MustCompile("(?s)```yaml\n(spec:\n.*?)```")

// TestEveryFieldHasAnExample: users find each field of a claim in an example, or in a page. The API server accepts what a page shows.
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
	for _, page := range []string{pageClaims, pageImport, "../docs/stores.md"} {
		for _, m := range yamlBlock.FindAllStringSubmatch(text(t, page), -1) {
			part := map[string]map[string]any{}
			if err := yaml.UnmarshalStrict([]byte(m[1]), &struct{ Spec v1.MySQLSpec }{}); err != nil {
				t.Errorf("%s shows what is no claim: %v\n%s", page, err, m[1])
			}
			if err := yaml.Unmarshal([]byte(m[1]), &part); err != nil {
				t.Fatal(err)
			}
			object := claim(runtime.DeepCopyJSON(part["spec"])) // The defaults that are filled in are in no example.
			if got := v.validate(integers(object), nil); got != "" {
				t.Errorf("%s shows what the API server refuses: %s\n%s", page, got, m[1])
			}
			specs = append(specs, part["spec"])
		}
	}
	fields := append(fieldsOf(reflect.TypeFor[v1.MySQLSpec](), ""), fieldsOf(reflect.TypeFor[v1.DatabaseSpec](), "")...)
	slices.Sort(fields)
	for _, field := range slices.Compact(fields) {
		if !occurs(specs, strings.Split(field, ".")) {
			t.Errorf("spec.%s is in no example: add it to claim.yaml and xr.yaml of an example, or to a YAML block in %s", field, pageClaims)
		}
	}
}

// occurs reports whether a value has a field, in any item of its lists.
func occurs(value any, path []string) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return occurs(item, path) })
	case map[string]any:
		child, is := v[path[0]]
		return is && (len(path) == 1 || occurs(child, path[1:]))
	}
	return false
}
