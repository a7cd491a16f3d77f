package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// killAfter is the time that a command has to clean up after SIGINT. After that, it is killed.
const killAfter = 10 * time.Second

// A builder builds all Crossplane packages of this repository. If one build fails, no existing package is changed.
type builder struct {
	options

	log   io.Writer
	start time.Time
}

// Build builds the packages in a directory inside the output directory, because a rename is atomic only within one
// file system.
func (b *builder) Build(ctx context.Context) error {
	if err := os.MkdirAll(b.out, 0o750); err != nil {
		return fmt.Errorf("cannot create the output directory: %w", err)
	}
	tmp, err := os.MkdirTemp(b.out, ".building-*")
	if err != nil {
		return fmt.Errorf("cannot create a working directory: %w", err)
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // The directory is hidden, so leftover files do no harm.

	for _, p := range b.packages() {
		if err := b.pack(ctx, p, tmp); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return b.publish(ctx, tmp)
}

func (b *builder) pack(ctx context.Context, p pkg, tmp string) error {
	root := filepath.Join(tmp, p.file+".root")
	if err := p.stage(b.root, root, b.version); err != nil {
		return err
	}
	c := content{root: root, file: filepath.Join(tmp, p.file)}
	if p.arch != "" {
		var err error
		if c.runtime, err = b.runtime(ctx, p, tmp); err != nil {
			return err
		}
	}
	b.sayf("packing %s", p.file)
	pack := c.packWithLibrary
	if b.cli != "" {
		pack = func(ctx context.Context) error { return b.packWithCLI(ctx, c) }
	}
	if err := pack(ctx); err != nil {
		return fmt.Errorf("cannot pack %s: %w", p.file, err)
	}
	return nil
}

// packWithCLI builds a package as a user would. It sets the directory of the examples, because the CLI would
// otherwise include the directory examples in the current directory. In this repository, these are test cases and not
// samples.
func (b *builder) packWithCLI(ctx context.Context, c content) error {
	args := []string{
		"xpkg", "build", "--package-root", c.root, "--examples-root", c.examples(), "--package-file", c.file,
	}
	if c.runtime != "" {
		args = append(args, "--embed-runtime-image-tarball", c.runtime)
	}
	if err := b.command(ctx, b.cli, args...).Run(); err != nil {
		return fmt.Errorf("crossplane xpkg build: %w", err)
	}
	return nil
}

// runtime compiles the function and returns the tarball of an image that contains it.
func (b *builder) runtime(ctx context.Context, p pkg, tmp string) (string, error) {
	b.sayf("compiling the function for linux/%s, which takes some minutes the first time", p.arch)
	bin := filepath.Join(tmp, "function-"+p.arch)
	cmd := b.command(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags=-s -w -X=main.version="+b.version, "-o", bin, "./fn")
	cmd.Dir = b.root
	// An interrupted go command leaves temporary files. In tmp, they are deleted together with the other files.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+p.arch, "GOWORK=off", "GOTMPDIR="+tmp)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cannot compile the function for linux/%s: %w", p.arch, err)
	}
	tarball := filepath.Join(tmp, "runtime-"+p.arch+".tar")
	if err := writeImage(tarball, bin, p.arch, b.version); err != nil {
		return "", fmt.Errorf("cannot create the runtime image for linux/%s: %w", p.arch, err)
	}
	return tarball, nil
}

// command returns a command with its own process group. The go command does not stop its compilers, so the whole
// group must be stopped.
func (b *builder) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = b.log, b.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = killAfter
	return cmd
}

func (b *builder) publish(ctx context.Context, tmp string) error {
	for _, p := range b.packages() {
		target := filepath.Join(b.out, p.file)
		if err := os.Rename(filepath.Join(tmp, p.file), target); err != nil {
			return fmt.Errorf("cannot move %s to the output directory: %w", p.file, err)
		}
	}
	if b.push != "" {
		if err := b.pushAll(ctx); err != nil {
			return err
		}
	}
	b.sayf("done")
	for _, p := range b.packages() {
		info, err := os.Stat(filepath.Join(b.out, p.file))
		if err != nil {
			return fmt.Errorf("cannot find the package that was just built: %w", err)
		}
		_, _ = fmt.Fprintf(b.log, "%9.1f KB  %s\n", float64(info.Size())/1000, filepath.Join(b.out, p.file))
	}
	return nil
}

// sayf prints the progress of the build. It ignores errors, because the build must continue if a line cannot be
// printed.
func (b *builder) sayf(format string, a ...any) {
	_, _ = fmt.Fprintf(b.log, "[%4.0fs] %s\n", time.Since(b.start).Seconds(), fmt.Sprintf(format, a...))
}
