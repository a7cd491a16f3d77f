// Package image builds container images and stores them in an OCI layout, without a container engine or a registry.
// It builds the images that a test cluster itself needs, images that callers describe with a Recipe, and the image of
// the repository's Dockerfile.
package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// DockerHub is the prefix of full image names that is usually omitted.
const DockerHub = "docker.io/library/"

// format is part of the key of each image. It must be changed whenever this package would build a different image
// from the same inputs, so that existing images are rebuilt.
const format = "3"

// A Builder builds images in an OCI layout.
type Builder struct {
	// Root is the root directory of the repository.
	Root string
	// Layout is the directory of the OCI layout. Each image in it has its name in a public registry as the annotation
	// org.opencontainers.image.ref.name.
	Layout string
	// Work is a directory for temporary files and caches of the build. It must be on the same file system as Layout.
	Work string
	// Log receives a line for each step.
	Log io.Writer
	// Tools contains the paths of programs that recipes need.
	Tools map[string]string
	// Architectures are the architectures that Dockerfile builds. The default is the architecture of this machine.
	Architectures []string
}

// Packages returns the Debian packages that must be installed on this machine to build images.
func Packages() []string { return []string{"mmdebstrap", "buildah"} }

// A Recipe describes how to build an image. The image is rebuilt only if Inputs change, so they must include
// everything that affects the image.
type Recipe struct {
	Names  []string
	Inputs []string
	// Build builds the image. dir is an empty directory that is removed after the build.
	Build func(ctx context.Context, dir string) (mutate.Appendable, error)
}

// key returns a short hash of the inputs. It includes their lengths, so that the hash changes if text moves from one
// input to the next.
func (r Recipe) key() string {
	sum := sha256.New()
	for _, s := range append([]string{format}, r.Inputs...) {
		_, _ = fmt.Fprintf(sum, "%d\n%s\n", len(s), s) // Writing to a hash never fails.
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// Ensure builds the missing images and removes the images that they replace. It returns the names of all images.
func (b *Builder) Ensure(ctx context.Context, recipes ...func(context.Context) (Recipe, error)) (names []string,
	err error) {
	s, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return b.ensureIn(ctx, s, recipes...)
}

// Compile builds the static program in a directory of the repository and returns its path. If the program is up to
// date, the go command does nothing.
func (b *Builder) Compile(ctx context.Context, dir string) (string, error) {
	program := filepath.Base(dir)
	target := filepath.Join(b.Work, "bin", program)
	cmd := command(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", target, ".")
	cmd.Dir = filepath.Join(b.Root, dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=", "GOARCH=")
	if _, err := output(cmd); err != nil {
		return "", fmt.Errorf("cannot build %s: %w", program, err)
	}
	return target, nil
}

// Tool returns the path of a program that the caller has built and added to Tools.
func (b *Builder) Tool(name string) (string, error) {
	if p := b.Tools[name]; p != "" {
		return p, nil
	}
	return "", fmt.Errorf("cannot find the program %q: build it with test/tools", name)
}

func (b *Builder) ensureIn(ctx context.Context, s *store, recipes ...func(context.Context) (Recipe, error)) (
	names []string, err error) {
	for _, make := range recipes {
		r, err := make(ctx)
		if err != nil {
			return nil, err
		}
		if err := b.ensureOne(ctx, s, r); err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("cannot make the image %s: interrupted", r.Names[0])
			}
			return nil, fmt.Errorf("cannot make the image %s: %w", r.Names[0], err)
		}
		names = append(names, r.Names...)
	}
	return names, nil
}

func (b *Builder) ensureOne(ctx context.Context, s *store, r Recipe) error {
	if s.has(r.Names, r.key()) {
		return nil
	}
	start := time.Now()
	b.sayf("making the image %s", r.Names[0])
	dir, err := b.scratch()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // The next run tries again.
	made, err := r.Build(ctx, dir)
	if err != nil {
		return err
	}
	if err := s.put(r.Names, r.key(), made); err != nil {
		return err
	}
	b.sayf("made the image %s in %s", r.Names[0], time.Since(start).Round(100*time.Millisecond))
	return nil
}

// open opens the OCI layout for the images. It waits until no other process has it open, and removes the temporary
// files of earlier runs.
func (b *Builder) open(ctx context.Context) (*store, error) {
	if err := os.MkdirAll(b.Work, 0o700); err != nil {
		return nil, err
	}
	s, err := openStore(ctx, b.Layout, b.sayf)
	if err != nil {
		return nil, fmt.Errorf("cannot open the images: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(b.Work, "tmp")); err != nil {
		s.close()
		return nil, fmt.Errorf("cannot remove what an earlier run left: %w", err)
	}
	return s, nil
}

// scratch creates a temporary directory for a build. If it is not removed, the next call of open removes it.
func (b *Builder) scratch() (string, error) {
	tmp := filepath.Join(b.Work, "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return "", err
	}
	return os.MkdirTemp(tmp, "")
}

// sayf prints a line to the log. It ignores errors, because the work must continue if a line cannot be printed.
func (b *Builder) sayf(format string, a ...any) {
	_, _ = fmt.Fprintf(b.Log, format+"\n", a...)
}

func (b *Builder) architectures() []string {
	if len(b.Architectures) == 0 {
		return []string{runtime.GOARCH}
	}
	return slices.Clone(b.Architectures)
}

// FileSum returns a hash of a file's content.
func FileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// command returns a command in a process group of its own, so that its children are stopped with it.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = inGroup()
	cmd.Cancel = func() error { return endGroup(cmd) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// output runs a command and returns its output. If the command fails, the error contains the end of its standard
// error.
func output(cmd *exec.Cmd) (string, error) {
	var complaint strings.Builder
	cmd.Stderr = &complaint
	// The kernel kills the command when the thread that started it exits (Pdeathsig), so the thread must exist as long
	// as the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, lastLines(complaint.String(), 20))
	}
	return string(out), nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
