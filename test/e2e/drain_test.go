package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestDrain drains the node of a server with kubectl while clients write. No acknowledged row may be lost, the drain
// must end, and the server's pod must be replaced exactly once. The test prints how long clients were without a server.
// Then it drains the node of a backup Job and the node of a restore Job, which must both succeed in the end.
func TestDrain(t *testing.T) {
	framework.Repeats(t, "TestScheduling moves a server to a node, and this takes a node from all other tests")
	t.Run("VolumesOfAllNodes", func(t *testing.T) {
		class := sharedVolumes(t, nodesOfDrain(t), 5) // First, so that they are deleted after the server.
		s := newDrained(t)
		s.Spec["storageClassName"] = class
		s.begin(t)
		w := s.startWriters(t)
		s.listsOnNode(t, serverPods, s.Name)
		s.drain(t)
		moved := s.hasOnePodMore(t, 1)
		if moved.Spec.NodeName != s.nodes[0] {
			t.Errorf("want the server on node %s, it is on %s", s.nodes[0], moved.Spec.NodeName)
		}
		s.uncordon(t)
		s.settles(t, 1)
		w.end(t)
		s.moves(t) // The Jobs run on the drained node again.
		s.drainsOnline(t)
		s.drainsBackup(t)
		s.drainsRestore(t, w)
	})
	t.Run("VolumesOfOneNode", func(t *testing.T) {
		s := newDrained(t)
		s.begin(t)
		w := s.startWriters(t)
		s.drain(t)
		s.Says(t, "cannot be scheduled")
		time.Sleep(10 * time.Second)
		w.uncordoned = time.Now()
		s.uncordon(t)
		s.settles(t, 1)
		w.end(t)
	})
}

// A drained server runs on the second of the nodes, which the test drains. Its clients run on the first one.
type drained struct {
	*framework.Server

	nodes []string
}

// nodesOfDrain returns the node of the clients and the node that is drained. Without --force, a drain refuses to delete
// pods that no controller would recreate. On a developer's cluster, an aborted test may have left such a pod.
func nodesOfDrain(t *testing.T) []string {
	t.Helper()
	nodes, pods := namesOfNodes(t), &corev1.PodList{}
	if err := framework.Suite.Kube.List(t.Context(), pods); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
		return len(p.OwnerReferences) == 0 && p.Spec.NodeName == nodes[1]
	}) {
		slices.Reverse(nodes)
	}
	return nodes
}

// newDrained returns a server that will run on the second node. The first node is cordoned until begin is called.
func newDrained(t *testing.T) *drained {
	t.Helper()
	s := &drained{nodes: nodesOfDrain(t)}
	t.Cleanup(func() { s.cordon(t, false, s.nodes...) })
	s.Server = framework.NewServer(t, framework.ClassComposition)
	s.startPod(t, "writers")
	return s
}

// startPod starts a toolbox pod on the first node. A drain refuses to delete pods that no controller would recreate.
func (s *drained) startPod(t *testing.T, name string) {
	t.Helper()
	p := framework.ToolboxPod(s.Namespace, name, "")
	p.Spec.NodeName = s.nodes[0]
	framework.StartPod(t, p)
}

// begin creates the claim, and waits for the server on the second node.
func (s *drained) begin(t *testing.T) {
	t.Helper()
	s.cordon(t, true, s.nodes[0])
	s.Begin(t)
	if p := s.Pods().MustFindServer(t); p.Spec.NodeName != s.nodes[1] {
		t.Fatalf("want the server on node %s, it is on %s", s.nodes[1], p.Spec.NodeName)
	}
	s.cordon(t, false, s.nodes[0])
	// The framework's own client may run on the node that is drained.
	p := &corev1.Pod{}
	p.Namespace, p.Name = s.Namespace, "client"
	if err := framework.Suite.Kube.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the client's end", func(ctx context.Context) error { return framework.IsGone(ctx, p) })
	s.startPod(t, "client")
	s.Client().MustQuery(t, "CREATE TABLE drained (writer INT, n INT, PRIMARY KEY (writer, n))")
}

// cordon makes nodes unschedulable, or schedulable again. It ignores the end of the test, because cleanups call it.
func (s *drained) cordon(t *testing.T, on bool, nodes ...string) {
	t.Helper()
	command := "uncordon"
	if on {
		command = "cordon"
	}
	if out, err := framework.Kubectl(context.WithoutCancel(t.Context()), append([]string{command}, nodes...)...); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func (s *drained) uncordon(t *testing.T) { t.Helper(); s.cordon(t, false, s.nodes[1]) }

// listsOnNode checks that the listing of docs/how-to/drain-a-node.md contains the pods of this instance on the second
// node.
func (s *drained) listsOnNode(t *testing.T, selector, prefix string) {
	t.Helper()
	out, err := framework.Kubectl(t.Context(), "get", "pods", "--all-namespaces", "--field-selector",
		"spec.nodeName="+s.nodes[1], "--selector", selector, "--output", "wide")
	if err != nil || !strings.Contains(out, s.Namespace) || !strings.Contains(out, prefix) {
		t.Errorf("want pod %s of namespace %s in the list, got %v: %s", prefix, s.Namespace, err, out)
	}
}

// drain drains the second node as an administrator does. It fails if the drain does not end.
func (s *drained) drain(t *testing.T) {
	t.Helper()
	started := time.Now()
	out, err := framework.Kubectl(t.Context(), "drain", s.nodes[1], "--ignore-daemonsets", "--delete-emptydir-data",
		"--timeout=5m")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("kubectl drain took %.1f s, and evicted %d pods", time.Since(started).Seconds(), strings.Count(out, "\nevicting "))
}

// hasOnePodMore waits until the server's pod, which was replaced the given number of times, is Ready.
func (s *drained) hasOnePodMore(t *testing.T, replaced int) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	s.Eventually(t, "the next pod of the server", func(ctx context.Context) (err error) {
		if found, err = s.Pods().FindServer(ctx); err == nil && !podIsReady(found) {
			err = fmt.Errorf("pod %s is not Ready", found.Name)
		}
		return err
	})
	if got := s.podsCreated(t); got != 1+replaced {
		t.Errorf("want the server's pod replaced %d times, %d pods were created", replaced, got)
	}
	return found
}

// settles waits until the claim is Ready, and checks that the pod is not replaced once more afterwards.
func (s *drained) settles(t *testing.T, replaced int) {
	t.Helper()
	s.BecomesReady(t)
	if out, err := framework.Kubectl(t.Context(), "get", "mysql", "--all-namespaces"); err != nil ||
		!strings.Contains(out, s.Namespace) {
		t.Errorf("want namespace %s in the list, got %v: %s", s.Namespace, err, out)
	}
	before := s.hasOnePodMore(t, replaced)
	time.Sleep(20 * time.Second)
	if after := s.hasOnePodMore(t, replaced); after.UID != before.UID || restartsOf(after) > 0 {
		t.Errorf("want pod %s without a restart, got %s with %d", before.Name, after.Name, restartsOf(after))
	}
}

// podsCreated returns how many pods the ReplicaSets of the server have created, according to their events.
func (s *drained) podsCreated(t *testing.T) int {
	t.Helper()
	events := &corev1.EventList{}
	if err := framework.Suite.Kube.List(t.Context(), events, client.InNamespace(s.Namespace)); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, e := range events.Items {
		if e.Reason == "SuccessfulCreate" && e.InvolvedObject.Kind == "ReplicaSet" &&
			strings.HasPrefix(e.InvolvedObject.Name, s.Name+"-") {
			count++
		}
	}
	return count
}

// moves deletes the server's pod while the first node is cordoned, so that the server runs on the second node again.
func (s *drained) moves(t *testing.T) {
	t.Helper()
	s.cordon(t, true, s.nodes[0])
	p, before := s.Pods().MustFindServer(t), s.podsCreated(t)
	if err := framework.Suite.Kube.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the pod's end", func(ctx context.Context) error { return framework.IsGone(ctx, p) })
	if p := s.hasOnePodMore(t, before); p.Spec.NodeName != s.nodes[1] {
		t.Errorf("want the server on node %s again, it is on %s", s.nodes[1], p.Spec.NodeName)
	}
}

// drainsOnline drains the node of the server while the Job of an online backup copies its data. The backup must be
// verified once the server runs on the other node.
func (s *drained) drainsOnline(t *testing.T) {
	t.Helper()
	s.slowJobs(t)
	s.cordon(t, true, s.nodes[0])
	createBackup(t, s.Server, "drained", "Online")
	s.drainsJob(t, "backup")
	isAnswered(t, s.Server, "drained", "Verified")
	s.uncordon(t)
	s.hasOnePodMore(t, 3)
	s.moves(t)
}

// drainsBackup deletes the claim, and drains the node while the backup Job runs there. The backup must be verified on
// the other node.
func (s *drained) drainsBackup(t *testing.T) {
	t.Helper()
	s.StartDelete(t)
	s.drainsJob(t, "backup")
	s.Gone(t)
	s.Backups().AreVerified(t, 2)
	s.uncordon(t)
}

// drainsRestore creates the claim again, and drains the node while the restore Job runs there. The server must have all
// rows, and start on the other node.
func (s *drained) drainsRestore(t *testing.T, w *drainWriters) {
	t.Helper()
	s.cordon(t, true, s.nodes[0])
	s.Create(t)
	s.drainsJob(t, "restore")
	s.BecomesReady(t)
	w.lostNothing(t)
	s.uncordon(t)
}

// drainsJob waits until a Job of the component runs on the second node, and drains this node.
func (s *drained) drainsJob(t *testing.T, component string) {
	t.Helper()
	p := s.Pods().WaitFor(t, component, func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) > 0 &&
			p.Status.ContainerStatuses[0].State.Running != nil
	})
	s.cordon(t, false, s.nodes[0])
	if p.Spec.NodeName != s.nodes[1] {
		t.Fatalf("want the Job on node %s, it is on %s", s.nodes[1], p.Spec.NodeName)
	}
	s.listsOnNode(t, "app.kubernetes.io/managed-by=crossplane-mysql", p.Name)
	s.drain(t)
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(p), p); err == nil &&
		p.Status.Phase == corev1.PodSucceeded {
		t.Errorf("the %s Job had ended before its node was drained", component)
	}
	t.Logf("the node was drained while the %s Job ran", component)
}

// slowJobs limits the CPU of backup and restore Jobs, so that they take long enough for a drain.
func (s *drained) slowJobs(t *testing.T) {
	t.Helper()
	changePods(t, s.Server, `has(object.metadata.name) && object.metadata.name == "to-try-a-policy" ? [
		JSONPatch{op: "add", path: "/metadata/labels/tried", value: "yes"}
	] : has(object.metadata.labels) && "app.kubernetes.io/component" in object.metadata.labels &&
		object.metadata.labels["app.kubernetes.io/component"] in ["backup", "restore"] ? [
		JSONPatch{op: "add", path: "/spec/containers/0/resources/requests/cpu", value: "20m"},
		JSONPatch{op: "add", path: "/spec/containers/0/resources/limits/cpu", value: "20m"}
	] : []`, func(p *corev1.Pod) bool { return p.Labels["tried"] != "" })
}

// sharedVolumes creates volumes that each node can mount, as a network storage has them. The nodes of the test cluster
// are on one machine, and have a directory in common. It returns the name of their StorageClass.
func sharedVolumes(t *testing.T, nodes []string, count int) string {
	t.Helper()
	helpers := framework.NewNamespace(t)
	dir := "/tmp/" + helpers
	for i, n := range nodes {
		startNodePod(t, helpers, fmt.Sprintf("node%d", i), n)
	}
	t.Cleanup(func() {
		if _, err := framework.Exec(context.WithoutCancel(t.Context()), helpers, "node0", "", "rm", "-rf", "/node"+dir); err != nil {
			t.Error(err)
		}
	})
	class := &storagev1.StorageClass{Provisioner: "kubernetes.io/no-provisioner",
		ReclaimPolicy: new(corev1.PersistentVolumeReclaimRetain), VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}
	class.Name = helpers
	framework.Make(t, class)
	for i := range count {
		v := &corev1.PersistentVolume{}
		v.Name = fmt.Sprintf("%s-%d", class.Name, i)
		path := fmt.Sprintf("%s/%d", dir, i)
		if _, err := framework.Exec(t.Context(), helpers, "node0", "", "mkdir", "-p", "/node"+path); err != nil {
			t.Fatal(err)
		}
		v.Spec = corev1.PersistentVolumeSpec{
			StorageClassName: class.Name, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Gi")},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes}},
			}}}},
		}
		v.Spec.Local = &corev1.LocalVolumeSource{Path: path}
		t.Cleanup(func() { // The product protects the volume with the backups from the deletion.
			if err := framework.Suite.Kube.Patch(context.WithoutCancel(t.Context()), v, client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
		framework.Make(t, v)
	}
	if _, err := framework.Exec(t.Context(), helpers, "node1", "", "ls", "/node"+dir+"/0"); err != nil {
		t.Fatalf("the nodes have no directory in common: %v", err)
	}
	// A drain of the second node would refuse to delete a pod without a controller.
	p := &corev1.Pod{}
	p.Namespace, p.Name = helpers, "node1"
	if err := framework.Suite.Kube.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the pod's end", func(ctx context.Context) error { return framework.IsGone(ctx, p) })
	return class.Name
}

// startNodePod starts a toolbox pod that mounts the file system of a node at /node.
func startNodePod(t *testing.T, namespace, name, node string) {
	t.Helper()
	p := framework.ToolboxPod(namespace, name, "")
	p.Spec.NodeName, p.Spec.SecurityContext, p.Spec.Containers[0].SecurityContext = node, nil, nil
	p.Spec.Volumes = []corev1.Volume{{Name: "node", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "node", MountPath: "/node"}}
	framework.StartPod(t, p)
}

func podIsReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func restartsOf(p *corev1.Pod) (restarts int32) {
	for _, c := range p.Status.ContainerStatuses {
		restarts += c.RestartCount
	}
	return restarts
}

// writerLoop is a shell script that inserts rows one by one until the file /tmp/stop exists. Each row has its own
// connection, so that a client finds the next server at once. It prints the number of the row, the time in nanoseconds
// after the statement, and whether the server has acknowledged it. It reads the client's options from standard input.
const writerLoop = `umask 077; o=/tmp/options$1; cat >$o; n=0
until [ -e /tmp/stop ]; do n=$((n+1))
if mysql --defaults-file=$o --connect-timeout=1 --execute="INSERT INTO drained VALUES ($1, $n)" "$2" 2>/tmp/error$1
then echo $n $(date +%s%N) ok; else echo $n $(date +%s%N) $(head -c 200 /tmp/error$1); sleep 0.05; fi; done`

// writersOfDrain is the number of clients that write during a drain.
const writersOfDrain = 4

// The drainWriters write rows until end is called. Another client has an open transaction all the time.
type drainWriters struct {
	server     *drained
	started    time.Time
	uncordoned time.Time
	outputs    [writersOfDrain]bytes.Buffer
	errs       [writersOfDrain]error
	open       error
	done       sync.WaitGroup
	acks       map[string]bool
}

// startWriters starts the clients, and waits until each of them has written for a while.
func (s *drained) startWriters(t *testing.T) *drainWriters {
	t.Helper()
	address := s.address(t)
	w := &drainWriters{server: s, started: time.Now()}
	options := fmt.Sprintf("[client]\nhost=%s\nuser=root\npassword=%q\n", address, s.Password)
	for i := range writersOfDrain {
		w.done.Go(func() {
			w.errs[i] = framework.ExecStream(t.Context(), s.Namespace, "writers", strings.NewReader(options), &w.outputs[i],
				"sh", "-c", writerLoop, "sh", strconv.Itoa(i+1), s.Database)
		})
	}
	w.done.Go(func() {
		_, w.open = s.Client().Query(t.Context(), s.Password,
			"START TRANSACTION; INSERT INTO drained VALUES (0, 1); SELECT SLEEP(3600); COMMIT")
	})
	s.Eventually(t, "rows of each writer", func(ctx context.Context) error {
		out, err := s.Client().Query(ctx, s.Password, "SELECT COUNT(*) FROM (SELECT writer FROM drained GROUP BY writer HAVING "+
			"COUNT(*) > 50) w")
		if err == nil && strings.TrimSpace(out) != strconv.Itoa(writersOfDrain) {
			err = errors.New("there are only " + strings.TrimSpace(out))
		}
		return err
	})
	return w
}

// address returns the address of the Service. With its name, clients would also wait for the cluster's only DNS server,
// which may run on the drained node.
func (s *drained) address(t *testing.T) string {
	t.Helper()
	service := &corev1.Service{}
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, service); err != nil {
		t.Fatal(err)
	}
	return service.Spec.ClusterIP
}

// end stops the clients, checks that the table has each acknowledged row, and prints how long no row was acknowledged.
func (w *drainWriters) end(t *testing.T) {
	t.Helper()
	if _, err := framework.Exec(t.Context(), w.server.Namespace, "writers", "", "touch", "/tmp/stop"); err != nil {
		t.Fatal(err)
	}
	w.done.Wait()
	if err := errors.Join(w.errs[:]...); err != nil {
		t.Fatalf("the writers: %v", err)
	}
	if w.open == nil || !strings.Contains(w.open.Error(), "ERROR ") {
		t.Errorf("want an error for the open transaction, got %v", w.open)
	}
	w.acks = map[string]bool{}
	var times []time.Time
	failures, refused := map[string]int{}, 0
	for i := range w.outputs {
		for line := range strings.Lines(w.outputs[i].String()) {
			var n, nano int64
			var result string
			if _, err := fmt.Sscan(line, &n, &nano, &result); err != nil {
				t.Fatalf("writer %d has printed %q: %v", i+1, line, err)
			}
			if result != "ok" {
				failures[strings.Join(strings.Fields(line)[2:min(4, len(strings.Fields(line)))], " ")]++
				refused++
				continue
			}
			w.acks[fmt.Sprintf("%d\t%d", i+1, n)] = true
			times = append(times, time.Unix(0, nano))
		}
	}
	if refused == 0 {
		t.Error("no client was ever refused, so the node was not drained")
	}
	longest, last := longestGap(times)
	t.Logf("%d rows were acknowledged. For %.1f s, none was (%v)", len(times), longest.Seconds(), slices.Sorted(maps.Keys(failures)))
	if !w.uncordoned.IsZero() {
		t.Logf("the first row after the end of the cordon was acknowledged after %.1f s", last.Sub(w.uncordoned).Seconds())
	}
	w.lostNothing(t)
}

// longestGap returns the longest time between two of the given times, and its end.
func longestGap(times []time.Time) (longest time.Duration, end time.Time) {
	slices.SortFunc(times, func(a, b time.Time) int { return cmp.Compare(a.UnixNano(), b.UnixNano()) })
	for i := 1; i < len(times); i++ {
		if gap := times[i].Sub(times[i-1]); gap > longest {
			longest, end = gap, times[i]
		}
	}
	return longest, end
}

// lostNothing checks that the table has each acknowledged row, and no row of the open transaction.
func (w *drainWriters) lostNothing(t *testing.T) {
	t.Helper()
	rows := map[string]bool{}
	for line := range strings.Lines(w.server.Client().MustQuery(t, "SELECT writer, n FROM drained")) {
		rows[strings.TrimSpace(line)] = true
	}
	if rows["0\t1"] {
		t.Error("the table has a row of a transaction that was not committed")
	}
	lost := 0
	for ack := range w.acks {
		if !rows[ack] {
			lost++
		}
	}
	if lost > 0 || len(w.acks) == 0 {
		t.Errorf("%d of %d acknowledged rows are lost", lost, len(w.acks))
	}
}
