package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestDefaultsUnderLoad runs a server with the default resources for some minutes with as many connections as it
// accepts by default. They sort, group, join, read large results, insert blobs, and keep prepared statements open. The
// server must not be OOM-killed, and no statement may fail. After that, the instance is backed up, deleted and
// restored. No container of the product may have the QoS class BestEffort.
func TestDefaultsUnderLoad(t *testing.T) {
	framework.Repeats(t, "TestSharedConfig and TestSizeOf have the sizes, and this uses all of the machine")
	q := watchPods(t)
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["image"], s.Spec["storage_size"] = newestImage, "8Gi"
	s.Spec["metrics"] = map[string]any{"enabled": true}
	s.Spec["backup"] = map[string]any{"finalBackup": map[string]any{"requireRestoreTest": true}}
	// The image of the tests disables it to save memory. The official images do not.
	s.Spec["config"] = map[string]any{"performance_schema": "ON"}
	rows := s.Begin(t)
	servesMetrics(t, s)
	before := s.Pods().MustFindServer(t)
	report, err := runLoad(t, s)
	if err != nil {
		time.Sleep(30 * time.Second) // Until then, the status of the pod contains the reason.
		after := s.Pods().MustFindServer(t)
		t.Fatalf("%v: %s\nthe server: %s %+v", err, report, outOfMemory(after), after.Status.ContainerStatuses)
	}
	t.Logf("the load, with the number of statements:\n%s", report)

	after := s.Pods().MustFindServer(t)
	if after.UID != before.UID || restartsOf(after) > 0 || outOfMemory(after) != "" {
		t.Fatalf("want pod %s without a restart, got %s: %+v", before.Name, after.Name, after.Status.ContainerStatuses)
	}
	limit := memoryOf(after).Value() >> 20
	peak := peakOf(t, after)
	t.Logf("the peak memory of the server was %d MiB, and its limit is %d MiB", peak, limit)
	if peak < limit/2 || peak > limit {
		t.Errorf("want a peak between half of the limit and the limit of %d MiB, got %d MiB", limit, peak)
	}

	s.Client().MustQuery(t, "TRUNCATE load_blobs")
	request(t, s, "one", "Online", "Verified")
	request(t, s, "two", "Cold", "Verified")
	s.Delete(t)
	s.Backups().AreVerified(t, 3)
	s.Create(t)
	s.Client().SeesRows(t, rows)
	s.Set(t, map[string]any{"deletionPolicy": discard})
	s.Delete(t)
	q.end(t)
}

// runLoad runs the program in the directory load in a pod of the server's namespace, and returns its output.
func runLoad(t *testing.T, s *framework.Server) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "load")
	runGo(t, filepath.Join(framework.Repository(), "test", "e2e"), "build", "-o", path, "./load")
	program, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close() //nolint:errcheck // Nothing was written.
	framework.StartToolbox(t, s.Namespace, "load", "")
	var out bytes.Buffer
	if err := framework.ExecStream(t.Context(), s.Namespace, "load", program, &out, "sh", "-c",
		"cat >/tmp/load && chmod +x /tmp/load"); err != nil {
		t.Fatal(err)
	}
	err = framework.ExecStream(t.Context(), s.Namespace, "load", strings.NewReader(s.Password), &out, "/tmp/load",
		"-address="+s.Name+":3306", "-database="+s.Database)
	return out.String(), err
}

// memoryOf returns the memory limit of the server's container.
func memoryOf(p *corev1.Pod) interface{ Value() int64 } {
	i := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == "mysql" })
	return p.Spec.Containers[i].Resources.Limits.Memory()
}

// peakOf returns the peak of the server's resident memory in MiB (VmHWM in proc_pid_status(5)). Unlike the peak of the
// cgroup, it contains no page cache.
func peakOf(t *testing.T, p *corev1.Pod) int64 {
	t.Helper()
	out, err := framework.Exec(t.Context(), p.Namespace, p.Name+"/mysql", "", "sh", "-c",
		`grep -h VmHWM $(grep -l '^Name:.mysqld$' /proc/[0-9]*/status)`)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(out)
	if len(fields) != 3 {
		t.Fatalf("want the peak of one process, got %q", out)
	}
	kib, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}

// A podWatch collects the QoS classes of the product's pods, and everything that is wrong with them.
type podWatch struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	classes map[string]string
	faults  map[string]bool
}

// watchPods watches all pods of the cluster until end is called.
func watchPods(t *testing.T) *podWatch {
	t.Helper()
	c, err := client.NewWithWatch(framework.Suite.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	q := &podWatch{stop: stop, classes: map[string]string{}, faults: map[string]bool{}}
	t.Cleanup(stop)
	w, err := c.Watch(ctx, &corev1.PodList{})
	if err != nil {
		t.Fatal(err)
	}
	q.done.Go(func() {
		defer w.Stop()
		for e := range w.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if ctx.Err() != nil {
				return
			}
			if !ok || e.Type == watch.Error {
				q.fault("the watch of pods failed")
				return
			}
			if component := componentOf(p); component != "" {
				q.check(component, p)
			}
		}
		if ctx.Err() == nil {
			q.fault("the watch of pods ended")
		}
	})
	return q
}

// componentOf returns the part of the product that a pod runs, or "" for other pods.
func componentOf(p *corev1.Pod) string {
	switch {
	case strings.HasPrefix(p.Name, "crossplane-mysql-"):
		return p.Namespace + "/" + cmpLabel(p, "app.kubernetes.io/name", "pkg.crossplane.io/function")
	case p.Labels["app.kubernetes.io/managed-by"] == "crossplane-mysql":
		return p.Labels["app.kubernetes.io/component"]
	}
	return ""
}

// cmpLabel returns the value of the first label that the pod has.
func cmpLabel(p *corev1.Pod, names ...string) string {
	for _, n := range names {
		if v := p.Labels[n]; v != "" {
			return v
		}
	}
	return p.Name
}

// check records the class of a pod. A container without requests and limits would be the first that the kernel kills,
// also in a pod whose class is Burstable because of another container.
func (q *podWatch) check(component string, p *corev1.Pod) {
	q.mu.Lock()
	q.classes[component] = string(p.Status.QOSClass)
	q.mu.Unlock()
	if p.Status.QOSClass == corev1.PodQOSBestEffort {
		q.fault(fmt.Sprintf("pod %s (%s) is BestEffort", p.Name, component))
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
			q.fault(fmt.Sprintf("container %s of %s (%s) requests %v", c.Name, p.Name, component, c.Resources.Requests))
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		for _, state := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			if state.Terminated != nil && state.Terminated.Reason == "OOMKilled" {
				q.fault(fmt.Sprintf("container %s of %s (%s) was OOM-killed", c.Name, p.Name, component))
			}
		}
	}
}

func (q *podWatch) fault(text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.faults[text] = true
}

// end stops the watch. It checks that pods of each kind existed, and that nothing was wrong with any pod.
func (q *podWatch) end(t *testing.T) {
	t.Helper()
	q.stop()
	q.done.Wait()
	for _, f := range slices.Sorted(maps.Keys(q.faults)) {
		t.Error(f)
	}
	for _, component := range slices.Sorted(maps.Keys(q.classes)) {
		t.Logf("%s is %s", component, q.classes[component])
	}
	for _, want := range []string{"server", "backup", "restore", "restore-test"} {
		if q.classes[want] == "" {
			t.Errorf("no pod of component %s was seen", want)
		}
	}
}
