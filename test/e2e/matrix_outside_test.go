package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// Faults that come from outside of the instance: somebody's quota, somebody's hand on its folder, its node, and what is
// installed.

// forbidsPods in the namespace. Those that are there stay.
func forbidsPods(t *testing.T, c *cell) {
	t.Helper()
	c.quota = forbidPods(t, c.Server)
}

// allowsPods again, once people have heard what is in the way. A backup that runs elsewhere meets no quota.
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

// movesData aside while the server runs, which keeps what it has open.
func movesData(t *testing.T, c *cell) {
	t.Helper()
	c.folder = folderOf(t, c.MustFindDataVolume(t))
	c.onNode(t, fmt.Sprintf("mv %[1]s/data %[1]s/aside", c.folder))
}

// bringsDataBack once somebody has missed it.
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
	c.onNode(t, fmt.Sprintf("rm -df %[1]s/data && mv %[1]s/aside %[1]s/data && sync", c.folder))
}

// onNode of the server a script runs to its end.
func (c *cell) onNode(t *testing.T, script string) {
	t.Helper()
	c.host.start(t, c.host.number(t, c.node), script)(t)
}

// losesNode of the server: nobody hears of it, and somebody takes it out of the cluster, whose pods go with it while
// what is in them runs on. Then it comes back.
func losesNode(t *testing.T, c *cell) {
	t.Helper()
	node := framework.NewObject("v1", "Node", "", c.node)
	c.later(t, func(t *testing.T) {
		t.Helper()
		c.signalKubelet(t, "KILL") // It registers when it begins, and is begun again.
		framework.Eventually(t, "the node", func(ctx context.Context) error {
			return framework.HasCondition(ctx, node.DeepCopy(), "Ready")
		})
	})
	c.signalKubelet(t, "STOP")
	if err := framework.Suite.Kube.Delete(t.Context(), node.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	// Pods of a node that is gone are taken away after 40 s (kubernetes, pkg/controller/podgc).
	time.Sleep(90 * time.Second)
}

// startsClientAgain where it was on that node, too, and was taken away. A namespace that goes gets another one.
func startsClientAgain(t *testing.T, c *cell) {
	t.Helper()
	if c.way == byNamespace {
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

// uninstallsController, and not what outlives it.
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
