package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A generation of the CLI.
type generation struct {
	name string
	// tool is the program, and words are its command before the XR.
	tool  string
	words []string
	// required is the flag for required resources.
	required string
	// v2 is true for a CLI of Crossplane 2: it takes the XRD of an XR that has a claim, and prints the function's conditions.
	v2 bool
	// core is the render engine, where the CLI has none built in.
	core string
	// only lists the examples to render with it. If unset, it renders all of them.
	only []string
}

// forV116 are the examples that v1.16 renders in `make test`, one for each thing that it passes to the function or takes from it in
// its own way: required resources by name and by labels, observed resources, and a fatal result.
var forV116 = []string{"restore-before", "running", "name-taken"}

// generations of the CLI that render must work with; v1.16 renders all examples, or those of forV116.
func generations(tools []string, all bool) []generation {
	today := generation{name: "crossplane render", tool: tools[0], words: []string{"render"}, required: "--required-resources", v2: true, core: tools[1]}
	v116 := generation{name: "crossplane beta render (v1.16)", tool: tools[2], words: []string{"beta", "render"}, required: "--extra-resources", only: forV116}
	if all {
		v116.only = nil
	}
	return []generation{today, v116}
}

// printed by a command, and how it ended if that was badly.
func printed(cmd *exec.Cmd) (string, error) {
	stdout, stderr := &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Sprintf("%sexit code %d\n%s", stdout, exit.ExitCode(), stderr), nil
	}
	return stdout.String(), err
}

// command that renders an example.
func (g generation) command(ctx context.Context, example string) (*exec.Cmd, error) {
	dir := filepath.Join("examples", example)
	b, err := os.ReadFile(filepath.Join(dir, "xr.yaml"))
	if err != nil {
		return nil, errors.Wrap(err, "no XR; write it, or remove the directory")
	}
	xr := &struct {
		Kind string `json:"kind"`
		Spec struct {
			CompositionRef struct{ Name string } `json:"compositionRef"`
			ClaimRef       *v1.ClaimReference    `json:"claimRef"`
		} `json:"spec"`
	}{}
	if err := yaml.Unmarshal(b, xr); err != nil {
		return nil, errors.Wrap(err, "cannot read the XR")
	}
	xrd, name := "xrd-xmysqls.yaml", "mysql"
	if xr.Kind == v1.KindXDatabase {
		xrd, name = "xrd-xdatabases.yaml", "database"
	}
	if ref := xr.Spec.CompositionRef.Name; ref != "" {
		name = ref
	}
	args := slices.Concat([]string{g.tool}, g.words)
	args = append(args, filepath.Join(dir, "xr.yaml"), filepath.Join("apis", "composition-"+name+".yaml"), "examples/functions.yaml")
	if g.core != "" {
		args = append(args, "--crossplane-binary", g.core)
	}
	if g.v2 && xr.Spec.ClaimRef != nil {
		args = append(args, "--xrd", filepath.Join("apis", xrd))
	}
	for flag, file := range map[string]string{g.required: "required.yaml", "--observed-resources": "observed.yaml"} {
		path := filepath.Join(dir, file)
		if _, err := os.Stat(path); err == nil {
			args = append(args, flag, path)
		}
	}
	return exec.CommandContext(ctx, args[0], args[1:]...), nil
}
