// Command earlier builds a release of the previous commit and prints its directory. A test upgrades from this
// release.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	dir, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "earlier:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

// run builds a release of the previous commit and returns its directory. It reuses tools and images that the repository
// has already built.
func run(ctx context.Context, args []string) (string, error) {
	if len(args) != 1 {
		return "", errors.New("say by which version it is released: go run ./test/earlier v0.0.9")
	}
	version := args[0]
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".cache", "earlier")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	cache := filepath.Join(dir, ".cache")
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", err
	}
	if err := command(ctx, root, "bash", "-o", "pipefail", "-c", "git archive HEAD~1 | tar -x -C "+dir); err != nil {
		return "", fmt.Errorf("cannot have the commit before: %w", err)
	}
	for _, shared := range []string{"tools", "images"} {
		if err := os.Symlink(filepath.Join(root, ".cache", shared), filepath.Join(cache, shared)); err != nil {
			return "", err
		}
	}
	if err := nameChanges(filepath.Join(dir, "CHANGELOG.md"), version); err != nil {
		return "", err
	}
	if err := command(ctx, dir, "make", "release-image-here", "release-make", "VERSION="+version); err != nil {
		return "", fmt.Errorf("the commit before makes no release: %w", err)
	}
	return filepath.Join(dir, "dist", "release"), nil
}

var heading = regexp.MustCompile(`(?m)^## v.*$`)

// nameChanges replaces the heading of the changelog's first section, which contains the unreleased changes, with the
// version.
func nameChanges(file, version string) error {
	raw, err := os.ReadFile(file) //nolint:gosec // A file of the repository at the previous commit.
	if err != nil {
		return err
	}
	span := heading.FindIndex(raw)
	if span == nil {
		return fmt.Errorf("%s has no version", file)
	}
	return os.WriteFile(file, []byte(string(raw[:span[0]])+"## "+version+string(raw[span[1]:])), 0o600) //nolint:gosec // It was just unpacked.
}

func command(ctx context.Context, dir, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // The commands of this file.
	c.Dir, c.Stdout, c.Stderr = dir, os.Stderr, os.Stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	return c.Run()
}
