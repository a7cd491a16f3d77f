package lifecycle

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// hourly adds a schedule with hourly backups. The next backup is due after the given duration, which may be negative.
func hourly(in time.Duration) variation {
	return func(s *instance.State) {
		backupsBound(s)
		s.Now = v1.PlannedAt("2026-11-26T03:30Z")
		s.XR.Spec.Backup.Schedule = &v1.BackupSchedule{Cron: "0 * * * *", Method: v1.MethodOnline}
		s.XR.Status.BackupSchedule = &v1.BackupScheduleStatus{Schedule: "0 * * * *",
			NextAt: &metav1.Time{Time: v1.PlannedAt("2026-11-26T03:30Z").Add(in)}}
	}
}

// due sets the minute of the next scheduled backup.
func due(minute string) variation {
	return func(s *instance.State) {
		hourly(0)(s)
		s.XR.Status.BackupSchedule.NextAt = &metav1.Time{Time: v1.PlannedAt("2026-11-26T" + minute + "Z")}
	}
}

// planned adds the scheduled backup of 03:00 in the given phase.
func planned(p v1.LastBackupPhase) variation {
	return func(s *instance.State) {
		s.XR.Status.ScheduledBackup = &v1.LastBackupStatus{Request: "2026-11-26T03:00Z", Phase: p, Method: v1.MethodOnline,
			BegunAt: metav1.NewTime(s.Now), Message: "disk broken"}
	}
}

// startingSince makes the function report the server as starting. ago is the time since the start.
func startingSince(ago time.Duration) variation {
	return func(s *instance.State) {
		s.XR.Conditions = []metav1.Condition{
			{Type: v1.ConditionServing, Status: metav1.ConditionFalse, Reason: v1.ReasonStarting,
				LastTransitionTime: metav1.NewTime(s.Now.Add(-ago))}}
	}
}

func missed(minute string) variation {
	return func(s *instance.State) {
		s.XR.Status.BackupSchedule.MissedAt = &metav1.Time{Time: v1.PlannedAt("2026-11-26T" + minute + "Z")}
	}
}

// fieldsWritten returns the fields of status.internal that a step writes.
func fieldsWritten(step steps.Step) map[string]any {
	out := map[string]any{}
	for _, c := range step.Changes {
		maps.Copy(out, internalOf(c))
	}
	return out
}

// internalOf returns the fields of status.internal that a change writes.
func internalOf(c change.Change) map[string]any {
	fields, _ := c.Fields[v1.StatusInternal].(map[string]any)
	return fields
}

// TestScheduled checks that a scheduled backup starts once, at its scheduled minute. If several backups are overdue,
// only one is taken. No other operation delays a scheduled backup forever.
func TestScheduled(t *testing.T) {
	tomorrow := v1.PlannedAt("2026-11-26T04:00Z")
	minuteOf := func(minute string) metav1.Time { return metav1.NewTime(v1.PlannedAt("2026-11-26T" + minute + "Z")) }
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   steps.Action
		says   string
		after  time.Duration
		// begins is the scheduled minute of the backup that starts. next is the scheduled minute of the next backup.
		begins string
		next   any
		missed any
	}{
		"Plan": {reason: "The time of the next backup must be stored in the status.",
			state: running(hourly(0), func(s *instance.State) { s.XR.Status.BackupSchedule = nil }), want: steps.PlanBackups,
			says: "scheduled for 2026-11-26T04:00Z", next: metav1.NewTime(tomorrow)},
		"Replan": {reason: "The next backup must be scheduled again after the schedule has changed.",
			state: running(hourly(time.Minute), func(s *instance.State) { s.XR.Spec.Backup.Schedule.Cron = "45 * * * *" }),
			want:  steps.PlanBackups, next: minuteOf("03:45")},
		"Zone": {reason: "The next backup must be scheduled in the time zone of the schedule.",
			state: running(hourly(time.Minute), func(s *instance.State) { s.XR.Spec.Backup.Schedule.TimeZone = "Asia/Kolkata" }),
			want:  steps.PlanBackups, next: metav1.NewTime(tomorrow.Add(-30 * time.Minute).Add(time.Hour))},
		"NoZone": {reason: "A schedule with an unknown time zone must be reported as an overdue backup.",
			state: running(hourly(time.Minute), func(s *instance.State) { s.XR.Spec.Backup.Schedule.TimeZone = "Mars/Olympus" }),
			want:  steps.PlanBackups, says: "IANA", missed: minuteOf("03:30")},
		"NoZoneYet": {reason: "The time since which backups are overdue must not change.",
			state: running(hourly(time.Minute), missed("01:00"), func(s *instance.State) {
				s.XR.Spec.Backup.Schedule.TimeZone = "Mars/Olympus"
			}), want: steps.PlanBackups, says: "IANA"},
		"Unplan": {reason: "A removed schedule must also be removed from the status.",
			state: running(hourly(time.Minute), func(s *instance.State) { s.XR.Spec.Backup.Schedule = nil }),
			want:  steps.PlanBackups, says: "any more"},
		"Not yet": {reason: "The controller must reconcile again when the backup is due.",
			state: running(hourly(30 * time.Minute)), want: steps.NoOp,
			after: 30 * time.Minute},
		"Due": {reason: "A backup that is due must be started.", state: running(due("03:30")), want: steps.BeginBackup,
			says: "the scheduled backup of 2026-11-26T03:30Z", begins: "2026-11-26T03:30Z", next: metav1.NewTime(tomorrow)},
		"Missed": {reason: "One backup must replace all overdue backups.",
			state: running(due("00:00")), want: steps.BeginBackup,
			begins: "2026-11-26T03:00Z", next: metav1.NewTime(tomorrow)},
		"Taken": {reason: "The backup that is due was already taken, so the next one must be scheduled.",
			state: running(due("03:00"), planned(v1.LastBackupVerified)), want: steps.PlanBackups, next: metav1.NewTime(tomorrow)},
		"Request": {reason: "A requested backup must start before a scheduled one.",
			state: running(due("03:00"), asks(modelRequest)), want: steps.BeginBackup, says: `backup "one"`},
		"Silent": {reason: "A scheduled backup must wait until the server accepts clients.",
			state: running(due("03:30"), silent), want: steps.Wait},
		"Late": {reason: "An overdue backup must be reported if the server does not accept clients.",
			state: running(due("03:00"), silent), want: steps.ReportLateBackup,
			says: "does not accept clients", missed: minuteOf("03:00")},
		"Off": {reason: "The data of a suspended instance does not change, so its backup must wait.",
			state: running(due("03:00"), suspended), want: steps.NoOp},
		"OffSoon": {reason: "A scheduled backup must not delay the suspension of the instance.",
			state: running(due("03:30"), func(s *instance.State) { s.XR.Spec.Suspend = true }), want: steps.NoOp},
		"Resumed": {reason: "An overdue backup must not be reported directly after the instance was resumed.",
			state: running(due("03:00"), startingSince(time.Minute)), want: steps.Wait},
		"ResumedLate": {reason: "An overdue backup must be reported if the resumed server does not accept clients.",
			state: running(due("03:00"), startingSince(backup.Lateness)),
			want:  steps.ReportLateBackup, says: "does not accept clients", missed: minuteOf("03:00")},
		"LateYet": {reason: "The status already reports an overdue backup.",
			state: running(due("03:00"), silent, missed("02:00")), want: steps.Wait},
		"NoMethod": {
			reason: "The function refuses a schedule without a method, so the controller must not check again.",
			state:  running(due("03:00"), missed("02:00"), func(s *instance.State) { s.XR.Spec.Backup.Schedule.Method = "" }),
			want:   steps.NoOp,
		},
		"UnderWay": {reason: "A backup that has started must be completed before the next one starts.",
			state: running(due("03:30"), planned(v1.LastBackupRunning), online),
			want:  steps.CreateBackup, says: "the scheduled backup of 2026-11-26T03:00Z"},
		"AfterFail": {reason: "The next scheduled backup must start after a failed one.",
			state: running(due("03:30"), planned(v1.LastBackupFailed), missed("03:00")), want: steps.BeginBackup,
			begins: "2026-11-26T03:30Z", next: metav1.NewTime(tomorrow)},
		"FailEnd": {reason: "A failed scheduled backup must be reported as missed.",
			state: running(hourly(30*time.Minute), planned(v1.LastBackupFailing), online), want: steps.EndBackup,
			missed: minuteOf("03:00")},
		"FailAgain": {reason: "The time of the first missed backup must be kept when another one fails.",
			state: running(hourly(30*time.Minute), planned(v1.LastBackupFailing), missed("01:00"), online),
			want:  steps.EndBackup},
		"Deleted": {reason: "The deletion must take a backup of its own.",
			state: running(due("03:00"), dead), want: steps.CreateBackup,
			says: "before anything is deleted"},
		"Image": {reason: "An image change must start before a scheduled backup.", state: running(due("03:30"), newImage),
			want: steps.BeginImageChange},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.state)
			if got.Action != tc.want || !strings.Contains(got.Text(), tc.says) {
				t.Fatalf("%s want %s, got %s: %q", tc.reason, tc.want, got.Action, got.Text())
			}
			if tc.want == steps.NoOp && got.After != tc.after {
				t.Errorf("%s want a look after %s, got %s", tc.reason, tc.after, got.After)
			}
			fields := fieldsWritten(got)
			begun, _ := fields["scheduledBackup"].(map[string]any)
			if request, _ := begun["request"].(string); request != tc.begins || tc.begins != "" &&
				begun["method"] != v1.MethodOnline {
				t.Errorf("%s want one of %q, got %v", tc.reason, tc.begins, begun)
			}
			schedule, _ := fields["backupSchedule"].(map[string]any)
			if tc.next != nil && schedule["nextAt"] != tc.next {
				t.Errorf("%s want the next at %v, got %v", tc.reason, tc.next, schedule["nextAt"])
			}
			if schedule["missedAt"] != tc.missed {
				t.Errorf("%s want it said that %v was missed, got %v", tc.reason, tc.missed, schedule["missedAt"])
			}
		})
	}
}

// TestScheduledVerified checks that a verified backup is no longer reported as overdue.
func TestScheduledVerified(t *testing.T) {
	s := running(hourly(30*time.Minute), planned(v1.LastBackupRunning), missed("01:00"), online)
	r := backup.NewRecord(s)
	if r.Spec.Origin != v1.OriginSchedule || r.Spec.Request != "2026-11-26T03:00Z" || r.Spec.Method != v1.MethodOnline {
		t.Errorf("its record says %+v", r.Spec)
	}
	r.Status.Phase, r.Spec.Archive = v1.BackupVerified, &v1.Archive{PVCName: s.Instance.BackupPVCName(),
		Path: r.Name + "/" + catalog.ArchiveName}
	s.Records = []v1.BackupRecord{*r}
	got := Next(s)
	schedule, _ := fieldsWritten(got)["backupSchedule"].(map[string]any)
	if missedAt, ok := schedule["missedAt"]; got.Action != steps.EndBackup || !ok || missedAt != nil ||
		schedule["lastAt"] != metav1.NewTime(s.Now) {
		t.Errorf("%s says %v", got.Action, schedule)
	}
	s.XR.Status.ScheduledBackup = nil
	due("03:00")(s)
	if got := Next(s); got.Action != steps.PlanBackups {
		t.Errorf("it is taken again: %s", got.Action)
	}
}

// TestKeepFor checks that a backup is deleted only if it is older than minAge and exceeds the count.
func TestKeepFor(t *testing.T) {
	s := running(hourly(30*time.Minute), planned(v1.LastBackupVerified))
	s.XR.Spec.Backup.Retention.Count, s.XR.Spec.Backup.Retention.MinAge = new(int32(2)), "48h"
	for i := 5; i > 0; i-- {
		name := s.Instance.NumberedRecordName(int64(i))
		s.Records = append(s.Records, v1.BackupRecord{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1.BackupRecordSpec{Instance: s.BackedUp(), Origin: v1.OriginSchedule, Number: int64(i),
				Archive: &v1.Archive{PVCName: s.Instance.BackupPVCName(), Path: name + "/" + catalog.ArchiveName}},
			Status: v1.BackupRecordStatus{Phase: v1.BackupVerified,
				CompletionTime: &metav1.Time{Time: s.Now.Add(time.Duration(i-5) * 24 * time.Hour)}},
		})
	}
	s.XR.Status.Backups = &v1.BackupsStatus{Recent: v1.ListBackups(s.Records)}
	want := []string{s.Instance.NumberedRecordName(3), s.Instance.NumberedRecordName(2), s.Instance.NumberedRecordName(1)}
	if got := Next(s); got.Action != steps.MarkForRemoval || !slices.Equal(namesOf(got.Targets), want) {
		t.Errorf("want those of two days and more, %v, got %s %v", want, got.Action, namesOf(got.Targets))
	}
	s.XR.Spec.Backup.Retention.MinAge = "1w"
	if got := Next(s); got.Action != steps.NoOp {
		t.Errorf("they are not a week old: %s", got.Action)
	}
	s.XR.Spec.Backup.Retention.Count, s.XR.Spec.Backup.Retention.MinAge = new(int32(4)), "1h"
	if got := Next(s); !slices.Equal(namesOf(got.Targets), want[2:]) {
		t.Errorf("four are kept however old they are: %v", namesOf(got.Targets))
	}
}
