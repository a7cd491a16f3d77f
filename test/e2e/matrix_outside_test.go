package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// Faults from outside of the instance: a quota, a moved data directory, a lost node, and an uninstalled controller.

// forbidsPods forbids new pods in the namespace. Existing pods keep running.
func forbidsPods(t *testing.T, c *cell) {
	t.Helper()
	c.quota = forbidPods(t, c.Server)
}

// allowsPods allows pods again. If the backup runs in the claim's namespace, it first waits until the claim reports
// that the quota blocks the deletion.
func allowsPods(t *testing.T, c *cell) {
	t.Helper()
	if c.way == byClaim || c.way == byXR {
		c.Says(t, "has no pod: FailedCreate")
	} else {
		time.Sleep(20 * time.Second)
	}
	if err := client.IgnoreNotFound(framework.Suite.Kube.Delete(t.Context(), c.quota)); err != nil {
		t.Fatal(err)
	}
}

// movesData renames the data directory while the server is running. The server keeps its files open.
func movesData(t *testing.T, c *cell) {
	t.Helper()
	c.resultDir = dirOf(t, c.MustFindDataVolume(t))
	c.onNode(t, fmt.Sprintf("mv %[1]s/data %[1]s/aside", c.resultDir))
}

// bringsDataBack renames the data directory back after the product has reported that the data is missing.
func bringsDataBack(t *testing.T, c *cell) {
	t.Helper()
	switch {
	case c.way == byClaim || c.way == byXR:
		c.Says(t, `the volume has no data in "data"`)
	case c.way.heals:
		c.Says(t, "the volume contains no data, but this instance had data")
	default:
		time.Sleep(30 * time.Second)
	}
	c.onNode(t, fmt.Sprintf("rm -df %[1]s/data && mv %[1]s/aside %[1]s/data && sync", c.resultDir))
}

// onNode runs a script on the node of the server.
func (c *cell) onNode(t *testing.T, script string) {
	t.Helper()
	c.host.start(t, c.host.number(t, c.node), script)(t)
}

// losesNode stops the kubelet of the server's node and deletes the Node. Kubernetes then deletes the pods of the
// Node, although their processes are still running. After that, the node returns.
func losesNode(t *testing.T, c *cell) {
	t.Helper()
	node := framework.NewObject("v1", "Node", "", c.node)
	c.later(t, func(t *testing.T) {
		t.Helper()
		c.signalKubelet(t, "KILL") // The kubelet is started again and registers the node again.
		framework.Eventually(t, "the node", func(ctx context.Context) error {
			return framework.HasCondition(ctx, node.DeepCopy(), "Ready")
		})
	})
	c.signalKubelet(t, "STOP")
	if err := framework.Suite.Kube.Delete(t.Context(), node.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	// Kubernetes deletes the pods of a missing node after 40 s (kubernetes, pkg/controller/podgc).
	time.Sleep(90 * time.Second)
}

// startsClientAgain starts the client pod again if it was deleted together with its node. It does nothing if the
// namespace is being deleted, because no pod can be created there.
func startsClientAgain(t *testing.T, c *cell) {
	t.Helper()
	if c.way == byNamespace || c.way == ownNamespace {
		return
	}
	gone := false
	framework.Eventually(t, "the client's end, if it has one", func(ctx context.Context) error {
		pod := framework.NewObject("v1", "Pod", c.Namespace, "client")
		err := framework.IsGone(ctx, pod)
		gone = err == nil
		if pod.GetUID() != "" && pod.GetDeletionTimestamp() == nil {
			return nil
		}
		return err
	})
	if gone {
		framework.StartToolbox(t, c.Namespace, "client", "")
	}
}

// uninstallsController uninstalls the controller, but not the CRDs.
func uninstallsController(t *testing.T, c *cell) {
	t.Helper()
	c.later(t, func(t *testing.T) {
		t.Helper()
		reinstalled(t)
		allowForeground(t)
	})
	framework.MustKubectl(t, "delete", "--kustomize", "controller/deploy/controller")
	noControllerRuns(t)
}
