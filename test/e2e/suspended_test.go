package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestSuspended checks that a suspended server is stopped, and that it has its data, its address and a changed
// password when it is resumed. If the claim is deleted while it is suspended, the data is backed up. If a claim is
// created suspended, its backup is not restored until it is resumed.
func TestSuspended(t *testing.T) {
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	rows := s.Begin(t)
	before := addressOf(t, s)
	s.Set(t, map[string]any{"suspend": true})
	s.Says(t, "Suspended: the server is stopped")
	hasNoPods(t, s)
	s.Set(t, map[string]any{"password": "another-password"})
	s.Set(t, map[string]any{"suspend": false})
	s.Password = "another-password"
	s.Client().Connects(t, s.Password)
	s.Client().SeesRows(t, rows)
	if got := addressOf(t, s); got != before {
		t.Errorf("want the address %s again, got %s", before, got)
	}

	s.Set(t, map[string]any{"suspend": true})
	hasNoPods(t, s)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	s.Spec["suspend"], s.Spec["password"] = true, s.Password
	s.Create(t)
	s.Says(t, "Suspended: nothing is restored")
	s.IsHeld(t)
	s.Set(t, map[string]any{"suspend": false})
	s.Client().SeesRows(t, rows)
}

func hasNoPods(t *testing.T, s *framework.Server) {
	t.Helper()
	s.Eventually(t, "the server to be off", func(ctx context.Context) error {
		pods, err := s.Pods().Of(ctx, "server")
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("pod %s is %s", pods[0].Name, pods[0].Status.Phase)
		}
		return err
	})
}

// addressOf returns the cluster IP of the server's Service.
func addressOf(t *testing.T, s *framework.Server) string {
	t.Helper()
	service := &corev1.Service{}
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: s.Name},
		service); err != nil {
		t.Fatal(err)
	}
	return service.Spec.ClusterIP
}
