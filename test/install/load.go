//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/client"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/registry"
	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/state"
)

// Names of the images and packages, which are the same as in the packages' metadata and the Composition.
const (
	organization = "crossplane-mysql"
	publicHost   = "ghcr.io"
	// productVersion is the version in the Composition. The working tree is installed with this version.
	productVersion = "v0.1.0"
	productImage   = publicHost + "/" + organization + "/" + organization
)

// A loader builds the product from the working tree and installs it in a cluster.
type loader struct {
	client.Client

	registry string // The address of the cluster's registry outside of the cluster.
	nodes    int
	dist     string
}

// load builds the product from the working tree and installs it in a running cluster.
func load(ctx context.Context, c state.Cluster, timeout time.Duration) error {
	unlock, err := c.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	process, err := client.Running(c)
	if err != nil {
		return err
	}
	p := client.NewProgress()
	tools, err := client.BuildTools(ctx, c.Root, p, "kube")
	if err != nil {
		return err
	}
	if err := client.ImageBuilder(c, p).Bases(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ld := &loader{
		Client:   client.Client{Cluster: c, Kube: tools["kube"], Out: p},
		registry: fmt.Sprintf("127.0.0.1:%d", process.Registry),
		nodes:    process.Nodes,
		dist:     c.File("dist"),
	}
	if err := ld.load(ctx); err != nil {
		return err
	}
	p.Sayf("the working tree is installed in cluster %q", c.Name)
	return nil
}

func (l *loader) load(ctx context.Context) error {
	if err := l.image(ctx); err != nil {
		return err
	}
	if err := l.packages(ctx); err != nil {
		return err
	}
	if err := l.manifests(ctx); err != nil {
		return err
	}
	if err := l.install(ctx); err != nil {
		return err
	}
	return l.rolledOut(ctx)
}

// image builds the product's image with its Dockerfile.
func (l *loader) image(ctx context.Context) error {
	l.Out.Sayf("building the image from its Dockerfile")
	if _, err := client.ImageBuilder(l.Cluster, l.Out).Dockerfile(ctx, productImage, productVersion); err != nil {
		return err
	}
	if err := registry.Load(ctx, l.Cluster.Images(), l.registry, productImage+":"+productVersion); err != nil {
		return err
	}
	return l.forget(ctx, productImage+":"+productVersion)
}

// forget removes an image from every node. Otherwise a node would use the old image, because it does not notice that
// the tag refers to a different image.
func (l *loader) forget(ctx context.Context, name string) error {
	for i := 1; i <= l.nodes; i++ {
		ctr := exec.CommandContext(ctx, "go", "run", "-C", "test/cluster", ".", "--root", l.Cluster.Root, "--name",
			l.Cluster.Name,
			"exec", "--node", strconv.Itoa(i), "ctr", "images", "rm", name)
		ctr.Dir = l.Cluster.Root
		if _, err := client.Output(ctr); err != nil {
			return fmt.Errorf("cannot remove the image of before from node %d: %w", i, err)
		}
	}
	return nil
}

// packages builds the packages for this machine and pushes them. It uses the library of the CLI that a user would
// run. xpkg-test compares the results.
func (l *loader) packages(ctx context.Context) error {
	l.Out.Sayf("building and pushing the packages")
	build := exec.CommandContext(ctx, "go", "run", "-C", "package/build", ".", "--version", productVersion,
		"--arch", runtime.GOARCH, "--out", l.dist, "--push", l.registry+"/"+organization)
	build.Dir = l.Cluster.Root
	if _, err := client.Output(build); err != nil {
		return fmt.Errorf("cannot build the packages: %w", err)
	}
	return nil
}

// controllerNamespace and controllerName are the names that controller/deploy uses.
const (
	controllerNamespace = "crossplane-mysql-system"
	controllerName      = "deployment/crossplane-mysql"
)

// smallServers is a patch of the test cluster's Platform, with small default resources for claims that set none.
const smallServers = `{"spec":{"defaultResources":{"requests":{"cpu":"1m","memory":"1Mi"},"limits":{"memory":"1Gi"}}}}`

// manifests applies the manifests in controller/deploy: the CRDs, the controller with its permissions, and the
// Platform. It annotates the controller's pod with the digest of the image, so that a new image with the same tag
// replaces the pod.
func (l *loader) manifests(ctx context.Context) error {
	for _, part := range []string{"records", "controller", "platform"} {
		if part == "platform" {
			if _, err := l.Kubectl(ctx, "", "wait", "--for=condition=Established",
				"crd/platforms.crossplane-mysql.io"); err != nil {
				return err
			}
		}
		dir := filepath.Join(l.Cluster.Root, "controller", "deploy", part)
		l.Out.Sayf("applying controller/deploy/%s", part)
		if _, err := l.Kubectl(ctx, "", "apply", "--server-side", "--force-conflicts", "-k", dir); err != nil {
			return err
		}
	}
	// Servers reserve almost no resources, because tests start more servers than the machine has room for.
	if _, err := l.Kubectl(ctx, "", "patch", "platform", organization, "--type=merge", "--patch="+smallServers); err != nil {
		return err
	}
	digest, err := l.pushed(ctx, organization)
	if err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"cluster/image":%q}}}}}`, digest)
	_, err = l.Kubectl(ctx, "", "patch", controllerName, "--namespace="+controllerNamespace, "--type=merge",
		"--patch="+patch)
	return err
}

// pushed returns the digest of the image that a repository in the registry contains under the product's version.
func (l *loader) pushed(ctx context.Context, repository string) (v1.Hash, error) {
	ref, err := name.NewTag(fmt.Sprintf("%s/%s/%s:%s", l.registry, organization, repository, productVersion))
	if err != nil {
		return v1.Hash{}, err
	}
	d, err := remote.Head(ref, remote.WithContext(ctx))
	if err != nil {
		return v1.Hash{}, fmt.Errorf("cannot find the pushed artifact: %w", err)
	}
	return d.Digest, nil
}

// rolledOut waits until the controller from the working tree is running.
func (l *loader) rolledOut(ctx context.Context) error {
	if _, err := l.Kubectl(ctx, "", "rollout", "status", controllerName, "--namespace="+controllerNamespace); err != nil {
		return fmt.Errorf("the controller does not start: %w", err)
	}
	l.Out.Sayf("the controller is Ready")
	return nil
}
