package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// A host is the machine on which the test cluster runs. Through it, a test can stop and kill processes of the
// cluster.
type host struct {
	program, cluster string

	// store is the BackupStore that all cases of the matrix share, or nil if no case needs one.
	store *backupStore
	// fastController returns the image file of a controller with a fast clock. The clock in monthController's image is
	// 31 days ahead.
	fastController, monthController func() (string, error)
}

func findHost(t *testing.T) *host {
	t.Helper()
	resultDir := filepath.Dir(framework.Suite.Kubeconfig)
	if _, err := os.Stat(filepath.Join(resultDir, "process.json")); err != nil {
		t.Fatalf("the matrix stops kubelets and kills API servers: it needs a cluster of `make cluster-up` (%v)", err)
	}
	h := &host{program: filepath.Join(t.TempDir(), "cluster"), cluster: filepath.Base(resultDir)}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", h.program, ".")
	build.Dir = filepath.Join(framework.Repository(), "test", "cluster")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the cluster's program: %v: %s", err, out)
	}
	return h
}

// command returns a command that runs a script in the namespaces of a node. Node 0 is the control plane.
func (h *host) command(ctx context.Context, node int, script string) *exec.Cmd {
	args := []string{"--root", framework.Repository(), "--name", h.cluster, "exec", "--node", strconv.Itoa(node), "bash",
		"-c", script}
	return exec.CommandContext(ctx, h.program, args...)
}

// run runs a script in the namespaces of the control plane and returns its output. It ignores the end of the test, so
// that cleanups can call it.
func (h *host) run(t *testing.T, script string) string {
	t.Helper()
	out, err := h.try(context.WithoutCancel(t.Context()), script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (h *host) try(ctx context.Context, script string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := h.command(ctx, 0, script).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", script, err, out)
	}
	return string(out), nil
}

// start starts a script on a node. The returned function waits until the script has finished.
func (h *host) start(t *testing.T, node int, script string) func(*testing.T) {
	t.Helper()
	var out strings.Builder
	cmd := h.command(t.Context(), node, script)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
	}
}

// number returns the number of a node for the method command, such as 2 for node2.
func (h *host) number(t *testing.T, node string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(node, "node"))
	if err != nil {
		t.Fatalf("node %s has no number: %v", node, err)
	}
	return n
}
