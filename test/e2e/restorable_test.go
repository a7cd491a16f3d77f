package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRestorable looks at a backup after its claim is gone: a server has run on a copy of it, and nothing of that is left.
func TestRestorable(t *testing.T) {
	t.Parallel()
	strangers(t)
	onEach(t, map[string]string{onHostPath: "TestEverythingComesBack has that Composition"}, func(t *testing.T, composition string) {
		t.Helper()
		s := newServer(t, composition)
		before := s.begin(t)
		s.delete(t)
		s.proven(t, 1)
		if message := s.verdict(t, "True"); !strings.Contains(message, "tables whole") {
			t.Errorf("want the tables that were checked, got %q", message)
		}
		s.nothingLeft(t)
		s.noCopy(t)
		s.create(t)
		if got := s.firstAnswer(t, rows); got != before {
			t.Errorf("want every row, got %q", got)
		}
	})
}

// strangers are Jobs of a tenant that have our labels, and never begin. They take nobody's turn to see that a backup
// restores.
func strangers(t *testing.T) {
	t.Helper()
	ns := namespace(t)
	for i := range 5 {
		name := fmt.Sprintf("stranger-%d", i)
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name,
			Labels: map[string]string{
				"app.kubernetes.io/managed-by": "crossplane-mysql", "app.kubernetes.io/component": "restore-test", "app.kubernetes.io/name": "mysql",
				"otus.homework/instance": name, "otus.homework/xr": name,
			},
			Annotations: map[string]string{"otus.homework/claim-kind": "MySQL", "otus.homework/claim-namespace": ns, "otus.homework/claim-name": name},
		}}
		j.Spec.Suspend = new(true)
		j.Spec.Template.Spec = toolboxPod(ns, name, "").Spec
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		if err := suite.kube.Create(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRequireRestorable backs up a database that has been damaged on its disk. The archive is as good as the data, so the
// backup is proven; but no server finds its tables whole, and the data stays until a person says otherwise.
func TestRequireRestorable(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	s.spec["backup"] = map[string]any{"requireRestorable": true}
	s.begin(t)
	s.delete(t)
	s.verdict(t, "True")
	s.nothingLeft(t)

	s.create(t)
	s.restored(t)
	s.damage(t)
	s.startDelete(t)
	if message := s.verdict(t, "False"); !strings.Contains(message, "victim") {
		t.Errorf("want the table by its name, got %q", message)
	}
	s.says(t, "no server has run on it")
	if _, err := s.volumeOf(t.Context(), s.name+"-pvc"); err != nil {
		t.Errorf("want the data kept: %v", err)
	}
	if out, err := kubectl(t.Context(), "patch", "mysql", s.name, "--namespace", s.namespace, "--type=merge", "--patch", `{"spec":{"backup":{"requireRestorable":false}}}`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.gone(t)
	s.proven(t, 2)
	s.nothingLeft(t)
}

// TestRestorableWithoutItsKind: the XRD goes while a server runs on a copy of a backup, and a controller starts that has never
// seen it. The test ends, the record can be deleted meanwhile, and every row comes back. It shares the cluster with no other
// test.
func TestRestorableWithoutItsKind(t *testing.T) {
	repeats(t, "the matrix uninstalls the XRD, and TestTurnWithoutKind has the turn")
	s := newServer(t, classComposition)
	before := s.begin(t)
	s.delete(t)
	eventually(t, "its turn", s.hasTurn)
	t.Cleanup(func() { controllers(t, 1) })
	controllers(t, 0)
	uninstallsConfigurations(t, nil)
	eventually(t, "the XRD's end", func(ctx context.Context) error {
		return gone(ctx, object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "xmysqls.otus.homework"))
	})
	if err := s.hasTurn(t.Context()); err != nil {
		t.Fatalf("the controller was too fast for this test: %v", err)
	}
	typed(t, "delete", "msb", s.record(t).GetName(), "--wait=false")
	controllers(t, 1)
	eventually(t, "the record's end", func(ctx context.Context) error {
		records, err := s.records(ctx)
		if err == nil && len(records) != 0 {
			err = fmt.Errorf("%s is there", records[0].GetName())
		}
		return err
	})
	installsPackages(t, nil)
	s.heldThenRestored(t, before)
}

// hasTurn is nil while a server is tried on a copy of a backup.
func (s *server) hasTurn(ctx context.Context) error {
	records, err := s.records(ctx)
	for _, r := range records {
		if job, _, _ := unstructured.NestedString(r.Object, "status", "restoreTest", "job"); job != "" {
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("no record of %d has one", len(records)))
}

// verdict waits for that of the newest backup, and returns what it says.
func (s *server) verdict(t *testing.T, want string) (message string) {
	t.Helper()
	eventually(t, "the verdict on the backup", func(ctx context.Context) error {
		records, err := s.records(ctx)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return errors.New("there is no record")
		}
		newest := records[0]
		for _, r := range records {
			created, last := r.GetCreationTimestamp(), newest.GetCreationTimestamp()
			if last.Before(&created) {
				newest = r
			}
		}
		conditions, _, err := unstructured.NestedSlice(newest.Object, "status", "conditions")
		if err != nil || len(conditions) != 1 {
			return fmt.Errorf("%s: want one condition, got %v, %w", newest.GetName(), conditions, err)
		}
		c, _ := conditions[0].(map[string]any)
		if message = fmt.Sprint(c["message"]); c["type"] != "Restorable" || c["status"] != want {
			return fmt.Errorf("%s: want Restorable %s, got %v", newest.GetName(), want, c)
		}
		return nil
	})
	return message
}

// noCopy of the backup is left on its volume.
func (s *server) noCopy(t *testing.T) {
	t.Helper()
	pod(t, s.namespace, "copies", s.backupPVC())
	out, err := in(t.Context(), s.namespace, "copies", "", "find", "/data", "-path", "*/.crossplane-mysql-restore-test/*")
	if err != nil || out != "" {
		t.Errorf("want no copy, got %q, %v", out, err)
	}
	s.dismiss(t, "copies")
}

// damage some pages of a table on the disk of a running server, which does not look at them any more.
func (s *server) damage(t *testing.T) {
	t.Helper()
	s.mustQuery(t, "CREATE TABLE victim (id INT AUTO_INCREMENT PRIMARY KEY, t CHAR(200)); INSERT INTO victim (t) SELECT REPEAT('x', 200) FROM information_schema.COLUMNS LIMIT 3000; SET GLOBAL innodb_max_dirty_pages_pct = 0; FLUSH TABLES victim; DO SLEEP(2)")
	pod(t, s.namespace, "vandal", s.name+"-pvc")
	out, err := in(t.Context(), s.namespace, "vandal", "", "sh", "-c", `dd if=/dev/zero of="$(find /data -name victim.ibd)" bs=16384 seek=6 count=8 conv=notrunc,fsync`)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.dismiss(t, "vandal")
}
