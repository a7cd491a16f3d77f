//go:build linux

package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/machine"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// TestKilled boots a real cluster and kills it in different ways. Each time, it checks that the next command removes
// everything that the killed cluster has left.
func TestKilled(t *testing.T) {
	c := newTestCluster(t, "killed")
	c.killLauncher(t)
	c.gone(t)
	if out := c.mustRun(t, "up", "--nodes=1"); !strings.Contains(out, "ended without cleaning up") {
		t.Errorf("want to be told of the earlier run, got %s", out)
	}
	if out := c.mustRun(t, "status"); !strings.Contains(out, c.Kubeconfig()) {
		t.Errorf("want to be told of the kubeconfig, got %s", out)
	}
	p, running := c.Running()
	if !running {
		t.Fatal("want it to run")
	}
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.gone(t)
	if out := c.mustRun(t, "down"); !strings.Contains(out, "is down") {
		t.Errorf("want to be told that it is down, got %s", out)
	}
	c.nothingLeft(t)
}

// A testCluster is a cluster that a test boots and kills. program is the path of the compiled program test/cluster.
type testCluster struct {
	state.Cluster

	program string
}

func newTestCluster(t *testing.T, name string) *testCluster {
	t.Helper()
	root, err := state.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.New(root, name)
	if err != nil {
		t.Fatal(err)
	}
	c := &testCluster{Cluster: s, program: filepath.Join(t.TempDir(), "cluster")}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", c.program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := clean(context.Background(), s); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *testCluster) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, c.program, append([]string{"--root=" + c.Root, "--name=" + c.Name}, args...)...)
}

func (c *testCluster) mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.command(t.Context(), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// killLauncher kills the program `cluster up` during a boot, so that it cannot clean up.
func (c *testCluster) killLauncher(t *testing.T) {
	t.Helper()
	cmd := c.command(t.Context(), "up", "--nodes=1")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, reached := bufio.NewScanner(out), false
	for !reached && lines.Scan() {
		reached = strings.Contains(lines.Text(), "waiting for the nodes")
	}
	if !reached {
		t.Fatal("the boot never came to the nodes")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err == nil {
		t.Fatal("want it to be killed")
	}
}

// gone waits until all processes of the cluster have exited by themselves.
func (c *testCluster) gone(t *testing.T) {
	t.Helper()
	for range 100 {
		if _, running := c.Running(); !running {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the cluster's first process is still alive")
}

func (c *testCluster) nothingLeft(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"*", ""} { // The first pattern matches cgroup v1, the second one cgroup v2.
		cgroups, err := filepath.Glob(filepath.Join(machine.CgroupRoot, pattern, c.Cgroup()))
		if err != nil || len(cgroups) > 0 {
			t.Errorf("cgroups are left: %v, %v", cgroups, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), c.Dir()) {
		t.Errorf("mounts are left: %v", err)
	}
	entries, err := os.ReadDir(c.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if n := e.Name(); n != "lock" && n != "logs" {
			t.Errorf("%s is left in the cluster's folder", n)
		}
	}
}
