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

	"github.com/crossplane-mysql/crossplane-mysql/test/readme"
)

const usage = `render [flags] CROSSPLANE CORE CROSSPLANE_1_16 [EXAMPLE...]

Starts the function as docs/render.md says, renders the examples (all of them unless
some are named) with both CLIs and examples/functions.yaml, and compares what
they print with EXAMPLE/expected. Where no example is named it also types the
commands of that page as they stand. The programs are those that ` + "`go run ./test/tools cli core cli116`" + `
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
	r, err := newRun(dir, tools, names, update)
	if err != nil {
		return 0, err
	}
	switch {
	case show:
		return 0, r.withFunction(ctx, r.print)
	case update || len(names) > 0:
		err = r.withFunction(ctx, r.examples)
	default:
		err = r.everything(ctx)
	}
	fmt.Printf("%d passed, %d failed\n", r.passed, r.failed)
	return r.failed, errors.Join(err, ctx.Err())
}

// A run is one of this program.
type run struct {
	// dir is a temporary folder.
	dir         string
	pages       string
	generations []generation
	names       []string
	update      bool

	passed, failed int
}

func newRun(dir string, tools, names []string, update bool) (*run, error) {
	all, err := examples("examples")
	if err != nil {
		return nil, err
	}
	chosen, err := choose(all, names)
	if err != nil {
		return nil, err
	}
	text, err := readme.Pages(".")
	return &run{dir: dir, pages: text, generations: generations(tools), names: chosen, update: update}, err
}

// withFunction that is started as docs/render.md says.
func (r *run) withFunction(ctx context.Context, do func(context.Context) error) error {
	command, err := starting(r.pages)
	if err != nil {
		return err
	}
	fn, err := startFunction(ctx, command)
	if err != nil {
		return err
	}
	defer fn.stop()
	return errors.Join(do(ctx), fn.running())
}

// everything that docs/render.md says of rendering: its commands, and all examples.
func (r *run) everything(ctx context.Context) error {
	alone, err := shown(r.pages)
	if err != nil {
		return err
	}
	r.typed(ctx, alone)
	return r.withFunction(ctx, func(ctx context.Context) error {
		beside, err := rendered(r.pages, r.generations)
		if err != nil {
			return err
		}
		r.typed(ctx, beside)
		return r.examples(ctx)
	})
}

// typed commands.
func (r *run) typed(ctx context.Context, all []typed) {
	for _, c := range all {
		r.note("$ "+c.command, c.check(ctx, r.dir))
	}
}

// examples of the run, with each generation.
func (r *run) examples(ctx context.Context) error {
	for _, name := range r.names {
		for _, g := range r.generations {
			r.note(name+" with "+g.name, g.check(ctx, filepath.Join("examples", name), r.update))
		}
	}
	return nil
}

// note whether something is as it should be.
func (r *run) note(what string, err error) {
	if err != nil {
		fmt.Printf("FAIL %s: %v\n", what, err)
		r.failed++
		return
	}
	fmt.Printf("ok   %s\n", what)
	r.passed++
}

// print what today's CLI says.
func (r *run) print(ctx context.Context) error {
	for _, name := range r.names {
		out, err := r.generations[0].run(ctx, filepath.Join("examples", name))
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
