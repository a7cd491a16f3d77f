package e2e

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestRows checks that the product has the features of the MySQL operators that it replaces. Each subtest checks a
// row of the table in docs/contribute/original-operators-rows.md. Row 14 is checked by TestRow14Database.
func TestRows(t *testing.T) { //nolint:tparallel // The subtests use one instance, in this order.
	t.Parallel()
	s := framework.NewServer(t, framework.HostPathComposition(t, nil))
	t.Run("Row02Required", func(t *testing.T) { requiresFields(t, s) })
	s.Create(t)
	s.Client().SeesVersion(t)
	s.Client().TypeSession(t)
	t.Run("Row01Names", func(t *testing.T) { knowsSpellings(t, s) })
	t.Run("Row03Objects", func(t *testing.T) { makesObjects(t, s) })
	t.Run("Row04BackupPV", func(t *testing.T) { hasBackupPV(t, s) })
	t.Run("Row08Labels", func(t *testing.T) { hasLabels(t, s) })
	t.Run("Row11HostPath", func(t *testing.T) { liesOnHostPath(t, s) })
	t.Run("Row12InTheCluster", func(t *testing.T) { runsInTheCluster(t) })
	t.Run("Row13Directory", func(t *testing.T) { liesInADirectory(t, s) })
	s.Delete(t)
	t.Run("Row06Backup", func(t *testing.T) { s.Backups().AreVerified(t, 1) })
	t.Run("Row07Gone", func(t *testing.T) { leavesNothing(t, s) })
	s.Create(t)
	t.Run("Row05Restore", func(t *testing.T) {
		if got := s.Client().FirstAnswer(t, framework.Rows); got != "1\tsome data\n2\tsome data-2\n" {
			t.Errorf("want both rows, got %q", got)
		}
	})
	t.Run("Row09Message", func(t *testing.T) { s.Says(t, "Restoring DB have succeed") })
	t.Run("Row10Password", func(t *testing.T) {
		s.Set(t, map[string]any{"password": "another one"})
		framework.Eventually(t, "the new password", func(ctx context.Context) error {
			_, err := s.Client().Query(ctx, "another one", "SELECT 1")
			return err
		})
	})
}

// requiresFields checks that the API server refuses a claim without a required field, and names the field.
func requiresFields(t *testing.T, s *framework.Server) {
	t.Helper()
	for _, field := range []string{"database", "password", "storage_size"} {
		claim := framework.NewObject(s.Claim.GetAPIVersion(), s.Claim.GetKind(), s.Namespace, "incomplete")
		spec := map[string]any{}
		for k, v := range s.Spec {
			if k != field {
				spec[k] = v
			}
		}
		claim.Object["spec"] = spec
		if err := framework.Suite.Kube.Create(t.Context(), claim); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), field) {
			t.Errorf("want the API server to ask for %s, got %v", field, err)
		}
	}
}

// knowsSpellings checks that kubectl accepts the singular, the plural and the short name of the kind.
func knowsSpellings(t *testing.T, s *framework.Server) {
	t.Helper()
	for _, name := range []string{"mysql", "mysqls", "ms"} {
		if out, err := framework.Kubectl(t.Context(), "get", name, s.Name, "--namespace", s.Namespace, "--output",
			"name"); err != nil {
			t.Errorf("kubectl get %s: %v: %s", name, err, out)
		}
	}
}

func makesObjects(t *testing.T, s *framework.Server) {
	t.Helper()
	for kind, name := range map[string]string{"Deployment": s.Name, "Service": s.Name,
		"PersistentVolumeClaim": s.DataPVC()} {
		apiVersion := "v1"
		if kind == "Deployment" {
			apiVersion = "apps/v1"
		}
		o := framework.NewObject(apiVersion, kind, s.Namespace, name)
		if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Error(err)
		}
	}
	if v, err := s.VolumeOf(t.Context(), s.DataPVC()); v == nil {
		t.Errorf("there is no volume (%v)", err)
	}
}

// hasBackupPV checks that the backup PVC exists from the beginning, and that it has no owner.
func hasBackupPV(t *testing.T, s *framework.Server) {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	if err := framework.Suite.Kube.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: s.BackupPVC()},
		c); err != nil {
		t.Fatal(err)
	}
	if len(c.OwnerReferences) > 0 {
		t.Errorf("it belongs to %v", c.OwnerReferences)
	}
}

func hasLabels(t *testing.T, s *framework.Server) {
	t.Helper()
	pods := &corev1.PodList{}
	if err := framework.Suite.Kube.List(t.Context(), pods, client.InNamespace(s.Namespace),
		client.MatchingLabels{"app": s.Name}); err != nil || len(pods.Items) != 1 {
		t.Errorf("want one pod labelled app=%s, got %d, %v", s.Name, len(pods.Items), err)
	}
}

func liesOnHostPath(t *testing.T, s *framework.Server) {
	t.Helper()
	v, err := s.VolumeOf(t.Context(), s.DataPVC())
	if v == nil {
		t.Fatalf("there is no volume (%v)", err)
	}
	if v.Spec.HostPath == nil {
		t.Errorf("its volume is %+v", v.Spec.PersistentVolumeSource)
	}
}

// runsInTheCluster checks that the controller's ServiceAccount has only limited permissions.
func runsInTheCluster(t *testing.T) {
	t.Helper()
	const account = "system:serviceaccount:crossplane-mysql-system:crossplane-mysql"
	for _, ask := range []struct {
		verb, resource string
		may            bool
	}{{"create", "jobs.batch", true}, {"list", "secrets", false}, {"create", "pods", false},
		{"delete", "namespaces", false}, {"delete", "persistentvolumes", false}} {
		out, err := framework.Kubectl(t.Context(), "auth", "can-i", ask.verb, ask.resource, "--all-namespaces", "--as",
			account)
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if may := strings.HasSuffix(strings.TrimSpace(out), "yes"); may != ask.may {
			t.Errorf("may it %s %s: want %t, got %q", ask.verb, ask.resource, ask.may, out)
		}
	}
}

// liesInADirectory checks that the data is in a subdirectory of its volume. In the root directory, MySQL would treat
// lost+found as a database.
func liesInADirectory(t *testing.T, s *framework.Server) {
	t.Helper()
	pod := s.Pods().MustFindServer(t)
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if m.Name == "data" && m.SubPath == "" {
			t.Error("the whole volume is mounted")
		}
	}
	if got := s.Client().MustQuery(t,
		"SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name LIKE '%lost+found%'"); got != "0\n" {
		t.Errorf("lost+found is a database: %q", got)
	}
}
