package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"

	"github.com/crossplane-mysql/crossplane-mysql/test/readme"
)

// A typed command is one of docs/render.md's, which prints what the golden file says.
type typed struct {
	command string
	golden  string
	// tool is what the command calls crossplane.
	tool string
}

// exampleOf a command: that of make show, or that whose XR a CLI gets.
var exampleOf = regexp.MustCompile(`EXAMPLE=([a-z-]+)|examples/([a-z-]+)/xr\.yaml`)

// shown are the page's commands that start a function of their own.
func shown(text string) ([]typed, error) {
	return commands(text, "make show", generation{name: "make show", golden: "render.txt"})
}

// rendered are the page's commands of the CLIs, at least one of each.
func rendered(text string, runs []generation) ([]typed, error) {
	var all []typed
	for _, g := range runs {
		found, err := commands(text, "crossplane "+strings.Join(g.command, " "), g)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// commands that begin with these words and name an example.
func commands(text, words string, g generation) ([]typed, error) {
	var all []typed
	for _, c := range readme.Typed(text, words) {
		m := exampleOf.FindStringSubmatch(c)
		if m == nil {
			continue // It speaks of the command, and does not type it.
		}
		all = append(all, typed{command: c, tool: g.tool, golden: filepath.Join("examples", m[1]+m[2], "expected", g.golden)})
	}
	if len(all) == 0 {
		return nil, errors.Errorf("docs/render.md has no command of %s for an example", g.name)
	}
	return all, nil
}

// starting is the page's command that starts the function.
func starting(text string) (string, error) {
	found := readme.Typed(text, "go run ./fn")
	if len(found) != 1 {
		return "", errors.Errorf("docs/render.md: want one command that starts the function, got %q", found)
	}
	return found[0], nil
}

// check what the command prints.
func (c typed) check(ctx context.Context, dir string) error {
	cmd := shell(ctx, c.command)
	cmd.Env = own(os.Environ())
	if c.tool != "" {
		bin, err := named(dir, c.tool)
		if err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	got, err := printed(cmd)
	if err != nil {
		return err
	}
	return compare(c.golden, got)
}

// own environment of a shell, and not that of the make which called this program: it would make another make say where
// it works.
func own(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})
}

// named makes a folder in which the tool is called crossplane.
func named(dir, tool string) (string, error) {
	bin, err := os.MkdirTemp(dir, "bin-")
	if err != nil {
		return "", err
	}
	path, err := exec.LookPath(tool)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	return bin, os.Symlink(path, filepath.Join(bin, "crossplane"))
}
