package main

import (
	"testing"

	"github.com/alecthomas/kong"

	"github.com/crossplane-mysql/crossplane-mysql/test/double/flagpage"
)

// TestFlagsPage checks that docs/reference/flags.md contains the flags of the function. With -update, it writes them.
func TestFlagsPage(t *testing.T) {
	const page = "../docs/reference/flags.md"
	app, err := kong.New(&cli{}, kong.Vars{"version": version})
	if err != nil {
		t.Fatal(err)
	}
	got, _, missing := flagpage.Fill(file(t, page), map[string]string{"function": flagpage.Table(app.Model.Node)})
	if len(missing) > 0 {
		t.Errorf("the page has no part for %q", missing)
	}
	golden(t, page, got)
}
