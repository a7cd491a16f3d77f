//go:build chart

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// inSystem adds the flag --namespace with the controller's namespace, in which the chart is installed.
func inSystem(args ...string) []string {
	return append(args, "--namespace", framework.SystemNamespace)
}

// TestChart checks the chart in dist, as docs/how-to/install-with-helm.md describes it. The chart installs everything
// that a claim needs, and `helm test` succeeds. An upgrade restarts no server. Uninstallation removes only the
// controller, and a second installation takes over the remaining objects.
func TestChart(t *testing.T) {
	removesProduct(t)
	h := newHelm(t)
	entries := h.run(t, inSystem("install", "crossplane-mysql", h.chart, "--create-namespace", "--wait", "--timeout", "3m")...)
	enforce := "label namespace crossplane-mysql-system pod-security.kubernetes.io/enforce=restricted"
	if !strings.Contains(entries, "kubectl "+enforce) {
		t.Errorf("want the command that labels the namespace, got\n%s", entries)
	}
	framework.MustKubectl(t, strings.Fields(enforce)...)
	framework.MustKubectl(t, "wait", "--for=condition=Healthy", "--timeout=3m",
		"function.pkg.crossplane.io/crossplane-mysql-function-mysql",
		"configuration.pkg.crossplane.io/crossplane-mysql-configuration-mysql")
	framework.MustKubectl(t, "wait", "--for=condition=Offered", "--timeout=2m", "xrd/xmysqls.otus.homework")
	h.passesTest(t)

	s := framework.NewServer(t, framework.ClassComposition)
	rows := s.Begin(t)
	pod := s.Pods().MustFindServer(t).UID

	framework.MustKubectl(t, "apply", "--server-side", "--force-conflicts", "--filename", h.crds)
	entries = h.run(t, inSystem("upgrade", "crossplane-mysql", h.chart, "--wait", "--timeout", "3m",
		"--set", "controller.replicas=2", "--set", "controller.jobResources.limits.cpu=1", "--set", "packages.hostpath=true",
		"--set", "controller.podDisruptionBudget.enabled=true", "--set", "commonLabels.team=databases")...)
	if got := *controllerNow(t).Spec.Replicas; got != 2 {
		t.Errorf("there are %d controllers", got)
	}
	if strings.Contains(entries, enforce) {
		t.Errorf("the namespace has its label, and still the notes want it:\n%s", entries)
	}
	output := h.run(t, inSystem("upgrade", "crossplane-mysql", h.chart, "--wait", "--timeout", "3m", "--set",
		"packages.hostpath=false")...)
	if !strings.Contains(output, "kubectl delete configuration.pkg.crossplane.io "+
		"crossplane-mysql-configuration-mysql-hostpath") {
		t.Errorf("want it said that a package stays, and what removes it, got\n%s", output)
	}

	h.run(t, inSystem("uninstall", "crossplane-mysql", "--wait", "--timeout", "2m")...)
	hasKept(t, s)
	if now := s.Pods().MustFindServer(t).UID; now != pod {
		t.Errorf("the server's pod is another one")
	}
	if got := s.Client().MustQuery(t, framework.Rows); got != rows {
		t.Errorf("want the rows\n%s\ngot\n%s", rows, got)
	}
	s.StartDelete(t)

	h.run(t, inSystem("install", "crossplane-mysql", h.chart, "--create-namespace", "--wait", "--timeout", "3m")...)
	s.Gone(t)
	s.Create(t)
	s.Client().SeesRows(t, rows)
	h.passesTest(t)
	h.failsTest(t)
	s.Delete(t)
}

// passesTest checks that `helm test` succeeds and deletes all objects that it has created.
func (h *helm) passesTest(t *testing.T) {
	t.Helper()
	if out := h.run(t, inSystem("test", "crossplane-mysql", "--timeout", "4m")...); !strings.Contains(out, "Succeeded") {
		t.Errorf("helm test says\n%s", out)
	}
	left, err := framework.Kubectl(t.Context(), "get", "pod,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding",
		"--namespace", framework.SystemNamespace, "--output", "name")
	if err != nil || strings.Contains(left, "crossplane-mysql-test") {
		t.Errorf("helm test leaves objects: %v, %s", err, left)
	}
}

// failsTest checks that `helm test` fails if a policy binding is missing, and restores the binding.
func (h *helm) failsTest(t *testing.T) {
	t.Helper()
	framework.MustKubectl(t, "delete", "validatingadmissionpolicybinding", "crossplane-mysql-controller-scale")
	out, err := h.try(t, inSystem("test", "crossplane-mysql", "--timeout", "30s")...)
	if err == nil {
		t.Errorf("helm test does not see that a policy has no binding:\n%s", out)
	}
	logs, err := framework.Kubectl(t.Context(), inSystem("logs", "crossplane-mysql-test")...)
	if err != nil || !strings.Contains(logs, "crossplane-mysql-controller-scale") {
		t.Errorf("want the name of that binding, got %s, %v", logs, err)
	}
	h.run(t, inSystem("upgrade", "crossplane-mysql", h.chart, "--wait", "--timeout", "3m")...)
	h.passesTest(t)
}

// hasKept checks that uninstalling the chart has kept all objects that belong to claims.
func hasKept(t *testing.T, s *framework.Server) {
	t.Helper()
	for _, args := range [][]string{
		{"crd", "backuprecords.crossplane-mysql.io", "platforms.crossplane-mysql.io", "backupstores.crossplane-mysql.io",
			"mysqls.otus.homework"},
		{"namespace", "crossplane-mysql-system", "crossplane-mysql-recovery"},
		{"platform", "crossplane-mysql"},
		{"validatingadmissionpolicy", "crossplane-mysql-keep-records"},
		{"function.pkg.crossplane.io", "crossplane-mysql-function-mysql"},
		{"mysql", s.Name, "--namespace", s.Namespace},
		{"secret", s.Name + "-connection", s.Name + "-root", s.Name + "-tls", "--namespace", s.Namespace},
	} {
		if out, err := framework.Kubectl(t.Context(), append([]string{"get"}, args...)...); err != nil {
			t.Errorf("%v, %s", err, out)
		}
	}
	err := framework.Suite.Kube.Get(t.Context(),
		client.ObjectKey{Namespace: "crossplane-mysql-system", Name: "crossplane-mysql"}, &appsv1.Deployment{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the controller is there: %v", err)
	}
	authorities := &corev1.SecretList{}
	if err := framework.Suite.Kube.List(t.Context(), authorities, client.InNamespace("crossplane-mysql-system"),
		client.HasLabels{"crossplane-mysql.io/xr"}); err != nil || len(authorities.Items) == 0 {
		t.Errorf("who signs is gone: %v", err)
	}
}

func controllerNow(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := framework.Suite.Kube.Get(t.Context(),
		client.ObjectKey{Namespace: "crossplane-mysql-system", Name: "crossplane-mysql"}, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// A helm runs the helm command with its own home directory. chart is the chart's archive in the directory dist, and
// crds is a file with the chart's CRDs.
type helm struct{ program, home, chart, crds string }

func newHelm(t *testing.T) *helm {
	t.Helper()
	h := &helm{home: t.TempDir(), program: runGo(t, framework.Repository(), "run", "./test/tools", "helm")}
	found, err := filepath.Glob(filepath.Join(framework.Repository(), "dist", "crossplane-mysql-*.tgz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("want one chart in dist, which `make chart` makes, got %q, %v", found, err)
	}
	h.chart = found[0]
	h.crds = filepath.Join(h.home, "crds.yaml")
	if err := os.WriteFile(h.crds, []byte(h.run(t, "show", "crds", h.chart)), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *helm) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.try(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (h *helm) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), h.program, args...)
	c.Env = append(os.Environ(), "KUBECONFIG="+framework.Suite.Kubeconfig, "HELM_CACHE_HOME="+h.home,
		"HELM_CONFIG_HOME="+h.home, "HELM_DATA_HOME="+h.home)
	var complaint strings.Builder
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("helm %v: %w: %s", args, err, complaint.String())
	}
	return string(out), err
}
