package apis_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// table returns the table of a type's fields, and adds a table for the type of each field to the page. The schema typ
// comes from the generator and contains the names of types. The schema s is the one that the API server uses.
func (p *page) table(typ, s *extv1.JSONSchemaProps, kind string) string {
	var out strings.Builder
	out.WriteString("\n| field | type | default | allowed | description |\n|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		child := s.Properties[name]
		shown := "`" + name + "`"
		if slices.Contains(s.Required, name) {
			shown = "**" + shown + "**"
		}
		description, byDefault := splitDefault(child.Description)
		if child.Default != nil {
			byDefault = "`" + string(child.Default.Raw) + "`"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", shown, p.typeOf(p.property(typ, name), &child, kind),
			cell(byDefault, ""), strings.Join(allowed(&child), "; "), cell(description, name))
	}
	for _, rule := range s.XValidations {
		if message := rule.Message; message != "" {
			out.WriteString("\n- " + cell(message, ""))
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// typeOf describes the type of a field. For an object, it returns a link to the table of its type, which it creates
// if necessary.
func (p *page) typeOf(typ, s *extv1.JSONSchemaProps, kind string) string {
	resolved, name, foreign := p.follow(typ)
	switch {
	case s.XIntOrString:
		return "quantity"
	case s.Type == typeArray:
		var items *extv1.JSONSchemaProps
		if resolved != nil && resolved.Items != nil {
			items = resolved.Items.Schema
		}
		return "list of " + p.typeOf(items, s.Items.Schema, kind)
	case s.Type == typeObject && s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		var values *extv1.JSONSchemaProps
		if resolved != nil && resolved.AdditionalProperties != nil {
			values = resolved.AdditionalProperties.Schema
		}
		return "map of " + p.typeOf(values, s.AdditionalProperties.Schema, kind)
	case s.Type == typeObject && foreign != "":
		return fmt.Sprintf("%s of `%s`", name, foreign)
	case s.Type == typeObject && len(s.Properties) > 0:
		title := p.addType(name, resolved, s, kind)
		return fmt.Sprintf("[%s](#%s)", title, anchor(title))
	case s.Format == "date-time":
		return "time"
	case s.Type == "":
		return "string, number or boolean"
	}
	return s.Type
}

// addType creates the table of a type and returns its title. The title includes the kind if another kind has a type
// of the same name with different fields.
func (p *page) addType(name string, typ, s *extv1.JSONSchemaProps, kind string) string {
	if name == "" {
		p.t.Errorf("%s: the Go type with the fields %q was not found", kind, slices.Sorted(maps.Keys(s.Properties)))
	}
	bare := s.DeepCopy()
	bare.Description, bare.Default = "", nil // The description and the default belong to the field.
	raw, _ := json.Marshal(bare)             //nolint:errchkjson // A schema can be written.
	for _, title := range []string{name, name + " of " + kind} {
		switch made, found := p.schemas[title]; {
		case found && made == string(raw):
			return title
		case found:
			continue
		}
		p.schemas[title] = string(raw)
		introduction := ""
		if typ != nil && typ.Description != "" {
			introduction = cell(typ.Description, "") + "\n"
		}
		p.tables[title] = introduction + p.table(typ, s, kind)
		return title
	}
	p.t.Errorf("%s has several types of the name %q, and the page would show the fields of only one of them", kind, name)
	return name
}

// allowed returns the allowed values of a field.
func allowed(s *extv1.JSONSchemaProps) []string {
	var out []string
	if len(s.Enum) > 0 {
		values := make([]string, 0, len(s.Enum))
		for _, e := range s.Enum {
			values = append(values, "`"+strings.Trim(string(e.Raw), `"`)+"`")
		}
		out = append(out, strings.Join(values, ", "))
	}
	if s.Minimum != nil || s.Maximum != nil {
		out = append(out, span(floatText(s.Minimum), floatText(s.Maximum), ""))
	}
	out = append(out, span(lengthText(s.MinLength), lengthText(s.MaxLength), " characters"),
		span(lengthText(s.MinItems), lengthText(s.MaxItems), " items"),
		span(lengthText(s.MinProperties), lengthText(s.MaxProperties), " entries"))
	if s.Pattern != "" && !s.XIntOrString {
		out = append(out, "`"+strings.ReplaceAll(s.Pattern, "|", `\|`)+"`")
	}
	for _, rule := range s.XValidations {
		if rule.Message != "" && len(s.Properties) == 0 { // The rules of an object follow its table.
			out = append(out, cell(rule.Message, ""))
		}
	}
	if s.Items != nil && s.Items.Schema != nil && len(s.Items.Schema.Properties) == 0 {
		for _, limit := range allowed(s.Items.Schema) {
			out = append(out, "each "+limit)
		}
	}
	return slices.DeleteFunc(out, func(text string) bool { return text == "" })
}

// span describes the range between two bounds. Either bound may be empty.
func span(least, most, unit string) string {
	switch {
	case least == "" && most == "":
		return ""
	case least == "" || least == "0" && unit != "":
		return "at most " + most + unit
	case most == "":
		return "at least " + least + unit
	}
	return least + " to " + most + unit
}

func floatText(n *float64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(*n, 'f', -1, 64)
}

func lengthText(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

// defaultSentence matches the sentence about the default in a description.
var defaultSentence = regexp.MustCompile(`(?:^|\s)Default ([^\n]+?)\.(?:\s|$)`)

// splitDefault splits a description into the default value and the rest.
func splitDefault(description string) (rest, byDefault string) {
	joined := strings.Join(strings.Fields(description), " ")
	m := defaultSentence.FindStringSubmatchIndex(joined)
	if m == nil {
		return joined, ""
	}
	return strings.TrimSpace(joined[:m[0]] + " " + joined[m[1]:]), joined[m[2]:m[3]]
}

// markup escapes characters that have a meaning in Markdown but not in Go comments.
var markup = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "[", `\[`)

// cell returns a description as a table cell or a paragraph. It replaces the field's Go name at the beginning with
// its name in JSON.
func cell(description, name string) string {
	out := strings.Join(strings.Fields(description), " ")
	if first, rest, _ := strings.Cut(out, " "); name != "" && strings.EqualFold(strings.TrimRight(first, ",:."), name) {
		return strings.TrimSpace("`" + name + "`" + first[len(name):] + " " + markup.Replace(rest))
	}
	if strings.HasPrefix(out, "`") {
		return out
	}
	return markup.Replace(out)
}

// anchor returns the anchor of a heading.
func anchor(title string) string {
	return strings.NewReplacer(" ", "-", "(", "", ")", "").Replace(strings.ToLower(title))
}
