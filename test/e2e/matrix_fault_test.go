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

// A fault goes wrong while a server is deleted.
type fault struct {
	name string
	// everywhere is true if it hits the whole cluster.
	everywhere bool
	// ofBackup is true if it hits what only a backup has, and ofClass if only volumes of a StorageClass have it.
	ofBackup, ofClass bool
	// ofVolume is true if it hits the volume of the backups, and ofStore if it hits the store, where the backup goes then.
	ofVolume, ofStore bool
	// online is true if an online backup is under way.
	online bool

	// starting is during the first start; before the deletion, and during it.
	starting, before, during func(*testing.T, *cell)
	// after it ended, for each server.
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
	faultNoteRefused = &fault{name: "store refusing the note for a while", everywhere: true, ofBackup: true, ofStore: true,
		before: refusesNotes, during: waitsForStore}

	faultSettings = &fault{name: "settings refused in the midst of a change", before: changesSettings, after: mendsConfig}

	faults = []*fault{
		noFault, faultKilled, faultAbsent, faultPod, faultJob, faultKubelet, faultCrashLoop, faultHang, faultPassword,
		faultFull, faultBackupPVC, faultBackupPVCs, faultRecord, faultDamage, faultFirstStart, faultQuota, faultAside,
		faultNode, faultInstall, faultAPIServer, faultCore, faultFunction, faultClock,
		faultStoreHangs, faultStoreKilled, faultRevoked,
		onlineOnly, onlinePod, onlineServer, onlinePassword, onlineKilled, onlineKubelet, onlineNode, onlineAPI, onlineStore,
		onlineFull,
		faultSettings, faultMonth, faultNoteRefused, faultUnreadable,
	}
)

// digits of a percentage or time.
var digits = regexp.MustCompile(`\d+`)

// takesTheController before the deletion: where another test has it, there would be nothing left to kill it in.
func takesTheController(t *testing.T, c *cell) {
	t.Helper()
	theController.Lock()
	give := sync.OnceFunc(theController.Unlock)
	c.later(t, func(t *testing.T) { t.Helper(); give() })
}

// killsController whenever the deletion has come further.
func killsController(t *testing.T, c *cell) {
	t.Helper()
	kills := c.meeting.all()[0].atEachStep(t, func(ctx context.Context) error {
		if _, err := c.host.try(ctx, `pkill -KILL -f '^/controller start' || true`); err != nil {
			return err
		}
		if err := deletePods(ctx, framework.SystemNamespace,
			client.MatchingLabels{"app.kubernetes.io/name": "crossplane-mysql"}); err != nil {
			return err // A container that is killed again and again is not started again at once.
		}
		return nil
	})
	if kills < 2 {
		t.Errorf("want the controller killed at each step, it was %d times", kills)
	}
	t.Logf("the controller was killed %d times", kills)
}

// atEachStep of the deletion something is done, until it is over. It returns how often.
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

// isOver is the progress of a deletion that came to its end.
const isOver = "over"

// progress of the deletion, for what can be seen of it.
func (c *cell) progress(ctx context.Context) string {
	step := ""
	if c.way.heals {
		pvc := framework.NewObject("v1", "PersistentVolumeClaim", c.Namespace, c.Name+"-pvc")
		err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(pvc), pvc)
		if err == nil && pvc.GetUID() != c.handle && framework.HasCondition(ctx, c.Claim.DeepCopy(), "Ready") == nil {
			return isOver
		}
		step = strconv.FormatBool(err == nil && pvc.GetUID() == c.handle)
	} else if r, err := c.lifesRecord(ctx); err == nil {
		phase, _, _ := unstructured.NestedString(r.Object, "status", "phase")
		xr, err := c.xrOfLife(ctx)
		if phase == framework.PhaseProven && err == nil && xr == nil {
			return isOver
		}
		step = phase
	}
	return digits.ReplaceAllString(step+" "+c.Message(ctx), "")
}

// xrOfLife that is deleted; nil where it is gone.
func (c *cell) xrOfLife(ctx context.Context) (*unstructured.Unstructured, error) {
	all, err := listKind(ctx, "otus.homework/v1/XMySQL", "")
	if err != nil {
		return nil, err
	}
	for i := range all {
		if string(all[i].GetUID()) == c.life {
			return &all[i], nil
		}
	}
	return nil, nil //nolint:nilnil // None, and no error.
}

func deletePods(ctx context.Context, namespace string, labels client.MatchingLabels) error {
	return framework.Suite.Kube.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), labels,
		client.GracePeriodSeconds(0))
}

func aMinute(*testing.T, *cell) { time.Sleep(time.Minute) }

func aWhile(*testing.T, *cell) { time.Sleep(30 * time.Second) }

// stopsController before the deletion, and for a minute of it.
func stopsController(t *testing.T, c *cell) {
	t.Helper()
	controllers(t, 0)
	c.later(t, func(t *testing.T) { t.Helper(); controllers(t, 1) })
}

// ofBackup are the Job of the backup and its pod of the life, wherever they run.
func (c *cell) ofBackup() client.ListOption {
	return client.MatchingLabels{"app.kubernetes.io/component": "backup", "crossplane-mysql.io/xr": c.life}
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

// stopsKubelet of the server's node. It does not notice.
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

// signalKubelet of the server's node.
func (c *cell) signalKubelet(t *testing.T, signal string) {
	t.Helper()
	c.host.run(t, fmt.Sprintf("pkill -%s -f '^/run/kube kubelet .*--hostname-override=%s '", signal, c.node))
}

func crashLoops(t *testing.T, c *cell) {
	t.Helper()
	crashLoopsWith(t, c.Server, map[string]any{"no_such_setting": "1"})
}

// changesSettings to some that are being refused when the deletion begins.
func changesSettings(t *testing.T, c *cell) {
	t.Helper()
	c.Set(t, map[string]any{"config": map[string]any{"no_such_setting": "1"}})
	settingsAre(t, c.Server, "ValidatingSettings", "")
}

// mendsConfig where the claim goes on.
func mendsConfig(t *testing.T, c *cell) {
	t.Helper()
	c.amend(t, `{"spec":{"config":null}}`)
}

// amend the claim, if it is one that goes on.
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

// hangs as on a disk that does not answer.
func hangs(t *testing.T, c *cell) {
	t.Helper()
	uid := strings.ReplaceAll(string(c.Pods().MustFindServer(t).UID), "-", "[-_]") // Names of cgroups have either.
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

// behindOurBack is a password that no claim and no Secret has.
const behindOurBack = "behind our back"

func changesPassword(t *testing.T, c *cell) {
	t.Helper()
	c.Client().MustQuery(t, "ALTER USER root@'%' IDENTIFIED BY '"+behindOurBack+
		"'; ALTER USER root@'%' DISCARD OLD PASSWORD")
}

// saysPassword where the server goes on. One that is restored has the claim's.
func saysPassword(t *testing.T, c *cell) {
	t.Helper()
	if c.way.heals {
		c.Password, c.Spec["password"] = behindOurBack, behindOurBack
		c.amend(t, `{"spec":{"password":"`+behindOurBack+`"}}`)
	}
}

// fillsBackupPV to the last byte.
func fillsBackupPV(t *testing.T, c *cell) {
	t.Helper()
	startHand(t, c.Server, "hand", c.BackupPVC())
	if _, err := c.volumeOfBackups(t.Context()); err != nil { // Its claim will be another one where the namespace goes.
		t.Fatal(err)
	}
	if _, err := execByHand(t.Context(), c.Server, "hand", "cat /dev/zero >/data/full || sync"); err != nil {
		t.Fatal(err)
	}
}

// waitsForGrowth of the volume, by whatever claim it has: nobody has to ask for it.
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

// volumeOfBackups of the instance, whatever claim it has.
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

// bindBackups to their volume, as the first backup would, and return it.
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

// deletesBackupPVC of a volume that is kept.
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

// deletesBackupPVCs whenever the deletion has come further: the one of the claim's namespace, and that of a rescue.
func deletesBackupPVCs(t *testing.T, c *cell) {
	t.Helper()
	deleted := 0
	c.atEachStep(t, func(ctx context.Context) error {
		for _, ns := range []string{c.Namespace, rescueNamespace} {
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

// killsFirstStart of the server, at any moment of its first four seconds.
func killsFirstStart(t *testing.T, c *cell) {
	t.Helper()
	after := time.Duration(rand.Int64N(int64(4 * time.Second))) //nolint:gosec // Any moment will do.
	atWork := killFirstStart(t, c.Server, after)
	t.Logf("the first start was killed after %v, in its midst: %t", after, atWork)
}

// folderOf a volume, on the node that has it.
func folderOf(t *testing.T, v *corev1.PersistentVolume) string {
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

// damagesArchive as soon as some of it is written. There is enough of it for a while until its proof.
func damagesArchive(t *testing.T, c *cell) {
	t.Helper()
	c.history = startHistory(t, c.Server)
	c.Client().MustQuery(t, big)
	folder := folderOf(t, c.bindBackups(t))
	damaged := c.host.start(t, c.host.number(t, c.node), fmt.Sprintf(`for i in $(seq 20000); do
		for f in %s/*/data.tar.zst.partial; do
			if test -e "$f" && test $(stat --format=%%s "$f") -gt 1000000; then
				printf 'not what was written' | dd of="$f" bs=1 seek=500000 conv=notrunc status=none && echo damaged && exit 0
			fi
		done
		sleep 0.02
	done; exit 1`, folder))
	c.damaged = damaged
}

// sawDamage is a record that failed before it was proven.
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

// killsAPIServer at once and in the middle. It is started again, and so is the controller manager when it is back: in
// its first second an API server that was killed says of CRDs' objects that there are none, and of rights that there
// are none either. A garbage collector that has heard this was seen to leave XRs and an XRD for a quarter of an hour;
// one that loses its lease, as others do then, starts anew.
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

// stopsCore before the deletion, and for a while of it.
func stopsCore(t *testing.T, c *cell) {
	t.Helper()
	scale(t, "crossplane-system", "crossplane", 0)
	c.later(t, func(t *testing.T) { t.Helper(); scale(t, "crossplane-system", "crossplane", 1) })
}

// stopsFunction before the deletion, and for a while of it. Crossplane would start it again.
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
