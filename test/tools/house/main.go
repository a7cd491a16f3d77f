// Command house measures how far the code of a Go module is from what its next reader wants: by the root of the
// repository, or by the folders that it is called with, each the root of a module, so that others can be set beside it.
//
// It measures the product, not its tests: packages below test/ are left out, and so are files that are generated.
package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(roots []string) error {
	if len(roots) == 0 {
		roots = []string{"."}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, root := range roots {
		m, err := load(root)
		if err != nil {
			return fmt.Errorf("cannot measure %s: %w", root, err)
		}
		for _, f := range m.figures() {
			if _, err := fmt.Fprintf(w, "%s\t%s\t%s\n", f.value, f.what, strings.Join(f.which, ", ")); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}
