package apis_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// pageAPI is the reference of all kinds. The test generates it from the schemas. The tool
// github.com/elastic/crd-ref-docs reads only Go types. It would omit the XRDs, and all validations that the schemas
// add to the types.
const pageAPI = "../docs/reference/api.md"

const pageHead = `---
title: API
weight: 10
description: Every field of every kind, with its type, default and allowed values.
---

<!-- Made from the schemas by ` + "`go test ./apis -update`" + `. Do not edit. -->

This page lists each field of each kind, as the API server knows it. A field in **bold** is required. The pages of [How-to](../how-to/_index.md) explain how to
use the fields.

`

// A kindSchema is a kind with the schema of its objects.
type kindSchema struct {
	// title is the heading of the kind on the page. scope is "a namespace" or "the cluster".
	title, apiVersion, kind, scope string
	schema                         extv1.JSONSchemaProps
	// types are the Go types of spec and status, or of the whole object if it has neither.
	types map[string]string
}

// kindSchemas returns all kinds with their schemas, in the order of the page.
func (g *generator) kindSchemas(t *testing.T) []kindSchema {
	t.Helper()
	mysql := map[string]string{"spec": "MySQLSpec", "status": "MySQLStatus"}
	claims, database, namespaced := g.xrd(t), g.xrdDatabase(t), g.xrdNamespaced(t)
	out := []kindSchema{
		{title: "MySQL (claim)", apiVersion: v1.GroupVersionClaims.String(), kind: v1.KindMySQL, scope: "a namespace",
			schema: read1(t, claims.Spec.Versions[0].Schema.OpenAPIV3Schema.Raw), types: mysql},
		{title: "MySQL (namespaced)", apiVersion: v1.GroupVersion.String(), kind: v1.KindMySQL, scope: "a namespace",
			schema: read1(t, namespaced.Spec.Versions[0].Schema.OpenAPIV3Schema.Raw), types: mysql},
		{title: "Database", apiVersion: v1.GroupVersionDatabase.String(), kind: v1.KindDatabase, scope: "a namespace",
			schema: read1(t, database.Spec.Versions[0].Schema.OpenAPIV3Schema.Raw),
			types:  map[string]string{"spec": "DatabaseSpec", "status": "MySQLStatus"}},
	}
	for _, c := range []extv1.CustomResourceDefinition{g.crd(t, v1.KindBackup), g.crd(t, v1.KindBackupRecord),
		g.crd(t, v1.KindBackupStore), g.platformCRD(t)} {
		kind := c.Spec.Names.Kind
		out = append(out, kindSchema{title: kind, apiVersion: c.Spec.Group + "/" + c.Spec.Versions[0].Name, kind: kind,
			scope:  map[extv1.ResourceScope]string{extv1.ClusterScoped: "the cluster", extv1.NamespaceScoped: "a namespace"}[c.Spec.Scope],
			schema: *c.Spec.Versions[0].Schema.OpenAPIV3Schema,
			types:  map[string]string{"spec": g.typeOfPart(kind, "spec"), "status": g.typeOfPart(kind, "status")}})
	}
	settings := g.settingsCRD(t)
	return append(out, kindSchema{title: v1.KindSettings, apiVersion: v1.GroupVersion.String(), kind: v1.KindSettings,
		scope: "the input of a Composition", schema: *settings.Spec.Versions[0].Schema.OpenAPIV3Schema,
		types: map[string]string{"": v1.KindSettings}})
}

// typeOfPart returns the name of the Go type of a field of a kind, or "" if the kind has no such field.
func (g *generator) typeOfPart(kind, part string) string {
	s := g.parser.Schemata[crd.TypeIdent{Package: g.pkg, Name: kind}].Properties[part]
	if s.Ref == nil {
		return ""
	}
	name, _, _ := crd.RefParts(*s.Ref)
	return name
}

func read1(t *testing.T, raw []byte) extv1.JSONSchemaProps {
	t.Helper()
	out := extv1.JSONSchemaProps{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestReference compares the page with the schemas, and writes it with -update.
func TestReference(t *testing.T) {
	g := newGenerator(t)
	p := &page{generator: g, t: t, tables: map[string]string{}, schemas: map[string]string{}}
	kinds := g.kindSchemas(t)
	var out strings.Builder
	out.WriteString(pageHead + "| kind | apiVersion | is in |\n|---|---|---|\n")
	for _, k := range kinds {
		fmt.Fprintf(&out, "| [%s](#%s) | `%s` | %s |\n", k.title, anchor(k.title), k.apiVersion, k.scope)
	}
	for _, k := range kinds {
		out.WriteString("\n## " + k.title + "\n\n" + cell(k.schema.Description, "") + "\n")
		if name, found := k.types[""]; found {
			root := k.schema.DeepCopy() // Every object has these fields.
			maps.DeleteFunc(root.Properties, func(field string, _ extv1.JSONSchemaProps) bool { return isInEveryObject(field) })
			out.WriteString(p.table(p.typeNamed(name), root, k.title))
			continue
		}
		for _, part := range []string{"spec", "status"} {
			s, found := k.schema.Properties[part]
			if !found {
				continue
			}
			out.WriteString("\n### " + k.title + " " + part + "\n\n" + cell(s.Description, "") + "\n")
			out.WriteString(p.table(p.typeNamed(k.types[part]), &s, k.title))
		}
	}
	out.WriteString("\n## Types\n")
	for _, name := range slices.Sorted(maps.Keys(p.tables)) {
		out.WriteString("\n### " + name + "\n\n" + p.tables[name])
	}
	golden(t, pageAPI, "The page must have each field of each kind.", []byte(out.String()))
}

// isInEveryObject reports whether a field at the root of an object exists in all kinds.
func isInEveryObject(field string) bool {
	return slices.Contains([]string{"apiVersion", "kind", "metadata"}, field)
}

// A page is the reference page while it is being generated.
type page struct {
	*generator

	t *testing.T

	// tables contains the table of each type by its title. schemas contains the type's schema by the same title, to
	// detect different types with the same name.
	tables, schemas map[string]string
}

// typeNamed returns the generator's schema of a type in package v1. The schema refers to other types by name.
func (p *page) typeNamed(name string) *extv1.JSONSchemaProps {
	s := p.parser.Schemata[crd.TypeIdent{Package: p.pkg, Name: name}]
	return &s
}

// follow resolves a reference to a type in package v1, and returns the type's schema and name. For a type of another
// package, it returns only the type's name and, as foreign, the package.
func (p *page) follow(s *extv1.JSONSchemaProps) (resolved *extv1.JSONSchemaProps, name, foreign string) {
	for resolved = s; resolved != nil && resolved.Ref != nil; {
		typ, pkg, err := crd.RefParts(*resolved.Ref)
		if err != nil {
			return nil, "", ""
		}
		if pkg != "" {
			return nil, typ, pkg
		}
		resolved, name = p.typeNamed(typ), typ
	}
	return resolved, name, ""
}

// property returns the schema of a field of a type or of the types that it inlines.
func (p *page) property(s *extv1.JSONSchemaProps, name string) *extv1.JSONSchemaProps {
	s, _, _ = p.follow(s)
	if s == nil {
		return nil
	}
	if child, found := s.Properties[name]; found {
		return &child
	}
	for i := range s.AllOf {
		if child := p.property(&s.AllOf[i], name); child != nil {
			return child
		}
	}
	return nil
}
