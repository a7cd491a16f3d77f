package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the generated files of the chart instead of comparing them")

var (
	chart  = filepath.Join(repository, "package", "chart")
	deploy = filepath.Join(repository, "controller", "deploy")
)

// hasContent compares a generated file of the chart with its expected content, or writes the file with -update.
func hasContent(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(mustRead(t, path))); diff != "" {
		t.Errorf("%s is not up to date: run `make generate`. -want, +got:\n%s", path, diff)
	}
}

// generated lists the templates that are generated from manifests, with the kinds that they contain. All other
// templates contain Helm values. TestChartIsManifests compares their output with the manifests.
var generated = []struct {
	part string
	kind string
	from []string
	file string
}{
	{"controller", "ClusterRole", []string{"rbac.yaml", "aggregated-roles.yaml", "crossplane-role.yaml"}, "clusterrole.yaml"},
	{"controller", "Role", []string{"rbac.yaml"}, "role.yaml"},
	{"controller", "ValidatingAdmissionPolicy", []string{"admission.yaml"}, "validatingadmissionpolicy.yaml"},
	{"controller", "ValidatingAdmissionPolicyBinding", []string{"admission.yaml"}, "validatingadmissionpolicybinding.yaml"},
	{"records", "ValidatingAdmissionPolicy", []string{"admission.yaml"}, "validatingadmissionpolicy.yaml"},
	{"records", "ValidatingAdmissionPolicyBinding", []string{"admission.yaml"}, "validatingadmissionpolicybinding.yaml"},
}

// TestGeneratedTemplates compares the chart's roles and policies with the manifests that kubectl applies.
func TestGeneratedTemplates(t *testing.T) {
	for _, g := range generated {
		var out []string
		for _, from := range g.from {
			for document := range strings.SplitSeq(string(mustRead(t, filepath.Join(deploy, g.part, from))), "\n---\n") {
				var o object
				if err := yaml.Unmarshal([]byte(document), &o); err != nil {
					t.Fatal(err)
				}
				if o["kind"] == g.kind {
					out = append(out, templateOf(t, o, document, g.part == "records"))
				}
			}
		}
		if len(out) == 0 {
			t.Errorf("%v of %s have no %s", g.from, g.part, g.kind)
		}
		hasContent(t, filepath.Join(chart, "templates", g.part, g.file), "{{- /* Generated from controller/deploy/"+g.part+
			" by `make generate`. */}}\n"+strings.Join(out, "\n---\n")+"\n")
	}
}

// metadata matches the metadata of a document.
var metadata = regexp.MustCompile(`(?m)^metadata:\n( .*\n)+`)

// templateOf returns the template for a document, with the namespace, labels and annotations of the chart.
func templateOf(t *testing.T, o object, document string, isKept bool) string {
	t.Helper()
	if strings.Contains(document, "{{") {
		t.Fatalf("%s has braces, which Helm would read", keyOf(o))
	}
	meta, _ := o["metadata"].(map[string]any)
	var out strings.Builder
	fmt.Fprintf(&out, "metadata:\n  name: %s\n", meta["name"])
	known := []string{"name"}
	if _, ok := meta["namespace"]; ok {
		out.WriteString("  namespace: {{ .Release.Namespace }}\n")
		known = append(known, "namespace")
	}
	own := ""
	if labels, ok := meta["labels"].(map[string]any); ok {
		known = append(known, "labels")
		pairs := make([]string, 0, len(labels))
		for _, name := range sortedKeys(labels) {
			pairs = append(pairs, fmt.Sprintf("%q %q", name, labels[name]))
		}
		own = ` "labels" (dict ` + strings.Join(pairs, " ") + ")"
	}
	fmt.Fprintf(&out, "  labels:\n    {{- include \"crossplane-mysql.labels\" (dict \"context\" .%s) | nindent 4 }}\n", own)
	kept := ""
	if isKept {
		kept = ` "keep" true`
	}
	fmt.Fprintf(&out, "  {{- include \"crossplane-mysql.annotations\" (dict \"context\" .%s) | nindent 2 }}\n", kept)
	for name := range meta {
		if !slices.Contains(known, name) {
			t.Fatalf("%s has metadata.%s, which its template would lose", keyOf(o), name)
		}
	}
	return strings.TrimSuffix(metadata.ReplaceAllLiteralString(document, out.String()), "\n")
}

// TestGeneratedSchema checks that platform.spec in the schema matches the spec in the CRD, and that each value has a
// type.
func TestGeneratedSchema(t *testing.T) {
	path := filepath.Join(chart, "values.schema.json")
	var schema map[string]any
	if err := json.Unmarshal(mustRead(t, path), &schema); err != nil {
		t.Fatal(err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(mustRead(t, filepath.Join(repository, "apis", "crd-platforms.yaml")), &crd); err != nil {
		t.Fatal(err)
	}
	spec, _ := at(crd, []any{"spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec"}).(map[string]any)
	if len(spec) == 0 {
		t.Fatal("the CRD has no schema of spec")
	}
	platform, _ := at(schema, []any{"properties", "platform", "properties"}).(map[string]any)
	platform["spec"] = jsonSchemaOf(spec)
	raw := &bytes.Buffer{}
	e := json.NewEncoder(raw)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(schema); err != nil {
		t.Fatal(err)
	}
	hasContent(t, path, raw.String())
	for _, hole := range holes("", schema) {
		t.Error(hole)
	}
	definitions, _ := schema["definitions"].(map[string]any)
	for name, d := range definitions {
		for _, hole := range holes(name, d) {
			t.Error(hole)
		}
	}
}

// jsonSchemaOf converts a CRD schema to JSON Schema. It removes the extensions of Kubernetes and refuses unknown
// fields.
func jsonSchemaOf(in map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range in {
		switch {
		case strings.HasPrefix(key, "x-kubernetes-") || key == "description" || key == "format":
			continue
		case key == "properties":
			properties := map[string]any{}
			for name, p := range value.(map[string]any) {
				properties[name] = jsonSchemaOf(p.(map[string]any))
			}
			out[key], out["additionalProperties"] = properties, false
		default:
			if m, ok := value.(map[string]any); ok {
				value = jsonSchemaOf(m)
			}
			out[key] = value
		}
	}
	return out
}

// holes returns the places in a schema that accept too much: values without a type, and objects that accept any key.
func holes(path string, node any) (out []string) {
	schema, _ := node.(map[string]any)
	switch {
	case schema["$ref"] != nil || schema["anyOf"] != nil || schema["enum"] != nil:
		return nil
	case schema["type"] == nil:
		return []string{path + " has no type"}
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		if schema["additionalProperties"] != false {
			out = append(out, path+" takes any key")
		}
		for name, p := range properties {
			out = append(out, holes(path+"."+name, p)...)
		}
	}
	if schema["type"] == "array" {
		out = append(out, holes(path+"[]", schema["items"])...)
	}
	return out
}

// pageValuesHead is the beginning of the page with the values of the chart.
const pageValuesHead = `---
title: Helm values
weight: 77
description: Every value of the Helm chart, with its default.
---

<!-- Made from package/chart/values.yaml by ` + "`go test -C package/build -run TestGenerated . -update`" + `. Do not edit. -->

This page lists the values of the [chart](../../package/chart/README.md). [Install with Helm](../how-to/install-with-helm.md) explains how to use them. The schema of
the values refuses unknown keys. Values that have a Kubernetes type, such as ` + "`affinity`" + `, are copied to the objects without changes.
`

// TestGeneratedReadme checks that the tables of values in the chart's README and in docs/reference/helm-values.md match
// the comments in values.yaml.
func TestGeneratedReadme(t *testing.T) {
	const begin, end = "<!-- values: generated from values.yaml -->\n", "<!-- end of values -->\n"
	path := filepath.Join(chart, "README.md")
	page := string(mustRead(t, path))
	before, rest, hasBegin := strings.Cut(page, begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		t.Fatalf("%s lacks %q or %q", path, begin, end)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(mustRead(t, filepath.Join(chart, "values.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	rows, undescribed := rowsOf("", document.Content[0])
	for _, name := range undescribed {
		t.Errorf("%s has no comment in values.yaml", name)
	}
	table := "\n| value | default | meaning |\n|---|---|---|\n" + strings.Join(rows, "")
	hasContent(t, path, before+begin+table+"\n"+end+after)
	hasContent(t, filepath.Join(repository, "docs", "reference", "helm-values.md"), pageValuesHead+table)
}

// rowsOf returns the table rows of the values in a mapping, and the names of the values without a comment. A mapping
// is treated as a single value if its first value has no comment.
func rowsOf(prefix string, mapping *yaml.Node) (rows, undescribed []string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && value.Content[0].HeadComment != "" {
			more, missing := rowsOf(name+".", value)
			rows, undescribed = append(rows, more...), append(undescribed, missing...)
			continue
		}
		comment := strings.Join(strings.Fields(strings.ReplaceAll("\n"+key.HeadComment, "\n# ", "\n")), " ")
		if comment == "" {
			undescribed = append(undescribed, name)
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", name, defaultOf(value), strings.ReplaceAll(comment, "|", `\|`)))
	}
	return rows, undescribed
}

// defaultOf returns a value as JSON in one line.
func defaultOf(node *yaml.Node) string {
	var value any
	if err := node.Decode(&value); err != nil {
		return err.Error()
	}
	if value == "" {
		return `""`
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return "`" + strings.Trim(string(raw), `"`) + "`"
}
