package framework

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MetricsRole is the ClusterRole that allows reading the controller's metrics.
const MetricsRole = "crossplane-mysql-metrics"

// TokenWith creates a ServiceAccount and returns a token for it. Unless role is empty, it binds the ServiceAccount to
// a ClusterRole. The binding is deleted after the test. The ServiceAccount is deleted with its namespace.
func TokenWith(t *testing.T, namespace, role string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "reader-"}}
	if err := Suite.Kube.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	if role != "" {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}},
		}
		if err := Suite.Kube.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := Suite.Kube.Delete(context.WithoutCancel(t.Context()), binding); err != nil {
				t.Error(err)
			}
		})
	}
	return TokenOf(t, namespace, account.Name)
}

// TokenOf returns a token for a ServiceAccount, which is valid for 20 minutes.
func TokenOf(t *testing.T, namespace, account string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(1200))}}
	token, err := Suite.Typed.CoreV1().ServiceAccounts(namespace).
		CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// A Metrics is a forwarded connection to the controller's metrics endpoint.
type Metrics struct{ address string }

// MetricsOf forwards a port to the metrics endpoint of the controller's only pod.
func MetricsOf(t *testing.T) Metrics {
	t.Helper()
	pods := &corev1.PodList{}
	if err := Suite.Kube.List(t.Context(), pods, client.InNamespace(SystemNamespace),
		client.MatchingLabels{"app.kubernetes.io/name": "crossplane-mysql"}); err != nil || len(pods.Items) != 1 {
		t.Fatalf("the controller has %d pods, %v", len(pods.Items), err)
	}
	return Metrics{forward(t, &pods.Items[0], 8443)}
}

// Ask requests the controller's metrics with the token, or without credentials if the token is empty.
func (m Metrics) Ask(ctx context.Context, token string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.address+"/metrics", nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // The certificate is new at each start; no secrets are read.
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("cannot ask for metrics: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // The body was read.
	raw, err := io.ReadAll(response.Body)
	return response.StatusCode, string(raw), err
}

// Sum returns the sum of a metric's series. It includes only the series whose labels contain the text label.
func (m Metrics) Sum(ctx context.Context, token, name, label string) (float64, error) {
	_, body, err := m.Ask(ctx, token)
	if err != nil {
		return 0, err
	}
	sum, err := SumSeries(body, name, func(labels string) bool { return strings.Contains(labels, label) })
	if err != nil {
		return 0, fmt.Errorf("of the controller with %s: %w", label, err)
	}
	return sum, nil
}

// SumSeries returns the sum of a metric's series. It includes only the series for whose labels counts returns true.
func SumSeries(body, name string, counts func(labels string) bool) (float64, error) {
	sum, found := 0.0, false
	for line := range strings.Lines(body) {
		if labels, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(labels, name+"{") &&
			counts(labels) {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+n, true
		}
	}
	if !found {
		return 0, fmt.Errorf("there is no such metric %s", name)
	}
	return sum, nil
}

// Value returns the value of a metric without labels.
func (m Metrics) Value(ctx context.Context, token, name string) (float64, error) {
	_, body, err := m.Ask(ctx, token)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("the controller has no metric %s", name)
}
