package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// exporterAccounts counts the accounts of the exporter.
const exporterAccounts = "SELECT COUNT(*) FROM mysql.user WHERE user = 'crossplane-mysql-exporter'"

// TestExporter enables metrics on a running server, scrapes them, and deletes and restores the instance. The restored
// data contains the account of the previous instance, with another password. In the end, the test disables metrics.
func TestExporter(t *testing.T) {
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	rows := s.Begin(t)
	s.Set(t, map[string]any{"metrics": map[string]any{"enabled": true}})
	s.Spec["metrics"] = map[string]any{"enabled": true}
	servesMetrics(t, s)
	s.Client().SeesRows(t, rows)
	s.BecomesReady(t)
	first := metricsSecret(t, s).Data["password"]
	if logs := exporterLog(t, s); strings.Contains(logs, string(first)) {
		t.Errorf("the log of the exporter contains its password:\n%s", logs)
	}

	s.Delete(t)
	framework.Eventually(t, "the Secret's end", func(ctx context.Context) error {
		return framework.IsGone(ctx, framework.NewObject("v1", "Secret", s.Namespace, s.Name+"-metrics"))
	})
	s.Backups().AreVerified(t, 1)
	s.Create(t)
	s.Client().SeesRows(t, rows)
	servesMetrics(t, s)
	if string(metricsSecret(t, s).Data["password"]) == string(first) {
		t.Error("the account has the password of the previous instance")
	}

	s.Set(t, map[string]any{"metrics": map[string]any{"enabled": false}})
	s.Eventually(t, "the pod without the exporter", func(ctx context.Context) error {
		p, err := s.Pods().FindServer(ctx)
		if err == nil && len(p.Spec.Containers) != 1 {
			err = fmt.Errorf("pod %s has %d containers", p.Name, len(p.Spec.Containers))
		}
		return err
	})
	s.Client().SeesRows(t, rows)
	s.Eventually(t, "the account's end", func(ctx context.Context) error {
		count, err := s.Client().Query(ctx, s.Password, exporterAccounts)
		if err == nil && strings.TrimSpace(count) != "0" {
			err = fmt.Errorf("there are %s", count)
		}
		return err
	})
	framework.Eventually(t, "the Secret's end", func(ctx context.Context) error {
		return framework.IsGone(ctx, framework.NewObject("v1", "Secret", s.Namespace, s.Name+"-metrics"))
	})
}

// servesMetrics waits until the exporter in the server's pod returns metrics of the server, and checks the pod.
func servesMetrics(t *testing.T, s *framework.Server) {
	t.Helper()
	var pod *corev1.Pod
	s.Eventually(t, "the pod with the exporter", func(ctx context.Context) error {
		p, err := s.Pods().FindServer(ctx)
		switch {
		case err != nil:
			return err
		case len(p.Spec.Containers) != 2:
			return fmt.Errorf("pod %s has %d containers", p.Name, len(p.Spec.Containers))
		case !isReady(p):
			return fmt.Errorf("pod %s is not ready: %+v", p.Name, p.Status.ContainerStatuses)
		}
		pod = p
		return nil
	})
	url := ""
	s.Eventually(t, "the metrics", func(ctx context.Context) error {
		if url == "" {
			url = s.Pods().ForwardMetrics(t, pod)
		}
		text, err := getText(ctx, url)
		if err != nil {
			url = "" // A forwarded port is lost with the first connection that the exporter does not accept.
			return err
		}
		for _, line := range []string{"\nmysql_up 1\n", "\nmysql_global_status_threads_connected ",
			"\nmysql_global_variables_max_connections "} {
			if !strings.Contains(text, line) {
				return fmt.Errorf("the metrics have no %q", line)
			}
		}
		return nil
	})
	err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.RestartCount > 0 {
			t.Errorf("container %s has restarted, so the server was not ready: %+v", c.Name, c)
		}
	}
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// getText sends a GET request and returns the body of the response.
func getText(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(response.Body)
	return string(raw), errors.Join(err, response.Body.Close())
}

// metricsSecret returns the Secret with the account of the exporter.
func metricsSecret(t *testing.T, s *framework.Server) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: s.Name + "-metrics"}, secret)
	if apierrors.IsNotFound(err) {
		t.Fatal("the exporter has no account")
	}
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// exporterLog returns the log of the exporter's container.
func exporterLog(t *testing.T, s *framework.Server) string {
	t.Helper()
	p := s.Pods().MustFindServer(t)
	raw, err := framework.Suite.Typed.CoreV1().Pods(p.Namespace).GetLogs(p.Name,
		&corev1.PodLogOptions{Container: "exporter"}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
