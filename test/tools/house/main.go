// Command house measures the code of a Go module and fails if a limit is exceeded. It only parses the code, so that
// it is fast enough to run with each lint. With -figures, it prints additional figures, which have no limits. They
// require a type check of all packages, which takes about a minute of CPU time.
//
// The argument is the root directory of the repository. If the root directories of several modules are given, their
// figures are compared.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

func main() {
	figures := flag.Bool("figures", false, "print the figures that need a type check, which have no limit")
	flag.Parse()
	if err := run(os.Stdout, *figures, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, figures bool, roots []string) error {
	if len(roots) == 0 {
		roots = []string{"."}
	}
	var errs []error
	for _, root := range roots {
		if figures {
			errs = append(errs, printFigures(out, root))
		} else {
			errs = append(errs, checkLimits(out, root))
		}
	}
	return errors.Join(errs...)
}

func printFigures(out io.Writer, root string) error {
	m, err := load(root)
	if err != nil {
		return fmt.Errorf("cannot measure %s: %w", root, err)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range m.figures() {
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\n", f.value, f.text, strings.Join(f.examples, ", ")); err != nil {
			return err
		}
	}
	return w.Flush()
}
