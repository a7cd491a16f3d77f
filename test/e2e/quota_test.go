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
)

// TestQuota: where a quota refuses a pod, the claim says so, and it goes on when there is room: with the server's first
// pod, the backup's and the restore's.
func TestQuota(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	quota := s.noPods(t)
	s.create(t)
	s.says(t, "exceeded quota: "+quota.Name)
	s.blocked(t, "True", "PodsRefused")
	s.allow(t, quota)
	s.session(t)
	s.blocked(t, "False", "NotBlocked")
	before := s.mustQuery(t, rows)

	quota = s.noPods(t)
	s.startDelete(t)
	s.says(t, "backup-"+s.name+"-job has no pod: a quota or a policy may refuse it")
	s.unreleased(t)
	s.allow(t, quota)
	s.gone(t)
	s.proven(t, 1)

	quota = s.noPods(t)
	s.create(t)
	s.says(t, "restore-"+s.name+"-job has no pod: a quota or a policy may refuse it")
	s.blocked(t, "True", "PodFailure")
	s.allow(t, quota)
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
}

// blocked is the claim or not, for this reason.
func (s *server) blocked(t *testing.T, status, reason string) {
	t.Helper()
	eventually(t, "the condition Blocked", func(ctx context.Context) error {
		c, err := findCondition(ctx, s.claim, "Blocked")
		if err == nil && (c["status"] != status || c["reason"] != reason) {
			err = fmt.Errorf("want %s for %s, got %v", status, reason, c)
		}
		return err
	})
}

// noPods are made in the namespace any more.
func (s *server) noPods(t *testing.T) *corev1.ResourceQuota {
	t.Helper()
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "no-pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	if err := suite.kube.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the quota", func(ctx context.Context) error {
		err := suite.kube.Get(ctx, client.ObjectKeyFromObject(q), q)
		if err == nil && len(q.Status.Hard) == 0 {
			err = errors.New("nobody has counted yet")
		}
		return err
	})
	return q
}

// allow what a quota refused.
func (s *server) allow(t *testing.T, q *corev1.ResourceQuota) {
	t.Helper()
	if err := suite.kube.Delete(t.Context(), q); err != nil {
		t.Fatal(err)
	}
}
