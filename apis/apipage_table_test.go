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

// table of a type's fields, and the tables of the types of these. The first schema has the names of types, and the
// second one what the API server has.
func (p *page) table(typ, s *extv1.JSONSchemaProps, kind string) string {
	var out strings.Builder
	out.WriteString("\n| field | type | default | allowed | description |\n|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue
		}
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

// typeOf a field, in words, with a link to the table of an object. Its table is made if there is none yet.
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

// addType makes the table of a type, and returns its title: its name, and the kind where another kind has other fields
// in a type of this name.
func (p *page) addType(name string, typ, s *extv1.JSONSchemaProps, kind string) string {
	if name == "" {
		name = "Object"
	}
	bare := s.DeepCopy()
	bare.Description, bare.Default = "", nil // They are the field's.
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
	return name
}

// allowed values of a field.
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
		if rule.Message != "" && len(s.Properties) == 0 { // An object has its rules below its table.
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

// span between two bounds, either of which may be missing.
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

// defaultSentence of a description.
var defaultSentence = regexp.MustCompile(`(?:^|\s)Default ([^\n]+?)\.(?:\s|$)`)

// splitDefault takes the sentence that names the default out of a description.
func splitDefault(description string) (rest, byDefault string) {
	joined := strings.Join(strings.Fields(description), " ")
	m := defaultSentence.FindStringSubmatchIndex(joined)
	if m == nil {
		return joined, ""
	}
	return strings.TrimSpace(joined[:m[0]] + " " + joined[m[1]:]), joined[m[2]:m[3]]
}

// markup that a text of Go comments does not mean.
var markup = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "[", `\[`)

// cell of a table, or a paragraph. A description begins with the Go name of its field; the page has the field's name.
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

// anchor of a heading.
func anchor(title string) string {
	return strings.NewReplacer(" ", "-", "(", "", ")", "").Replace(strings.ToLower(title))
}
