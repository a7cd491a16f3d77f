// Package framework contains code that the tests on a cluster share. It provides the cluster, the [Server] (a claim
// with its objects), and functions that wait for a state. It does not depend on any test.
package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// ClusterName is the name of the cluster that the tests boot. A developer's cluster has a different name, so that
// both can run on the same machine.
const ClusterName = "e2e"

// Suite is the state that all tests share.
var Suite struct {
	// Config is the connection to the cluster. Kube is a client for objects of any kind. Typed is a client for
	// subresources of pods.
	Config *rest.Config
	Kube   client.Client
	Typed  kubernetes.Interface

	// Kubeconfig is the path of the kubeconfig file.
	Kubeconfig string
	// Own is the cluster that the tests have booted, or nil if KUBECONFIG specifies an existing cluster.
	Own *ownCluster
}

// Run runs the tests. Unless KUBECONFIG specifies a cluster, it boots one, and deletes it afterwards even if tests
// fail.
func Run(ctx context.Context, m *testing.M) (code int, err error) {
	Suite.Kubeconfig = os.Getenv("KUBECONFIG")
	if Suite.Kubeconfig == "" {
		own, bootErr := boot(ctx)
		if own != nil {
			defer func() { err = errors.Join(err, own.end(ctx, code == 0 && err == nil)) }()
		}
		if bootErr != nil {
			return 1, bootErr
		}
		Suite.Own, Suite.Kubeconfig = own, own.Kubeconfig
	}
	if err := connect(); err != nil {
		return 1, err
	}
	defer printLooks()
	done := make(chan int, 1)
	go func() { done <- m.Run() }()
	select {
	case code := <-done:
		return code, nil
	case <-ctx.Done():
		return 1, errors.New("interrupted")
	}
}

// Repeats skips a slow test, because its behavior is also covered by another test. place says where. make test-all
// sets ALL, so that the test is not skipped.
func Repeats(t *testing.T, place string) {
	t.Helper()
	if os.Getenv("ALL") == "" {
		t.Skipf("make test-all runs it; here, %s", place)
	}
}

func connect() error {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // Otherwise klog reports each connection to a server that is killed.
	config, err := clientcmd.BuildConfigFromFlags("", Suite.Kubeconfig)
	if err != nil {
		return fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	config.QPS = -1
	Suite.Config = config
	if Suite.Kube, err = client.New(config, client.Options{}); err != nil {
		return fmt.Errorf("cannot reach the cluster: %w", err)
	}
	Suite.Typed, err = kubernetes.NewForConfig(config)
	return err
}

// Repository returns the root directory of the working tree.
func Repository() string {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err) // There is no current directory.
	}
	return root
}

// typeMake runs the make targets that README.md describes, for the tests' own cluster. When it is cancelled, it sends
// SIGINT to the whole process group, because make does not forward an interrupt to its commands.
func typeMake(ctx context.Context, targets ...string) error {
	cmd := exec.CommandContext(ctx, "make", targets...)
	cmd.Dir = Repository()
	cmd.Env = append(os.Environ(), "CLUSTER="+ClusterName)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make %v: %w", targets, err)
	}
	return nil
}
