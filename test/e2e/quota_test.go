package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestQuota checks that the claim reports when a quota refuses a pod, and that the instance continues when there is
// room. It checks this for the first pod of the server, of the backup and of the restore.
func TestQuota(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestWhyNoPod has the words, and TestNext a Job whose pod does not run")
	s := framework.NewServer(t, framework.ClassComposition)
	quota := forbidPods(t, s)
	s.Create(t)
	s.Says(t, "exceeded quota: "+quota.Name)
	isBlocked(t, s, "True", "PodsRefused")
	liftQuota(t, quota)
	s.Client().TypeSession(t)
	isBlocked(t, s, "False", "NotBlocked")
	before := s.Client().MustQuery(t, framework.Rows)

	quota = forbidPods(t, s)
	s.StartDelete(t)
	s.Says(t, `backup-`+s.Name+`-job has no pod: FailedCreate: Error creating: pods "backup-`+s.Name+
		`-job" is forbidden: exceeded quota: `+quota.Name)
	holdsItsData(t, s)
	liftQuota(t, quota)
	s.Gone(t)
	s.Backups().AreVerified(t, 1)

	quota = forbidPods(t, s)
	s.Create(t)
	s.Says(t, `restore-`+s.Name+`-job has no pod: FailedCreate: Error creating: pods "restore-`+s.Name+
		`-job" is forbidden: exceeded quota: `+quota.Name)
	isBlocked(t, s, "True", "PodFailure")
	liftQuota(t, quota)
	s.Client().SeesRows(t, before)
}

// TestQuotaOnPVCs checks a quota that first refuses the data PVC, which Crossplane creates, and then the backup PVC,
// which the controller creates. The claim must name the refused PVC, and the server must start once there is room for
// both.
func TestQuotaOnPVCs(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestWhyNoPod has the words")
	s := framework.NewServer(t, framework.ClassComposition)
	quota := newQuota(t, s, "no-volumes",
		corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("0")})
	s.Create(t)
	s.Says(t, `Crossplane cannot create the objects of this instance: cannot apply composed resource "data-claim": `)
	s.Says(t, "exceeded quota: "+quota.Name)

	quota.Spec.Hard[corev1.ResourcePersistentVolumeClaims] = resource.MustParse("1")
	if err := framework.Suite.Kube.Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	s.Says(t, `"backup-`+s.Name+`-pvc" is forbidden: exceeded quota: `+quota.Name)
	isBlocked(t, s, "True", "Refused")
	liftQuota(t, quota)
	s.Client().TypeSession(t)
	isBlocked(t, s, "False", "NotBlocked")
}

// isBlocked waits until the claim's condition Blocked has the given status and reason.
func isBlocked(t *testing.T, s *framework.Server, status, reason string) {
	t.Helper()
	framework.Eventually(t, "the condition Blocked", func(ctx context.Context) error {
		c, err := framework.FindCondition(ctx, s.Claim, "Blocked")
		if err == nil && (c["status"] != status || c["reason"] != reason) {
			err = fmt.Errorf("want %s for %s, got %v", status, reason, c)
		}
		return err
	})
}

// forbidPods creates a quota that forbids pods in the namespace.
func forbidPods(t *testing.T, s *framework.Server) *corev1.ResourceQuota {
	t.Helper()
	return newQuota(t, s, "no-pods", corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")})
}

// newQuota creates a quota in the namespace and waits until Kubernetes enforces it.
func newQuota(t *testing.T, s *framework.Server, name string, hard corev1.ResourceList) *corev1.ResourceQuota {
	t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	if err := framework.Suite.Kube.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the quota", func(ctx context.Context) error {
		err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(q), q)
		if err == nil && len(q.Status.Hard) == 0 {
			err = errors.New("nobody has counted yet")
		}
		return err
	})
	return q
}

// liftQuota deletes the quota.
func liftQuota(t *testing.T, q *corev1.ResourceQuota) {
	t.Helper()
	if err := framework.Suite.Kube.Delete(t.Context(), q); err != nil {
		t.Fatal(err)
	}
}
