package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A generation is a version of the Crossplane CLI with which the examples are rendered.
type generation struct {
	name string
	// tool is the path of the CLI. words are the subcommands that render an example.
	tool  string
	words []string
	// required is the name of the CLI's flag for required resources.
	required string
	// v2 is true for the CLI of Crossplane 2. This CLI accepts the XRD of an XR with a claim, and prints the function's
	// conditions.
	v2 bool
	// core is the path of the render engine, if it is not built into the CLI.
	core string
	// only lists the examples that this CLI renders, or is nil for all examples.
	only []string
}

// forV116 lists the examples that v1.16 renders in `make test`. They cover the features that v1.16 handles in its own
// way: required resources by name and by labels, observed resources, and a fatal result.
var forV116 = []string{"restore-before", "running", "name-taken"}

// generations returns the supported versions of the CLI. If all is set, v1.16 renders all examples instead of only
// forV116.
func generations(tools []string, all bool) []generation {
	today := generation{name: "crossplane render", tool: tools[0], words: []string{"render"},
		required: "--required-resources", v2: true, core: tools[1]}
	v116 := generation{name: "crossplane beta render (v1.16)", tool: tools[2], words: []string{"beta", "render"},
		required: "--extra-resources", only: forV116}
	if all {
		v116.only = nil
	}
	return []generation{today, v116}
}

// printed returns the output of a command. If its exit code is not 0, the output contains the exit code.
func printed(cmd *exec.Cmd) (string, error) {
	stdout, stderr := &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Sprintf("%sexit code %d\n%s", stdout, exit.ExitCode(), stderr), nil
	}
	return stdout.String(), err
}

// An exampleXR contains the fields of an XR on which the command depends.
type exampleXR struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		CompositionRef struct{ Name string } `json:"compositionRef"`
		ClaimRef       *v1.ClaimReference    `json:"claimRef"`
	} `json:"spec"`
}

// A definition contains the fields of an XRD that identify its XRs.
type definition struct {
	Spec struct {
		Group string                `json:"group"`
		Names struct{ Kind string } `json:"names"`
		Scope string                `json:"scope"`
	} `json:"spec"`
}

// isNamespaced reports whether the XRs are namespaced. Only the XRDs of Crossplane 2 can specify this.
func (d *definition) isNamespaced() bool { return d.Spec.Scope == "Namespaced" }

// definitionOf returns the XRD of an XR, and the XRD's file.
func definitionOf(xr *exampleXR) (*definition, string, error) {
	files, err := filepath.Glob(filepath.Join("apis", "xrd-*.yaml"))
	if err != nil {
		return nil, "", err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, "", err
		}
		d := &definition{}
		if err := yaml.Unmarshal(b, d); err != nil {
			return nil, "", errors.Wrapf(err, "cannot read %s", file)
		}
		if group, _, _ := strings.Cut(xr.APIVersion, "/"); d.Spec.Group == group && d.Spec.Names.Kind == xr.Kind {
			return d, file, nil
		}
	}
	return nil, "", errors.Errorf("no XRD in apis defines %s of %s", xr.Kind, xr.APIVersion)
}

// errNamespaced is the error for an example that a CLI cannot render, because namespaced XRs exist only since
// Crossplane 2.
var errNamespaced = errors.New("its XRD says that the XR is in a namespace")

// command returns the CLI's command that renders an example.
func (g generation) command(ctx context.Context, example string) (*exec.Cmd, error) {
	dir := filepath.Join("examples", example)
	b, err := os.ReadFile(filepath.Join(dir, "xr.yaml"))
	if err != nil {
		return nil, errors.Wrap(err, "no XR; write it, or remove the directory")
	}
	xr := &exampleXR{}
	if err := yaml.Unmarshal(b, xr); err != nil {
		return nil, errors.Wrap(err, "cannot read the XR")
	}
	xrd, file, err := definitionOf(xr)
	if err != nil {
		return nil, err
	}
	if xrd.isNamespaced() && !g.v2 {
		return nil, errNamespaced
	}
	name := map[string]string{v1.KindXMySQL: "mysql", v1.KindXDatabase: "database",
		v1.KindMySQL: "mysql-namespaced"}[xr.Kind]
	if ref := xr.Spec.CompositionRef.Name; ref != "" {
		name = ref
	}
	args := slices.Concat([]string{g.tool}, g.words)
	args = append(args, filepath.Join(dir, "xr.yaml"), filepath.Join("apis", "composition-"+name+".yaml"),
		"examples/functions.yaml")
	if g.core != "" {
		args = append(args, "--crossplane-binary", g.core)
	}
	if g.v2 && (xr.Spec.ClaimRef != nil || xrd.isNamespaced()) {
		args = append(args, "--xrd", file)
	}
	for flag, file := range map[string]string{g.required: "required.yaml", "--observed-resources": "observed.yaml"} {
		path := filepath.Join(dir, file)
		if _, err := os.Stat(path); err == nil {
			args = append(args, flag, path)
		}
	}
	return exec.CommandContext(ctx, args[0], args[1:]...), nil
}
