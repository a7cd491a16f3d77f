package client

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// A Client runs kubectl on a cluster.
type Client struct {
	Cluster state.Cluster
	// Kube is the path of the binary that contains all Kubernetes programs.
	Kube string
	Out  *Progress
}

// Kubectl runs kubectl and returns its output.
func (k *Client) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, k.Kube,
		append([]string{"kubectl", "--kubeconfig=" + k.Cluster.Kubeconfig(), "--cache-dir=" + k.Cluster.File("kubectl")},
			args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	return Output(cmd)
}

// Output runs a command and returns its output. If the command fails, the error contains its standard error.
func Output(cmd *exec.Cmd) (string, error) {
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}
