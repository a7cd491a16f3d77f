package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// Faults that occur while an online backup is running. After the fault, the server is deleted.
var (
	onlineOnly     = inOnline(noFault, nil)
	onlinePod      = inOnline(&fault{name: "its pod deleted"}, deletesJobsPod)
	onlineServer   = inOnline(&fault{name: "the server killed"}, killsServersPod)
	onlinePassword = inOnline(&fault{name: "another password"}, asksForPassword)
	onlineKilled   = inOnline(faultKilled, killsControllerNow)
	onlineKubelet  = inOnline(faultKubelet, nil)
	onlineNode     = inOnline(faultNode, nil)
	onlineAPI      = inOnline(faultAPIServer, nil)
	onlineStore    = inOnline(faultStoreHangs, nil)
	onlineFull     = &fault{name: "online backup, its scratch volume full", online: true, ofBackup: true, ofClass: true,
		before: fillsScratch}
)

// onlineWays lists the deletion paths that are combined with faults during an online backup. They include all kinds
// of deleted objects and both locations of an archive.
var onlineWays = []*way{byClaim, byXR, byNamespace, byClaimToStore}

// inOnline returns a fault that starts an online backup of each server. At a random moment during the backup, hits
// causes the failure that f describes.
func inOnline(f *fault, hits func(*testing.T, *cell)) *fault {
	out := *f
	out.name, out.online, out.ofBackup = "online backup, "+f.name, true, true
	if f == noFault {
		out.name = "online backup under way"
	}
	out.before = func(t *testing.T, c *cell) {
		t.Helper()
		for _, c := range c.affected() {
			c.beginsOnline(t)
		}
		// An online backup takes about ten seconds. The fault occurs at a random moment during that time.
		after := time.Duration(rand.Int64N(int64(10 * time.Second))) //nolint:gosec // It only has to be a random moment.
		time.Sleep(after)
		for _, c := range c.affected() {
			t.Logf("%v after its Job was made: %s", after, c.onlineNow(t.Context()))
		}
		if f.before != nil {
			f.before(t, c)
		}
		if hits != nil {
			hits(t, c)
		}
	}
	return &out
}

// fillsScratch fills the scratch volume while the clone is running, so that the clone fails.
func fillsScratch(t *testing.T, c *cell) {
	t.Helper()
	c.beginsOnline(t)
	c.Eventually(t, "a clone on a volume that is full", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := framework.Suite.Kube.List(ctx, &pods, c.ofBackup()); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return errors.New("there is no pod")
		}
		out, err := framework.Exec(ctx, pods.Items[0].Namespace, pods.Items[0].Name+"/clone", "", "sh", "-c",
			"cat /dev/zero >/data/full || sync; df /data")
		if err == nil {
			t.Logf("%s: %s", out, c.onlineNow(ctx))
		}
		return err
	})
}

// affected returns the cases that the fault affects: this case only, or all cases that run together if the fault
// affects the whole cluster.
func (c *cell) affected() []*cell {
	if c.fault.everywhere {
		return c.meeting.all()
	}
	return []*cell{c}
}

// beginsOnline starts an online backup of a server that contains some data, and waits for the pod of its Job.
func (c *cell) beginsOnline(t *testing.T) {
	t.Helper()
	c.Client().MustQuery(t, big)
	createBackup(t, c.Server, "one", "Online")
	c.Eventually(t, "the pod of the online backup", func(ctx context.Context) error {
		var pods corev1.PodList
		err := framework.Suite.Kube.List(ctx, &pods, c.ofBackup())
		if err == nil && len(pods.Items) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
}

// onlineNow returns the phase and message of the online backup.
func (c *cell) onlineNow(ctx context.Context) string {
	xr, err := c.XR(ctx)
	if err != nil {
		return err.Error()
	}
	request, _, _ := unstructured.NestedMap(xr.Object, "status", "internal", "requestedBackup")
	return fmt.Sprint(request["phase"], " ", request["message"])
}

// killsControllerNow kills the controller several times while it continues the backup.
func killsControllerNow(t *testing.T, c *cell) {
	t.Helper()
	for range 4 {
		c.host.run(t, `pkill -KILL -f '^/controller start' || true`)
		time.Sleep(3 * time.Second)
	}
}

// killsServersPod deletes the server's pod without a grace period, like a node that runs out of memory.
func killsServersPod(t *testing.T, c *cell) {
	t.Helper()
	if err := client.IgnoreNotFound(framework.Suite.Kube.Delete(t.Context(), c.Pods().MustFindServer(t),
		client.GracePeriodSeconds(0))); err != nil {
		t.Fatal(err)
	}
}

// asksForPassword changes the password in the claim while an online backup is running.
func asksForPassword(t *testing.T, c *cell) {
	t.Helper()
	c.Password = "password of the next life"
	c.Spec["password"] = c.Password
	c.Set(t, map[string]any{"password": c.Password})
}

// onlineVerified returns the number of the deleted instance's verified online backups. There may be none, because the
// fault may have stopped the backup.
func (c *cell) onlineVerified(t *testing.T) int {
	t.Helper()
	if c.way == byXR { // The remaining claim also takes this backup of the next instance.
		isAnswered(t, c.Server, "one", framework.PhaseVerified)
	}
	hasNoCloners(t, c.Server)
	records := c.Backups().MustList(t)
	return len(slices.DeleteFunc(records, func(r unstructured.Unstructured) bool { return methodOf(&r) != "Online" }))
}
