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
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A generation of the CLI.
type generation struct {
	name string
	// golden file in the example's folder expected.
	golden string
	// tool is the program.
	tool string
	// command of it, before the XR.
	command []string
	// required is the flag for required resources.
	required string
	// xrd is true where the CLI wants one to know that an XR has a claim.
	xrd bool
	// core is the render engine, where the CLI has none built in.
	core string
}

// functionsFile says that the Compositions' function runs on this machine.
const functionsFile = "examples/functions.yaml"

// generations of the CLI that render must work with.
func generations(tools []string) []generation {
	return []generation{
		{name: "crossplane render", golden: "render.txt", tool: tools[0], command: []string{"render"}, required: "--required-resources", xrd: true, core: tools[1]},
		{name: "crossplane beta render (v1.16)", golden: "beta-render.txt", tool: tools[2], command: []string{"beta", "render"}, required: "--extra-resources"},
	}
}

// check an example against its golden file, or write that.
func (g generation) check(ctx context.Context, example string, update bool) error {
	got, err := g.run(ctx, example)
	if err != nil {
		return err
	}
	if !update {
		return compare(filepath.Join(example, "expected", g.golden), got)
	}
	path := filepath.Join(example, "expected", g.golden)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(got), 0o644)
}

// compare what was printed with a golden file.
func compare(golden, got string) error {
	want, err := os.ReadFile(golden)
	if err != nil {
		return errors.Wrap(err, "no golden file; `make render-update` writes it")
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		return errors.Errorf("-want, +got:\n%s", diff)
	}
	return nil
}

// run the CLI on an example. What it refuses is a result too: its exit code and
// what it says.
func (g generation) run(ctx context.Context, example string) (string, error) {
	args, err := g.args(example)
	if err != nil {
		return "", err
	}
	return printed(exec.CommandContext(ctx, args[0], args[1:]...))
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

func (g generation) args(example string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(example, "xr.yaml"))
	if err != nil {
		return nil, err
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
	args := slices.Concat([]string{g.tool}, g.command)
	args = append(args, filepath.Join(example, "xr.yaml"), filepath.Join("apis", "composition-"+name+".yaml"), functionsFile)
	if g.core != "" {
		args = append(args, "--crossplane-binary", g.core)
	}
	if g.xrd && xr.Spec.ClaimRef != nil {
		args = append(args, "--xrd", filepath.Join("apis", xrd))
	}
	for flag, file := range map[string]string{g.required: "required.yaml", "--observed-resources": "observed.yaml"} {
		if path := filepath.Join(example, file); exists(path) {
			args = append(args, flag, path)
		}
	}
	return args, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
