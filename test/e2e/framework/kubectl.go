package framework

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Kubectl runs the kubectl that is built from this repository.
func Kubectl(ctx context.Context, args ...string) (string, error) {
	tool := exec.CommandContext(ctx, "go", "run", "./test/tools", "kube")
	tool.Dir = Repository()
	path, err := tool.Output()
	if err != nil {
		return "", fmt.Errorf("cannot build kubectl: %w", err)
	}
	cmd := exec.CommandContext(ctx, strings.TrimSpace(string(path)),
		append([]string{"kubectl", "--kubeconfig=" + Suite.Kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// MustKubectl runs kubectl and ends the test if it fails.
func MustKubectl(t *testing.T, args ...string) {
	t.Helper()
	for i, a := range args {
		if strings.HasPrefix(a, "controller/") {
			args[i] = Repository() + "/" + a
		}
	}
	if out, err := Kubectl(t.Context(), args...); err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
