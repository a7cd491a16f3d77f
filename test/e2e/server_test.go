package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// phaseProven of a backup.
const phaseProven = "Proven"

// classComposition puts data into volumes of a StorageClass.
const classComposition = "mysql"

// hostPathComposition is the one of the package with the name of a node, as a platform team with several nodes has it,
// and with more input if there is any.
func hostPathComposition(t *testing.T, input map[string]any) string {
	t.Helper()
	var nodes corev1.NodeList
	if err := suite.kube.List(t.Context(), &nodes); err != nil || len(nodes.Items) == 0 {
		t.Fatalf("cannot find a node: %v", err)
	}
	all := map[string]any{"hostPathNode": nodes.Items[0].Name}
	maps.Copy(all, input)
	return copyOfComposition(t, "mysql-hostpath", all)
}

// copyOfComposition of the package with other input.
func copyOfComposition(t *testing.T, name string, input map[string]any) string {
	t.Helper()
	packaged := object("apiextensions.crossplane.io/v1", "Composition", "", name)
	if err := suite.kube.Get(t.Context(), client.ObjectKeyFromObject(packaged), packaged); err != nil {
		t.Fatal(err)
	}
	c := object("apiextensions.crossplane.io/v1", "Composition", "", "")
	c.SetGenerateName("e2e-" + name + "-")
	c.Object["spec"] = packaged.Object["spec"]
	steps, _, err := unstructured.NestedSlice(c.Object, "spec", "pipeline")
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(steps[0].(map[string]any)["input"].(map[string]any), input)
	if err := unstructured.SetNestedSlice(c.Object, steps, "spec", "pipeline"); err != nil {
		t.Fatal(err)
	}
	if err := suite.kube.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := suite.kube.Delete(context.WithoutCancel(t.Context()), c); err != nil {
			t.Error(err)
		}
	})
	return c.GetName()
}

// onBoth Compositions, side by side.
func onBoth(t *testing.T, run func(t *testing.T, composition string)) {
	t.Helper()
	onEach(t, nil, run)
}

// Names of the tests on the two Compositions.
const (
	onClass    = "StorageClass"
	onHostPath = "HostPath"
)

// onEach Composition a test runs. One that repeats the other runs where ALL is set, as repeats says: where has the reason.
func onEach(t *testing.T, where map[string]string, run func(t *testing.T, composition string)) {
	t.Helper()
	for name, composition := range map[string]func(*testing.T) string{
		onClass:    func(*testing.T) string { return classComposition },
		onHostPath: func(t *testing.T) string { t.Helper(); return hostPathComposition(t, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if why := where[name]; why != "" {
				repeats(t, why)
			}
			run(t, composition(t))
		})
	}
}

// A server is a claim, and a pod from which it is asked.
type server struct {
	namespace, name, database string
	// user of the queries, and its password.
	user, password string

	// spec of the claim when it is created next.
	spec  map[string]any
	claim *unstructured.Unstructured

	// backupPVCDeleted is true if somebody deleted the backup PVC last.
	backupPVCDeleted bool
}

// newServer in a namespace of its own. Its claim is the original one, but for the Composition.
func newServer(t *testing.T, composition string) *server {
	t.Helper()
	return newServerIn(t, namespace(t), composition)
}

// neighbour is another server, by another name, in the same namespace.
func (s *server) neighbour(t *testing.T, name string) *server {
	t.Helper()
	n := *s
	n.name, n.spec = name, runtime.DeepCopyJSON(s.spec)
	n.claim = object(s.claim.GetAPIVersion(), s.claim.GetKind(), s.namespace, name)
	t.Cleanup(func() { n.discard(t) })
	return &n
}

// eventSender is the controller's name in its events.
const eventSender = "crossplane-mysql"

// newServerIn a namespace that has no other.
func newServerIn(t *testing.T, ns, composition string) *server {
	t.Helper()
	claim := objects(t, "examples/original-claim/claim.yaml", ns)[0]
	s := &server{namespace: ns, name: claim.GetName(), user: "root", claim: claim}
	s.spec, _, _ = unstructured.NestedMap(claim.Object, "spec")
	s.spec["compositionRef"] = map[string]any{"name": composition}
	s.database, _, _ = unstructured.NestedString(s.spec, "database")
	s.password, _, _ = unstructured.NestedString(s.spec, "password")
	t.Cleanup(func() { s.discard(t) })
	t.Cleanup(func() { documentedEventsOnly(t, ns) })
	pod(t, ns, "client", "")
	return s
}

// create the claim.
func (s *server) create(t *testing.T) {
	t.Helper()
	s.claim = object(s.claim.GetAPIVersion(), s.claim.GetKind(), s.namespace, s.name)
	s.claim.Object["spec"] = s.spec
	s.claim = s.claim.DeepCopy()
	if err := suite.kube.Create(t.Context(), s.claim); err != nil {
		t.Fatal(err)
	}
}

// set fields of the claim's spec.
func (s *server) set(t *testing.T, fields map[string]any) {
	t.Helper()
	if err := s.trySet(t.Context(), fields); err != nil {
		t.Fatal(err)
	}
}

func (s *server) trySet(ctx context.Context, fields map[string]any) error {
	eventual := s.claim.DeepCopy()
	patch := client.MergeFrom(s.claim.DeepCopy())
	for k, v := range fields {
		if err := unstructured.SetNestedField(eventual.Object, v, "spec", k); err != nil {
			return err
		}
	}
	if err := suite.kube.Patch(ctx, eventual, patch); err != nil {
		return err
	}
	s.claim = eventual
	return nil
}

func (s *server) message(ctx context.Context) string {
	claim := s.claim.DeepCopy()
	if err := suite.kube.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
		return err.Error()
	}
	message, _, _ := unstructured.NestedString(claim.Object, "status", "message")
	return message
}

// says waits until the claim's message has a text in it.
func (s *server) says(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the message", func(ctx context.Context) error {
		if got := s.message(ctx); !strings.Contains(got, text) {
			return fmt.Errorf("want %q in it, got %q", text, got)
		}
		return nil
	})
}

// eventOf waits for an event of the claim that has a text in it.
func (s *server) eventOf(t *testing.T, text string) {
	t.Helper()
	s.hasEvent(t, text, func(e *corev1.Event) bool { return strings.Contains(e.Message, text) })
}

// controllerSays waits for such an event from the controller.
func (s *server) controllerSays(t *testing.T, text string) {
	t.Helper()
	s.hasEvent(t, text, func(e *corev1.Event) bool {
		return e.ReportingController == eventSender && strings.Contains(e.Message, text)
	})
}

// hasEvent about the claim, in the end.
func (s *server) hasEvent(t *testing.T, what string, like func(*corev1.Event) bool) {
	t.Helper()
	eventually(t, "an event", func(ctx context.Context) error {
		list := &corev1.EventList{}
		if err := suite.kube.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.InvolvedObject.Name == s.name && like(e) {
				return nil
			}
		}
		return fmt.Errorf("none of %d has %q in it", len(list.Items), what)
	})
}

// eventReasons that the API has.
var eventReasons = regexp.MustCompile(`EventReason = "(\w+)"`)

// documentedEventsOnly are sent by the controller.
func documentedEventsOnly(t *testing.T, namespace string) {
	t.Helper()
	api, err := os.ReadFile(filepath.Join(repository(), "apis", "v1", "events.go"))
	if err != nil {
		t.Error(err)
		return
	}
	documented := map[string]bool{}
	for _, m := range eventReasons.FindAllStringSubmatch(string(api), -1) {
		documented[m[1]] = true
	}
	list := &corev1.EventList{}
	if err := suite.kube.List(context.WithoutCancel(t.Context()), list, client.InNamespace(namespace)); err != nil {
		t.Error(err)
		return
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.ReportingController == eventSender && !documented[e.Reason] {
			t.Errorf("%s of %s %q is no event of the API: %s", e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
		}
	}
}

// heard are events of these reasons about the claim, in the end.
func (s *server) heard(t *testing.T, reasons ...string) {
	t.Helper()
	for _, reason := range reasons {
		s.hasEvent(t, reason, func(e *corev1.Event) bool { return e.ReportingController == eventSender && e.Reason == reason })
	}
}

// delete the claim and wait until it is gone, and all that it stood for.
func (s *server) delete(t *testing.T) {
	t.Helper()
	s.startDelete(t)
	s.gone(t)
}

// startDelete does not wait.
func (s *server) startDelete(t *testing.T) {
	t.Helper()
	if err := suite.kube.Delete(t.Context(), s.claim); err != nil {
		t.Fatal(err)
	}
}

// claimGone waits until the claim is, whatever becomes of the rest.
func (s *server) claimGone(t *testing.T) {
	t.Helper()
	eventually(t, "the claim's end", func(ctx context.Context) error {
		if err := gone(ctx, s.claim); err != nil {
			return fmt.Errorf("%w: %s", err, s.message(ctx))
		}
		return nil
	})
}

// gone waits until the claim is, and all that it stood for.
func (s *server) gone(t *testing.T) {
	t.Helper()
	s.claimGone(t)
	for _, o := range []*unstructured.Unstructured{
		object("apps/v1", "Deployment", s.namespace, s.name),
		object("v1", "PersistentVolumeClaim", s.namespace, s.name+"-pvc"),
		object("v1", "Service", s.namespace, s.name),
	} {
		eventually(t, "its "+o.GetKind(), func(ctx context.Context) error { return gone(ctx, o) })
	}
}

// records of this instance's backups.
func (s *server) records(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := listOf("otus.homework/v1/MySQLBackup")
	if err := suite.kube.List(ctx, list); err != nil {
		return nil, err
	}
	var mine []unstructured.Unstructured
	for _, r := range list.Items {
		if s.isOf(&r) {
			mine = append(mine, r)
		}
	}
	return mine, nil
}

// isOf is true if a record is of this instance.
func (s *server) isOf(record *unstructured.Unstructured) bool {
	of, _, _ := unstructured.NestedStringMap(record.Object, "spec", "instance")
	return of["namespace"] == s.namespace && of["name"] == s.name
}

// provenRecord complains of one that is not.
func provenRecord(r *unstructured.Unstructured) error {
	phase, _, _ := unstructured.NestedString(r.Object, "status", "phase")
	if phase == phaseProven {
		return nil
	}
	message, _, _ := unstructured.NestedString(r.Object, "status", "message")
	return fmt.Errorf("%s is %s: %s", r.GetName(), phase, message)
}

func (s *server) proven(t *testing.T, want int) {
	t.Helper()
	records, err := s.records(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != want {
		t.Errorf("want %d backups, got %d", want, len(records))
	}
	for _, r := range records {
		if err := provenRecord(&r); err != nil {
			t.Errorf("want each backup to be Proven: %v", err)
		}
	}
}

// discard lets go of a server whose data nobody wants any more.
func (s *server) discard(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if t.Failed() {
		s.dump(ctx, t)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"deletionPolicy":"Discard"}}`))
	if err := client.IgnoreNotFound(suite.kube.Patch(ctx, s.claim, patch)); err != nil {
		t.Errorf("cannot discard the data: %v", err)
	}
	if err := client.IgnoreNotFound(suite.kube.Delete(ctx, s.claim)); err != nil {
		t.Errorf("cannot delete the claim: %v", err)
	}
	if err := poll(ctx, func() error { return gone(ctx, s.claim) }); err != nil {
		t.Errorf("%v: %s", err, s.message(ctx))
	}
}

// dump what a person would look at first when a test has failed. It is printed behind all tests, so that it does not
// stand between a failure and its reason.
func (s *server) dump(ctx context.Context, t *testing.T) {
	t.Helper()
	look := fmt.Sprintf("what there was when %s failed (%s/%s):\n%s", t.Name(), s.namespace, s.name, s.look(ctx))
	looks.Lock()
	defer looks.Unlock()
	looks.all = append(looks.all, look)
}

// looks at failed servers.
var looks struct {
	sync.Mutex

	all []string
}

// printLooks when the tests have ended.
func printLooks() {
	looks.Lock()
	defer looks.Unlock()
	for _, l := range looks.all {
		fmt.Println(l)
	}
}

// look at what there is.
func (s *server) look(ctx context.Context) string {
	var b strings.Builder
	for _, args := range [][]string{
		{"get", "mysql,pvc,job,pod,deployment,events", "--namespace", s.namespace, "--output", "wide"},
		{"get", "mysql", s.name, "--namespace", s.namespace, "--output", "yaml"},
		{"get", "xmysql,mysqlbackup,pv", "--output", "wide"},
		{"get", "xmysql", "--selector", "crossplane.io/claim-namespace=" + s.namespace, "--output", "yaml"},
		{"logs", "--namespace", s.namespace, "--selector", "app.kubernetes.io/component", "--all-containers", "--prefix", "--ignore-errors", "--tail", "40"},
		{"logs", "--namespace", "crossplane-mysql-system", "deployment/crossplane-mysql", "--tail", "60"},
	} {
		out, err := kubectl(ctx, args...)
		fmt.Fprintf(&b, "kubectl %s (%v)\n%s\n", strings.Join(args, " "), err, out)
	}
	return b.String()
}
