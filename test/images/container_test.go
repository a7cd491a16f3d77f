//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/image"
)

// A container is an image that a test runs in its own namespaces, with a read-only root. It is stopped with the test
// and leaves nothing behind.
type container struct {
	t      *testing.T
	cmd    *exec.Cmd
	output *syncBuilder
	done   chan struct{}
}

// A setup contains the image and the settings of a container.
type setup struct {
	image string
	env   []string
	args  []string
	uid   int
	data  string            // A directory of this machine. If empty, an in-memory directory is used.
	files map[string]string // The files in /etc/mysql/conf.d and in /docker-entrypoint-initdb.d.
}

const serverTime = 2 * time.Minute

// smallFiles are settings with which a server creates smaller files, which is faster.
const smallFiles = "[mysqld]\nskip_log_bin\nloose_innodb_redo_log_capacity = 32M\n"

func start(t *testing.T, s setup) *container {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "0.cnf"), []byte(smallFiles), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, content := range s.files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := &container{t: t, output: &syncBuilder{}, done: make(chan struct{})}
	t.Cleanup(func() { <-c.done })
	ctx, cancel := context.WithTimeout(context.Background(), serverTime)
	t.Cleanup(cancel)
	c.cmd = exec.CommandContext(ctx, "/proc/self/exe", s.args...)
	c.cmd.Env = append([]string{image.SearchPath, box + "=" + roots[s.image], box + "_UID=" + strconv.Itoa(s.uid),
		box + "_DATA=" + s.data, box + "_FILES=" + dir}, s.env...)
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // The container is killed when this thread exits.
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait() // ProcessState contains the exit code.
		}
		close(c.done)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	return c
}

// inside runs a program in the container's namespaces.
func (c *container) inside(env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pid := strconv.Itoa(c.cmd.Process.Pid)
	cmd := exec.CommandContext(ctx, "nsenter",
		append([]string{"--target=" + pid, "--mount", "--pid", "--net", "--root", "--wd=/"}, args...)...)
	cmd.Env = append([]string{image.SearchPath}, env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// listens reports whether a process in the container listens on the given TCP port.
func (c *container) listens(port int) bool {
	for _, file := range []string{"tcp", "tcp6"} {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", c.cmd.Process.Pid, file))
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				return true
			}
		}
	}
	return false
}

// ready waits until the server in the container listens on its port. It returns false if the container exits before
// that.
func (c *container) ready() bool {
	c.t.Helper()
	for !c.listens(3306) {
		select {
		case <-c.done:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return true
}

// stop sends SIGTERM to the container, as a kubelet does, and waits until the container has exited.
func (c *container) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	<-c.done
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		c.t.Fatalf("the server ended with %d:\n%s", code, c.output)
	}
}

// syncBuilder is a string builder that can be read while it is written to.
type syncBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuilder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuilder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
