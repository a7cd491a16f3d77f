//go:build chart

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// operatorModule is the module that contains the CRDs of the Prometheus operator.
const operatorModule = "github.com/prometheus-operator/prometheus-operator@v0.94.1"

// TestMonitoring checks that the operator's CRDs accept the PodMonitors and alerts, and that the token for scraping
// allows reading metrics but not BackupRecords.
func TestMonitoring(t *testing.T) {
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(runGo(t, t.TempDir(), "mod", "download", "-json", operatorModule)),
		&module); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"podmonitors", "prometheusrules"} {
		crd := filepath.Join(module.Dir, "example/prometheus-operator-crd/monitoring.coreos.com_"+kind+".yaml")
		framework.MustKubectl(t, "apply", "--server-side", "--filename", crd)
		t.Cleanup(func() {
			if out, err := framework.Kubectl(context.WithoutCancel(t.Context()), "delete", "--filename", crd,
				"--timeout=1m"); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		framework.MustKubectl(t, "wait", "--for=condition=Established", "--timeout=1m", "crd/"+kind+".monitoring.coreos.com")
	}
	framework.MustKubectl(t, "apply", "--server-side", "-k", "controller/deploy/monitoring")
	t.Cleanup(func() {
		dir := filepath.Join(framework.Repository(), "controller/deploy/monitoring")
		if out, err := framework.Kubectl(context.WithoutCancel(t.Context()), "delete", "-k", dir,
			"--ignore-not-found"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	functionCounts(t)
	token := scrapersToken(t)
	status, body, err := framework.MetricsOf(t).Ask(t.Context(), token)
	if err != nil || status != http.StatusOK ||
		!strings.Contains(body, `crossplane_mysql_restore_tests_total{result="failed"} 0`) {
		t.Errorf("it reads %d with %d bytes, %v", status, len(body), err)
	}
	if out, err := framework.Kubectl(t.Context(), "get", "msbr", "--token", token, "--client-certificate=",
		"--client-key="); err == nil || !strings.Contains(out, "crossplane-mysql-scraper") || !strings.Contains(out,
		"cannot list") {
		t.Errorf("it reads records, too: %v, %s", err, out)
	}
}

// functionCounts checks that the PodMonitor finds the function's metrics, and that they count Crossplane's calls.
func functionCounts(t *testing.T) {
	t.Helper()
	pods := &corev1.PodList{}
	framework.Eventually(t, "the function's counts", func(ctx context.Context) error {
		if err := framework.Suite.Kube.List(ctx, pods, client.InNamespace("crossplane-system"),
			client.MatchingLabels{"pkg.crossplane.io/function": "crossplane-mysql-function-mysql"}); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return errors.New("there is no function")
		}
		p := &pods.Items[0]
		if !slices.ContainsFunc(p.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
			return p.Name == "metrics"
		}) {
			return errors.New("its pod has no port of that name")
		}
		body, err := framework.Suite.Typed.CoreV1().Pods(p.Namespace).ProxyGet("http", p.Name, "8080", "/metrics", nil).
			DoRaw(ctx)
		if err == nil && !strings.Contains(string(body),
			`grpc_server_handled_total{grpc_code="OK",grpc_method="RunFunction"`) {
			err = fmt.Errorf("it has no call in %d bytes", len(body))
		}
		return err
	})
}

func scrapersToken(t *testing.T) (token string) {
	t.Helper()
	framework.Eventually(t, "the scraper's token", func(ctx context.Context) error {
		s := &corev1.Secret{}
		if err := framework.Suite.Kube.Get(ctx,
			client.ObjectKey{Namespace: "crossplane-mysql-system", Name: "crossplane-mysql-scraper"}, s); err != nil {
			return err
		}
		if token = string(s.Data[corev1.ServiceAccountTokenKey]); token == "" {
			return errors.New("it has none")
		}
		return nil
	})
	return token
}
