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

// A typed is a command from docs/how-to/render-offline.md that renders an example.
type typed struct {
	command string
	example string
	cli     generation
}

// exampleOf matches the example in a command of make show or of a CLI.
var exampleOf = regexp.MustCompile(`EXAMPLE=([a-z-]+)|examples/([a-z-]+)/xr\.yaml`)

// shown returns the `make show` commands on the page. They start the function themselves, so no function needs to be
// running.
func shown(text string) ([]typed, error) {
	return commands(text, "make show", generation{name: "make show", v2: true})
}

// rendered returns the commands on the page that call a version of the CLI. There must be at least one for each
// version.
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

// commands returns the commands on the page docs/how-to/render-offline.md that begin with words and name an example.
func commands(text, words string, g generation) ([]typed, error) {
	var all []typed
	for _, c := range readme.Typed(text, words) {
		m := exampleOf.FindStringSubmatch(c)
		if m == nil {
			continue // The page mentions the command without an example.
		}
		all = append(all, typed{command: c, example: m[1] + m[2], cli: g})
	}
	if len(all) == 0 {
		return nil, errors.Errorf("docs/how-to/render-offline.md has no command of %s for an example", g.name)
	}
	return all, nil
}

// starting returns the command on the page docs/how-to/render-offline.md that starts the function.
func starting(text string) (string, error) {
	found := readme.Typed(text, "go run ./fn")
	if len(found) != 1 {
		return "", errors.Errorf("docs/how-to/render-offline.md: want one command that starts the function, got %q", found)
	}
	return found[0], nil
}

// check runs the command and compares its output with the golden file of its example.
func (c typed) check(ctx context.Context) error {
	command := c.command
	if c.cli.tool != "" {
		command = fmt.Sprintf("crossplane() { '%s' \"$@\"; }\n%s", c.cli.tool, c.command)
	}
	cmd := shell(ctx, command)
	// Remove make's variables, which a user's shell does not have. With them, an inner make would print its directory.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})
	return c.cli.compare(c.example, cmd)
}
