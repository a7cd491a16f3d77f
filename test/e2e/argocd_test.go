package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestArgoCDFragment runs the command in docs/how-to/argo-cd.md without Argo CD. The ConfigMap must keep its settings
// and get the six health checks.
func TestArgoCDFragment(t *testing.T) {
	t.Parallel()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "argocd"}}
	if err := framework.Suite.Kube.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := framework.Suite.Kube.Delete(context.WithoutCancel(t.Context()), ns); err != nil {
			t.Error(err)
		}
	})
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "argocd-cm"},
		Data: map[string]string{"url": "https://argocd.example"}}
	if err := framework.Suite.Kube.Create(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if out, err := framework.Kubectl(t.Context(), "patch", "configmap", "argocd-cm", "--namespace", "argocd", "--type", "merge",
		"--patch-file", filepath.Join(framework.Repository(), "package", "argocd", "argocd-cm.yaml")); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(settings), settings); err != nil {
		t.Fatal(err)
	}
	checks := 0
	for key, value := range settings.Data {
		if strings.HasPrefix(key, "resource.customizations.health.") && strings.Contains(value, "return ") {
			checks++
		}
	}
	if checks != 6 || settings.Data["url"] != "https://argocd.example" {
		t.Errorf("want the url and 6 checks, got %d of %v", checks, settings.Data)
	}
}
