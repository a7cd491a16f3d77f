// Package image makes images without a container engine or a registry, in one OCI layout: those that a test cluster
// needs itself, those of recipes that others bring, and that of a Dockerfile.
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

// DockerHub begins the full names of images that most people write without it.
const DockerHub = "docker.io/library/"

// format changes whenever the same inputs make other images, so that those of before are replaced.
const format = "3"

// A Builder keeps an OCI layout filled with images.
type Builder struct {
	// Root of the repository.
	Root string
	// Layout is the folder of the images. Each has its public name in the annotation org.opencontainers.image.ref.name.
	Layout string
	// Work is a folder for what is only there while building, and for what makes the next build quick. It is on the same
	// file system as Layout.
	Work string
	// Log takes a line for each step.
	Log io.Writer
	// Tools are paths of programs that recipes ask for.
	Tools map[string]string
	// Architectures that Dockerfile builds for, this machine's if there are none.
	Architectures []string
}

// Packages are the Debian packages that must be there.
func Packages() []string { return []string{"mmdebstrap", "buildah"} }

// A Recipe is an image that depends on its inputs and on nothing else.
type Recipe struct {
	Names  []string
	Inputs []string
	// Build makes the image; dir is an empty folder that is removed afterwards.
	Build func(ctx context.Context, dir string) (mutate.Appendable, error)
}

// key is a short name of the inputs. Lengths go in too, so that moving text from one to the next is a change.
func (r Recipe) key() string {
	sum := sha256.New()
	for _, s := range append([]string{format}, r.Inputs...) {
		_, _ = fmt.Fprintf(sum, "%d\n%s\n", len(s), s) // A hash takes everything.
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// Ensure makes the images that are not there yet, removes what they replace, and returns the names of all.
func (b *Builder) Ensure(ctx context.Context, recipes ...func(context.Context) (Recipe, error)) (names []string,
	err error) {
	s, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return b.ensureIn(ctx, s, recipes...)
}

// Compile builds the static program of a folder of the repository and returns where it is. The go command does nothing
// if it is there.
func (b *Builder) Compile(ctx context.Context, folder string) (string, error) {
	program := filepath.Base(folder)
	target := filepath.Join(b.Work, "bin", program)
	cmd := command(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", target, ".")
	cmd.Dir = filepath.Join(b.Root, folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=", "GOARCH=")
	if _, err := output(cmd); err != nil {
		return "", fmt.Errorf("cannot build %s: %w", program, err)
	}
	return target, nil
}

// Tool is the path of a binary that the caller built.
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

// open waits for other runs, whose leftovers are then nobody's.
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

// scratch is a folder below the one that open removes.
func (b *Builder) scratch() (string, error) {
	tmp := filepath.Join(b.Work, "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return "", err
	}
	return os.MkdirTemp(tmp, "")
}

// sayf is progress; that nobody reads it must not stop the work.
func (b *Builder) sayf(format string, a ...any) {
	_, _ = fmt.Fprintf(b.Log, format+"\n", a...)
}

func (b *Builder) architectures() []string {
	if len(b.Architectures) == 0 {
		return []string{runtime.GOARCH}
	}
	return slices.Clone(b.Architectures)
}

// FileSum is a hash of what is in a file.
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

// command ends with what it started: the process group gets the signal.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = inGroup()
	cmd.Cancel = func() error { return endGroup(cmd) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// output of a command, with the end of what it complained about as the error.
func output(cmd *exec.Cmd) (string, error) {
	var complaint strings.Builder
	cmd.Stderr = &complaint
	// The kernel ends the command with the thread that started it, which therefore must not go before us.
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
