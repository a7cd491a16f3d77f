// Package main renders every example with the real Crossplane CLIs, of today and
// of v1.16, and compares what they print with the example's golden files.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
)

const usage = `render [flags] CROSSPLANE CORE CROSSPLANE_1_16 [EXAMPLE...]

Starts the function once, on a free loopback port, renders the examples (all of
them unless some are named) with both CLIs, and compares what they print with
EXAMPLE/expected. The programs are those that ` + "`go run ./test/tools cli core cli116`" + `
prints. Run it from the top of the repository; ` + "`make render`" + ` does.

Flags:
`

// timeout of the whole run. Nothing that it starts lives longer.
const timeout = 15 * time.Minute

func main() {
	update := flag.Bool("update", false, "write the golden files instead of comparing them")
	show := flag.Bool("print", false, "print what today's CLI says of the named examples, and compare nothing")
	flag.Usage = func() {
		_, _ = fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 3 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	failed, err := render(ctx, flag.Args()[:3], flag.Args()[3:], *update, *show)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// render the examples and return how many comparisons failed.
func render(ctx context.Context, tools, names []string, update, show bool) (int, error) {
	dir, err := os.MkdirTemp("", "render-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // A temporary folder.
	all, err := examples("examples")
	if err != nil {
		return 0, err
	}
	if names, err = choose(all, names); err != nil {
		return 0, err
	}
	fn, err := startFunction(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer fn.stop()
	runs, err := generations(dir, tools, fn.address)
	if err != nil {
		return 0, err
	}
	if show {
		return 0, printAll(ctx, runs[0], names)
	}
	passed, failed := 0, 0
	for _, name := range names {
		for _, g := range runs {
			if err := g.check(ctx, filepath.Join("examples", name), update); err != nil {
				fmt.Printf("FAIL %s with %s: %v\n", name, g.name, err)
				failed++
				continue
			}
			fmt.Printf("ok   %s with %s\n", name, g.name)
			passed++
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	return failed, ctx.Err()
}

func printAll(ctx context.Context, g generation, names []string) error {
	for _, name := range names {
		out, err := g.run(ctx, filepath.Join("examples", name))
		if err != nil {
			return err
		}
		fmt.Print(out)
	}
	return nil
}

// examples are the folders that hold an XR.
func examples(root string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, "*", "xr.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Errorf("no example under %s: run this from the top of the repository", root)
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = filepath.Base(filepath.Dir(f))
	}
	slices.Sort(names)
	return names, nil
}

// choose the named examples, or all.
func choose(all, names []string) ([]string, error) {
	if len(names) == 0 {
		return all, nil
	}
	for _, n := range names {
		if !slices.Contains(all, n) {
			return nil, errors.Errorf("no example %q; there are %q", n, all)
		}
	}
	return names, nil
}
