package main

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/crossplane-mysql/crossplane-mysql/test/double/flagpage"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/golden"
)

const (
	page    = "../../docs/reference/kubectl-mysql.md"
	picture = "../../docs/site/static/kubectl-mysql-status.svg"
)

// TestPage checks that docs/reference/kubectl-mysql.md contains the usage and the flags of each command.
// With -update, it writes them.
func TestPage(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	app := newParser(context.Background(), &cli{}).Model.Node
	parts := map[string]string{app.Name: commandTable(app) + "\n" + flagpage.Table(app)}
	for _, c := range app.Children {
		parts[c.Name] = "```\n" + app.Name + " " + c.Summary() + "\n```\n\n" + flagpage.Table(c)
	}
	got, unknown, missing := flagpage.Fill(string(raw), parts)
	for _, name := range unknown {
		t.Errorf("the page has a part for %q, which does not exist", name)
	}
	for _, name := range missing {
		t.Errorf("the page has no part for %q", name)
	}
	golden.Text(t, "../"+page, got)
}

// commandTable returns the table of all commands.
func commandTable(app *kong.Node) string {
	var out strings.Builder
	out.WriteString("| command | effect |\n|---|---|\n")
	for _, c := range app.Children {
		fmt.Fprintf(&out, "| [`%s`](#%s) | %s |\n", c.Name, c.Name, flagpage.Cell(c.Help))
	}
	return out.String()
}

// TestPicture checks that the picture in docs shows the output of kubectl mysql status. With -update, it writes it.
// testdata/healthy.yaml was printed by kubectl for a running instance on the test cluster. Only names were changed.
func TestPicture(t *testing.T) {
	var out bytes.Buffer
	healthy, err := os.ReadFile("testdata/healthy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shown := time.Date(2026, 11, 30, 21, 9, 30, 0, time.UTC)
	if err := writeScreen(&out, summarize(parse(t, string(healthy))), shown); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "Waits for") {
		t.Errorf("the picture contradicts itself:\n%s", out.String())
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
