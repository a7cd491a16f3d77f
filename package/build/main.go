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

const usage = `Builds the Crossplane packages of this repository from package/*/crossplane.yaml and the generated files in apis/: the
function for each architecture, which contains the runtime image, and the Configurations.

    go run -C package/build . --cli "$(go run ./test/tools cli)"

With --cli, the current crossplane CLI builds the packages, without Docker. Without --cli, the CLI's library builds them.
Relative paths start at the root of the repository. New packages replace existing ones only when all of them are built.
If the command is interrupted, the existing packages are kept.

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
		// After an interruption, err would only say that the running command was killed.
		if ctx.Err() != nil {
			return errors.New("interrupted: no package was changed")
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
		"the `path` of the current crossplane CLI; go run ./test/tools cli prints it (default: the CLI's library)")
	fs.StringVar(&o.root, "root", filepath.Join("..", ".."), "the `directory` of the repository")
	fs.StringVar(&o.out, "out", "dist", "the `directory` for the packages")
	fs.StringVar(&o.version, "version", thisVersion, "the `version` that the function reports")
	fs.StringVar(&o.arch, "arch", "",
		"build the function only for this `architecture`, for example for a cluster on this machine (default: all)")
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
		return fmt.Errorf("unexpected argument %q: only flags are supported, see --help", rest[0])
	case o.push != "" && o.arch == "":
		return errors.New("cannot push the function of several architectures under one tag: " +
			"add --arch, or push with crossplane xpkg push")
	case !versionPattern.MatchString(o.version):
		return fmt.Errorf("the version %q is not valid: use the form v1.2.3", o.version)
	case len(o.packages()) == len(packages())-len(architectures()) && o.arch != "":
		return fmt.Errorf("cannot build for the architecture %q: choose one of %s", o.arch,
			strings.Join(architectures(), ", "))
	}
	return nil
}

func (o *options) resolve() error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return fmt.Errorf("cannot determine the current directory: %w", err)
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
