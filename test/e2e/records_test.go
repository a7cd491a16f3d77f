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
)

// withoutRecord is what a claim says that is held.
const withoutRecord = "is there without its record: no server starts empty beside it"

// TestRecordDeletedIsMadeAgain: who deletes a record loses nothing, and the next claim does not start empty. Its message
// and the doctor say how to go on.
func TestRecordDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	before := s.begin(t)
	s.delete(t)
	s.proven(t, 1)
	name := s.record(t).GetName()
	typed(t, "delete", "msb", name)
	s.create(t)
	s.says(t, withoutRecord)
	s.says(t, "make-record="+name) // The controller says that after the function has held the server.
	s.held(t)
	named := func(f finding) bool {
		return f.Severity == wrong && strings.Contains(f.Text, name) && strings.Contains(f.Text, "has no record")
	}
	got := s.examined(t.Context(), t)
	n := slices.IndexFunc(got.Findings, named)
	if n < 0 {
		t.Fatalf("want the doctor to name the backup, got %+v", got)
	}
	command := regexp.MustCompile(`kubectl (annotate pv \S+ --overwrite \S+/make-record=` + name + `)`)
	advice, message := command.FindStringSubmatch(got.Findings[n].Advice), command.FindStringSubmatch(s.message(t.Context()))
	if advice == nil || message == nil || advice[1] != message[1] {
		t.Fatalf("want one command from both, got %q and %q", got.Findings[n].Advice, s.message(t.Context()))
	}
	typed(t, strings.Fields(message[1])...)
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
	s.proven(t, 1)
}

// TestRecordDeletedWithItsArchive: what was named goes, with its password, and nothing else. What was forgotten stays,
// and is in nobody's way.
func TestRecordDeletedWithItsArchive(t *testing.T) {
	t.Parallel()
	s := newServer(t, classComposition)
	s.begin(t)
	s.delete(t)
	kept := s.record(t).GetName()
	s.create(t)
	s.firstAnswer(t, rows)
	s.delete(t)
	s.proven(t, 2)
	records := s.mustRecords(t)
	newest := &records[slices.IndexFunc(records, func(r unstructured.Unstructured) bool { return r.GetName() != kept })]
	typed(t, "annotate", "msb", newest.GetName(), "otus.homework/delete-archive="+string(newest.GetUID()))
	typed(t, "delete", "msb", newest.GetName(), "--timeout=5m")
	s.passwords(t, kept)
	s.hand(t, "hand", s.backupPVC())
	if out, err := s.by(t.Context(), "hand", "cd /data && ls -d */"); err != nil || !strings.Contains(out, kept+"/") || strings.Contains(out, newest.GetName()) {
		t.Errorf("want the archive of %s and not that of %s, got %q, %v", kept, newest.GetName(), out, err)
	}
	s.dismiss(t, "hand")

	uid := string(s.record(t).GetUID())
	typed(t, "delete", "msb", kept)
	s.passwords(t, kept)
	typed(t, "annotate", "pv", s.backups(t).Name, "forget.otus.homework/"+kept+"="+uid)
	s.startsEmpty(t)
}

// passwords that are kept for backups of the instance.
func (s *server) passwords(t *testing.T, want ...string) {
	t.Helper()
	found, err := s.listed(t.Context(), "v1/Secret", keeper)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range found {
		if o.GetAnnotations()["otus.homework/claim-namespace"] == s.namespace {
			got = append(got, o.GetName())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("want the passwords of %v, got those of %v", want, got)
	}
}

// backups of the instance lie on this volume.
func (s *server) backups(t *testing.T) *corev1.PersistentVolume {
	t.Helper()
	v, err := s.volumeOf(t.Context(), s.backupPVC())
	if err != nil || v == nil {
		t.Fatalf("the backups' volume: %v, %v", v, err)
	}
	return v
}

// TestRecordsOutliveTheController: all records are deleted, and their kind, and the controller, while it runs and while it
// does not: every archive is there, and no claim starts empty. It shares the cluster with no other test.
func TestRecordsOutliveTheController(t *testing.T) {
	s := newServer(t, classComposition)
	before := s.begin(t)
	s.delete(t)
	s.proven(t, 1)
	for _, refused := range []string{"crd/mysqlbackups.otus.homework", "namespace/" + keeper} {
		if out, err := kubectl(t.Context(), "delete", refused); err == nil || !strings.Contains(out, "there are backups") {
			t.Fatalf("want %s to stay as long as there are records, got %v: %s", refused, err, out)
		}
	}
	t.Cleanup(func() { reinstalled(t) })
	typed(t, "delete", "msb", "--all")
	s.heldThenRestored(t, before)
	s.delete(t)
	s.proven(t, 2)

	typed(t, "delete", "--kustomize", "controller/deploy/controller")
	typed(t, "delete", "msb", "--all", "--wait=false")
	typed(t, "delete", "validatingadmissionpolicybinding", "crossplane-mysql-keep-records")
	crd := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "mysqlbackups.otus.homework")
	eventually(t, "the deletion of the records' kind", func(ctx context.Context) error { return suite.kube.Delete(ctx, crd.DeepCopy()) })
	if records := s.mustRecords(t); len(records) != 2 {
		t.Errorf("want all records as long as no controller has seen their deletion, got %d", len(records))
	}
	typed(t, "apply", "--server-side", "--force-conflicts", "--kustomize", "controller/deploy/controller")
	eventually(t, "the end of the records' kind", func(ctx context.Context) error { return gone(ctx, crd.DeepCopy()) })
	reinstalled(t)
	s.heldThenRestored(t, before)
}

// heldThenRestored is a claim whose records are gone, until somebody asks for all of them.
func (s *server) heldThenRestored(t *testing.T, before string) {
	t.Helper()
	s.create(t)
	s.says(t, withoutRecord)
	s.held(t)
	typed(t, "annotate", "pv", "--selector=app.kubernetes.io/component=backup", "--overwrite", "otus.homework/make-record=all")
	if got := s.firstAnswer(t, rows); got != before {
		t.Errorf("want every row\n%s\ngot\n%s", before, got)
	}
}

// reinstalled is the controller, with what outlives it. It also serves cleanups.
func reinstalled(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, part := range []string{"records", "controller"} {
		apply := func(ctx context.Context) error {
			out, err := kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--kustomize", repository()+"/controller/deploy/"+part)
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		}
		eventually(t, "the "+part, apply)
	}
	eventually(t, "the records' kind", func(context.Context) error {
		return condition(ctx, object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "mysqlbackups.otus.homework"), "Established")
	})
	controllers(t, 1)
}

// typed is a command of kubectl that succeeds.
func typed(t *testing.T, args ...string) {
	t.Helper()
	for i, a := range args {
		if strings.HasPrefix(a, "controller/") {
			args[i] = repository() + "/" + a
		}
	}
	if out, err := kubectl(t.Context(), args...); err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
