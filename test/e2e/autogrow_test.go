//go:build dashboard

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// kubeletConfig is a Prometheus configuration that scrapes the kubelets, as in the usual installations.
const kubeletConfig = `
global: {scrape_interval: 10s, scrape_timeout: 5s}
scrape_configs:
- job_name: kubelet
  scheme: https
  tls_config: {insecure_skip_verify: true}
  authorization: {credentials_file: /var/run/secrets/kubernetes.io/serviceaccount/token}
  kubernetes_sd_configs: [{role: node}]
`

// TestAutogrow fills the volume of a running server while a real Prometheus scrapes the kubelets. The volume must grow
// before it is full, up to its limit, and no write may fail. After that, the same manifest must restore the instance
// into a volume that holds the data, although its storageSize is from before the growth.
func TestAutogrow(t *testing.T) {
	address := startKubeletPrometheus(t, runGo(t, framework.Repository(), "run", "./test/tools", "prometheus"))
	theController.Lock()
	t.Cleanup(theController.Unlock)
	addArgument(t, "--volume-stats-url=http://"+address)

	fixed := framework.NewServer(t, framework.ClassComposition)
	fixed.Spec["storageClassName"] = "local-fixed"
	fixed.Spec["storageAutogrow"] = map[string]any{"to": "4Gi"}
	fixed.Begin(t)
	hasGrowth(t, fixed, 5*time.Minute, "False", "NotExpandable")
	fixed.HasEvents(t, "StorageGrowthBlocked")
	fixed.Discard(t)

	s := framework.NewServer(t, framework.ClassComposition)
	delete(s.Spec, "storage_size")
	s.Spec["storageSize"] = "2Gi"
	s.Spec["storageAutogrow"] = map[string]any{"below": "40%", "by": "1Gi", "to": "4Gi"}
	s.Begin(t)
	newPrompt(t).enter(t, "kubectl wait --for=condition=StorageAutogrow --timeout=10m --namespace "+s.Namespace+
		" mysql/"+s.Name, "condition met")
	hasGrowth(t, s, time.Minute, "True", "Monitored")
	newPrompt(t).enter(t, "kubectl get pvc --namespace "+s.Namespace+" "+s.DataPVC(), "2Gi")

	s.Client().MustQuery(t, "CREATE TABLE fill (id INT AUTO_INCREMENT PRIMARY KEY, data LONGBLOB)")
	f := &filler{t: t, server: s}
	f.fillUntil("500 MiB are written", 0, func() bool { return f.rows >= 500/8 })
	f.fillUntil("the volume has 3Gi", 8*time.Second, func() bool { return hasCapacity(t, s, "3Gi") })
	f.fillUntil("the volume has 4Gi", 8*time.Second, func() bool { return hasCapacity(t, s, "4Gi") })
	s.HasEvents(t, "StorageGrown")
	f.fillUntil("the limit is reached", 8*time.Second, func() bool { return growthOf(t, s) == "False LimitReached" })
	newPrompt(t).enter(t, "kubectl describe mysql --namespace "+s.Namespace+" "+s.Name, "StorageGrowthBlocked")
	newPrompt(t).enter(t, "kubectl describe pvc --namespace "+s.Namespace+" "+s.DataPVC(), "Bound")
	t.Logf("%d rows of 8 MiB were written, and no write failed", f.rows)

	s.Delete(t)
	s.Create(t) // The manifest has storageSize: 2Gi.
	s.BecomesReady(t)
	if !hasCapacity(t, s, "4Gi") {
		t.Error("the restored volume is smaller than the volume of the backup")
	}
	if got := strings.TrimSpace(s.Client().MustQuery(t, "SELECT COUNT(*) FROM fill")); got != strconv.Itoa(f.rows) {
		t.Errorf("want %d rows, got %s", f.rows, got)
	}
}

// startKubeletPrometheus starts a Prometheus that scrapes the kubelets, and returns its address.
func startKubeletPrometheus(t *testing.T, program string) string {
	t.Helper()
	ns := framework.NewNamespace(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/metrics"}, Verbs: []string{"get"}},
	}}
	framework.Make(t, role)
	framework.Make(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "default"}},
	})
	framework.StartPod(t, framework.ToolboxPod(ns, "prometheus", ""))
	if out, err := framework.Exec(t.Context(), ns, "prometheus", kubeletConfig, "sh", "-c",
		"cat >/tmp/prometheus.yml"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	runIn(t, ns, "prometheus", "/tmp", program,
		"--config.file=/tmp/prometheus.yml --storage.tsdb.path=/tmp/data --web.listen-address=:9090")
	p := &prometheusPod{namespace: ns}
	framework.Eventually(t, "Prometheus, which has scraped a kubelet", func(ctx context.Context) error {
		up, err := p.ask(ctx, "sum(up) >= 1")
		if err == nil && len(up) == 0 {
			err = errors.New("it has not")
		}
		return err
	})
	pod := &corev1.Pod{}
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "prometheus"}, pod); err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(pod.Status.PodIP, "9090")
}

// addArgument restarts the controller with an additional command line argument, and removes it when the test ends.
func addArgument(t *testing.T, argument string) {
	t.Helper()
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: framework.SystemNamespace, Name: "crossplane-mysql"}
	if err := framework.Suite.Kube.Get(t.Context(), key, d); err != nil {
		t.Fatal(err)
	}
	c := d.Spec.Template.Spec.Containers[0]
	set := func(args []string) {
		text, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		rollOut(t, key.Namespace, key.Name, fmt.Sprintf(
			`{"spec":{"template":{"spec":{"containers":[{"name":%q,"args":%s}]}}}}`, c.Name, text))
	}
	before := c.Args
	set(append(before[:len(before):len(before)], argument))
	t.Cleanup(func() { set(before) })
}

// A filler fills a server's data volume with rows of 8 MiB.
type filler struct {
	t      *testing.T
	server *framework.Server
	rows   int
}

// fillUntil writes rows, with a pause after each, until done returns true. Each write must succeed at the first
// attempt.
func (f *filler) fillUntil(subject string, pause time.Duration, done func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(15 * time.Minute)
	for !done() {
		if time.Now().After(deadline) {
			f.t.Fatalf("after 15 minutes and %d rows, it is not true that %s: %s", f.rows, subject, growthOf(f.t, f.server))
		}
		// Random data, so that no layer below can compress it.
		out, err := f.server.Client().Query(f.t.Context(), f.server.Password, "INSERT INTO fill (data) "+
			"SELECT REPEAT(RANDOM_BYTES(1024), 8192)")
		if err != nil {
			f.t.Fatalf("write %d has failed: %v: %s", f.rows+1, err, out)
		}
		f.rows++
		time.Sleep(pause)
	}
	f.t.Logf("%s after %d rows: %s", subject, f.rows, growthOf(f.t, f.server))
}

// hasCapacity reports whether the data PVC of the server has at least the given capacity.
func hasCapacity(t *testing.T, s *framework.Server, want string) bool {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: s.DataPVC()}, c); err != nil {
		t.Fatal(err)
	}
	return c.Status.Capacity.Storage().Cmp(resource.MustParse(want)) >= 0
}

// growthOf returns the status and the reason of the condition StorageAutogrow.
func growthOf(t *testing.T, s *framework.Server) string {
	t.Helper()
	xr, err := s.XR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conditions, _, _ := unstructured.NestedSlice(xr.Object, "status", "conditions") // There are none if it fails.
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "StorageAutogrow" {
			return fmt.Sprintf("%s %s", c["status"], c["reason"])
		}
	}
	return "there is no condition"
}

// hasGrowth waits until the condition StorageAutogrow has the given status and reason.
func hasGrowth(t *testing.T, s *framework.Server, longest time.Duration, status, reason string) {
	t.Helper()
	deadline := time.Now().Add(longest)
	for {
		got := growthOf(t, s)
		if got == status+" "+reason {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("want %s %s, it is %s: %s", status, reason, got, s.Message(t.Context()))
		}
		time.Sleep(time.Second)
	}
}
