package apis_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// A definition is the part of a CRD or an XRD that the page describes.
type definition struct {
	Spec struct {
		Names, ClaimNames struct{ Kind string }
		Versions          []struct {
			Schema struct{ OpenAPIV3Schema extv1.JSONSchemaProps }
		}
	}
}

// title returns the heading of the kind on the page.
func (d *definition) title(page string) string {
	kind, suffix := d.Spec.ClaimNames.Kind, " (claim)"
	if kind == "" {
		kind, suffix = d.Spec.Names.Kind, " (namespaced)"
	}
	if strings.Contains(page, "\n## "+kind+suffix+"\n") {
		return kind + suffix
	}
	return kind
}

// TestReferenceIsComplete reads the page as a user does. It begins at the tables of each kind, and follows the link of
// each field to the table of its type. Each table must have a row for each field of the schemas in the CRDs and
// XRDs, and no other row. The test does not use the code that generates the page.
func TestReferenceIsComplete(t *testing.T) {
	page := text(t, pageAPI)
	read := readTables(page)
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kinds, fields := 0, 0
	for _, file := range append(files, "../package/input/crossplane-mysql.io_settings.yaml") {
		if !strings.Contains(file, "crd-") && !strings.Contains(file, "xrd-") && !strings.Contains(file, "input") {
			continue
		}
		kinds++
		d := definition{}
		if err := yaml.Unmarshal([]byte(text(t, file)), &d); err != nil {
			t.Fatal(err)
		}
		title, root := d.title(page), d.Spec.Versions[0].Schema.OpenAPIV3Schema
		if !strings.Contains(page, "\n## "+title+"\n") {
			t.Errorf("%s has no section on %s of %s: add it to kindSchemas", pageAPI, title, file)
			continue
		}
		for name := range root.Properties {
			if isInEveryObject(name) {
				delete(root.Properties, name)
			}
		}
		if _, found := root.Properties["spec"]; !found { // The kind has a single table.
			fields += read.compare(t, title, anchor(title), &root)
			continue
		}
		for part, s := range root.Properties {
			fields += read.compare(t, title+" "+part, anchor(title+" "+part), &s)
		}
	}
	if kinds < 8 || fields < 500 {
		t.Errorf("only %d kinds and %d fields were compared", kinds, fields)
	}
}

// fieldTables contains the rows of each table of fields. The keys are the anchor of the heading above a table, and
// the name of a field.
type fieldTables map[string]map[string]fieldType

// A fieldType is the type of a field on the page. link is the anchor of the table of the type. foreign reports that
// the page names a type of Kubernetes instead, whose fields it does not list.
type fieldType struct {
	link    string
	foreign bool
}

var (
	// fieldRow matches a row of a table of fields: the name, and the anchor in the cell of the type.
	fieldRow = regexp.MustCompile("^\\| (?:\\*\\*)?`([^`]+)`(?:\\*\\*)? \\| ([^|]*) \\|")
	typeLink = regexp.MustCompile(`\]\(#([^)]+)\)`)
)

func readTables(page string) fieldTables {
	out, heading := fieldTables{}, ""
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "#") {
			heading = anchor(strings.TrimSpace(strings.TrimLeft(line, "#")))
			continue
		}
		m := fieldRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if out[heading] == nil {
			out[heading] = map[string]fieldType{}
		}
		typ := fieldType{foreign: strings.Contains(m[2], " of `k8s.io/")}
		if link := typeLink.FindStringSubmatch(m[2]); link != nil {
			typ.link = link[1]
		}
		out[heading][m[1]] = typ
	}
	return out
}

// compare compares the table below a heading with a schema, and the tables of the types of its fields with the
// schemas of these fields. path describes the schema. It returns the number of fields.
func (f fieldTables) compare(t *testing.T, path, heading string, s *extv1.JSONSchemaProps) int {
	t.Helper()
	for name := range f[heading] {
		if _, found := s.Properties[name]; !found {
			t.Errorf("%s has a row for %s.%s, which does not exist", pageAPI, path, name)
		}
	}
	count := len(s.Properties)
	for name, child := range s.Properties {
		typ, found := f[heading][name]
		if !found {
			t.Errorf("%s has no row for %s.%s", pageAPI, path, name)
			continue
		}
		inner := element(&child)
		switch {
		case typ.link != "":
			count += f.compare(t, path+"."+name, typ.link, inner)
		case len(inner.Properties) > 0 && !typ.foreign:
			t.Errorf("%s has no link to the fields of %s.%s", pageAPI, path, name)
		}
	}
	return count
}

// element returns the schema of the elements of a list or a map, and otherwise the schema itself.
func element(s *extv1.JSONSchemaProps) *extv1.JSONSchemaProps {
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		return element(s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return element(s.AdditionalProperties.Schema)
	}
	return s
}
