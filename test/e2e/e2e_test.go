// Package e2e runs the product on a real cluster: one of its own, or the one that KUBECONFIG names.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
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

// clusterName is another one than a developer's: both may run.
const clusterName = "e2e"

// suite is what all tests share.
var suite struct {
	config *rest.Config
	kube   client.Client
	typed  kubernetes.Interface

	// kubeconfig is the file that all of it came from.
	kubeconfig string
	// own is the cluster that the tests booted, nil if it is somebody else's.
	own *ownCluster
}

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

// run boots a cluster unless there is one, and takes it down again whatever the tests say.
func run(ctx context.Context, m *testing.M) (code int, err error) {
	suite.kubeconfig = os.Getenv("KUBECONFIG")
	if suite.kubeconfig == "" {
		own, bootErr := boot(ctx)
		if own != nil {
			defer func() { err = errors.Join(err, own.end(ctx, code == 0 && err == nil)) }()
		}
		if bootErr != nil {
			return 1, bootErr
		}
		suite.own, suite.kubeconfig = own, own.kubeconfig
	}
	if err := connect(); err != nil {
		return 1, err
	}
	done := make(chan int, 1)
	go func() { done <- m.Run() }()
	select {
	case code := <-done:
		printLooks()
		return code, nil
	case <-ctx.Done():
		return 1, errors.New("interrupted")
	}
}

// repeats is what a test says whose promise another one holds as well: it runs where ALL is set, as in make test-all, which
// has the time.
func repeats(t *testing.T, where string) {
	t.Helper()
	if os.Getenv("ALL") == "" {
		t.Skipf("make test-all runs it; here, %s", where)
	}
}

func connect() error {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // Of connections to servers that are killed.
	config, err := clientcmd.BuildConfigFromFlags("", suite.kubeconfig)
	if err != nil {
		return fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	config.QPS = -1
	suite.config = config
	if suite.kube, err = client.New(config, client.Options{}); err != nil {
		return fmt.Errorf("cannot reach the cluster: %w", err)
	}
	suite.typed, err = kubernetes.NewForConfig(config)
	return err
}

// repository is where the working tree begins.
func repository() string {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err) // There is no current directory.
	}
	return root
}

// typeMake types what README.md says of a cluster, but for its name. An interrupt reaches make and all that it has called:
// it does not hand it on.
func typeMake(ctx context.Context, targets ...string) error {
	cmd := exec.CommandContext(ctx, "make", targets...)
	cmd.Dir = repository()
	cmd.Env = append(os.Environ(), "CLUSTER="+clusterName)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make %v: %w", targets, err)
	}
	return nil
}
