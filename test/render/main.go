// Package main renders the examples with the current Crossplane CLI and with v1.16, and compares the output with the
// golden files. TestExamples in package fn writes these files. The function is started as
// docs/how-to/render-offline.md describes.
//
// If no example is named, the current CLI renders all examples. v1.16 renders three of them, or all if ALL is set.
// The program also runs the commands on that page unchanged.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"

	"github.com/crossplane-mysql/crossplane-mysql/test/readme"
)

func main() {
	show := flag.Bool("print", false, "print the output of today's CLI for the named examples, and compare nothing")
	flag.Parse()
	if flag.NArg() < 3 {
		fmt.Fprintln(os.Stderr, "usage: render [-print] CROSSPLANE CORE CROSSPLANE_1_16 [EXAMPLE...], from the top of the "+
			"repository; see `make render`")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute) // This also limits how long the processes run that it starts.
	err := render(ctx, flag.Args()[:3], flag.Args()[3:], *show)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

// render renders the examples. It returns an error if a comparison fails.
func render(ctx context.Context, tools, names []string, show bool) error {
	r, err := newRun(tools, names)
	if err != nil {
		return err
	}
	switch {
	case show:
		return r.withFunction(ctx, r.print)
	case len(names) > 0:
		err = r.withFunction(ctx, r.examples)
	default:
		err = r.everything(ctx)
	}
	fmt.Printf("%d passed, %d failed\n", r.passed, r.failed)
	if r.failed > 0 {
		err = errors.Join(err, errors.New("see the lines that begin with FAIL"))
	}
	return errors.Join(err, ctx.Err())
}

// A run contains the settings of one run of this program, and counts the comparisons that passed and failed.
type run struct {
	pages       string
	generations []generation
	names       []string

	passed, failed int
}

func newRun(tools, names []string) (*run, error) {
	all := len(names) > 0 || os.Getenv("ALL") != ""
	if len(names) == 0 {
		entries, err := os.ReadDir("examples")
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
	}
	text, err := readme.Pages(".")
	return &run{pages: text, generations: generations(tools, all), names: names}, err
}

// withFunction starts the function as docs/how-to/render-offline.md describes, calls run, and stops the function.
func (r *run) withFunction(ctx context.Context, run func(context.Context) error) error {
	command, err := starting(r.pages)
	if err != nil {
		return err
	}
	fn, err := startFunction(ctx, command)
	if err != nil {
		return err
	}
	defer fn.stop()
	return errors.Join(run(ctx), fn.running())
}

// everything runs the commands of docs/how-to/render-offline.md and renders all examples.
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

// typed runs commands from docs/how-to/render-offline.md, and compares their output with the golden files.
func (r *run) typed(ctx context.Context, all []typed) {
	for _, c := range all {
		r.entry("$ "+c.command, c.check(ctx))
	}
}

// examples renders the examples with each version of the CLI, and compares the output with the golden files.
func (r *run) examples(ctx context.Context) error {
	for _, name := range r.names {
		for _, g := range r.generations {
			if g.only != nil && !slices.Contains(g.only, name) {
				continue
			}
			cmd, err := g.command(ctx, name)
			if errors.Is(err, errNamespaced) {
				continue
			}
			if err == nil {
				err = g.compare(name, cmd)
			}
			r.entry(name+" with "+g.name, err)
		}
	}
	return nil
}

// entry prints the result of a comparison and counts it.
func (r *run) entry(subject string, err error) {
	if err != nil {
		fmt.Printf("FAIL %s: %v\n", subject, err)
		r.failed++
		return
	}
	fmt.Printf("ok   %s\n", subject)
	r.passed++
}

// print prints the examples as the current CLI renders them.
func (r *run) print(ctx context.Context) error {
	for _, name := range r.names {
		cmd, err := r.generations[0].command(ctx, name)
		if err != nil {
			return err
		}
		out, err := printed(cmd)
		if err != nil {
			return err
		}
		fmt.Print(out)
	}
	return nil
}
