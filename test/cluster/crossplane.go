//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/image"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/inside"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// A helmClient is a Client that also runs helm on the cluster.
type helmClient struct {
	client.Client

	helm string
}

// installCrossplane installs Crossplane's Helm chart. The chart has the same version as the cluster's Crossplane
// image.
func installCrossplane(ctx context.Context, c state.Cluster, p *client.Progress) error {
	tools, err := client.BuildTools(ctx, c.Root, p, "kube", "helm")
	if err != nil {
		return err
	}
	k := &helmClient{Client: client.Client{Cluster: c, Kube: tools["kube"], Out: p}, helm: tools["helm"]}
	if k.crossplaneReady(ctx) {
		return nil
	}
	version, module, err := image.CrossplaneModule(ctx, c.Root)
	if err != nil {
		return err
	}
	p.Sayf("installing Crossplane %s", version)
	if err := k.install(ctx, version, filepath.Join(module, "cluster", "charts", "crossplane")); err != nil {
		return fmt.Errorf("cannot install Crossplane: %w", err)
	}
	if _, err := k.Kubectl(ctx, imageConfig, "apply", "--server-side", "-f", "-"); err != nil {
		return fmt.Errorf("cannot tell Crossplane of the cluster's registry: %w", err)
	}
	p.Sayf("Crossplane is Ready")
	return nil
}

// imageConfig makes Crossplane pull packages from the cluster's registry if their names refer to ghcr.io.
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

func (k *helmClient) crossplaneReady(ctx context.Context) bool {
	_, err := k.Kubectl(ctx, "", "get", "imageconfig.pkg.crossplane.io/cluster-registry")
	return err == nil
}

func (k *helmClient) install(ctx context.Context, version, chart string) error {
	cmd := exec.CommandContext(ctx, k.helm, "upgrade", "--install", "crossplane", chart,
		"--kubeconfig", k.Cluster.Kubeconfig(), "--namespace", "crossplane-system", "--create-namespace",
		"--set", "image.tag="+version,
		// The default requests would reserve most of a small machine's two CPUs.
		"--set", "resourcesCrossplane.requests.cpu=10m", "--set", "resourcesRBACManager.requests.cpu=10m",
		"--set", "resourcesCrossplane.limits.cpu=null", "--set", "resourcesRBACManager.limits.cpu=null",
		"--wait", "--timeout", "5m")
	// Use separate directories, so that the user's Helm configuration and cache are neither read nor changed.
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+k.Cluster.File("helm"), "HELM_CONFIG_HOME="+k.Cluster.File("helm"),
		"HELM_DATA_HOME="+k.Cluster.File("helm"))
	_, err := client.Output(cmd)
	return err
}
