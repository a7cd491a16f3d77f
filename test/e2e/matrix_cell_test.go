package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// A cell is a test case of the fault-injection matrix. It deletes and restores a server in one way (deletion path),
// while one fault occurs.
type cell struct {
	*framework.Server

	way   *way
	fault *fault

	host    *host
	meeting *meeting

	// instanceID is the UID of the deleted composite resource. node is the node of the server.
	instanceID, node string
	// handle is the UID of the data PVC before the deletion. A new PVC has a different UID.
	handle types.UID
	// process is the process ID of the server's mysqld, if the fault makes it hang. backups is the name of the backup
	// volume.
	process, backups string
	// resultDir is the path of the data directory on the node. quota is the ResourceQuota that prevents new pods.
	resultDir string
	quota     *corev1.ResourceQuota
	// before contains the rows of the example table before the deletion. The restored server must have the same rows.
	before string
	writer *writer
	// damaged waits until the test has damaged the archive.
	damaged func(*testing.T)
	// history contains the changes of the BackupRecord and the Jobs during the case, in which the test looks for the
	// failed backup.
	history *history
}

func (c *cell) title() string { return c.way.name + " / " + c.fault.name }

// shares returns a text that identifies the changes that the case makes to the whole cluster, such as stopping
// Crossplane. Cases with the same text can run together. It is "" if the case affects only its own server.
func (c *cell) shares() string {
	shares := ""
	if c.way.uninstall != nil {
		shares = c.way.name
	}
	if c.fault.everywhere {
		shares += "/" + c.fault.name
	}
	return shares
}

// isAlone reports whether no other test can use the cluster while the case is running. A case that kills the
// controller is an exception, because Kubernetes replaces the controller soon.
func (c *cell) isAlone() bool {
	return c.way.uninstall != nil || c.fault.everywhere && c.fault != faultKilled
}

// senseless returns why the deletion path and the fault of the case cannot be combined, or "" if they can.
func (c *cell) senseless() string {
	switch {
	case c.way.heals && c.fault.ofBackup:
		return "nothing is backed up"
	case c.fault.online && !slices.Contains(onlineWays, c.way):
		return "an online backup does not know who deletes"
	case c.usesStore() && c.fault.ofVolume:
		return "its backup has no volume"
	case c.fault.ofStore && !slices.Contains(storeWays, c.way):
		return "a store does not know who has deleted what"
	case c.way.own && (c.fault.ofStore || c.fault.online):
		return "what is done to a running server does not depend on who deletes it"
	case c.way == byFunction && c.fault == faultFunction:
		return "they are one"
	}
	return ""
}

// every returns a case for each combination of a fault and a deletion path.
func every() []*cell {
	all := make([]*cell, 0, len(ways)*len(faults))
	for _, f := range faults {
		for _, w := range ways {
			all = append(all, &cell{way: w, fault: f})
		}
	}
	return all
}

// pairs returns the combinations of a deletion path and a fault that run by default, instead of the whole matrix.
// They include each path and each fault at least once, except for the entries of onlyInWhole.
func pairs(t *testing.T) []*cell {
	t.Helper()
	var all []*cell
	seen := map[any]bool{}
	for _, p := range []struct {
		fault *fault
		ways  []*way
	}{
		{noFault, []*way{byFunction}},
		{faultKilled, []*way{byClaim}},
		{faultAPIServer, []*way{byReplace}},
		{faultRecord, []*way{byDeployment}},
		{faultBackupPVC, []*way{byXRForeground}},
		{faultHang, []*way{byFinalizers}},
		{faultPod, []*way{ownForeground}},
	} {
		for _, w := range p.ways {
			all = append(all, &cell{way: w, fault: p.fault})
			seen[w], seen[p.fault] = true, true
		}
	}
	for _, w := range ways {
		isOnlyInWhole(t, w.name, seen[w], onlyInWhole[w])
	}
	for _, f := range faults {
		isOnlyInWhole(t, f.name, seen[f], onlyInWhole[f])
	}
	return all
}

// isOnlyInWhole checks that the short run tests a deletion path or a fault, or that onlyInWhole has the reason why it
// does not, but not both.
func isOnlyInWhole(t *testing.T, name string, isSeen bool, place string) {
	t.Helper()
	if isSeen == (place != "") {
		t.Errorf("a short run has either a cell of it or a reason why not: %s", name)
	}
	if place != "" {
		t.Logf("make matrix has %q; here, %s", name, place)
	}
}

// onlyInWhole lists the deletion paths and faults that only the whole matrix covers, with the test that covers them
// in a short run. Many of these cases need the whole cluster for two minutes, during which no other test can run.
var onlyInWhole = map[any]string{
	byClaimForeground: "an XR is deleted in the foreground",
	byClaimOrphan:     "TestNext has an XR that lost its claim",
	byXR:              "an XR is deleted in the foreground",
	byXROrphan:        "TestNext has what is left without its XR",
	byNamespace:       "TestNamespaceComesBack deletes one",
	byPVC:             "the model deletes it at each step",
	byPackage:         "the Function is uninstalled",
	byClaimToStore:    "TestStore deletes one",
	ownBackground:     "TestWithoutClaim deletes one in the foreground, which is harder",
	ownOrphan:         "TestNext has what is left without its XR",
	ownNamespace:      "TestNamespaceComesBack deletes one",
	ownDeployment:     "a claim is deleted after its Deployment",
	ownReplace:        "a claim is created again at once",

	faultAbsent:     "a controller that is killed at each step is not there either",
	faultKubelet:    "nobody hears of a pod that ends, as while the API server is killed",
	faultCore:       "where the Function is uninstalled, nobody composes anything",
	faultFunction:   "where it is uninstalled, nobody answers",
	faultJob:        "the model fails a backup at each moment",
	faultCrashLoop:  "a server that hangs has to be killed, too",
	faultSettings:   "TestRefusedSettingsStopNoServer has settings that are refused",
	faultBackupPVCs: "it is deleted once, and in the model at each step",
	faultPassword:   "TestRealRestored lets root in whatever it had",
	faultFull:       "TestBackupFull has what the agent says, and TestNext what becomes of it",
	faultFirstStart: "TestRealKilledAtEachMoment kills it",
	faultDamage:     "tests of package archive refuse each kind of damage",
	faultQuota:      "TestWhyNoPod has the words",
	faultUnreadable: "TestUnreadableKeepsData has what cannot be read of an instance that is deleted",
	faultAside:      "TestRealDataMoved has each folder that a server may find",
	faultNode:       "a pod that nobody hears of is seen while the API server is killed, and TestWhyPodWaits has the words",
	faultInstall:    "TestDeploy has what goes with it",
	faultClock:      "TestClockIsOff has each step of a deletion with it",
	faultMonth:      "TestWrongClockPrunesNothing and TestWrongClockDeletesNoBackup have each decision",

	onlineOnly:     "the model deletes an instance at each moment of one",
	onlinePod:      "TestOnline has a Job that fails",
	onlineServer:   "TestRealCloneFails has a server that is not there",
	onlinePassword: "whoever makes the account logs in with whichever password there is",
	onlineKilled:   "the model ends the controller after each change",
	onlineKubelet:  "as without an online backup",
	onlineNode:     "as without an online backup",
	onlineAPI:      "as without an online backup",
	onlineStore:    "as without an online backup",
	onlineFull:     "TestOnlineBackupWithoutRoom has none, and a clone says each error of its server",

	faultStoreHangs:   "TestRealSlow waits for one, and the model has it down at any step",
	faultStoreKilled:  "TestRealStoreFaults ends each connection, and the model each change",
	faultEntryRefused: "TestColdBackupLetsServerGo and the model have a store that refuses what is recorded",
	faultRevoked:      "TestRealFindEntries has one, and the model has a store that refuses at any step",
}

// run runs the case, from the first start of the server to the deletion of the second instance. If the case fails, it
// logs the state before the cleanup.
func (c *cell) run(t *testing.T, resultDir string) {
	t.Helper()
	c.Server = c.newServer(t)
	if c.usesStore() {
		c.Spec["backup"] = storedIn(c.host.store.GetName())
	}
	if c.way == byNamespace || c.way == ownNamespace {
		framework.AllowReuse(t, c.Namespace)
	}
	t.Cleanup(func() {
		if t.Failed() && resultDir != "" {
			c.log(t, filepath.Join(resultDir, logName(c.title())))
		}
	})
	c.start(t)
	c.step(t, c.fault.everywhere, c.fault.before)
	c.step(t, true, c.way.uninstall)
	c.way.delete(t, c)
	c.step(t, c.fault.everywhere, c.fault.during)
	c.step(t, true, func(t *testing.T, c *cell) { t.Helper(); c.meeting.end(t) })
	if c.fault.after != nil {
		c.fault.after(t, c)
	}
	c.way.over(t, c)
	c.step(t, true, c.way.install)
	c.way.restore(t, c)
	c.everyRow(t)
	c.end(t)
}

// newServer returns a server of the API that the case uses.
func (c *cell) newServer(t *testing.T) *framework.Server {
	t.Helper()
	if !c.way.own {
		return framework.NewServer(t, c.composition(t))
	}
	s := framework.NewNamespacedServer(t)
	s.Password = "of a MySQL without a claim"
	s.Spec["passwordSecretRef"] = map[string]any{"name": "root", "key": "password"}
	c.Server = s
	c.takesPasswordFromSecret(t)
	return s
}

// takesPasswordFromSecret creates the password Secret of a MySQL without a claim, because its spec cannot contain a
// password.
func (c *cell) takesPasswordFromSecret(t *testing.T) {
	t.Helper()
	if !c.way.own {
		return
	}
	secret := &corev1.Secret{StringData: map[string]string{"password": c.Password}}
	secret.Name, secret.Namespace = "root", c.Namespace
	framework.Make(t, secret)
}

// step runs a step of the case's deletion path or fault. If the step changes the whole cluster, it waits for the other
// cases that run together. One of the cases then runs it.
func (c *cell) step(t *testing.T, everywhere bool, run func(*testing.T, *cell)) {
	t.Helper()
	switch {
	case run == nil:
	case everywhere:
		c.meeting.once(t, func() { run(t, c) })
	default:
		run(t, c)
	}
}

// later registers a function that ends a fault of the whole cluster. If the case fails early, the function is called
// when the test ends.
func (c *cell) later(t *testing.T, undo func(*testing.T)) {
	t.Helper()
	var done sync.Once
	c.meeting.undo = func(t *testing.T) { t.Helper(); done.Do(func() { undo(t) }) }
	t.Cleanup(func() { c.meeting.undo(t) })
}

// start creates the case's server, and starts a client that continuously writes rows to it.
func (c *cell) start(t *testing.T) {
	t.Helper()
	c.Create(t)
	c.step(t, c.fault.everywhere, c.fault.starting)
	c.Client().SeesVersion(t)
	c.Client().TypeSession(t)
	c.before = c.Client().MustQuery(t, framework.Rows)
	c.Client().MustQuery(t, "CREATE TABLE written (session INT, n INT, PRIMARY KEY (session, n))")
	xr, err := c.XR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.instanceID, c.node = string(xr.GetUID()), c.Pods().MustFindServer(t).Spec.NodeName
	c.writer = startWriter(t, c.Server, 20*time.Millisecond)
	framework.Eventually(t, "the writer", func(context.Context) error { return c.writer.wrote(10) })
}

// composition returns the hostPath Composition for every other case, unless the fault requires the other Composition.
func (c *cell) composition(t *testing.T) string {
	t.Helper()
	onHost := !c.fault.ofClass && c.number()%2 == 1
	if onHost {
		return framework.HostPathComposition(t, nil)
	}
	return framework.ClassComposition
}

// number returns a number for the case, which depends only on its deletion path and fault. Cases with an odd number use
// the hostPath Composition.
func (c *cell) number() int {
	n := 0
	for i, w := range ways {
		if w == c.way {
			n += i
		}
	}
	for i, f := range faults {
		if f == c.fault {
			n += i
		}
	}
	return n
}

// everyRow checks that the restored server has every row that the deleted server has acknowledged.
func (c *cell) everyRow(t *testing.T) {
	t.Helper()
	sessions := c.writer.end()
	if got := c.Client().FirstAnswer(t, framework.Rows); got != c.before {
		t.Errorf("want every row\n%s\ngot\n%s", c.before, got)
	}
	hasAcknowledgedRows(t, c.Server, sessions)
}

// end deletes the restored instance, and checks that only the backups of the case are left.
func (c *cell) end(t *testing.T) {
	t.Helper()
	want := 1
	if c.way.heals {
		want = 0
	}
	if c.fault.online {
		want += c.onlineVerified(t)
	}
	c.Backups().AreVerified(t, want)
	c.Discard(t)
	c.leavesBackup(t)
	leavesNothingRescued(t, c.Server)
}

// leavesBackup checks that no object of the case is left, except its backup in the store or on the backup volume.
func (c *cell) leavesBackup(t *testing.T) {
	t.Helper()
	if !c.usesStore() {
		leavesNothing(t, c.Server)
		return
	}
	leavesNoTrace(t, c.Server)
	c.keepsBackupInStore(t)
}

// lifesRecord returns the BackupRecord of the deleted instance's final backup.
func (c *cell) lifesRecord(ctx context.Context) (*unstructured.Unstructured, error) {
	records, err := c.Backups().List(ctx)
	if err != nil {
		return nil, err
	}
	for i := range records {
		if uid, _, _ := unstructured.NestedString(records[i].Object, "spec", "instance", "xr"); uid == c.instanceID &&
			originOf(&records[i]) == ofDeletion {
			return &records[i], nil
		}
	}
	return nil, fmt.Errorf("there is no record of life %s among %d", c.instanceID, len(records))
}

// proof waits until the deleted instance's final backup is verified.
func (c *cell) proof(t *testing.T) {
	t.Helper()
	framework.Eventually(t, "the proof", func(ctx context.Context) error {
		r, err := c.lifesRecord(ctx)
		if err != nil {
			return err
		}
		return framework.IsVerified(r)
	})
}

// log writes the state of a failed case to a file.
func (c *cell) log(t *testing.T, file string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := os.WriteFile(file, []byte(c.Look(ctx)), 0o644); err != nil {
		t.Error(err)
	}
}
