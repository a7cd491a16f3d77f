package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// grace is the time for which an old password remains valid. It is set only in a cluster that the demo has booted,
// and is short so that users do not have to wait.
const grace = 10 * time.Second

// Names and files of the parts of the product.
const (
	controllerNamespace = "crossplane-mysql-system"
	controllerName      = "deployment/crossplane-mysql"
	functionName        = "function.pkg.crossplane.io/crossplane-mysql-function-mysql"
	configurationName   = "configuration.pkg.crossplane.io/crossplane-mysql-configuration-mysql"
	packagesFile        = "package/install.yaml"
	recordsName         = "crd/platforms.crossplane-mysql.io"
	recordsPrefix       = "controller/deploy/records"
	controllerDir       = "controller/deploy/controller"
	platformName        = "platform/crossplane-mysql"
	platformDir         = "controller/deploy/platform"
)

// boot boots a cluster on this machine, or checks that the existing cluster can be reached.
func (d *demo) boot(ctx context.Context) error {
	if d.own {
		if err := d.bootOwn(ctx); err != nil {
			return err
		}
	}
	var err error
	if d.kube, err = findKubectl(ctx, d.screen, d.kubeconfig, d.cache); err != nil {
		return err
	}
	if d.own {
		d.screen.show("$ export KUBECONFIG=" + quote(d.kubeconfig) + "\n")
	}
	err = d.kube.enter(ctx, "get", "nodes")
	if err != nil && !d.own {
		err = fmt.Errorf("%w: does the cluster of KUBECONFIG run? Without KUBECONFIG, one is booted", err)
	}
	return err
}

// bootOwn boots a cluster with the images that the demo needs. The packages for these images are downloaded while
// Kubernetes is compiled.
func (d *demo) bootOwn(ctx context.Context) error {
	d.left = append(d.left, d.make("cluster-down")+"   # ends the cluster and leaves nothing")
	run := func(ctx context.Context, args ...string) error { return goRun(ctx, d.screen, d.clusterEnv(), args...) }
	// Install packages before other programs are started, because two processes that install Debian packages block each
	// other.
	if err := run(ctx, "-C", "test/cluster", ".", "check"); err != nil {
		return err
	}
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	made := make(chan error, 1)
	go func() {
		err := run(both, "-C", "test/images", ".", "make", "mysql")
		if err != nil {
			cancel(err) // The boot is cancelled, because it is useless without the images.
		}
		made <- err
	}()
	if err := run(both, "-C", "test/cluster", ".", "up"); err != nil {
		cancel(err)
		return errors.Join(<-made, err)
	}
	if err := <-made; err != nil {
		return err
	}
	return run(ctx, "-C", "test/images", ".", "load", "mysql", "s3")
}

// install installs the missing parts of the product.
func (d *demo) install(ctx context.Context) error {
	if d.own {
		return d.load(ctx)
	}
	if err := d.ensure(ctx, "crd/compositions.apiextensions.crossplane.io", nil); err != nil {
		return fmt.Errorf("%w: this cluster needs Crossplane 2.0 or newer", err)
	}
	records := []string{"apply", "--server-side", "-k", recordsPrefix}
	if err := d.ensure(ctx, recordsName, records); err != nil {
		return err
	}
	controller := []string{"apply", "--server-side", "-k", controllerDir}
	if err := d.ensure(ctx, controllerName, controller, "--namespace="+controllerNamespace); err != nil {
		return err
	}
	if err := d.kube.enter(ctx, "wait", "--for=condition=Established", recordsName); err != nil {
		return err
	}
	if err := d.ensure(ctx, platformName, []string{"apply", "--server-side", "-k", platformDir}); err != nil {
		return err
	}
	packages := []string{"apply", "--server-side", "-f", packagesFile}
	if err := d.ensure(ctx, d.api.base, packages); err != nil {
		return err
	}
	if err := d.ensureConfiguration(ctx); err != nil {
		return err
	}
	return d.installed(ctx)
}

// ensureConfiguration installs the package of the API if it is not part of package/install.yaml.
func (d *demo) ensureConfiguration(ctx context.Context) error {
	if d.api.base == d.api.configuration {
		return nil
	}
	there, err := d.exists(ctx, d.api.configuration)
	if err != nil || there {
		return err
	}
	c, err := d.installCommand()
	if err != nil {
		return err
	}
	d.stays("kubectl delete " + d.api.configuration + "   # was not there before")
	return d.kube.enterCommand(ctx, c)
}

// exists reports whether an object exists. If it exists, the demo prints that.
func (d *demo) exists(ctx context.Context, name string, flags ...string) (bool, error) {
	out, err := d.kube.ask(ctx, append([]string{"get", name, "--ignore-not-found", "--output=name"}, flags...)...)
	if err != nil || strings.TrimSpace(out) == "" {
		return false, err
	}
	d.screen.sayf("%s is there", name)
	return true, nil
}

// ensure runs a command that creates an object, unless the object already exists.
func (d *demo) ensure(ctx context.Context, name string, apply []string, flags ...string) error {
	there, err := d.exists(ctx, name, flags...)
	if err != nil || there {
		return err
	}
	if apply == nil {
		return fmt.Errorf("%s is not there", name)
	}
	d.stays("kubectl delete " + strings.Join(apply[2:], " ") + "   # was not there before; end all claims first")
	return d.kube.enter(ctx, apply...)
}

// load builds the product from the working tree and installs it in the cluster that the demo has booted.
func (d *demo) load(ctx context.Context) error {
	if err := goRun(ctx, d.screen, d.clusterEnv(), "-C", "test/install", ".",
		"--timeout="+d.timeout.String()); err != nil {
		return err
	}
	d.screen.sayf(
		"An old password goes on to work for 2m after a change. Here it does for %s, so that nobody has to wait:", grace)
	if err := d.kube.enter(ctx, "set", "env", controllerName, "PASSWORD_GRACE="+grace.String(),
		"--namespace="+controllerNamespace); err != nil {
		return err
	}
	return d.installed(ctx)
}

// installed waits until all parts of the product are ready.
func (d *demo) installed(ctx context.Context) error {
	timeout := "--timeout=" + d.timeout.String()
	for _, c := range [][]string{
		{"wait", "--for=condition=Healthy", d.api.configuration, functionName, timeout},
		{"wait", "--for=condition=" + d.api.offered, d.api.xrd, timeout},
		{"rollout", "status", controllerName, "--namespace=" + controllerNamespace, timeout},
	} {
		if err := d.kube.enter(ctx, c...); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) clusterEnv() []string { return []string{"CLUSTER=" + d.cluster} }

// make returns the shell command that runs a make target for the demo's cluster.
func (d *demo) make(target string) string {
	if d.cluster == "dev" {
		return "make " + target
	}
	return "CLUSTER=" + d.cluster + " make " + target
}

// ownKubeconfig returns the path of the kubeconfig that test/cluster writes.
func ownKubeconfig(cluster string) (string, error) {
	root, err := os.Getwd()
	return filepath.Join(root, ".cache", "cluster", cluster, "kubeconfig"), err
}
