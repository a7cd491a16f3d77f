package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// A fault is a failure, such as a killed controller, that the matrix causes while a server is deleted.
type fault struct {
	name string
	// everywhere is true if the fault affects the whole cluster.
	everywhere bool
	// ofBackup is true if the fault requires a deletion path that takes a backup. ofClass is true if the fault requires
	// volumes of a StorageClass.
	ofBackup, ofClass bool
	// ofVolume is true if the fault affects the backup volume. ofStore is true if the fault affects the store, so that
	// the backup must be written to the store.
	ofVolume, ofStore bool
	// online is true if the fault occurs during an online backup.
	online bool

	// starting is called during the first start of the server, and before is called before its deletion. during is
	// called while the server is being deleted.
	starting, before, during func(*testing.T, *cell)
	// after is called for each server after the deletion, when the fault has ended.
	after func(*testing.T, *cell)
}

// The faults.
var (
	noFault     = &fault{name: "none"}
	faultKilled = &fault{name: "controller killed at each step", everywhere: true, before: takesTheController,
		during: killsController}
	faultAbsent = &fault{name: "controller not running for a minute", everywhere: true, before: stopsController,
		during: aMinute}
	faultPod     = &fault{name: "backup Job's pod deleted", ofBackup: true, during: deletesJobsPod}
	faultJob     = &fault{name: "backup Job deleted", ofBackup: true, during: deletesJob}
	faultKubelet = &fault{name: "kubelet stopped for a while", everywhere: true, during: stopsKubelet,
		after: startsClientAgain}
	faultCrashLoop = &fault{name: "mysqld crash-looping", before: crashLoops, after: mendsConfig}
	faultHang      = &fault{name: "mysqld hanging until SIGKILL", before: hangs, during: killsServer}
	faultPassword  = &fault{name: "root's password changed behind our back", before: changesPassword, after: saysPassword}
	faultFull      = &fault{name: "backup volume full", ofBackup: true, ofClass: true, ofVolume: true,
		before: fillsBackupPV, during: waitsForGrowth}
	faultBackupPVC  = &fault{name: "backup PVC deleted", ofBackup: true, ofVolume: true, before: deletesBackupPVC}
	faultBackupPVCs = &fault{name: "backup PVC deleted at each step", ofBackup: true, ofVolume: true,
		during: deletesBackupPVCs}
	faultFirstStart = &fault{name: "first start killed at a moment", starting: killsFirstStart}
	faultRecord     = &fault{name: "record deleted", ofBackup: true, during: deletesRecord, after: asksForRecord}
	faultDamage     = &fault{name: "archive damaged before its proof", ofBackup: true, ofVolume: true,
		before: damagesArchive, after: sawDamage}
	faultAPIServer = &fault{name: "API server killed twice", everywhere: true, during: killsAPIServer}
	faultCore      = &fault{name: "Crossplane not running for a while", everywhere: true, before: stopsCore,
		during: aWhile}
	faultFunction = &fault{name: "function not running for a while", everywhere: true, before: stopsFunction,
		during: aWhile}
	faultQuota   = &fault{name: "quota on the backup's pod", ofBackup: true, before: forbidsPods, during: allowsPods}
	faultAside   = &fault{name: "data moved aside", before: movesData, during: bringsDataBack}
	faultNode    = &fault{name: "node gone for a while", everywhere: true, during: losesNode, after: startsClientAgain}
	faultInstall = &fault{name: "controller uninstalled, then installed", everywhere: true,
		before: uninstallsController, during: aMinute}
	faultClock = &fault{name: "controller's clock an hour off", everywhere: true, before: setsClock,
		during: deletionsAreOver}
	faultUnreadable = &fault{name: "config made unreadable", during: breaksConfig}

	faultMonth = &fault{name: "controller's clock 31 days off", everywhere: true, before: setsClockByAMonth,
		during: deletionsAreOver}

	faultStoreHangs = &fault{name: "store not answering for a while", everywhere: true, ofBackup: true, ofStore: true,
		before: stopsStore, during: waitsForStore}
	faultStoreKilled = &fault{name: "store and gateway killed at each step", everywhere: true, ofBackup: true,
		ofStore: true, during: killsStore}
	faultRevoked = &fault{name: "store's credentials revoked for a while", everywhere: true, ofBackup: true,
		ofStore: true, before: revokesCredentials, during: waitsForStore}
	faultEntryRefused = &fault{name: "store refusing the note for a while", everywhere: true, ofBackup: true, ofStore: true,
		before: refusesEntries, during: waitsForStore}

	faultSettings = &fault{name: "settings refused in the midst of a change", before: changesSettings, after: mendsConfig}

	faults = []*fault{
		noFault, faultKilled, faultAbsent, faultPod, faultJob, faultKubelet, faultCrashLoop, faultHang, faultPassword,
		faultFull, faultBackupPVC, faultBackupPVCs, faultRecord, faultDamage, faultFirstStart, faultQuota, faultAside,
		faultNode, faultInstall, faultAPIServer, faultCore, faultFunction, faultClock,
		faultStoreHangs, faultStoreKilled, faultRevoked,
		onlineOnly, onlinePod, onlineServer, onlinePassword, onlineKilled, onlineKubelet, onlineNode, onlineAPI, onlineStore,
		onlineFull,
		faultSettings, faultMonth, faultEntryRefused, faultUnreadable,
	}
)

// digits matches the numbers in a status message, which change while the deletion is in the same step.
var digits = regexp.MustCompile(`\d+`)

// takesTheController acquires the lock theController before the deletion. Otherwise another test could stop the
// controller that this fault kills.
func takesTheController(t *testing.T, c *cell) {
	t.Helper()
	theController.Lock()
	give := sync.OnceFunc(theController.Unlock)
	c.later(t, func(t *testing.T) { t.Helper(); give() })
}

// killsController kills the controller at each step of the deletion.
func killsController(t *testing.T, c *cell) {
	t.Helper()
	kills := c.meeting.all()[0].atEachStep(t, func(ctx context.Context) error {
		if _, err := c.host.try(ctx, `pkill -KILL -f '^/controller start' || true`); err != nil {
			return err
		}
		if err := deletePods(ctx, framework.SystemNamespace,
			client.MatchingLabels{"app.kubernetes.io/name": "crossplane-mysql"}); err != nil {
			return err // The pod is replaced, because the kubelet delays restarts of a container that is killed repeatedly.
		}
		return nil
	})
	if kills < 2 {
		t.Errorf("want the controller killed at each step, it was %d times", kills)
	}
	t.Logf("the controller was killed %d times", kills)
}

// atEachStep calls run each time the deletion reaches another step, until the deletion is complete. It returns the
// number of steps.
func (c *cell) atEachStep(t *testing.T, run func(context.Context) error) int {
	t.Helper()
	seen := map[string]bool{}
	framework.Eventually(t, "the deletion", func(ctx context.Context) error {
		step := c.progress(ctx)
		if step == isOver {
			return nil
		}
		if !seen[step] {
			seen[step] = true
			if err := run(ctx); err != nil {
				return err
			}
		}
		return fmt.Errorf("it is at %s", step)
	})
	return len(seen)
}

// isOver is the value that the method progress returns when the deletion is complete.
const isOver = "over"

// progress returns a text that identifies the current step of the deletion: the phase of the backup, and the status
// message without numbers.
func (c *cell) progress(ctx context.Context) string {
	step := ""
	if c.way.heals {
		pvc := framework.NewObject("v1", "PersistentVolumeClaim", c.Namespace, c.DataPVC())
		err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(pvc), pvc)
		if err == nil && pvc.GetUID() != c.handle && framework.HasCondition(ctx, c.Claim.DeepCopy(), "Ready") == nil {
			return isOver
		}
		step = strconv.FormatBool(err == nil && pvc.GetUID() == c.handle)
	} else if r, err := c.lifesRecord(ctx); err == nil {
		phase, _, _ := unstructured.NestedString(r.Object, "status", "phase")
		xr, err := c.xrOfInstance(ctx)
		if phase == framework.PhaseVerified && err == nil && xr == nil {
			return isOver
		}
		step = phase
	}
	return digits.ReplaceAllString(step+" "+c.Message(ctx), "")
}

// xrOfInstance returns the composite resource of the deleted instance, or nil if it no longer exists.
func (c *cell) xrOfInstance(ctx context.Context) (*unstructured.Unstructured, error) {
	kind := "otus.homework/v1/XMySQL"
	if c.way.own {
		kind = "crossplane-mysql.io/v1alpha1/MySQL"
	}
	all, err := listKind(ctx, kind, "")
	if err != nil {
		return nil, err
	}
	for i := range all {
		if string(all[i].GetUID()) == c.instanceID {
			return &all[i], nil
		}
	}
	return nil, nil //nolint:nilnil // There is none, which is no error.
}

func deletePods(ctx context.Context, namespace string, labels client.MatchingLabels) error {
	return framework.Suite.Kube.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), labels,
		client.GracePeriodSeconds(0))
}

func aMinute(*testing.T, *cell) { time.Sleep(time.Minute) }

func aWhile(*testing.T, *cell) { time.Sleep(30 * time.Second) }

// stopsController stops the controller before the deletion. It stays stopped during the first minute of the deletion.
func stopsController(t *testing.T, c *cell) {
	t.Helper()
	controllers(t, 0)
	c.later(t, func(t *testing.T) { t.Helper(); controllers(t, 1) })
}

// ofBackup selects the instance's backup Job and its pod, in any namespace.
func (c *cell) ofBackup() client.ListOption {
	return client.MatchingLabels{"app.kubernetes.io/component": "backup", "crossplane-mysql.io/xr": c.instanceID}
}

func deletesJobsPod(t *testing.T, c *cell) {
	t.Helper()
	c.Eventually(t, "the backup Job's pod", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := framework.Suite.Kube.List(ctx, &pods, c.ofBackup()); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return errors.New("there is none")
		}
		return client.IgnoreNotFound(framework.Suite.Kube.Delete(ctx, &pods.Items[0], client.GracePeriodSeconds(0)))
	})
}

func deletesJob(t *testing.T, c *cell) {
	t.Helper()
	c.Eventually(t, "the backup Job", func(ctx context.Context) error {
		jobs := framework.NewList("batch/v1/Job")
		if err := framework.Suite.Kube.List(ctx, jobs, c.ofBackup()); err != nil {
			return err
		}
		if len(jobs.Items) == 0 {
			return errors.New("there is none")
		}
		return client.IgnoreNotFound(framework.Suite.Kube.Delete(ctx, &jobs.Items[0], propagation("Background")))
	})
}

// stopsKubelet stops the kubelet of the server's node with SIGSTOP.
func stopsKubelet(t *testing.T, c *cell) {
	t.Helper()
	c.later(t, func(t *testing.T) { t.Helper(); c.signalKubelet(t, "CONT") })
	c.signalKubelet(t, "STOP")
	if c.way == byClaim || c.way == byXR {
		c.Says(t, "which is not ready (Kubelet stopped posting node status.)")
		return
	}
	time.Sleep(30 * time.Second)
}

// signalKubelet sends a signal to the kubelet of the server's node.
func (c *cell) signalKubelet(t *testing.T, signal string) {
	t.Helper()
	c.host.run(t, fmt.Sprintf("pkill -%s -f '^/run/kube kubelet .*--hostname-override=%s '", signal, c.node))
}

func crashLoops(t *testing.T, c *cell) {
	t.Helper()
	crashLoopsWith(t, c.Server, map[string]any{"no_such_setting": "1"})
}

// changesSettings changes the server's settings to invalid ones, which are still being validated when the deletion
// begins.
func changesSettings(t *testing.T, c *cell) {
	t.Helper()
	c.Set(t, map[string]any{"config": map[string]any{"no_such_setting": "1"}})
	settingsAre(t, c.Server, "ValidatingSettings", "")
}

// mendsConfig removes the invalid settings from the claim, if the claim was not deleted.
func mendsConfig(t *testing.T, c *cell) {
	t.Helper()
	c.amend(t, `{"spec":{"config":null}}`)
}

// amend patches the claim, if the deletion path keeps the claim. For example, it deletes only the composite resource.
func (c *cell) amend(t *testing.T, patch string) {
	t.Helper()
	if !c.way.heals && c.way != byXR && c.way != byXRForeground && c.way != byXROrphan {
		return
	}
	if err := framework.Suite.Kube.Patch(t.Context(), c.Claim.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// hangs stops the server's mysqld with SIGSTOP, so that it hangs as if its disk did not respond.
func hangs(t *testing.T, c *cell) {
	t.Helper()
	uid := strings.ReplaceAll(string(c.Pods().MustFindServer(t).UID), "-", "[-_]") // Cgroup names contain one of them.
	out := c.host.run(t, fmt.Sprintf(
		`for d in $(grep -ls '%s' /proc/[0-9]*/cgroup | cut -d/ -f3); do test "$(cat /proc/$d/comm)" != mysqld || echo $d; done`, uid))
	servers := strings.Fields(out)
	if len(servers) != 1 {
		t.Fatalf("want one server, found %q", out)
	}
	c.process = servers[0]
	c.host.run(t, "kill -STOP "+c.process)
}

func killsServer(t *testing.T, c *cell) {
	t.Helper()
	framework.Eventually(t, "the server's end", func(ctx context.Context) error {
		pods, err := c.Pods().Of(ctx, "server")
		for i := range pods {
			if pods[i].DeletionTimestamp == nil {
				return errors.New("nobody ends it")
			}
		}
		return err
	})
	c.host.run(t, "kill -KILL "+c.process+" || true")
}

// behindOurBack is the password that a user sets directly in the server. No claim and no Secret contains it.
const behindOurBack = "behind our back"

func changesPassword(t *testing.T, c *cell) {
	t.Helper()
	c.Client().MustQuery(t, "ALTER USER root@'%' IDENTIFIED BY '"+behindOurBack+
		"'; ALTER USER root@'%' DISCARD OLD PASSWORD")
}

// saysPassword writes the password that was set directly in the server into the claim, if the server keeps running. A
// restored server gets the claim's password, so nothing has to be done.
func saysPassword(t *testing.T, c *cell) {
	t.Helper()
	if c.way.heals {
		c.Password, c.Spec["password"] = behindOurBack, behindOurBack
		c.amend(t, `{"spec":{"password":"`+behindOurBack+`"}}`)
	}
}

// fillsBackupPV fills the backup volume completely.
func fillsBackupPV(t *testing.T, c *cell) {
	t.Helper()
	startHand(t, c.Server, "hand", c.BackupPVC())
	if _, err := c.volumeOfBackups(t.Context()); err != nil { // Later, the PVC may be deleted with its namespace.
		t.Fatal(err)
	}
	if _, err := execByHand(t.Context(), c.Server, "hand", "cat /dev/zero >/data/full || sync"); err != nil {
		t.Fatal(err)
	}
}

// waitsForGrowth waits until the controller has expanded the full backup volume, without any manual action. During a
// deletion, the volume may be bound to a PVC in a different namespace.
func waitsForGrowth(t *testing.T, c *cell) {
	t.Helper()
	c.Eventually(t, "room for the backup", func(ctx context.Context) error {
		v, err := c.volumeOfBackups(ctx)
		if err != nil {
			return err
		}
		if room := v.Spec.Capacity[corev1.ResourceStorage]; room.Cmp(resource.MustParse("2Gi")) < 0 {
			return fmt.Errorf("it has %s", room.String())
		}
		return nil
	})
}

// volumeOfBackups returns the instance's backup volume, regardless of the PVC that uses it.
func (c *cell) volumeOfBackups(ctx context.Context) (*corev1.PersistentVolume, error) {
	if c.backups == "" {
		v, err := c.VolumeOf(ctx, c.BackupPVC())
		if err == nil && v == nil {
			err = errors.New("the backups have no volume")
		}
		if err != nil {
			return nil, err
		}
		c.backups = v.Name
	}
	v := &corev1.PersistentVolume{}
	return v, framework.Suite.Kube.Get(ctx, client.ObjectKey{Name: c.backups}, v)
}

// bindBackups binds the backup PVC to a volume, as the first backup would, and returns the volume.
func (c *cell) bindBackups(t *testing.T) *corev1.PersistentVolume {
	t.Helper()
	startHand(t, c.Server, "hand", c.BackupPVC())
	endHand(t, c.Server, "hand")
	v, err := c.volumeOfBackups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// deletesBackupPVC deletes the backup PVC after the controller has protected its volume.
func deletesBackupPVC(t *testing.T, c *cell) {
	t.Helper()
	c.bindBackups(t)
	framework.Eventually(t, "the mark of the retained volume", func(ctx context.Context) error {
		v, err := c.volumeOfBackups(ctx)
		if err == nil && len(v.Finalizers) < 2 {
			err = fmt.Errorf("its volume has the finalizers %v", v.Finalizers)
		}
		return err
	})
	if err := framework.Suite.Kube.Delete(t.Context(),
		framework.NewObject("v1", "PersistentVolumeClaim", c.Namespace, c.BackupPVC())); err != nil {
		t.Fatal(err)
	}
}

// deletesBackupPVCs deletes the backup PVC at each step of the deletion, in the namespace of the claim and in the
// recovery namespace.
func deletesBackupPVCs(t *testing.T, c *cell) {
	t.Helper()
	deleted := 0
	c.atEachStep(t, func(ctx context.Context) error {
		for _, ns := range []string{c.Namespace, recoveryNamespace} {
			var pvcs corev1.PersistentVolumeClaimList
			if err := framework.Suite.Kube.List(ctx, &pvcs, client.InNamespace(ns),
				client.MatchingLabels{"app.kubernetes.io/component": "backup"}); err != nil {
				return err
			}
			for i := range pvcs.Items {
				p := &pvcs.Items[i]
				if p.DeletionTimestamp != nil || p.Annotations["crossplane-mysql.io/claim-namespace"] != c.Namespace ||
					p.Annotations["crossplane-mysql.io/claim-name"] != c.Name {
					continue
				}
				if err := client.IgnoreNotFound(framework.Suite.Kube.Delete(ctx, p)); err != nil {
					return err
				}
				deleted++
			}
		}
		return nil
	})
	c.BackupPVCDeleted = true
	if deleted == 0 {
		t.Error("want the backup PVC deleted, there was none")
	}
	t.Logf("the backup PVC was deleted %d times", deleted)
}

// killsFirstStart kills the server's first start at a random moment within four seconds.
func killsFirstStart(t *testing.T, c *cell) {
	t.Helper()
	after := time.Duration(rand.Int64N(int64(4 * time.Second))) //nolint:gosec // It only has to be a random moment.
	atWork := killFirstStart(t, c.Server, after)
	t.Logf("the first start was killed after %v, in its midst: %t", after, atWork)
}

// dirOf returns the directory of a volume on its node.
func dirOf(t *testing.T, v *corev1.PersistentVolume) string {
	t.Helper()
	switch {
	case v.Spec.HostPath != nil:
		return v.Spec.HostPath.Path
	case v.Spec.Local != nil:
		return v.Spec.Local.Path
	}
	t.Fatalf("volume %s is of no kind that can be reached from its node", v.Name)
	return ""
}

// damagesArchive damages the archive as soon as a part of it is written. The archive is large enough that this
// happens before it is verified.
func damagesArchive(t *testing.T, c *cell) {
	t.Helper()
	c.history = startHistory(t, c.Server)
	c.Client().MustQuery(t, big)
	resultDir := dirOf(t, c.bindBackups(t))
	damaged := c.host.start(t, c.host.number(t, c.node), fmt.Sprintf(`for i in $(seq 20000); do
		for f in %s/*/data.tar.zst.partial; do
			if test -e "$f" && test $(stat --format=%%s "$f") -gt 1000000; then
				printf 'not what was written' | dd of="$f" bs=1 seek=500000 conv=notrunc status=none && echo damaged && exit 0
			fi
		done
		sleep 0.02
	done; exit 1`, resultDir))
	c.damaged = damaged
}

// sawDamage checks that the backup failed before it was verified.
func sawDamage(t *testing.T, c *cell) {
	t.Helper()
	c.damaged(t)
	c.proof(t)
	for _, m := range c.history.soFar() {
		if phase, _, _ := unstructured.NestedString(m.object.Object, "status",
			"phase"); m.object.GetKind() == "BackupRecord" && phase == phaseFailed {
			return
		}
	}
	t.Error("want the damage found, no backup failed")
}

// killsAPIServer kills the API server twice, the second time in the middle of the deletion. Once the API server is
// back, it kills the controller manager.
//
// In its first second after a restart, an API server reports that there are no custom resources and no permissions. A
// garbage collector that had read this left composite resources and an XRD undeleted for a quarter of an hour. In
// other clusters, the controller manager also loses its lease at this time, and restarts.
func killsAPIServer(t *testing.T, c *cell) {
	t.Helper()
	for range 2 {
		time.Sleep(4 * time.Second)
		c.host.run(t, "pkill -KILL -f '^/run/kube kube-apiserver '")
	}
	time.Sleep(2 * time.Second)
	framework.Eventually(t, "the API server", func(ctx context.Context) error {
		return framework.Suite.Kube.List(ctx, framework.NewList("crossplane-mysql.io/v1alpha1/BackupRecord"))
	})
	c.host.run(t, "pkill -KILL -f '^/run/kube kube-controller-manager '")
}

// stopsCore stops Crossplane before the deletion. It stays stopped during the first part of the deletion.
func stopsCore(t *testing.T, c *cell) {
	t.Helper()
	scale(t, "crossplane-system", "crossplane", 0)
	c.later(t, func(t *testing.T) { t.Helper(); scale(t, "crossplane-system", "crossplane", 1) })
}

// stopsFunction stops the function before the deletion. It stays stopped during the first part of the deletion. Its
// revision is paused, because Crossplane would start it again.
func stopsFunction(t *testing.T, c *cell) {
	t.Helper()
	revisions := framework.NewList("pkg.crossplane.io/v1/FunctionRevision")
	if err := framework.Suite.Kube.List(t.Context(), revisions); err != nil || len(revisions.Items) == 0 {
		t.Fatalf("cannot find the function's revision: %v", err)
	}
	revision := &revisions.Items[0]
	paused := func(t *testing.T, form string) {
		t.Helper()
		raw := fmt.Appendf(nil, `{"metadata":{"annotations":{"crossplane.io/paused":%q}}}`, form)
		if err := framework.Suite.Kube.Patch(context.WithoutCancel(t.Context()), revision.DeepCopy(),
			client.RawPatch(types.MergePatchType, raw)); err != nil {
			t.Fatal(err)
		}
	}
	paused(t, "true")
	var all appsv1.DeploymentList
	if err := framework.Suite.Kube.List(t.Context(), &all, client.InNamespace("crossplane-system")); err != nil {
		t.Fatal(err)
	}
	name := ""
	for _, d := range all.Items {
		if strings.HasPrefix(d.Name, function) {
			name = d.Name
		}
	}
	scale(t, "crossplane-system", name, 0)
	c.later(t, func(t *testing.T) {
		t.Helper()
		scale(t, "crossplane-system", name, 1)
		paused(t, "false")
	})
}
