package backup

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A scheduled backup is named after its minute in the schedule. The time of the next one is stored in
// status.internal.backupSchedule. The same write that starts a backup moves this time forward, so that only one
// reconcile starts it. A backup that could not start in time remains due. If several backups are overdue, only the
// last of them is taken.

// Lateness is the delay after which an overdue scheduled backup is reported.
const Lateness = 5 * time.Minute

// DecideScheduled starts a scheduled backup that is due if the server accepts clients, and schedules the next one.
func DecideScheduled(s *instance.State) (step steps.Step, open bool) {
	spec, status := &s.XR.Spec.Backup, s.XR.Status.BackupSchedule
	switch {
	case s.XR.Unreadable.Has("spec.backup.schedule"):
		return steps.Step{}, false // The schedule stays unchanged until the spec can be read.
	case !status.IsOf(spec) && spec.Schedule == nil:
		return steps.Step{Action: steps.PlanBackups, Message: planMessage(s)}, true
	case !s.Skew.IsTrusted():
		return steps.Step{}, false // While the clock is wrong, it is unknown whether a backup is due.
	case !status.IsOf(spec) || !isPlanPlausible(s):
		return steps.Step{Action: steps.PlanBackups, Message: planMessage(s)}, true
	case !isDue(s):
		return steps.Step{}, false
	case hasAnswered(s, v1.OriginSchedule, dueName(s), ""):
		return steps.Step{Action: steps.PlanBackups}, true
	case spec.ScheduledMethod() != "" && mayBackUpRunning(s):
		return beginStep(v1.OriginSchedule, spec.ScheduledMethod(), v1.ScheduledBackupText(dueName(s))), true
	}
	if s.XR.Spec.Suspend {
		return steps.Step{}, false // The data does not change. The backup is taken when the server runs again.
	}
	return reportLate(s)
}

// isPlanPlausible reports whether the next backup is due, or is scheduled for the next minute of the schedule. A
// wrong clock may have scheduled it years ahead, and no backup would be taken until then.
func isPlanPlausible(s *instance.State) bool {
	status := s.XR.Status.BackupSchedule
	schedule, err := v1.ParseSchedule(s.XR.Spec.Backup.Cron(), s.XR.Spec.Backup.TimeZone())
	if err != nil || status == nil || status.NextAt == nil || isDue(s) {
		return true
	}
	// The clock may have been ahead by the tolerance when the backup was scheduled.
	return !status.NextAt.After(schedule.Next(s.Now.Add(clock.Tolerance))) && schedule.IsPlanned(status.NextAt.Time)
}

// isDue reports whether the time of the next scheduled backup has come.
func isDue(s *instance.State) bool {
	status := s.XR.Status.BackupSchedule
	return status != nil && status.NextAt != nil && !s.Now.Before(status.NextAt.Time)
}

// dueAt returns the latest minute that is due. One backup replaces all overdue backups.
func dueAt(s *instance.State) time.Time {
	status := s.XR.Status.BackupSchedule
	schedule, err := v1.ParseSchedule(status.Schedule, status.TimeZone)
	if err != nil {
		return status.NextAt.Time
	}
	return schedule.LastOf(status.NextAt.Time, s.Now)
}

func dueName(s *instance.State) string { return v1.PlannedName(dueAt(s)) }

// reportLate reports that a backup is due but cannot start.
func reportLate(s *instance.State) (step steps.Step, open bool) {
	status := s.XR.Status.BackupSchedule
	if s.Now.Before(lateAt(s)) || status.MissedAt != nil {
		return steps.Step{}, false
	}
	return steps.Step{Action: steps.ReportLateBackup,
		Message: fmt.Sprintf("The backup scheduled for %s has not started, because the server does not accept clients",
			v1.PlannedName(status.NextAt.Time))}, true
}

// lateAt returns the time at which an overdue backup is reported. The delay begins at the scheduled minute, or later
// if the server became unavailable after that minute, for example because a suspended instance was resumed.
func lateAt(s *instance.State) time.Time {
	from := s.XR.Status.BackupSchedule.NextAt.Time
	if since := s.XR.NotServingSince(); since.After(from) {
		from = since
	}
	return from.Add(Lateness)
}

func reportLateBackup(s *instance.State, step steps.Step) []change.Change {
	return steps.PatchXRInternal(s, map[string]any{
		"backupSchedule": map[string]any{"missedAt": metav1.NewTime(s.XR.Status.BackupSchedule.NextAt.UTC()),
			"message": step.Message}})
}

// plan returns the fields of status.internal.backupSchedule for the next backup, or nil if there is no schedule.
func plan(s *instance.State) map[string]any {
	spec := &s.XR.Spec.Backup
	if spec.Schedule == nil {
		return nil
	}
	out := map[string]any{"schedule": spec.Cron(), "timeZone": steps.OrNil(spec.TimeZone()), "nextAt": nil, "message": nil}
	schedule, err := v1.ParseSchedule(spec.Cron(), spec.TimeZone())
	if err == nil {
		out["nextAt"] = metav1.NewTime(schedule.Next(s.Now))
		return out
	}
	out["message"] = err.Error()
	// A schedule without a next time is reported as overdue, so that users notice it.
	if status := s.XR.Status.BackupSchedule; status == nil || status.MissedAt == nil {
		out["missedAt"] = metav1.NewTime(s.Now)
	}
	return out
}

func planMessage(s *instance.State) string {
	fields := plan(s)
	switch next, planned := fields["nextAt"].(metav1.Time); {
	case fields == nil:
		return "No backup is scheduled any more"
	case planned:
		return "The next backup is scheduled for " + v1.PlannedName(next.Time)
	}
	text, _ := fields["message"].(string)
	return text
}

// planBackups schedules the next backup, counted from now.
func planBackups(s *instance.State, _ steps.Step) []change.Change {
	var value any
	if fields := plan(s); fields != nil {
		value = fields
	}
	return steps.PatchXRInternal(s, map[string]any{"backupSchedule": value})
}

// UntilPlanned returns the time until the next scheduled backup, or zero if there is none.
func UntilPlanned(s *instance.State) time.Duration {
	status := s.XR.Status.BackupSchedule
	switch {
	// The backup cannot start, and this is already reported.
	case status == nil || status.NextAt == nil || isDue(s) && (status.MissedAt != nil || s.XR.Spec.Suspend):
		return 0
	case isDue(s):
		return max(lateAt(s).Sub(s.Now), steps.RequeueSoon)
	}
	return max(status.NextAt.Sub(s.Now), steps.RequeueSoon)
}

// afterPlanned returns the fields of status.internal.backupSchedule after a scheduled backup has finished.
func afterPlanned(s *instance.State, verified bool) map[string]any {
	b, status := s.XR.Status.ScheduledBackup, s.XR.Status.BackupSchedule
	switch {
	case status == nil:
		return nil
	case verified:
		return map[string]any{"lastAt": metav1.NewTime(s.Now), "missedAt": nil, "message": nil}
	case status.MissedAt != nil:
		return map[string]any{"message": b.Message}
	}
	return map[string]any{"missedAt": metav1.NewTime(v1.PlannedAt(b.Request)), "message": b.Message}
}
