//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/image"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/inside"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// A client calls kubectl and helm on a cluster.
type client struct {
	cluster    state.Cluster
	kube, helm string
	out        *progress
}

func (k *client) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, k.kube, append([]string{"kubectl", "--kubeconfig=" + k.cluster.Kubeconfig(), "--cache-dir=" + k.cluster.File("kubectl")}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	return output(cmd)
}

// output of a command, with what it complained about as the error.
func output(cmd *exec.Cmd) (string, error) {
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

// installCrossplane installs the chart of the very version that the image was built from.
func installCrossplane(ctx context.Context, c state.Cluster, p *progress) error {
	tools, err := buildTools(ctx, c.Root, p, "kube", "helm")
	if err != nil {
		return err
	}
	k := &client{cluster: c, kube: tools["kube"], helm: tools["helm"], out: p}
	if k.crossplaneReady(ctx) {
		return nil
	}
	version, module, err := image.CrossplaneModule(ctx, c.Root)
	if err != nil {
		return err
	}
	p.sayf("installing Crossplane %s", version)
	if err := k.install(ctx, version, filepath.Join(module, "cluster", "charts", "crossplane")); err != nil {
		return fmt.Errorf("cannot install Crossplane: %w", err)
	}
	if _, err := k.kubectl(ctx, imageConfig, "apply", "--server-side", "-f", "-"); err != nil {
		return fmt.Errorf("cannot tell Crossplane of the cluster's registry: %w", err)
	}
	p.sayf("Crossplane is Ready")
	return nil
}

// imageConfig leads packages under their public names to the cluster's registry.
const imageConfig = `
apiVersion: pkg.crossplane.io/v1beta1
kind: ImageConfig
metadata:
  name: cluster-registry
spec:
  matchImages:
  - {type: Prefix, prefix: ghcr.io/}
  rewriteImage: {prefix: ` + inside.RegistryAddress + `/}
`

func (k *client) crossplaneReady(ctx context.Context) bool {
	_, err := k.kubectl(ctx, "", "get", "imageconfig.pkg.crossplane.io/cluster-registry")
	return err == nil
}

func (k *client) install(ctx context.Context, version, chart string) error {
	cmd := exec.CommandContext(ctx, k.helm, "upgrade", "--install", "crossplane", chart,
		"--kubeconfig", k.cluster.Kubeconfig(), "--namespace", "crossplane-system", "--create-namespace",
		"--set", "image.tag="+version,
		// Requests of a core that has one CPU core for itself would leave little of two.
		"--set", "resourcesCrossplane.requests.cpu=10m", "--set", "resourcesRBACManager.requests.cpu=10m",
		"--set", "resourcesCrossplane.limits.cpu=null", "--set", "resourcesRBACManager.limits.cpu=null",
		"--wait", "--timeout", "5m")
	// Nothing of the user's own helm, and nothing left behind in it.
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+k.cluster.File("helm"), "HELM_CONFIG_HOME="+k.cluster.File("helm"), "HELM_DATA_HOME="+k.cluster.File("helm"))
	_, err := output(cmd)
	return err
}
