package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestRequestedBackup: a text in backup.request takes a backup of all rows there are then, after which the server goes on; another life
// starts from it by its name.
func TestRequestedBackup(t *testing.T) {
	t.Parallel()
	s := framework.NewServer(t, framework.ClassComposition)
	then := s.Begin(t)
	request(t, s, "one", "Cold", "Proven")
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
		listed, _, err := unstructured.NestedSlice(xr.Object, "status", "backups")
		if err == nil && (len(listed) != 1 || fmt.Sprint(listed[0].(map[string]any)["name"]) != r.GetName()) {
			err = fmt.Errorf("they are %v", listed)
		}
		return err
	})
	s.Client().SeesRows(t, then)
	s.Client().MustQuery(t, fmt.Sprintf(oneRow, 1000))
	s.Delete(t)
	s.Backups().AreProven(t, 2)
	s.Spec["restore"] = map[string]any{"backup": r.GetName()}
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != then {
		t.Errorf("want the rows of the time of the request\n%s\ngot\n%s", then, got)
	}
}

// TestRequestedBackups: each new text takes one, older ones go, and another life that is made with the same text takes its own.
func TestRequestedBackups(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestRequestedBackup takes one, and TestRequestedExpire has which of them go")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["backup"] = map[string]any{"keep": int64(1)}
	before := s.Begin(t)
	request(t, s, "one", "Cold", "Proven")
	first := s.Backups().Only(t).GetName()
	request(t, s, "two", "Cold", "Proven")
	onlyBackupIsAfter(t, s, first)
	second := s.Backups().Only(t).GetName()
	s.Client().FirstAnswer(t, framework.Rows)
	s.Delete(t)
	s.Backups().AreProven(t, 2)
	s.Spec["backup"] = map[string]any{"keep": int64(1), "request": "two", "method": "Cold"}
	s.Create(t)
	isAnswered(t, s, "two", "Proven")
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
	s.Backups().AreProven(t, 2) // That of the earlier life's end is another one.
}

// onlyBackupIsAfter another one, which has gone.
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

// TestRequestedBackupFails: where no Job can run the server goes on after a while, and the claim says why there is no backup;
// another text asks for another one.
func TestRequestedBackupFails(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestRequested has each step, and the model that a server that was stopped starts again")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	quota := newQuota(t, s, "none", corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")})
	request(t, s, "one", "Cold", phaseFailed)
	s.Says(t, `The backup that backup.request "one" asked for has failed`)
	s.HasEvents(t, "RequestedBackupFailed")
	s.Backups().AreProven(t, 0)
	s.Client().SeesRows(t, before)
	liftQuota(t, quota)
	request(t, s, "two", "Cold", "Proven")
	s.Client().FirstAnswer(t, framework.Rows)
	s.Backups().AreProven(t, 1)
}

// phaseFailed of a backup, and of what asks for one.
const phaseFailed = "Failed"

// request a backup with a text, by a method, and wait for what becomes of it.
func request(t *testing.T, s *framework.Server, text, method, phase string) {
	t.Helper()
	backup, _, _ := unstructured.NestedMap(s.Claim.Object, "spec", "backup")
	if backup == nil {
		backup = map[string]any{}
	}
	backup["request"], backup["method"] = text, method
	s.Set(t, map[string]any{"backup": backup})
	isAnswered(t, s, text, phase)
}

// isAnswered is what becomes of a request.
func isAnswered(t *testing.T, s *framework.Server, text, phase string) {
	t.Helper()
	s.Eventually(t, fmt.Sprintf("the backup that %q asks for", text), func(ctx context.Context) error {
		xr, err := s.XR(ctx)
		if err != nil {
			return err
		}
		said, _, _ := unstructured.NestedMap(xr.Object, "status", "requestedBackup")
		if said["request"] == text && said["phase"] == phaseFailed && phase != phaseFailed {
			t.Fatalf("it has failed: %s", said["message"]) //nolint:testinggoroutine // It is the test's own.
		}
		if said["request"] != text || said["phase"] != phase || said["fence"] != nil {
			return fmt.Errorf("it says %s", strings.TrimSpace(fmt.Sprint(said)))
		}
		return nil
	})
}
