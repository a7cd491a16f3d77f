//go:build bench

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// idle is the number of claims without changes whose API calls are measured. Half of them read their password from a
// Secret.
const idle = 6

// TestCallsAtRest measures the number of API calls per idle claim, by all clients. It also measures how long the
// server takes to accept a password that was changed in a Secret.
//
// For comparison, the test creates the same objects without the product and measures again. The kubelet causes some
// API calls for each pod, for example to read its PVCs. No other test can use the cluster at the same time.
func TestCallsAtRest(t *testing.T) {
	time.Sleep(3 * time.Minute) // A new cluster itself makes API calls for some minutes.
	without := callsIn(t, 5*time.Minute)
	servers := make([]*framework.Server, 0, idle)
	for i := range idle {
		s := framework.NewServer(t, framework.ClassComposition)
		if i%2 == 0 {
			delete(s.Spec, "password")
			s.Spec["passwordSecretRef"] = map[string]any{"name": "wanted", "key": "password"}
			secret := &corev1.Secret{StringData: map[string]string{"password": s.Password}}
			secret.Namespace, secret.Name = s.Namespace, "wanted"
			framework.Make(t, secret)
		}
		s.Create(t)
		servers = append(servers, s)
	}
	for _, s := range servers {
		s.BecomesReady(t)
	}
	fmt.Printf("\n%-40s %18s %32s\n", "an idle claim", "calls in a minute", "a changed Secret is the password")
	changed := changeSecret(t, servers[0], "another-password")
	// Wait until the password change is complete.
	time.Sleep(2 * time.Minute)
	// Crossplane caches the function's response, and calls the function again within this time.
	calls := callsIn(t, 10*time.Minute)
	fmt.Printf("%-40s %18.1f %32s\n", "at rest", (calls-without)/idle, changed.Round(100*time.Millisecond))
	composed := composedOf(t, servers[0])
	for _, s := range servers {
		s.Delete(t)
	}
	for range idle {
		ns := framework.NewNamespace(t)
		applyByHand(t, ns, composed)
		// Check that the Deployment was available during the whole measurement.
		defer framework.MustKubectl(t, "wait", "--for=condition=Available", "--timeout=1s", "--namespace="+ns,
			"deployment/"+servers[0].Name)
	}
	time.Sleep(3 * time.Minute)
	fmt.Printf("%-40s %18.1f\n", "the same objects by hand", (callsIn(t, 10*time.Minute)-without)/idle)
}

// changeSecret changes the password in a server's Secret, and returns how long the server takes to accept it.
func changeSecret(t *testing.T, s *framework.Server, password string) time.Duration {
	t.Helper()
	start := time.Now()
	framework.MustKubectl(t, "patch", "secret", "wanted", "--namespace", s.Namespace, "--type=merge", "--patch",
		`{"stringData":{"password":"`+password+`"}}`)
	s.Client().Connects(t, password)
	return time.Since(start)
}

// callsIn returns the number of API calls of all clients per minute, measured over a period. It does not count
// watches.
func callsIn(t *testing.T, period time.Duration) float64 {
	t.Helper()
	before := calls(t)
	time.Sleep(period)
	return (calls(t) - before) / period.Minutes()
}

// calls returns the total number of requests that the API server has answered, without watches and connections.
func calls(t *testing.T) float64 {
	t.Helper()
	out, err := framework.Kubectl(context.WithoutCancel(t.Context()), "get", "--raw", "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := framework.SumSeries(out, "apiserver_request_total", func(labels string) bool {
		return !strings.Contains(labels, `verb="WATCH"`) && !strings.Contains(labels, `verb="CONNECT"`)
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
