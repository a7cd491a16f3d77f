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
)

// TestRows is what the original operators did, row by row of the README's table, on one instance in one go. Row 14 is
// TestRow14Database.
func TestRows(t *testing.T) { //nolint:tparallel // One instance, in the order of its life.
	t.Parallel()
	s := newServer(t, hostPathComposition(t, nil))
	t.Run("Row02Required", s.required)
	s.create(t)
	s.version(t)
	s.session(t)
	t.Run("Row01Names", s.spellings)
	t.Run("Row03Objects", s.made)
	t.Run("Row04BackupPV", s.backupPV)
	t.Run("Row08Labels", s.labelled)
	t.Run("Row11HostPath", s.onHostPath)
	t.Run("Row12InTheCluster", s.controllerRuns)
	t.Run("Row13Directory", s.notTheRoot)
	s.delete(t)
	t.Run("Row06Backup", func(t *testing.T) { s.proven(t, 1) })
	t.Run("Row07Gone", s.nothingLeft)
	s.create(t)
	t.Run("Row05Restore", func(t *testing.T) {
		if got := s.firstAnswer(t, rows); got != "1\tsome data\n2\tsome data-2\n" {
			t.Errorf("want both rows, got %q", got)
		}
	})
	t.Run("Row09Message", func(t *testing.T) { s.says(t, "Restoring DB have succeed") })
	t.Run("Row10Password", func(t *testing.T) {
		s.set(t, map[string]any{"password": "another one"})
		eventually(t, "the new password", func(ctx context.Context) error {
			_, err := s.query(ctx, "another one", "SELECT 1")
			return err
		})
	})
}

// required fields that are missing are an error of the API server that names them.
func (s *server) required(t *testing.T) {
	for _, field := range []string{"database", "password", "storage_size"} {
		claim := object(s.claim.GetAPIVersion(), s.claim.GetKind(), s.namespace, "incomplete")
		spec := map[string]any{}
		for k, v := range s.spec {
			if k != field {
				spec[k] = v
			}
		}
		claim.Object["spec"] = spec
		if err := suite.kube.Create(t.Context(), claim); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field) {
			t.Errorf("want the API server to ask for %s, got %v", field, err)
		}
	}
}

// spellings of the kind that people type.
func (s *server) spellings(t *testing.T) {
	for _, name := range []string{"mysql", "mysqls", "ms"} {
		if out, err := kubectl(t.Context(), "get", name, s.name, "--namespace", s.namespace, "--output", "name"); err != nil {
			t.Errorf("kubectl get %s: %v: %s", name, err, out)
		}
	}
}

func (s *server) made(t *testing.T) {
	for kind, name := range map[string]string{"Deployment": s.name, "Service": s.name, "PersistentVolumeClaim": s.name + "-pvc"} {
		apiVersion := "v1"
		if kind == "Deployment" {
			apiVersion = "apps/v1"
		}
		o := object(apiVersion, kind, s.namespace, name)
		if err := suite.kube.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.volumeOf(t.Context(), s.name+"-pvc"); err != nil {
		t.Error(err)
	}
}

// backupPV is there from the beginning, and nothing that dies with the claim owns it.
func (s *server) backupPV(t *testing.T) {
	c := &corev1.PersistentVolumeClaim{}
	if err := suite.kube.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: s.backupPVC()}, c); err != nil {
		t.Fatal(err)
	}
	if len(c.OwnerReferences) > 0 {
		t.Errorf("it belongs to %v", c.OwnerReferences)
	}
}

func (s *server) labelled(t *testing.T) {
	pods := &corev1.PodList{}
	if err := suite.kube.List(t.Context(), pods, client.InNamespace(s.namespace), client.MatchingLabels{"app": s.name}); err != nil || len(pods.Items) != 1 {
		t.Errorf("want one pod labelled app=%s, got %d, %v", s.name, len(pods.Items), err)
	}
}

func (s *server) onHostPath(t *testing.T) {
	v, err := s.volumeOf(t.Context(), s.name+"-pvc")
	if err != nil {
		t.Fatal(err)
	}
	if v.Spec.HostPath == nil {
		t.Errorf("its volume is %+v", v.Spec.PersistentVolumeSource)
	}
}

// controllerRuns from its own image, with a service account that may not do everything.
func (s *server) controllerRuns(t *testing.T) {
	const account = "system:serviceaccount:crossplane-mysql-system:crossplane-mysql"
	for _, ask := range []struct {
		verb, resource string
		may            bool
	}{{"create", "jobs.batch", true}, {"list", "secrets", false}, {"create", "pods", false}, {"delete", "namespaces", false}, {"delete", "persistentvolumes", false}} {
		out, err := kubectl(t.Context(), "auth", "can-i", ask.verb, ask.resource, "--all-namespaces", "--as", account)
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if may := strings.HasSuffix(strings.TrimSpace(out), "yes"); may != ask.may {
			t.Errorf("may it %s %s: want %t, got %q", ask.verb, ask.resource, ask.may, out)
		}
	}
}

// notTheRoot of its volume is the server's data directory: what a file system has in its root would be a database to it.
func (s *server) notTheRoot(t *testing.T) {
	pod := s.mustServerPod(t)
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if m.Name == "data" && m.SubPath == "" {
			t.Error("the whole volume is mounted")
		}
	}
	if got := s.mustQuery(t, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name LIKE '%lost+found%'"); got != "0\n" {
		t.Errorf("lost+found is a database: %q", got)
	}
}
