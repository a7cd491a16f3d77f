// Command release builds the files of a release and publishes them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

const description = `Builds a release in one directory: the image for each architecture, the Crossplane packages, the Helm chart, the manifests,
the kubectl plugin for each platform with its krew manifest, an SBOM for each program, the release notes from CHANGELOG.md,
and the checksums of these files. Only the command push publishes them.`

// cli contains the commands of the program, which kong parses.
type cli struct {
	Make makeCmd `cmd:"" help:"Build all files of the release. If one fails, no file is replaced."`
	Push pushCmd `cmd:"" help:"Push the image, the packages and the chart to a registry, and print their digests."`
}

func main() {
	var c cli
	k := kong.Parse(&c, kong.Name("release"), kong.Description(description))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	k.BindTo(ctx, (*context.Context)(nil))
	err := k.Run()
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// A workshop builds the files of a release in a directory.
type workshop struct {
	root, dir, version string
	tools              tools
	start              time.Time
}

// tools are the paths of the required programs.
type tools struct {
	CLI       string `help:"The current crossplane CLI: go run ./test/tools cli."         name:"cli"       required:"" type:"existingfile"`
	Helm      string `help:"Helm: go run ./test/tools helm."                          name:"helm"      required:"" type:"existingfile"`
	Kube      string `help:"kubectl with kustomize, which builds the manifests: go run ./test/tools kube." name:"kube"      required:"" type:"existingfile"`
	CycloneDX string `help:"cyclonedx-gomod, which writes the SBOMs: go run ./test/tools cyclonedx."         name:"cyclonedx" required:"" type:"existingfile"`
}

// makeCmd is the command `release make`, which builds all files of a release.
type makeCmd struct {
	tools

	Version string `help:"Version, such as v1.2.3. CHANGELOG.md must contain a section about it." required:""`
	Image   string `help:"Directory with the Dockerfile's image for each architecture, as an OCI layout." required:"" type:"existingdir"`
	Root    string `default:"../.." help:"The repository." type:"path"`
	Out     string `default:"../../dist/release" help:"Directory for the release, which is replaced." type:"path"`
}

// Run builds the release. The directory gets its final name only when the release is complete.
func (c *makeCmd) Run(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(c.Out), 0o750); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(c.Out), ".release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // The directory is hidden, so leftover files do no harm.
	w := &workshop{root: c.Root, dir: tmp, version: c.Version, tools: c.tools, start: time.Now()}
	for _, step := range []struct {
		subject string
		run     func(context.Context) error
	}{
		{"the notes", w.notes},
		{"the image", func(context.Context) error { return w.image(c.Image) }},
		{"the packages", w.packages},
		{"the chart", w.chart},
		{"the manifests", w.manifests},
		{"the kubectl plugin", w.plugins},
		{"the SBOMs", w.materials},
		{"the checksums", func(context.Context) error { return writeSums(tmp) }},
	} {
		w.sayf("%s", step.subject)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.subject, err)
		}
		if ctx.Err() != nil {
			return errors.New("interrupted: nothing was changed")
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil { //nolint:gosec // All users may read it.
		return err
	}
	if err := os.RemoveAll(c.Out); err != nil {
		return err
	}
	if err := os.Rename(tmp, c.Out); err != nil {
		return err
	}
	w.sayf("release %s is in %s", c.Version, c.Out)
	return nil
}

func (w *workshop) sayf(format string, a ...any) {
	fmt.Fprintf(os.Stderr, "[%4.0fs] %s\n", time.Since(w.start).Seconds(), fmt.Sprintf(format, a...))
}

// command returns a command that runs in the repository. If it is stopped, its child processes are stopped, too.
func (w *workshop) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = w.root, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs a program in the repository and waits for it.
func (w *workshop) run(ctx context.Context, name string, args ...string) error {
	return ran(w.command(ctx, name, args...).Run(), name, args)
}

// output runs a program in the repository and returns its standard output.
func (w *workshop) output(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := w.command(ctx, name, args...).Output()
	return out, ran(err, name, args)
}

func ran(err error, name string, args []string) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args[:min(2, len(args))], " "), err)
	}
	return nil
}

// file returns the path of a file in the directory of the release.
func (w *workshop) file(name string) string { return filepath.Join(w.dir, name) }

// bare returns the version without the leading v, as in the names of Helm charts and archives.
func (w *workshop) bare() string { return strings.TrimPrefix(w.version, "v") }

func (w *workshop) write(name string, content []byte) error {
	return os.WriteFile(w.file(name), content, 0o644)
}
