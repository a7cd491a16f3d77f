// Command tools builds the pinned tools of this repository and prints their paths.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `Builds the pinned tools of this repository and prints the path of each, one a line.

    go run ./test/tools NAME...

%s
The exact versions are in test/tools/NAME/go.mod. A tool is built once, which takes some minutes, into
.cache/tools/NAME-KEY/NAME of the repository; the key changes with the pinned versions and with Go's own. Paths
go to stdout, progress to stderr. Ctrl-C leaves nothing half-built. What is released is packed and pushed with cli only.
Of several tools, the modules of the next are downloaded while the first is compiled.

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.As(err, new(usageError)):
		fmt.Fprintf(os.Stderr, "tools: %v\n", err)
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "tools: %v\n", err)
		os.Exit(1)
	}
}

// A usageError is the error that the command line of this program is wrong.
type usageError string

func (e usageError) Error() string { return string(e) }

// run prints the paths only after every tool is built, so that $(go run ./test/tools …) contains all of them or none.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	names, root, err := parse(args, stdout)
	if err != nil {
		return err
	}
	if root == "" {
		if root, err = findRoot("."); err != nil {
			return err
		}
	}
	b := &builder{root: root, log: stderr, compile: goBuild, goVersion: goVersion}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go b.download(ctx, names)
	paths := make([]string, 0, len(names))
	for _, n := range names {
		p, err := b.Build(ctx, n)
		if err != nil {
			return err
		}
		paths = append(paths, p)
	}
	_, err = fmt.Fprintln(stdout, strings.Join(paths, "\n"))
	return err
}

func parse(args []string, out io.Writer) (names []string, root string, err error) {
	fs := flag.NewFlagSet("tools", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&root, "root", "", "the `directory` of the repository (default: looked for from here upwards)")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		printUsage(fs, out)
		return nil, "", flag.ErrHelp
	} else if err != nil {
		return nil, "", usageError(err.Error() + "; see go run ./test/tools --help")
	}
	if fs.NArg() == 0 {
		return nil, "", usageError("no tool named; known are " + strings.Join(known(), ", "))
	}
	for _, n := range fs.Args() {
		if _, ok := tools[n]; !ok {
			return nil, "", usageError(fmt.Sprintf("unknown tool %q; known are %s", n, strings.Join(known(), ", ")))
		}
	}
	return fs.Args(), root, nil
}

func printUsage(fs *flag.FlagSet, out io.Writer) {
	var list strings.Builder
	for _, n := range known() {
		fmt.Fprintf(&list, "    %-8s %s\n", n, tools[n].help)
	}
	_, _ = fmt.Fprintf(out, usage, list.String())
	fs.SetOutput(out)
	fs.PrintDefaults()
}
