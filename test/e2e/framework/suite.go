// Package framework is what the tests on a cluster share: the cluster, a [Server], which is a claim and all that it
// stands for, and how to wait for something. It knows of no test.
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

// ClusterName is another one than a developer's: both may run.
const ClusterName = "e2e"

// Suite is what all tests share.
var Suite struct {
	// Config, and clients made from it: for objects of any kind, and for what is done to pods.
	Config *rest.Config
	Kube   client.Client
	Typed  kubernetes.Interface

	// Kubeconfig is the file that all of it came from.
	Kubeconfig string
	// Own is the cluster that the tests booted, nil if it is somebody else's.
	Own *ownCluster
}

// Run boots a cluster unless there is one, and takes it down again whatever the tests say.
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

// Repeats is what a test says that takes long, and whose promise another one holds as well, on a cluster, in a package
// or in the model: it runs where ALL is set, as in make test-all, which has the time. It names what runs where it does
// not.
func Repeats(t *testing.T, place string) {
	t.Helper()
	if os.Getenv("ALL") == "" {
		t.Skipf("make test-all runs it; here, %s", place)
	}
}

func connect() error {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // Of connections to servers that are killed.
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

// Repository is where the working tree begins.
func Repository() string {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err) // There is no current directory.
	}
	return root
}

// typeMake types what README.md says of a cluster, but for its name. An interrupt reaches make and all that it has
// called: it does not hand it on.
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
