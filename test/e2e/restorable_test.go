package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestRestorable checks that the backup of a deleted claim is restore-tested, and that the restore test leaves no
// objects behind.
func TestRestorable(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestEverythingComesBack has the word of one, and TestManifests its Job")
	strangers(t)
	framework.OnEach(t, map[string]string{framework.OnHostPath: "TestEverythingComesBack has that Composition"},
		func(t *testing.T, composition string) {
			t.Helper()
			s := framework.NewServer(t, composition)
			before := s.Begin(t)
			s.Delete(t)
			s.Backups().AreVerified(t, 1)
			if message := hasVerdict(t, s, "True"); !strings.Contains(message, "tables are intact") {
				t.Errorf("want the tables that were checked, got %q", message)
			}
			leavesNothing(t, s)
			leavesNoCopy(t, s)
			s.Create(t)
			if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
				t.Errorf("want every row, got %q", got)
			}
		})
}

// strangers creates suspended Jobs of a tenant with the product's labels. They must not occupy a place in the queue
// of restore tests.
func strangers(t *testing.T) {
	t.Helper()
	ns := framework.NewNamespace(t)
	for i := range 5 {
		name := fmt.Sprintf("stranger-%d", i)
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name,
			Labels: map[string]string{
				"app.kubernetes.io/managed-by": "crossplane-mysql", "app.kubernetes.io/component": "restore-test",
				"app.kubernetes.io/name":       "mysql",
				"crossplane-mysql.io/instance": name, "crossplane-mysql.io/xr": name,
			},
			Annotations: map[string]string{"crossplane-mysql.io/claim-kind": "MySQL", "crossplane-mysql.io/claim-namespace": ns,
				"crossplane-mysql.io/claim-name": name},
		}}
		j.Spec.Suspend = new(true)
		j.Spec.Template.Spec = framework.ToolboxPod(ns, name, "").Spec
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		if err := framework.Suite.Kube.Create(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRequireRestorable backs up a database with a damaged table. The backup is verified, because the archive is
// identical to the data. The restore test must find the damage, and the data must be kept until a user decides.
func TestRequireRestorable(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestRealBootCheck finds a broken table, and TestNext has a deletion that waits for that")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["backup"] = map[string]any{"finalBackup": map[string]any{"requireRestoreTest": true}}
	s.Begin(t)
	s.Delete(t)
	hasVerdict(t, s, "True")
	leavesNothing(t, s)

	s.Create(t)
	isRestored(t, s)
	damageTable(t, s)
	s.StartDelete(t)
	if message := hasVerdict(t, s, "False"); !strings.Contains(message, "victim") {
		t.Errorf("want the table by its name, got %q", message)
	}
	s.Says(t, "no server has started from it")
	if v, err := s.VolumeOf(t.Context(), s.DataPVC()); v == nil {
		t.Errorf("want the data kept, there is no volume (%v)", err)
	}
	if out, err := framework.Kubectl(t.Context(), "patch", "mysql", s.Name, "--namespace", s.Namespace, "--type=merge",
		"--patch", `{"spec":{"backup":{"finalBackup":{"requireRestoreTest":false}}}}`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.Gone(t)
	s.Backups().AreVerified(t, 2)
	leavesNothing(t, s)
}

// TestRestorableInstance checks that a backup in a store is restore-tested while its instance is running. If the claim
// is deleted during the restore test, the restore test is stopped, and leaves neither objects nor a result.
func TestRestorableInstance(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestStore waits for such a test before the data goes")
	s3 := startS3(t)
	b := offersStore(t, s3, newStoreKey(t, s3.namespace))
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["backup"] = storedIn(b.GetName())
	before := s.Begin(t)
	up := s.Client().MustQuery(t, serverStart)
	request(t, s, "one", "Online", "Verified")
	hasVerdict(t, s, "True")
	request(t, s, "two", "Online", "Verified")
	tried := s.Backups().Newest(t)
	framework.Eventually(t, "its turn", func(ctx context.Context) error {
		err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(tried), tried)
		if err == nil && !isBeingTried(tried) {
			err = errors.New("it has none")
		}
		return err
	})
	if now := s.Client().MustQuery(t, serverStart); now != up {
		t.Errorf("the server has been started again: %s, and before %s", now, up)
	}
	s.Delete(t)
	s.Backups().AreVerified(t, 3)
	framework.Eventually(t, "the verdict on what was tried", func(ctx context.Context) error {
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(tried), tried); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(tried.Object, "status", "conditions")
		if output := fmt.Sprint(conditions); !strings.Contains(output, "Unknown") || !strings.Contains(output, "had priority") {
			return fmt.Errorf("it says %s", output)
		}
		return nil
	})
	hasVerdict(t, s, "True")
	framework.Eventually(t, "the end of Jobs, and of their way to the store", func(ctx context.Context) error {
		jobs, err := listKind(ctx, "batch/v1/Job", s.Namespace)
		secrets, serr := listKind(ctx, "v1/Secret", s.Namespace)
		ways := slices.DeleteFunc(secrets, func(o unstructured.Unstructured) bool {
			return !strings.HasSuffix(o.GetName(), "-access")
		})
		if n := len(jobs) + len(ways); n > 0 {
			err = errors.Join(err, fmt.Errorf("%d are there", n))
		}
		return errors.Join(err, serr)
	})
	s.Create(t)
	s.Client().SeesRows(t, before)
}

// TestRestorableWithoutItsKind deletes the XRD during a restore test, and then starts a controller that has never
// seen the XRD. The restore test must finish, the BackupRecord can be deleted in the meantime, and every row must be
// restored. No other test can use the cluster at the same time.
func TestRestorableWithoutItsKind(t *testing.T) {
	framework.Repeats(t, "the matrix uninstalls the XRD, and TestTurnWithoutKind has the turn")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	s.Delete(t)
	framework.Eventually(t, "its turn", func(ctx context.Context) error { return hasRestoreTest(ctx, s) })
	t.Cleanup(func() { controllers(t, 1) })
	controllers(t, 0)
	uninstallsConfigurations(t, nil)
	framework.Eventually(t, "the XRD's end", func(ctx context.Context) error {
		return framework.IsGone(ctx, framework.NewObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "",
			"xmysqls.otus.homework"))
	})
	if err := hasRestoreTest(t.Context(), s); err != nil {
		t.Fatalf("the controller was too fast for this test: %v", err)
	}
	framework.MustKubectl(t, "delete", "msbr", s.Backups().Only(t).GetName(), "--wait=false")
	controllers(t, 1)
	framework.Eventually(t, "the record's end", func(ctx context.Context) error {
		records, err := s.Backups().List(ctx)
		if err == nil && len(records) != 0 {
			err = fmt.Errorf("%s is there", records[0].GetName())
		}
		return err
	})
	installsPackages(t, nil)
	isBlockedThenRestored(t, s, before)
}

// isBeingTried reports whether a restore test of the BackupRecord's backup is running, so that its status names a Job.
func isBeingTried(record *unstructured.Unstructured) bool {
	job, _, _ := unstructured.NestedString(record.Object, "status", "restoreTest", "job")
	return job != ""
}

// hasRestoreTest returns an error unless a restore test of one of the instance's backups is running.
func hasRestoreTest(ctx context.Context, s *framework.Server) error {
	records, err := s.Backups().List(ctx)
	for _, r := range records {
		if isBeingTried(&r) {
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("no record of %d has one", len(records)))
}

// hasVerdict waits until the condition Restorable of the newest BackupRecord has the given status, and returns its
// message.
func hasVerdict(t *testing.T, s *framework.Server, want string) (message string) {
	t.Helper()
	framework.Eventually(t, "the verdict on the backup", func(ctx context.Context) error {
		records, err := s.Backups().List(ctx)
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

// leavesNoCopy checks that the backup volume contains no copy from a restore test.
func leavesNoCopy(t *testing.T, s *framework.Server) {
	t.Helper()
	framework.StartToolbox(t, s.Namespace, "copies", s.BackupPVC())
	out, err := framework.Exec(t.Context(), s.Namespace, "copies", "", "find", "/data", "-path",
		"*/.crossplane-mysql-restore-test/*")
	if err != nil || out != "" {
		t.Errorf("want no copy, got %q, %v", out, err)
	}
	endHand(t, s, "copies")
}

// damageTable overwrites pages of a table on the disk. The running server no longer reads these pages.
func damageTable(t *testing.T, s *framework.Server) {
	t.Helper()
	s.Client().MustQuery(t, "CREATE TABLE victim (id INT AUTO_INCREMENT PRIMARY KEY, t CHAR(200)); INSERT INTO victim "+
		"(t) SELECT REPEAT('x', 200) FROM information_schema.COLUMNS LIMIT 3000; SET GLOBAL innodb_max_dirty_pages_pct = "+
		"0; FLUSH TABLES victim FOR EXPORT; UNLOCK TABLES")
	framework.StartToolbox(t, s.Namespace, "vandal", s.DataPVC())
	out, err := framework.Exec(t.Context(), s.Namespace, "vandal", "", "sh", "-c",
		`dd if=/dev/zero of="$(find /data -name victim.ibd)" bs=16384 seek=6 count=8 conv=notrunc,fsync`)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	endHand(t, s, "vandal")
}
