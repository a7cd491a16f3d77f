package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"

	"github.com/crossplane-mysql/crossplane-mysql/test/readme"
)

// A typed command is one of docs/how-to/render-offline.md's. It calls the tool of its generation crossplane.
type typed struct {
	command string
	example string
	cli     generation
}

// exampleOf a command: that of make show, or that whose XR a CLI gets.
var exampleOf = regexp.MustCompile(`EXAMPLE=([a-z-]+)|examples/([a-z-]+)/xr\.yaml`)

// shown are the page's commands that start a function of their own.
func shown(text string) ([]typed, error) {
	return commands(text, "make show", generation{name: "make show", v2: true})
}

// rendered are the page's commands of the CLIs, at least one of each.
func rendered(text string, runs []generation) ([]typed, error) {
	var all []typed
	for _, g := range runs {
		found, err := commands(text, "crossplane "+strings.Join(g.words, " "), g)
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
		all = append(all, typed{command: c, example: m[1] + m[2], cli: g})
	}
	if len(all) == 0 {
		return nil, errors.Errorf("docs/how-to/render-offline.md has no command of %s for an example", g.name)
	}
	return all, nil
}

// starting is the page's command that starts the function.
func starting(text string) (string, error) {
	found := readme.Typed(text, "go run ./fn")
	if len(found) != 1 {
		return "", errors.Errorf("docs/how-to/render-offline.md: want one command that starts the function, got %q", found)
	}
	return found[0], nil
}

// check what the command prints.
func (c typed) check(ctx context.Context) error {
	command := c.command
	if c.cli.tool != "" {
		command = fmt.Sprintf("crossplane() { '%s' \"$@\"; }\n%s", c.cli.tool, c.command)
	}
	cmd := shell(ctx, command)
	// A user's shell does not have the variables of a make, which let another make print its directory.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})
	return c.cli.compare(c.example, cmd)
}
