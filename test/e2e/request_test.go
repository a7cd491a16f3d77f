package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRequestedBackup checks that an on-demand backup contains all rows, and that the server runs again afterwards. A
// later instance must be able to restore the backup by name.
func TestRequestedBackup(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestBackupObjects takes one, and TestOnlineBackup restores one by its name")
	s := framework.NewServer(t, framework.ClassComposition)
	begun := s.Begin(t)
	request(t, s, "one", "Cold", "Verified")
	r := s.Backups().Only(t)
	if originOf(r) != "Request" {
		t.Errorf("want it to say why it was taken, got %q", originOf(r))
	}
	s.HasEvents(t, "RequestedBackupBegun", "RequestedBackupEnded")
	s.Eventually(t, "the backup among those of the claim", func(ctx context.Context) error {
		xr, err := s.XR(ctx)
		if err != nil {
			return err
		}
		listed, _, err := unstructured.NestedSlice(xr.Object, "status", "backups", "recent")
		if err == nil && (len(listed) != 1 || fmt.Sprint(listed[0].(map[string]any)["name"]) != "one") {
			err = fmt.Errorf("they are %v", listed)
		}
		return err
	})
	s.Client().SeesRows(t, begun)
	s.Client().MustQuery(t, fmt.Sprintf(oneRow, 1000))
	s.Delete(t)
	s.Backups().AreVerified(t, 2)
	s.Spec["restore"] = map[string]any{"backup": "one"}
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != begun {
		t.Errorf("want the rows of the time of the request\n%s\ngot\n%s", begun, got)
	}
}

// TestRequestedBackups checks that exactly one backup is taken for each Backup, and that older ones are pruned. The
// next instance must be able to take its own on-demand backups.
func TestRequestedBackups(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestBackupObjects takes one, and TestRequestedExpire has which of them go")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["backup"] = map[string]any{"retention": map[string]any{"count": int64(1)}}
	before := s.Begin(t)
	request(t, s, "one", "Cold", "Verified")
	first := s.Backups().Only(t).GetName()
	request(t, s, "two", "Cold", "Verified")
	onlyBackupIsAfter(t, s, first)
	second := s.Backups().Only(t).GetName()
	s.Client().FirstAnswer(t, framework.Rows)
	s.Delete(t)
	s.Backups().AreVerified(t, 2)
	s.Create(t)
	request(t, s, "three", "Cold", "Verified")
	s.Client().SeesRows(t, before)
	s.Eventually(t, "the end of the backup that the earlier life asked for", func(ctx context.Context) error {
		records, err := s.Backups().List(ctx)
		for i := range records {
			if records[i].GetName() == second {
				err = errors.New("it is there")
			}
		}
		return err
	})
	s.Backups().AreVerified(t, 2) // One of them is the final backup of the previous instance.
}

// onlyBackupIsAfter waits until the named backup is deleted and there is only one other backup.
func onlyBackupIsAfter(t *testing.T, s *framework.Server, gone string) {
	t.Helper()
	s.Eventually(t, "the end of the first backup, of which one is kept", func(ctx context.Context) error {
		records, err := s.Backups().List(ctx)
		if err == nil && (len(records) != 1 || records[0].GetName() == gone) {
			err = fmt.Errorf("there are %d", len(records))
		}
		return err
	})
}

// TestRequestedBackupFails checks that the server runs again after a while if the Job of a backup cannot run. The
// claim must report why the backup failed, and a later Backup must succeed.
func TestRequestedBackupFails(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestRequested has each step, and the model that a server that was stopped starts again")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	quota := newQuota(t, s, "none", corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")})
	request(t, s, "one", "Cold", phaseFailed)
	s.Says(t, `Backup "one" has failed`)
	s.HasEvents(t, "RequestedBackupFailed")
	s.Backups().AreVerified(t, 0)
	s.Client().SeesRows(t, before)
	liftQuota(t, quota)
	request(t, s, "two", "Cold", "Verified")
	s.Client().FirstAnswer(t, framework.Rows)
	s.Backups().AreVerified(t, 1)
}

// phaseFailed is the phase of a failed backup. verified is the reason in the condition Complete once the Backup is
// verified.
const (
	phaseFailed = "Failed"
	verified    = "Verified"
)

// request creates a Backup for the server, and waits until its backup has the given phase: verified or failed.
func request(t *testing.T, s *framework.Server, name string, method string, phase string) {
	t.Helper()
	createBackup(t, s, name, method)
	isAnswered(t, s, name, phase)
}

// createBackup creates a Backup in the server's namespace.
func createBackup(t *testing.T, s *framework.Server, name string, method string) {
	t.Helper()
	b := newBackup(s, name)
	b.Object["spec"] = map[string]any{
		"instance": map[string]any{"kind": instanceKind(s.Claim), "name": s.Name}}
	if method != "" {
		b.Object["spec"].(map[string]any)["method"] = method
	}
	if err := framework.Suite.Kube.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// newBackup returns a Backup without a spec.
func newBackup(s *framework.Server, name string) *unstructured.Unstructured {
	return framework.NewObject(apiVersionOwn, "Backup", s.Namespace, name)
}

// instanceKind returns the kind in the form that Backups use. The kind of the namespaced API includes its group.
func instanceKind(o *unstructured.Unstructured) string {
	if o.GroupVersionKind().Group == "crossplane-mysql.io" {
		return o.GroupVersionKind().GroupKind().String()
	}
	return o.GetKind()
}

// isAnswered waits until the backup that a Backup requests has ended, and the server need not be stopped for it. phase
// is the expected result: verified or failed.
func isAnswered(t *testing.T, s *framework.Server, name, phase string) {
	t.Helper()
	want := phase
	if phase == framework.PhaseVerified {
		want = verified
	}
	s.Eventually(t, fmt.Sprintf("the end of backup %q", name), func(ctx context.Context) error {
		b := newBackup(s, name)
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		complete, message := completeOf(b), fmt.Sprint(b.Object["status"])
		if complete == phaseFailed && phase != phaseFailed {
			t.Fatalf("it has failed: %s", message) //nolint:testinggoroutine // It is the test's own goroutine.
		}
		if complete != want {
			return fmt.Errorf("it says %s", message)
		}
		xr, err := s.XR(ctx)
		if err != nil {
			return err
		}
		if fence, _, _ := unstructured.NestedBool(xr.Object, "status", "internal", "requestedBackup", "fence"); fence {
			return errors.New("the server is stopped for it")
		}
		return nil
	})
}

// completeOf returns the reason of the Backup's condition Complete.
func completeOf(b *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(b.Object, "status", "conditions")
	for _, c := range all {
		if c, _ := c.(map[string]any); c["type"] == "Complete" {
			return fmt.Sprint(c["reason"])
		}
	}
	return ""
}

// TestBackupObjects checks that users of a namespace see each of its backups as a Backup, regardless of its origin.
// If a user deletes a Backup, it is created again. The delete-archive annotation deletes the archive if it contains
// the right UID, and has no effect with any other UID.
func TestBackupObjects(t *testing.T) {
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	s.Begin(t)
	createBackup(t, s, "one", "")
	framework.MustKubectl(t, "wait", "--for=condition=Complete", "--timeout=10m", "backup.crossplane-mysql.io/one",
		"--namespace", s.Namespace)
	record := s.Backups().Only(t)
	s.Delete(t)
	s.Backups().AreVerified(t, 2)
	for _, name := range backupNames(t, s, 2) {
		isSeen(t, s, name)
		uid := uidOfBackup(t, s, name)
		framework.MustKubectl(t, "annotate", "msb", name, "--namespace", s.Namespace,
			"crossplane-mysql.io/delete-archive="+string(record.GetUID()))
		framework.MustKubectl(t, "delete", "msb", name, "--namespace", s.Namespace)
		s.Eventually(t, "the Backup again", func(ctx context.Context) error {
			b, err := framework.Kubectl(ctx, "get", "msb", name, "--namespace", s.Namespace, "--output=jsonpath={.metadata.uid}")
			if err == nil && b == uid {
				err = errors.New("it is the one that was deleted")
			}
			return err
		})
		isSeen(t, s, name)
	}
	s.Backups().AreVerified(t, 2)
	uid := uidOfBackup(t, s, "one")
	framework.MustKubectl(t, "annotate", "msb", "one", "--namespace", s.Namespace,
		"crossplane-mysql.io/delete-archive="+uid)
	framework.MustKubectl(t, "delete", "msb", "one", "--namespace", s.Namespace, "--wait=false")
	s.Eventually(t, "the end of the archive", func(ctx context.Context) error {
		err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(record), record.DeepCopy())
		if err == nil {
			return errors.New("its record is there")
		}
		return client.IgnoreNotFound(err)
	})
	if names := backupNames(t, s, 1); names[0] == "one" {
		t.Errorf("want the Backup of the deletion alone, got %q", names)
	}
	s.Create(t)
	s.Client().SeesVersion(t)
}

func uidOfBackup(t *testing.T, s *framework.Server, name string) string {
	t.Helper()
	uid, err := framework.Kubectl(t.Context(), "get", "msb", name, "--namespace", s.Namespace,
		"--output=jsonpath={.metadata.uid}")
	if err != nil {
		t.Fatal(uid)
	}
	return uid
}

// isSeen checks that a Backup is verified, and reports its size, its location and other details.
func isSeen(t *testing.T, s *framework.Server, name string) {
	t.Helper()
	b := newBackup(s, name)
	s.Eventually(t, "what Backup "+name+" says", func(ctx context.Context) error {
		if err := framework.Suite.Kube.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		if complete := completeOf(b); complete != verified {
			return fmt.Errorf("it is %s", complete)
		}
		return nil
	})
	status, _ := b.Object["status"].(map[string]any)
	for _, field := range []string{"size", "location", "origin", "method", "completionTime", "serverVersion", "record"} {
		if status[field] == nil {
			t.Errorf("Backup %s says no %s: %v", name, field, status)
		}
	}
}

// backupNames waits until the namespace contains n Backups, and returns their names.
func backupNames(t *testing.T, s *framework.Server, n int) (names []string) {
	t.Helper()
	s.Eventually(t, fmt.Sprintf("%d Backups", n), func(ctx context.Context) error {
		out, err := framework.Kubectl(ctx, "get", "msb", "--namespace", s.Namespace, "--output=name")
		names = strings.Fields(strings.ReplaceAll(out, "backup.crossplane-mysql.io/", ""))
		if err == nil && len(names) != n {
			err = fmt.Errorf("there are %q", names)
		}
		return err
	})
	return names
}
