package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// withoutRecord is part of the message of a blocked claim whose BackupRecord is missing.
const withoutRecord = "exists, but its BackupRecord is missing. No empty server is started"

// TestRecordDeletedIsMadeAgain checks that no data is lost if a BackupRecord is deleted, and that the next instance
// does not start empty. The claim and the doctor must print the command that creates the BackupRecord again.
func TestRecordDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "a cell of TestCells deletes a record")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	name := s.Backups().Only(t).GetName()
	framework.MustKubectl(t, "delete", "msbr", name)
	s.Create(t)
	s.Says(t, withoutRecord)
	s.Says(t, "forget.crossplane-mysql.io/"+name+"=")
	s.Says(t, "make-record="+name) // The controller reports this only after the function has blocked the server.
	s.IsHeld(t)
	named := func(f finding) bool {
		return f.Severity == wrong && strings.Contains(f.Text, name) && strings.Contains(f.Text, "has no BackupRecord")
	}
	got := examineInstance(t.Context(), t, s)
	n := slices.IndexFunc(got.Findings, named)
	if n < 0 {
		t.Fatalf("want the doctor to name the backup, got %+v", got)
	}
	command := regexp.MustCompile(`kubectl (annotate pv \S+ --overwrite \S+/make-record=` + name + `)`)
	advice, message := command.FindStringSubmatch(got.Findings[n].Advice), command.FindStringSubmatch(
		s.Message(t.Context()))
	if advice == nil || message == nil || advice[1] != message[1] {
		t.Fatalf("want one command from both, got %q and %q", got.Findings[n].Advice, s.Message(t.Context()))
	}
	framework.MustKubectl(t, strings.Fields(message[1])...)
	s.Client().SeesRows(t, before)
	s.Backups().AreVerified(t, 1)
}

// TestRecordDeletedWithItsArchive checks that a BackupRecord with the delete-archive annotation is deleted together
// with its own archive only.
//
// The other BackupRecord is deleted without the annotation, so its archive remains and would block the next instance.
// With the annotation forget on the volume, the next instance must start empty.
func TestRecordDeletedWithItsArchive(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestModelRecords has each order of it, and a cell of TestCells deletes a record")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Begin(t)
	s.Delete(t)
	kept := s.Backups().Only(t).GetName()
	s.Create(t)
	s.Client().FirstAnswer(t, framework.Rows)
	s.Delete(t)
	s.Backups().AreVerified(t, 2)
	records := s.Backups().MustList(t)
	newest := &records[slices.IndexFunc(records, func(r unstructured.Unstructured) bool { return r.GetName() != kept })]
	framework.MustKubectl(t, "annotate", "msbr", newest.GetName(), "crossplane-mysql.io/delete-archive="+string(newest.GetUID()))
	framework.MustKubectl(t, "delete", "msbr", newest.GetName(), "--timeout=5m")
	startHand(t, s, "hand", s.BackupPVC())
	if out, err := execByHand(t.Context(), s, "hand", "cd /data && ls -d */"); err != nil ||
		!strings.Contains(out, kept+"/") || strings.Contains(out, newest.GetName()) {
		t.Errorf("want the archive of %s and not that of %s, got %q, %v", kept, newest.GetName(), out, err)
	}
	endHand(t, s, "hand")

	uid := string(s.Backups().Only(t).GetUID())
	framework.MustKubectl(t, "delete", "msbr", kept)
	framework.MustKubectl(t, "annotate", "pv", backupVolume(t, s).Name, "forget.crossplane-mysql.io/"+kept+"="+uid)
	startsEmpty(t, s)
}

// backupVolume returns the backup volume of the instance.
func backupVolume(t *testing.T, s *framework.Server) *corev1.PersistentVolume {
	t.Helper()
	v, err := s.VolumeOf(t.Context(), s.BackupPVC())
	if err != nil || v == nil {
		t.Fatalf("the backups' volume: %v, %v", v, err)
	}
	return v
}

// TestRecordsOutliveTheController deletes all BackupRecords, their CRD and the controller, once with and once without
// a running controller. Every archive must still exist, and no claim may start empty. No other test can use the
// cluster at the same time.
func TestRecordsOutliveTheController(t *testing.T) {
	framework.Repeats(t, "TestDeploy has what goes with a controller, and TestRecordDeleted what goes with a record")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	s.Delete(t)
	s.Backups().AreVerified(t, 1)
	for _, refused := range []string{"crd/backuprecords.crossplane-mysql.io", "namespace/" + framework.SystemNamespace} {
		if out, err := framework.Kubectl(t.Context(), "delete", refused); err == nil ||
			!strings.Contains(out, "there are backups") {
			t.Fatalf("want %s to stay as long as there are records, got %v: %s", refused, err, out)
		}
	}
	t.Cleanup(func() { reinstalled(t) })
	framework.MustKubectl(t, "delete", "msbr", "--all")
	// The controller is running. The policy allows the deletion, because there are no BackupRecords.
	framework.MustKubectl(t, "delete", "crd", "backuprecords.crossplane-mysql.io")
	reinstalled(t)
	isBlockedThenRestored(t, s, before)
	s.Backups().AreVerified(t, 1)
	s.Delete(t)
	s.Backups().AreVerified(t, 2)

	framework.MustKubectl(t, "delete", "--kustomize", "controller/deploy/controller") // The controller is running.
	noControllerRuns(t)
	framework.MustKubectl(t, "delete", "msbr", "--all", "--wait=false")
	framework.MustKubectl(t, "delete", "validatingadmissionpolicybinding", "crossplane-mysql-keep-records")
	crd := framework.NewObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "backuprecords.crossplane-mysql.io")
	framework.Eventually(t, "the deletion of the records' kind",
		func(ctx context.Context) error { return framework.Suite.Kube.Delete(ctx, crd.DeepCopy()) })
	if records := s.Backups().MustList(t); len(records) != 2 {
		t.Errorf("want all records as long as no controller has seen their deletion, got %d", len(records))
	}
	framework.MustKubectl(t, "apply", "--server-side", "--force-conflicts", "--kustomize", "controller/deploy/controller")
	framework.Eventually(t, "the end of the records' kind", func(ctx context.Context) error {
		return framework.IsGone(ctx, crd.DeepCopy())
	})
	reinstalled(t)
	isBlockedThenRestored(t, s, before)
	s.Backups().AreVerified(t, 2)
	records := s.Backups().MustList(t)
	archives := make([]string, 0, len(records))
	for _, r := range records {
		archives = append(archives, r.GetName())
	}
	s.Backups().HaveArchives(t, archives)
}

// noControllerRuns waits until there is no controller pod. kubectl deletes only the Deployment, and Kubernetes
// deletes the pod later.
func noControllerRuns(t *testing.T) {
	t.Helper()
	framework.Eventually(t, "the end of the controller", func(ctx context.Context) error {
		pods, err := listKind(ctx, "v1/Pod", framework.SystemNamespace)
		for _, p := range pods {
			if p.GetLabels()["app.kubernetes.io/name"] == "crossplane-mysql" { // The backup gateway has a different name.
				return fmt.Errorf("pod %s is there", p.GetName())
			}
		}
		return err
	})
}

// isBlockedThenRestored checks that a claim is blocked while the BackupRecords of its backups are missing. It is
// restored when a user requests that the controller creates all BackupRecords again.
func isBlockedThenRestored(t *testing.T, s *framework.Server, before string) {
	t.Helper()
	s.Create(t)
	s.Says(t, withoutRecord)
	s.IsHeld(t)
	framework.MustKubectl(t, "annotate", "pv", "--selector=app.kubernetes.io/component=backup", "--overwrite",
		"crossplane-mysql.io/make-record=all")
	s.Client().SeesRows(t, before)
}

// isVerifiedAgain waits until the claim's only BackupRecord is verified. Before that, the controller creates the
// BackupRecord or its status again.
func isVerifiedAgain(t *testing.T, s *framework.Server) {
	t.Helper()
	framework.Eventually(t, "the record", func(ctx context.Context) error {
		records, err := s.Backups().List(ctx)
		if err == nil && len(records) != 1 {
			err = fmt.Errorf("there are %d", len(records))
		}
		if err != nil {
			return err
		}
		return framework.IsVerified(&records[0])
	})
}

// reinstalled installs the controller and its CRDs. It also works in cleanups.
func reinstalled(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, part := range []string{"records", "controller"} {
		apply := func(ctx context.Context) error {
			out, err := framework.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--kustomize",
				framework.Repository()+"/controller/deploy/"+part)
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		}
		framework.Eventually(t, "the "+part, apply)
	}
	framework.Eventually(t, "the records' kind", func(context.Context) error {
		return framework.HasCondition(ctx,
			framework.NewObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "backuprecords.crossplane-mysql.io"),
			"Established")
	})
	controllers(t, 1)
}
