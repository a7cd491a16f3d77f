package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestScheduledBackups checks that there is a backup for each scheduled minute, and that older backups are pruned.
// The claim must report the time of the next backup.
func TestScheduledBackups(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestScheduled has each step, the model begins what is due, and TestBackupObjects takes backups")
	s := framework.NewServer(t, framework.ClassComposition)
	framework.SetPlatform(t, "minBackupInterval", int64(1))
	s.Spec["backup"] = map[string]any{"retention": map[string]any{"count": int64(1)},
		"schedule": map[string]any{"cron": "* * * * *", "timeZone": "Europe/Berlin", "method": "Online"}}
	before := s.Begin(t)
	first := scheduledAfter(t, s, "")
	second := scheduledAfter(t, s, first)
	s.Eventually(t, "the end of the first backup, of which one is kept", func(ctx context.Context) error {
		minutes, err := scheduled(ctx, s)
		if err == nil && slices.Contains(minutes, first) {
			err = fmt.Errorf("there are those of %v", minutes)
		}
		return err
	})
	xr, err := s.XR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	schedule, _, _ := unstructured.NestedMap(xr.Object, "status", "internal", "backupSchedule")
	if schedule["lastAt"] == nil || schedule["nextAt"] == nil || schedule["missedAt"] != nil {
		t.Errorf("it says %v", schedule)
	}
	s.Set(t, map[string]any{"backup": map[string]any{"retention": map[string]any{"count": int64(1)}}})
	s.Eventually(t, "the end of the schedule", func(ctx context.Context) error {
		xr, err := s.XR(ctx)
		if err != nil {
			return err
		}
		schedule, _, err := unstructured.NestedMap(xr.Object, "status", "internal", "backupSchedule")
		if err == nil && schedule != nil {
			err = errors.New("it is there")
		}
		return err
	})
	s.Client().SeesRows(t, before)
	t.Logf("those of %s and %s", first, second)
}

// TestScheduleIsKept checks that there is exactly one backup for each scheduled minute, even if the leader of the
// controller pods changes or is killed. Several missed minutes result in only one backup.
func TestScheduleIsKept(t *testing.T) {
	framework.Repeats(t, "TestScheduled has each step, and the model that what is due is begun")
	theController.Lock()
	t.Cleanup(theController.Unlock)
	t.Cleanup(func() { controllers(t, 1) })
	s := framework.NewServer(t, framework.ClassComposition)
	framework.SetPlatform(t, "minBackupInterval", int64(1))
	s.Spec["backup"] = map[string]any{"retention": map[string]any{"count": int64(20)},
		"schedule": map[string]any{"cron": "* * * * *", "method": "Online"}}
	before := s.Begin(t)
	controllers(t, 2)
	last := ""
	for range 3 {
		s.Eventually(t, "a backup that is under way", func(ctx context.Context) error {
			return isScheduled(ctx, s, "Running")
		})
		if err := deletePods(t.Context(), framework.SystemNamespace,
			client.MatchingLabels{"app.kubernetes.io/name": "crossplane-mysql"}); err != nil {
			t.Fatal(err)
		}
		last = scheduledAfter(t, s, last)
	}
	controllers(t, 0)
	time.Sleep(150 * time.Second) // During this time, at least two minutes are missed.
	controllers(t, 1)
	scheduledAfter(t, s, last)
	minutes, err := scheduled(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(minutes)
	if unique := slices.Compact(slices.Clone(minutes)); len(unique) != len(minutes) {
		t.Errorf("a minute has two: %v", minutes)
	}
	n := slices.Index(minutes, last)
	if gap := minuteOf(t, minutes[n+1]).Sub(minuteOf(t, last)); gap < 2*time.Minute {
		t.Errorf("want one for all that were missed, got %v", minutes)
	}
	s.Client().SeesRows(t, before)
	hasNoCloners(t, s)
	t.Logf("those of %v", minutes)
}

func minuteOf(t *testing.T, name string) time.Time {
	t.Helper()
	minute, err := time.Parse("2006-01-02T15:04Z", name)
	if err != nil {
		t.Fatal(err)
	}
	return minute
}

// isScheduled returns an error unless the status of the claim reports the given phase of the scheduled backup.
func isScheduled(ctx context.Context, s *framework.Server, phase string) error {
	xr, err := s.XR(ctx)
	if err != nil {
		return err
	}
	backup, _, _ := unstructured.NestedMap(xr.Object, "status", "internal", "scheduledBackup")
	if backup["phase"] != phase {
		return fmt.Errorf("it says %v", backup)
	}
	return nil
}

// scheduled returns the scheduled times of the verified backups, as recorded in their BackupRecords.
func scheduled(ctx context.Context, s *framework.Server) ([]string, error) {
	records, err := s.Backups().List(ctx)
	var out []string
	for i := range records {
		if minute, _, _ := unstructured.NestedString(records[i].Object, "spec",
			"request"); originOf(&records[i]) == "Schedule" && framework.IsVerified(&records[i]) == nil {
			out = append(out, minute)
		}
	}
	return out, err
}

// scheduledAfter waits for a verified scheduled backup after the given minute, and returns its minute.
func scheduledAfter(t *testing.T, s *framework.Server, after string) string {
	t.Helper()
	var minute string
	s.Eventually(t, "a backup that was planned after "+after, func(ctx context.Context) error {
		minutes, err := scheduled(ctx, s)
		if err != nil {
			return err
		}
		slices.Sort(minutes)
		n := slices.IndexFunc(minutes, func(m string) bool { return m > after })
		if n < 0 {
			return fmt.Errorf("there are those of %v", minutes)
		}
		minute = minutes[n]
		return nil
	})
	return minute
}
