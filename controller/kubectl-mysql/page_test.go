package main

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/crossplane-mysql/crossplane-mysql/test/double/golden"
)

const (
	page    = "../../docs/reference/kubectl-mysql.md"
	picture = "../../docs/site/static/kubectl-mysql-status.svg"
)

// generated matches a generated part of the page. The marker contains the name of a command, or "kubectl mysql".
var generated = regexp.MustCompile(`(?s)<!-- generated: ([a-z -]+) -->\n.*?<!-- end -->`)

// TestPage checks that docs/reference/kubectl-mysql.md contains the usage and the flags of each command.
// With -update, it writes them.
func TestPage(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	app := newParser(context.Background(), &cli{}).Model.Node
	parts := map[string]string{app.Name: commandTable(app) + "\n" + flagTable(app)}
	for _, c := range app.Children {
		parts[c.Name] = "```\n" + app.Name + " " + c.Summary() + "\n```\n\n" + flagTable(c)
	}
	got := generated.ReplaceAllStringFunc(string(raw), func(part string) string {
		name := generated.FindStringSubmatch(part)[1]
		text, ok := parts[name]
		if !ok {
			t.Errorf("the page has a part for %q, which does not exist", name)
		}
		delete(parts, name)
		return "<!-- generated: " + name + " -->\n" + text + "<!-- end -->"
	})
	for name := range parts {
		t.Errorf("the page has no part for %q", name)
	}
	golden.Text(t, "../"+page, got)
}

// commandTable returns the table of all commands.
func commandTable(app *kong.Node) string {
	var out strings.Builder
	out.WriteString("| command | effect |\n|---|---|\n")
	for _, c := range app.Children {
		fmt.Fprintf(&out, "| [`%s`](#%s) | %s |\n", c.Name, c.Name, cell(c.Help))
	}
	return out.String()
}

// flagTable returns the table of the arguments and flags of a command, or a sentence if it has none of its own.
func flagTable(c *kong.Node) string {
	var rows []string
	for _, p := range c.Positional {
		rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", strings.ToUpper(p.Name), cell(p.Help)))
	}
	for _, f := range c.Flags {
		if f.Hidden {
			continue
		}
		name := "`--" + f.Name
		switch {
		case f.Negated, f.Tag.Negatable != "" && f.Default == "true":
			name = "`--[no-]" + f.Name
		case !f.IsBool() && f.Default == "":
			name += "=" + strings.Trim(f.FormatPlaceHolder(), `"`)
		}
		name += "`"
		if f.Short != 0 {
			name += fmt.Sprintf(", `-%c`", f.Short)
		}
		text := cell(f.Help)
		if f.Default != "" && !f.IsBool() {
			text = strings.TrimSuffix(text, ".") + ". Default: `" + f.Default + "`"
		}
		rows = append(rows, fmt.Sprintf("| %s | %s |\n", name, text))
	}
	if len(rows) == 0 {
		return "No flags of its own.\n"
	}
	return "| argument or flag | meaning |\n|---|---|\n" + strings.Join(slices.Clip(rows), "")
}

// cell converts a help text to Markdown for a table cell.
func cell(help string) string {
	text := strings.ReplaceAll(help, "|", `\|`)
	if strings.Count(text, ". ") == 0 { // A cell with one sentence is a phrase.
		text = strings.TrimSuffix(text, ".")
	}
	return text
}

// TestPicture checks that the picture in docs shows the output of kubectl mysql status. With -update, it writes it.
func TestPicture(t *testing.T) {
	var out bytes.Buffer
	if err := writeScreen(&out, summarize(parse(t, whole)), now); err != nil {
		t.Fatal(err)
	}
	golden.Text(t, "../"+picture, terminal("kubectl mysql status shop", out.String()))
}

// terminal returns a picture of a terminal in which a command was run, as SVG.
func terminal(command, output string) string {
	const margin, height, width = 16, 22, 8.5
	lines, columns := append([]string{"$ " + command}, strings.Split(strings.TrimSpace(output), "\n")...), 0
	for _, l := range lines {
		columns = max(columns, utf8.RuneCountInString(l))
	}
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="monospace" font-size="14">`+
		"\n"+`<rect width="100%%" height="100%%" rx="8" fill="#1e1e2e"/>`+"\n", int(2*margin+width*float64(columns)),
		2*margin+height*len(lines))
	for i, l := range lines {
		color := "#cdd6f4"
		if i == 0 {
			color = "#a6e3a1"
		}
		fmt.Fprintf(&svg, `<text x="%d" y="%d" fill="%s" xml:space="preserve">%s</text>`+"\n", margin, margin+height*i+15, color,
			html.EscapeString(l))
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}
