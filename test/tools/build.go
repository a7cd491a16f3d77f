package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	progressEvery = 15 * time.Second
	lockEvery     = 500 * time.Millisecond
	killAfter     = 10 * time.Second
)

// A builder builds the pinned tools of this repository into a cache below its root directory.
type builder struct {
	root string
	log  io.Writer

	compile   func(ctx context.Context, dir, out string, args []string) error
	goVersion func(ctx context.Context, dir string) (string, error)
}

// Build returns the path of a tool. It builds the tool if the cache does not contain it.
func (b *builder) Build(ctx context.Context, name string) (string, error) {
	t := tools[name]
	dir := filepath.Join(b.root, modulesDir, t.moduleDir(name))
	p, err := readPin(dir)
	if err != nil {
		return "", err
	}
	version, err := p.Version(t.module)
	if err != nil {
		return "", err
	}
	if p.goVersion, err = b.goVersion(ctx, dir); err != nil {
		return "", err
	}
	p.args = buildArgs(t, version)

	bin := filepath.Join(b.root, cacheDir, name+"-"+p.Key(), name)
	if exists(bin) {
		return bin, nil
	}
	title := t.title + " " + version
	if err := b.locked(ctx, bin, title, func() error { return b.buildNow(ctx, dir, bin, title, p.args) }); err != nil {
		return "", fmt.Errorf("cannot build %s: %w", title, err)
	}
	return bin, nil
}

// download downloads the modules of the tools that are not built yet, while the first tool is being compiled. It
// ignores errors, because the build reports them as well.
func (b *builder) download(ctx context.Context, names []string) {
	for _, name := range names[1:] {
		t := tools[name]
		built, err := filepath.Glob(filepath.Join(b.root, cacheDir, name+"-*", name))
		if err != nil || len(built) > 0 {
			continue // Its modules exist, unless its version has changed.
		}
		args := buildArgs(t, "")
		_ = goCommand(ctx, filepath.Join(b.root, modulesDir, t.moduleDir(name)), "list", "-deps", args[len(args)-1]).Run()
	}
}

// buildArgs returns the arguments of the build, which are also part of the cache key. The linker flags remove the
// debug information, which is a third of each file, and do not affect compilation. With -trimpath, as in the
// Makefile, Go compiles a package only once for all modules that require the same version.
func buildArgs(t tool, version string) []string {
	ld := "-s -w"
	if t.versionVar != "" {
		ld += " -X=" + t.versionVar + "=" + version
	}
	pkg := t.pkg
	if pkg == "" {
		pkg = "tool" // This selects the tool that go.mod names.
	}
	return []string{"-trimpath", "-mod=readonly", "-ldflags=" + ld, pkg}
}

// locked prevents two runs from building the same tool at the same time (make -j). If a run is killed, the kernel
// releases the lock, so other runs are not blocked.
func (b *builder) locked(ctx context.Context, bin, title string, run func() error) error {
	if err := os.MkdirAll(filepath.Dir(bin), 0o750); err != nil {
		return err
	}
	l, err := os.OpenFile(filepath.Join(filepath.Dir(bin), ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // Nothing was written.
	if err := b.wait(ctx, l, title); err != nil {
		return err
	}
	if exists(bin) {
		return nil
	}
	return run()
}

func (b *builder) wait(ctx context.Context, l *os.File, title string) error {
	announced := false
	for {
		err := syscall.Flock(int(l.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if !announced {
			b.sayf("waiting for another run that builds %s", title)
			announced = true
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lockEvery):
		}
	}
}

// buildNow builds the program and renames it when it is complete. The temporary directory has a fixed name, so that
// the next run removes the leftover files of a run that was killed.
func (b *builder) buildNow(ctx context.Context, dir, bin, title string, args []string) error {
	tmp := filepath.Join(filepath.Dir(bin), ".building")
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o750); err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // The next run tries again.

	partial := filepath.Join(tmp, filepath.Base(bin))
	start := time.Now()
	b.sayf("building %s, some minutes the first time", title)
	stop := b.progress(title, start)
	err := b.compile(ctx, dir, partial, args)
	stop()
	if err != nil {
		return err
	}
	b.sayf("built %s in %s", title, since(start))
	return os.Rename(partial, bin)
}

func (b *builder) progress(title string, start time.Time) (stop func()) {
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				b.sayf("still building %s, %s so far", title, since(start))
			}
		}
	}()
	return func() { close(done); <-stopped }
}

// goBuild shows the output of the go command only if it fails, because otherwise the output consists of hundreds of
// "downloading" lines.
func goBuild(ctx context.Context, dir, out string, args []string) error {
	var output bytes.Buffer
	cmd := goCommand(ctx, dir, append([]string{"build", "-o", out}, args...)...)
	cmd.Stdout, cmd.Stderr = &output, &output
	// An interrupted go command leaves temporary files. They are removed together with the directory.
	cmd.Env = append(cmd.Env, "GOTMPDIR="+filepath.Dir(out))
	err := cmd.Run()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, failures(output.String()))
	}
	return nil
}

func failures(output string) string {
	var keep strings.Builder
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "go: downloading ") {
			keep.WriteString(line)
		}
	}
	return strings.TrimRight(keep.String(), "\n")
}

// goVersion returns the version of the go command, because this program may have been compiled with a different
// version.
func goVersion(ctx context.Context, dir string) (string, error) {
	out, err := goCommand(ctx, dir, "version").Output()
	if err != nil {
		return "", fmt.Errorf("cannot ask Go for its version, is it in the PATH: %w", err)
	}
	return string(out), nil
}

// goCommand returns a go command in a tool's module. It has its own process group, because the go command does not
// stop its compilers.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=", "GOARCH=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = killAfter
	return cmd
}

// sayf prints a line to the log. It ignores errors, because the work must continue if a line cannot be printed.
func (b *builder) sayf(format string, a ...any) {
	_, _ = fmt.Fprintf(b.log, format+"\n", a...)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func since(start time.Time) time.Duration { return time.Since(start).Round(time.Second) }
