package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestCreateAgainDifferently checks that a claim that cannot use the existing data is refused and changes nothing. A
// claim with a different password, database, size or image is accepted, and no row is lost.
//
// Only one version of MySQL is available, so the test edits the version in the BackupRecord.
func TestCreateAgainDifferently(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestDecide has what is refused, TestRestoreRefuses versions, and TestRealRestored another "+
		"password")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Create(t)
	s.Client().SeesVersion(t)
	s.Client().TypeSession(t)
	before, firstDatabase, firstPassword := s.Client().MustQuery(t, framework.Rows), s.Database, s.Password
	s.Delete(t)
	s.Backups().AreVerified(t, 1)

	s.Spec["storage_size"] = "512Mi"
	s.Create(t)
	s.Refuses(t, "spec.storage_size: 512Mi is smaller than the volume of backup ")
	s.Refuses(t, "Set it to 1Gi or more")
	s.HasEvent(t, "Set it to 1Gi or more")
	s.IsHeld(t)
	s.Delete(t)
	s.Spec["storage_size"] = "1Gi"

	s.Spec["image"] = "mariadb:10.11"
	restoreFailsOnCreate(t, s, "is from a server that is newer than spec.image, or too old to be upgraded to it")
	s.Spec["image"] = "mysql:9"
	patchVersion(t, s, "9.7.99")
	restoreFailsOnCreate(t, s, "Set spec.image to the version of that server")
	s.Backups().AreVerified(t, 1)

	patchVersion(t, s, "9.7.0")
	s.Database, s.Spec["database"] = "another-database", "another-database"
	s.Spec["password"], s.Spec["storage_size"] = "another password", "2Gi"
	s.Create(t)
	s.Client().Connects(t, "another password")
	s.Client().Refused(t, firstPassword)
	s.Says(t, "Restoring DB have succeed")
	if got := s.Client().MustQuery(t, "SHOW TABLES"); got != "" {
		t.Errorf("want a new database %s with nothing in it, got %q", s.Database, got)
	}
	if got := s.Client().MustQuery(t,
		strings.ReplaceAll(framework.Rows, " test ", " `"+firstDatabase+"`.test ")); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	hasGrown(t, s, s.DataPVC())
	hasGrown(t, s, s.BackupPVC())
}

// TestChangeInPlace checks that the image, the database and the volume size of a running server can be changed. A
// smaller volume is refused.
func TestChangeInPlace(t *testing.T) {
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)

	s.Set(t, map[string]any{"storage_size": "2Gi"})
	hasGrown(t, s, s.DataPVC())
	framework.Eventually(t, "the server's disk", func(ctx context.Context) error { return serverSeesRoom(ctx, s) })
	framework.Eventually(t, "the backup PVC, which nothing has used yet", func(ctx context.Context) error {
		return asksFor(ctx, s, s.BackupPVC(), "2Gi")
	})
	if err := s.TrySet(t.Context(), map[string]any{"storage_size": "1Gi"}); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "the storage size can grow, but it cannot shrink") {
		t.Errorf("want the API server to refuse it, got %v", err)
	}

	uid := s.Pods().MustFindServer(t).UID
	reachedBy(t, s)
	if now := s.Pods().MustFindServer(t).UID; now != uid {
		t.Errorf("the server was restarted: it was in pod %s, and is in %s", uid, now)
	}
	s.Set(t, map[string]any{"image": newestImage, "database": "later"})
	framework.Eventually(t, "the other image", func(ctx context.Context) error {
		p, err := s.Pods().FindServer(ctx)
		if err != nil {
			return err
		}
		if image := p.Spec.Containers[0].Image; p.UID == uid || image != newestImage {
			return fmt.Errorf("pod %s runs %s", p.Name, image)
		}
		return framework.HasCondition(ctx, s.Claim, "Ready")
	})
	s.Client().SeesRows(t, before)
	framework.Eventually(t, "the later database", func(ctx context.Context) error {
		got, err := s.Client().Query(ctx, s.Password, "SHOW DATABASES LIKE 'later'")
		if err == nil && got == "" {
			return errors.New("it is not there")
		}
		return err
	})
	s.Delete(t)
	s.Backups().AreVerified(t, 2) // One backup was taken before the image was changed.
	hasGrown(t, s, s.BackupPVC())
}

// reachedBy checks that the NetworkPolicy of the server allows the peers in spec.networkPolicy, and that the one of its
// Jobs does not. A peer that Kubernetes does not accept is refused.
func reachedBy(t *testing.T, s *framework.Server) {
	t.Helper()
	pods := map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": "client"}}}
	both := map[string]any{"podSelector": map[string]any{}, "ipBlock": map[string]any{"cidr": "10.0.0.0/8"}}
	if err := s.TrySet(t.Context(),
		map[string]any{"networkPolicy": map[string]any{"from": []any{both}}}); !apierrors.IsInvalid(err) || !strings.Contains(
		err.Error(), "must have either ipBlock, or podSelector") {
		t.Errorf("want the API server to refuse it, got %v", err)
	}
	s.Set(t, map[string]any{"networkPolicy": map[string]any{"from": []any{pods}}})
	for name, want := range map[string]int{s.Name + "-server": 2, s.Name + "-jobs": 0} {
		framework.Eventually(t, "NetworkPolicy "+name, func(ctx context.Context) error {
			p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
			err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(p), p)
			peers := 0
			for _, rule := range p.Spec.Ingress {
				peers += len(rule.From)
			}
			if err == nil && peers != want {
				err = fmt.Errorf("want %d who may, it has %d", want, peers)
			}
			return err
		})
	}
}

// restoreFailsOnCreate creates the claim, waits until its status contains the text, and checks that no server is
// started. Then it deletes the claim.
func restoreFailsOnCreate(t *testing.T, s *framework.Server, text string) {
	t.Helper()
	s.Create(t)
	s.Says(t, text)
	s.IsHeld(t)
	s.Delete(t)
}

// larger is the size to which volumes are expanded.
const larger = "2Gi"

// hasGrown waits until the capacity of a PVC is the size in the constant larger.
func hasGrown(t *testing.T, s *framework.Server, pvc string) {
	t.Helper()
	framework.Eventually(t, "the size of "+pvc, func(ctx context.Context) error {
		c := &corev1.PersistentVolumeClaim{}
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: pvc}, c); err != nil {
			return err
		}
		if got := c.Status.Capacity[corev1.ResourceStorage]; got.Cmp(resource.MustParse(larger)) < 0 {
			return fmt.Errorf("want %s, it has %s and asks for %s", larger, got.String(), c.Spec.Resources.Requests.Storage())
		}
		return nil
	})
}

// asksFor returns an error unless a PVC requests the size want.
func asksFor(ctx context.Context, s *framework.Server, pvc, want string) error {
	c := &corev1.PersistentVolumeClaim{}
	if err := framework.Suite.Kube.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: pvc}, c); err != nil {
		return err
	}
	if got := c.Spec.Resources.Requests[corev1.ResourceStorage]; got.Cmp(resource.MustParse(want)) != 0 ||
		c.DeletionTimestamp != nil {
		return fmt.Errorf("want %s, it asks for %s", want, got.String())
	}
	return nil
}

// serverSeesRoom returns an error unless the file system in the server's container has grown to 2 GiB.
func serverSeesRoom(ctx context.Context, s *framework.Server) error {
	p, err := s.Pods().FindServer(ctx)
	if err != nil {
		return err
	}
	out, err := framework.Exec(ctx, p.Namespace, p.Name, "", "stat", "--file-system", "--format=%b %S", "/var/lib/mysql")
	if err != nil {
		return err
	}
	blocks, size, _ := strings.Cut(strings.TrimSpace(out), " ")
	n, err := strconv.ParseInt(blocks, 10, 64)
	if err != nil {
		return err
	}
	each, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	if n*each < 3<<29 {
		return fmt.Errorf("it has %d bytes", n*each)
	}
	return nil
}

// findRestoreJob returns the restore Job of the server.
func findRestoreJob(ctx context.Context, s *framework.Server) (*batchv1.Job, error) {
	j := &batchv1.Job{}
	err := framework.Suite.Kube.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: "restore-" + s.Name + "-job"}, j)
	return j, err
}

// holdsItsData checks that the data PVC and the composite resource still have the controller's finalizers, and that no
// backup is verified.
func holdsItsData(t *testing.T, s *framework.Server) {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: s.DataPVC()},
		c); err != nil || c.DeletionTimestamp != nil || len(c.Finalizers) == 0 {
		t.Errorf("want the data PVC untouched, got %v, %v", c, err)
	}
	xr, err := s.XR(t.Context())
	if err != nil || len(xr.GetFinalizers()) == 0 {
		t.Errorf("want the XR held, got %v, %v", xr, err)
	}
	for _, r := range s.Backups().MustList(t) {
		if phase, _, _ := unstructured.NestedString(r.Object, "status", "phase"); phase == framework.PhaseVerified {
			t.Errorf("want no proof, backup %s is %s", r.GetName(), phase)
		}
	}
}
