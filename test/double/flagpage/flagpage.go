// Package flagpage generates the tables of flags in the documentation.
package flagpage

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// generated matches a generated part of a page. The marker contains the name of the part.
var generated = regexp.MustCompile(`(?s)<!-- generated: ([a-z -]+) -->\n.*?<!-- end -->`)

// Fill replaces the generated parts of a page that have a text in parts. unknown are the names of the other generated
// parts of the page, and missing are the names in parts that the page does not have.
func Fill(page string, parts map[string]string) (filled string, unknown, missing []string) {
	found := map[string]bool{}
	filled = generated.ReplaceAllStringFunc(page, func(part string) string {
		name := generated.FindStringSubmatch(part)[1]
		text, ok := parts[name]
		if !ok {
			unknown = append(unknown, name)
			return part
		}
		found[name] = true
		return "<!-- generated: " + name + " -->\n" + text + "<!-- end -->"
	})
	for name := range parts {
		if !found[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return filled, unknown, missing
}

// Table returns the table of the arguments and flags of a command, or a sentence if it has none of its own.
func Table(c *kong.Node) string {
	var rows []string
	for _, p := range c.Positional {
		rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", strings.ToUpper(p.Name), Cell(p.Help)))
	}
	for _, f := range c.Flags {
		if !f.Hidden {
			rows = append(rows, flagRow(f))
		}
	}
	if len(rows) == 0 {
		return "No flags of its own.\n"
	}
	return "| argument or flag | meaning |\n|---|---|\n" + strings.Join(slices.Clip(rows), "")
}

func flagRow(f *kong.Flag) string {
	name := "`--" + f.Name
	switch {
	case f.Negated, f.Tag.Negatable != "" && f.Default == "true":
		name = "`--[no-]" + f.Name
	case !f.IsBool() && f.Default == "":
		name += "=" + escapePipe(strings.Trim(f.FormatPlaceHolder(), `"`))
	}
	name += "`"
	if f.Short != 0 {
		name += fmt.Sprintf(", `-%c`", f.Short)
	}
	text := Cell(f.Help)
	if f.Default != "" && !f.IsBool() {
		text = strings.TrimSuffix(text, ".") + ". Default: `" + f.Default + "`"
	}
	if len(f.Envs) > 0 {
		text = strings.TrimSuffix(text, ".") + ". Environment variable: `" + strings.Join(f.Envs, "`, `") + "`"
	}
	return fmt.Sprintf("| %s | %s |\n", name, text)
}

// Cell converts a help text to Markdown for a table cell.
func Cell(help string) string {
	text := escapePipe(help)
	if strings.Count(text, ". ") == 0 { // A cell with one sentence is a phrase.
		text = strings.TrimSuffix(text, ".")
	}
	return text
}

// escapePipe escapes pipes, which would end a table cell. This is also required in inline code.
func escapePipe(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
