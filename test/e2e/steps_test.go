//go:build bench

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestSteps prints the changes of each object of a claim with their times, during creation, deletion and re-creation.
// It shows which steps take the time that TestSpeed measures.
func TestSteps(t *testing.T) {
	for round := range 2 { // The first round pulls the images.
		s := framework.NewServer(t, "mysql")
		w := watchAll(t, s.Namespace)
		for _, subject := range []string{"made", "deleted", "made again"} {
			w.begin()
			switch subject {
			case "deleted":
				s.Client().TypeSession(t)
				w.begin()
				s.Delete(t)
			default:
				took := waitForAnswer(t, s, s.Password, "SELECT 1", func() { s.Create(t) })
				w.entry(fmt.Sprintf("the first query is answered (%.2f s)", took.Seconds()))
				time.Sleep(5 * time.Second)
			}
			if round > 0 {
				w.print(subject)
			}
		}
	}
}

// stepsOf lists the kinds whose objects TestSteps watches. XRs and BackupRecords are cluster-scoped.
var stepsOf = []schema.GroupVersionResource{
	{Group: "otus.homework", Version: "v1", Resource: "mysqls"},
	{Group: "otus.homework", Version: "v1", Resource: "xmysqls"},
	{Group: "crossplane-mysql.io", Version: "v1alpha1", Resource: "backuprecords"},
	{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "batch", Version: "v1", Resource: "jobs"},
	{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "persistentvolumeclaims"},
	{Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "endpoints"},
}

// A watcher prints each change of the objects of a claim in a namespace, with its time.
type watcher struct {
	mu    sync.Mutex
	start time.Time
	lines []string
	last  map[string]string
}

func watchAll(t *testing.T, namespace string) *watcher {
	t.Helper()
	w := &watcher{start: time.Now(), last: map[string]string{}}
	d, err := dynamic.NewForConfig(framework.Suite.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range stepsOf {
		var resources dynamic.ResourceInterface = d.Resource(r)
		if r.Resource != "xmysqls" && r.Resource != "backuprecords" {
			resources = d.Resource(r).Namespace(namespace)
		}
		events, err := resources.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for e := range events.ResultChan() {
				if o, ok := e.Object.(*unstructured.Unstructured); ok &&
					(o.GetNamespace() != "" || strings.Contains(fmt.Sprint(o.Object["spec"]), namespace)) {
					w.saw(e.Type, o)
				}
			}
		}()
	}
	return w
}

func (w *watcher) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start, w.lines = time.Now(), nil
}

func (w *watcher) entry(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf("%7.2f  %s", time.Since(w.start).Seconds(), text))
}

// saw prints the changes of an object.
func (w *watcher) saw(kind watch.EventType, o *unstructured.Unstructured) {
	key := o.GetKind() + " " + o.GetName()
	text := stateOf(o)
	w.mu.Lock()
	before, known := w.last[key]
	w.last[key] = text
	w.mu.Unlock()
	switch {
	case kind == watch.Deleted:
		w.entry(key + " is gone")
	case !known || before != text:
		w.entry(key + ": " + text)
	default:
		w.entry(key + " (something else)")
	}
}

// stateOf returns a short description of an object.
func stateOf(o *unstructured.Unstructured) string {
	text := func(path ...string) string {
		s, _, _ := unstructured.NestedString(o.Object, path...)
		return s
	}
	out := []string{}
	if o.GetDeletionTimestamp() != nil {
		out = append(out, "deleting")
	}
	if f := o.GetFinalizers(); len(f) > 0 {
		out = append(out, fmt.Sprintf("%d finalizers", len(f)))
	}
	for _, path := range [][]string{{"status", "phase"}, {"status", "internal", "previousBackup"}, {"status", "message"},
		{"status", "deletion", "phase"}, {"status", "deletion", "message"}} {
		if s := text(path...); s != "" {
			out = append(out, s)
		}
	}
	if n, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); found {
		out = append(out, fmt.Sprintf("replicas %d", n))
	}
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		all, _, _ := unstructured.NestedSlice(o.Object, "status", field)
		for _, c := range all {
			c, _ := c.(map[string]any)
			state, _ := c["state"].(map[string]any)
			for name := range state {
				if name != "waiting" {
					out = append(out, fmt.Sprintf("%v %s", c["name"], name))
				}
			}
		}
	}
	if o.GetKind() == "Endpoints" {
		subsets, _, _ := unstructured.NestedSlice(o.Object, "subsets")
		out = append(out, fmt.Sprintf("%d subsets", len(subsets)))
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		if slices.Contains([]any{"Ready", "Synced", "Complete", string(corev1.PodReady)}, c["type"]) {
			out = append(out, fmt.Sprintf("%v=%v", c["type"], c["status"]))
		}
	}
	return strings.Join(out, ", ")
}

func (w *watcher) print(subject string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Printf("\n== %s\n%s\n", subject, strings.Join(w.lines, "\n"))
}
