package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestNamespaceLimits uses a namespace with a LimitRange whose default limit is below the requests of the Jobs. A
// claim in it must be backed up, and its backup must be restore-tested (requireRestoreTest) and restored.
//
// Some namespaces cannot run the Jobs at all, for example because of a low maximum or a quota that allows no Jobs. As
// long as that is the case, the status must contain a warning.
func TestNamespaceLimits(t *testing.T) {
	framework.Repeats(t, "TestFit and TestNamespaceRefusesBackup have each rule of a namespace")
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "small"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type:           corev1.LimitTypeContainer,
			Default:        corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			DefaultRequest: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")},
		}}}}
	if err := framework.Suite.Kube.Create(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	// The claim sets the server's own resources.
	s.Spec["resources"] = map[string]any{"requests": map[string]any{"memory": "512Mi"},
		"limits": map[string]any{"memory": "1Gi"}}
	s.Spec["backup"] = map[string]any{"finalBackup": map[string]any{"requireRestoreTest": true}}
	before := s.Begin(t)
	warns(t, s, "")

	limits.Spec.Limits[0].Max = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("96Mi")}
	if err := framework.Suite.Kube.Update(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	warns(t, s, "A deletion of this instance would wait, because its final backup could not run: LimitRange small allows "+
		"at most 96Mi of memory")
	limits.Spec.Limits[0].Max = nil
	if err := framework.Suite.Kube.Update(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	warns(t, s, "")

	quota := newQuota(t, s, "no-jobs", corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")})
	warns(t, s, "ResourceQuota no-jobs allows 0 of count/jobs.batch")
	liftQuota(t, quota)
	warns(t, s, "")

	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	s.Create(t)
	s.Client().SeesRows(t, before)
}

// warns waits until the warning about the next backup contains the text. If the text is empty, it waits until there
// is no warning. The controller does not watch LimitRanges and quotas, so the test changes the claim. Otherwise the
// controller would check them only within an hour.
func warns(t *testing.T, s *framework.Server, text string) {
	t.Helper()
	looks := 0
	s.Eventually(t, "the warning "+text, func(ctx context.Context) error {
		looks++
		touch := client.RawPatch("application/merge-patch+json",
			fmt.Appendf(nil, `{"metadata":{"annotations":{"example.org/look":"%d"}}}`, looks))
		if err := framework.Suite.Kube.Patch(ctx, s.Claim.DeepCopy(), touch); err != nil {
			return err
		}
		xr, err := s.XR(ctx)
		if err != nil {
			return err
		}
		got, _, _ := unstructured.NestedString(xr.Object, "status", "internal", "backupWarning")
		if (got == "") != (text == "") || !strings.Contains(got, text) {
			return fmt.Errorf("want %q, got %q", text, got)
		}
		return nil
	})
}
