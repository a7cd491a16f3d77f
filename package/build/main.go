// Command build builds the Crossplane packages of this repository.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const usage = `Makes the Crossplane packages of this repository: the function for each architecture, with the runtime image inside,
and the Configurations, from package/*/crossplane.yaml and the generated files in apis/.

    go run -C package/build . --cli "$(go run ./test/tools cli)"

With --cli, today's crossplane CLI packs them, without Docker; the old one of 1.16 is not needed for any package.
Without it, the library that the CLI calls does. Relative paths are taken from the repository, wherever this is run. The
packages appear when all of them are done; Ctrl-C leaves those that were there.

Flags:
`

// versionPattern matches tags that Crossplane can resolve as the version of a dependency.
var versionPattern = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// options are the options of the command line. Every path is absolute.
type options struct {
	cli     string
	root    string
	out     string
	version string
	arch    string
	push    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "build: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	b := &builder{options: o, log: out, start: time.Now()}
	if err := b.Build(ctx); err != nil {
		// The error of the command would only say that it was killed.
		if ctx.Err() != nil {
			return errors.New("interrupted, no package was changed")
		}
		return err
	}
	return nil
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("build", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.cli, "cli", "",
		"the `path` of today's crossplane CLI; go run ./test/tools cli prints it (default: the CLI's library)")
	fs.StringVar(&o.root, "root", filepath.Join("..", ".."), "the `directory` of the repository, seen from here")
	fs.StringVar(&o.out, "out", "dist", "the `directory` for the packages")
	fs.StringVar(&o.version, "version", thisVersion, "the `version` that the function says it is")
	fs.StringVar(&o.arch, "arch", "",
		"build the function for this `architecture` only, for a cluster on this machine (default: for all)")
	fs.StringVar(&o.push, "push", "",
		"push the packages to this `registry`, such as 127.0.0.1:5000/crossplane-mysql; needs --arch")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprint(out, usage)
		fs.SetOutput(out)
		fs.PrintDefaults()
		return o, flag.ErrHelp
	} else if err != nil {
		return o, fmt.Errorf("%w; see --help", err)
	}
	if err := o.check(fs.Args()); err != nil {
		return o, err
	}
	return o, o.resolve()
}

func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("cannot use the argument %q: everything is a flag, see --help", rest[0])
	case o.push != "" && o.arch == "":
		return errors.New("cannot push the function of several architectures under one tag: " +
			"add --arch, or push with crossplane xpkg push")
	case !versionPattern.MatchString(o.version):
		return fmt.Errorf("cannot use the version %q: write it like v1.2.3", o.version)
	case len(o.packages()) == len(packages())-len(architectures()) && o.arch != "":
		return fmt.Errorf("cannot build for the architecture %q: choose one of %s", o.arch,
			strings.Join(architectures(), ", "))
	}
	return nil
}

func (o *options) resolve() error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return fmt.Errorf("cannot tell the current directory: %w", err)
	}
	o.root = root
	for _, p := range []*string{&o.cli, &o.out} {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(root, *p)
		}
	}
	if o.cli == "" {
		return nil
	}
	if _, err := os.Stat(o.cli); err != nil {
		return fmt.Errorf(`cannot find the crossplane CLI, build it with "go run ./test/tools cli": %w`, err)
	}
	return nil
}
