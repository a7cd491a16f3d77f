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

// A planned backup is one that the schedule asks for, by the name of its minute. When the next one is due stands in
// status.backupSchedule, and is moved on by the write that begins one: whoever writes it first begins it, and one that nobody could
// begin in time is still due. However many were missed, the last of them is taken, and the others are not.

// Lateness of a planned backup that nobody is told of.
const Lateness = 5 * time.Minute

// DecideScheduled begins a backup that is due, of a server that takes clients, and plans the next.
func DecideScheduled(s *instance.State) (step steps.Step, open bool) {
	spec, is := &s.XR.Spec.Backup, s.XR.Status.BackupSchedule
	switch {
	case s.XR.Unreadable.HasAny("spec.backup.schedule", "spec.backup.timeZone", "spec.backup.method"):
		return steps.Step{}, false // What was planned stays planned until the spec can be read.
	case !is.IsOf(spec) && spec.Schedule == "":
		return steps.Step{Action: steps.PlanBackups, Message: planMessage(s)}, true
	case !s.Skew.IsTrusted():
		return steps.Step{}, false // By a clock that is wrong nothing is due, and nothing is planned.
	case !is.IsOf(spec) || !isPlanPlausible(s):
		return steps.Step{Action: steps.PlanBackups, Message: planMessage(s)}, true
	case !isDue(s):
		return steps.Step{}, false
	case hasAnswered(s, v1.OriginSchedule, dueName(s)):
		return steps.Step{Action: steps.PlanBackups}, true
	case spec.Method != "" && mayBackUpRunning(s):
		return beginStep(v1.OriginSchedule, spec.Method, v1.ScheduleText(dueName(s))), true
	}
	if s.XR.Spec.Suspended {
		return steps.Step{}, false // Nothing changes that is not backed up; it is taken once the server is back.
	}
	return reportLate(s)
}

// isPlanPlausible reports whether the next backup is due, or is planned for the next minute of the schedule. A clock that was wrong may have planned
// it for a later one, years ahead, and no backup would be taken until then.
func isPlanPlausible(s *instance.State) bool {
	is := s.XR.Status.BackupSchedule
	of, err := v1.ParseSchedule(s.XR.Spec.Backup.Schedule, s.XR.Spec.Backup.TimeZone)
	if err != nil || is == nil || is.NextAt == nil || isDue(s) {
		return true
	}
	// The clock that planned it may have been ahead by what is tolerated.
	return !is.NextAt.After(of.Next(s.Now.Add(clock.Tolerance))) && of.IsPlanned(is.NextAt.Time)
}

// isDue is true from the minute on that the next backup is planned for.
func isDue(s *instance.State) bool {
	is := s.XR.Status.BackupSchedule
	return is != nil && is.NextAt != nil && !s.Now.Before(is.NextAt.Time)
}

// dueAt is the last minute that is due: one backup makes up for all that were missed.
func dueAt(s *instance.State) time.Time {
	is := s.XR.Status.BackupSchedule
	of, err := v1.ParseSchedule(is.Schedule, is.TimeZone)
	if err != nil {
		return is.NextAt.Time
	}
	return of.LastOf(is.NextAt.Time, s.Now)
}

func dueName(s *instance.State) string { return v1.PlannedName(dueAt(s)) }

// reportLate says that a backup which is due cannot begin.
func reportLate(s *instance.State) (step steps.Step, open bool) {
	is := s.XR.Status.BackupSchedule
	if s.Now.Before(lateAt(s)) || is.MissedAt != nil {
		return steps.Step{}, false
	}
	return steps.Step{Action: steps.ReportLateBackup, Message: fmt.Sprintf("The backup that is planned for %s has not begun: the server does not take clients", v1.PlannedName(is.NextAt.Time))}, true
}

// lateAt is when people are told of a backup that is due: after its minute, and after the server has begun to start, which may have
// been suspended until then.
func lateAt(s *instance.State) time.Time {
	from := s.XR.Status.BackupSchedule.NextAt.Time
	if since := s.XR.NotServingSince(); since.After(from) {
		from = since
	}
	return from.Add(Lateness)
}

func reportLateBackup(s *instance.State, step steps.Step) []change.Change {
	return steps.PatchXRStatus(s, map[string]any{"backupSchedule": map[string]any{"missedAt": metav1.NewTime(s.XR.Status.BackupSchedule.NextAt.UTC()), "message": step.Message}})
}

// plan of the next backup, as fields of status.backupSchedule; nil where there is no schedule.
func plan(s *instance.State) map[string]any {
	spec := &s.XR.Spec.Backup
	if spec.Schedule == "" {
		return nil
	}
	out := map[string]any{"schedule": spec.Schedule, "timeZone": steps.OrNil(spec.TimeZone), "nextAt": nil, "message": nil}
	of, err := v1.ParseSchedule(spec.Schedule, spec.TimeZone)
	if err == nil {
		out["nextAt"] = metav1.NewTime(of.Next(s.Now))
		return out
	}
	out["message"] = err.Error()
	if is := s.XR.Status.BackupSchedule; is == nil || is.MissedAt == nil { // None comes, and people are told so.
		out["missedAt"] = metav1.NewTime(s.Now)
	}
	return out
}

func planMessage(s *instance.State) string {
	of := plan(s)
	switch next, planned := of["nextAt"].(metav1.Time); {
	case of == nil:
		return "No backup is planned any more"
	case planned:
		return "The next backup is planned for " + v1.PlannedName(next.Time)
	}
	text, _ := of["message"].(string)
	return text
}

// planBackups from now on.
func planBackups(s *instance.State, _ steps.Step) []change.Change {
	var of any
	if fields := plan(s); fields != nil {
		of = fields
	}
	return steps.PatchXRStatus(s, map[string]any{"backupSchedule": of})
}

// UntilPlanned is how long nothing has to be done for a schedule; zero where there is none.
func UntilPlanned(s *instance.State) time.Duration {
	is := s.XR.Status.BackupSchedule
	switch {
	case is == nil || is.NextAt == nil || isDue(s) && (is.MissedAt != nil || s.XR.Spec.Suspended): // It cannot begin, and people know.
		return 0
	case isDue(s):
		return max(lateAt(s).Sub(s.Now), steps.RequeueSoon)
	}
	return max(is.NextAt.Sub(s.Now), steps.RequeueSoon)
}

// afterPlanned is what status.backupSchedule says once a backup has ended which was planned.
func afterPlanned(s *instance.State, proven bool) map[string]any {
	b, is := s.XR.Status.ScheduledBackup, s.XR.Status.BackupSchedule
	switch {
	case is == nil:
		return nil
	case proven:
		return map[string]any{"lastAt": metav1.NewTime(s.Now), "missedAt": nil, "message": nil}
	case is.MissedAt != nil:
		return map[string]any{"message": b.Message}
	}
	return map[string]any{"missedAt": metav1.NewTime(v1.PlannedAt(b.Request)), "message": b.Message}
}
