package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestControllerOutside runs the controller outside of the cluster, as a developer does, with the current kubeconfig
// context. No controller runs in the cluster at the same time.
func TestControllerOutside(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "the controller runs in the cluster")
	stopsTheController(t)
	startController(t)
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	s.Set(t, map[string]any{"password": oddPasswords[0]})
	s.Client().Connects(t, oddPasswords[0])
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	s.Spec["password"] = oddPasswords[0]
	s.Create(t)
	s.Client().SeesRows(t, before)
	s.Client().Connects(t, oddPasswords[0])
}

// theController is a lock for the cluster's only controller, which all tests share. A test that stops the controller
// holds the write lock. A test that fails while the controller is stopped holds a read lock. Most other tests only
// have to wait longer, and need no lock.
var theController sync.RWMutex

// logOfController returns the last lines in the log of the cluster's controller. With "-1", it returns all lines.
func logOfController(t *testing.T, lines string) string {
	t.Helper()
	theController.RLock()
	defer theController.RUnlock()
	return readLogOfController(t, lines)
}

// readLogOfController is like logOfController, but for a caller that already holds the read lock. If another test
// waits for the write lock, a second read lock would cause a deadlock.
func readLogOfController(t *testing.T, lines string) string {
	t.Helper()
	log, err := framework.Kubectl(t.Context(), "logs", "--namespace", framework.SystemNamespace,
		"deployment/crossplane-mysql", "--tail", lines)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// stopsTheController stops the controller until the test ends or calls start.
func stopsTheController(t *testing.T) (start func()) {
	t.Helper()
	theController.Lock()
	start = sync.OnceFunc(func() {
		defer theController.Unlock()
		controllers(t, 1)
	})
	t.Cleanup(start)
	controllers(t, 0)
	return start
}

// controllers sets the number of pods of the controller's Deployment in the cluster.
func controllers(t *testing.T, want int32) {
	t.Helper()
	scale(t, framework.SystemNamespace, "crossplane-mysql", want)
}

// scale sets the number of replicas of a Deployment.
func scale(t *testing.T, namespace, name string, want int32) {
	t.Helper()
	rollOut(t, namespace, name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, want))
}

// rollOut patches a Deployment and waits until all its pods are updated. It ignores the end of the test, so that
// cleanups can call it.
func rollOut(t *testing.T, namespace, name, change string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), framework.Patience)
	defer cancel()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := framework.Suite.Kube.Patch(ctx, d,
		client.RawPatch(types.StrategicMergePatchType, []byte(change))); err != nil {
		t.Fatal(err)
	}
	err := framework.Poll(ctx, func() error {
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		want, s := *d.Spec.Replicas, d.Status
		if s.ObservedGeneration < d.Generation || s.Replicas != want || s.UpdatedReplicas != want || s.ReadyReplicas != want {
			return fmt.Errorf("want %d pods of %s, there are %d, %d of them as wanted, and %d ready", want, name, s.Replicas,
				s.UpdatedReplicas, s.ReadyReplicas)
		}
		var pods corev1.PodList
		err := framework.Suite.Kube.List(ctx, &pods, client.InNamespace(namespace),
			client.MatchingLabels(d.Spec.Selector.MatchLabels))
		if err == nil && len(pods.Items) != int(want) {
			err = fmt.Errorf("want %d pods of %s, %d are there", want, name, len(pods.Items))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// startController runs the controller on this machine until the test ends.
func startController(t *testing.T) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "run", "./controller", "start")
	cmd.Dir = framework.Repository()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+framework.Suite.Kubeconfig, "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = &log, &log
	// Like a terminal, the test sends the interrupt to the process group: to the go command and to the program that it
	// runs.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// After an interrupt, the go command exits with 1 regardless of the program's exit code.
		err := errors.Join(syscall.Kill(-cmd.Process.Pid, syscall.SIGINT), cmd.Wait())
		if !strings.Contains(log.String(), "Wait completed, proceeding to shutdown the manager") || t.Failed() {
			t.Errorf("the controller did not end in order (%v):\n%s", err, log.String())
		}
	})
}
