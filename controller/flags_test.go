package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/double/flagpage"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/golden"
)

// pageFlags is the page with the flags of the programs that run permanently.
const pageFlags = "../docs/reference/flags.md"

// TestFlagsPage checks that docs/reference/flags.md contains the flags of each command that platform teams configure.
// With -update, it writes them. All other commands run only in Jobs and in pods that the product creates.
func TestFlagsPage(t *testing.T) {
	app := newParser(context.Background(), &cli{}).Model.Node
	parts, names := map[string]string{}, []string{}
	for _, c := range app.Children {
		if c.Name == "start" || c.Name == "gateway" {
			parts["controller "+c.Name] = flagpage.Table(c)
			continue
		}
		names = append(names, c.Name)
	}
	if len(parts) != 2 {
		t.Fatalf("want the commands start and gateway, got %v", parts)
	}
	slices.Sort(names)
	parts["other commands"] = "`" + strings.Join(names, "`, `") + "`.\n"
	got, _, missing := flagpage.Fill(read(t, pageFlags), parts) // A test of the function writes the other part.
	for _, name := range missing {
		t.Errorf("the page has no part for %q", name)
	}
	golden.Text(t, "../"+pageFlags, got)
}
