package lifecycle

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

const month = 31 * 24 * time.Hour

// skewed sets the controller's clock ahead by the given duration. The decisions of the controller use this clock.
func skewed(ahead time.Duration) variation {
	return func(s *instance.State) { s.Now, s.Skew = s.Now.Add(ahead), clock.Skew{Ahead: ahead} }
}

// unknownTime makes the time of the API server unknown.
func unknownTime(s *instance.State) { s.Skew = clock.Skew{Unknown: true} }

// keptForAMonth adds thirty daily backups, of which the three newest are always kept.
func keptForAMonth(s *instance.State) {
	backupsBound(s)
	older(30)(s)
	s.XR.Spec.Backup.Retention.Count, s.XR.Spec.Backup.Retention.MinAge = new(int32(3)), "30d"
	s.XR.Status.ScheduledBackup = &v1.LastBackupStatus{Phase: v1.LastBackupVerified}
	for i := range s.Records {
		r := &s.Records[i]
		timestamp := now.Add(-time.Duration(i) * 24 * time.Hour)
		r.Spec.Origin, r.Status.CompletionTime, r.CreationTimestamp = v1.OriginSchedule, &metav1.Time{
			Time: timestamp}, metav1.NewTime(timestamp)
	}
	s.XR.Status.Backups = &v1.BackupsStatus{Recent: v1.ListBackups(s.Records)}
}

// TestWrongClockDeletesNoBackup checks that a backup expires by age only if the clocks of the controller and the API
// server agree. Until then, the status of the claim reports the difference.
func TestWrongClockDeletesNoBackup(t *testing.T) {
	later := func(d time.Duration) variation { return func(s *instance.State) { s.Now = s.Now.Add(d) } }
	verifiedBehind := func(s *instance.State) {
		for i := range s.Records {
			s.Records[i].Status.CompletionTime = &metav1.Time{Time: s.Records[i].CreationTimestamp.Add(-month)}
		}
	}
	for name, tc := range map[string]struct {
		reason  string
		changes []variation
		deletes int
		says    string
	}{
		"Agree": {reason: "No backup is older than 30 days."},
		"Older": {reason: "All backups are older than 30 days, so only the three newest must be kept.",
			changes: []variation{later(month)}, deletes: 27},
		"Minutes": {reason: "A difference of two minutes between the clocks must be accepted.",
			changes: []variation{later(month), func(s *instance.State) { s.Skew.Ahead = 2 * time.Minute }}, deletes: 27},
		"Ahead": {reason: "The backups only appear old, because the controller's clock is ahead.",
			changes: []variation{skewed(month)}, says: "31d ahead"},
		"Years": {reason: "A clock that is years ahead must not make backups expire.",
			changes: []variation{skewed(4 * 365 * 24 * time.Hour)},
			says:    "ahead"},
		"Behind": {reason: "The clock of the API server may be the wrong one.",
			changes: []variation{later(month), func(s *instance.State) { s.Skew.Ahead = -month }}, says: "31d behind"},
		"Unknown": {reason: "An unknown time of the API server does not prove that the clocks agree.",
			changes: []variation{later(month), unknownTime},
			says:    "does not report its time"},
		"ProvenBehind": {reason: "The completion times are wrong, because they were written with a clock that was behind.",
			changes: []variation{verifiedBehind}},
		"ByNumber": {reason: "Retention by number needs no clock.",
			changes: []variation{unknownTime, func(s *instance.State) { s.XR.Spec.Backup.Retention.MinAge = "" }}, deletes: 27},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(append([]variation{keptForAMonth}, tc.changes...)...)
			step := Next(s)
			if tc.says != "" {
				if step.Action != steps.WarnOfBackup || !strings.Contains(step.Message, tc.says) ||
					!strings.Contains(step.Message, "no backup is deleted because of its age") {
					t.Fatalf("%s want it said, got %s %q", tc.reason, step.Action, step.Text())
				}
				s.XR.Status.BackupWarning = step.Message
				if step = Next(s); step.Action != steps.NoOp || step.After != untilClocksAgree {
					t.Errorf("%s want it to wait, got %s of %d backups, another look after %s", tc.reason, step.Action,
						len(step.Targets), step.After)
				}
			}
			if len(step.Targets) != tc.deletes {
				t.Errorf("%s want %d deleted, got %s of %d", tc.reason, tc.deletes, step.Action, len(step.Targets))
			}
			s.Skew, s.Now = clock.Skew{}, now
			if step := Next(s); tc.says != "" && (step.Action != steps.WarnOfBackup || step.Message != "") {
				t.Errorf("%s want the warning taken back, got %s %q", tc.reason, step.Action, step.Text())
			}
		})
	}
}

// TestWrongClockPrunesNothing checks a deletion with a wrong clock. The final backup is taken, but no older backup is
// deleted because of its age.
func TestWrongClockPrunesNothing(t *testing.T) {
	expires := func(s *instance.State) int { return len(catalog.ExpiredBackups(s)) }
	aged := func(s *instance.State) {
		s.Records = append(s.Records, running(older(9)).Records...)
		s.XR.Spec.Backup.Retention.Count, s.XR.Spec.Backup.Retention.MinAge = new(int32(1)), "30d"
		for i := range s.Records {
			s.Records[i].Status.CompletionTime = &metav1.Time{Time: now}
		}
	}
	later := func(s *instance.State) { s.Now = s.Now.Add(month) }
	for name, tc := range map[string]struct {
		state *instance.State
		want  bool
	}{
		"Agree": {verifiedState(aged), false},
		"Older": {verifiedState(aged, later), true},
		"Ahead": {verifiedState(aged, skewed(month)), false},
	} {
		if got := expires(tc.state) > 0; got != tc.want {
			t.Errorf("%s: want some deleted %t, got %d", name, tc.want, expires(tc.state))
		}
		if name == "Ahead" && Next(tc.state).Action == steps.CreatePruneJob {
			t.Error("a Job is created that deletes backups")
		}
	}
	if got := Next(fenced(skewed(month), withJob(complete))); got.Action != steps.RecordBackup {
		t.Errorf("the backup of a deletion waits for the clock: %s %q", got.Action, got.Text())
	}
}

// TestWrongClockPlansNoBackup checks that the controller neither starts nor schedules a backup while the clock is
// wrong, and reports none as overdue. A time that was computed with a wrong clock is computed again.
func TestWrongClockPlansNoBackup(t *testing.T) {
	nextAt := func(timestamp time.Time) variation {
		return func(s *instance.State) { s.XR.Status.BackupSchedule.NextAt = &metav1.Time{Time: timestamp} }
	}
	four := v1.PlannedAt("2026-11-26T04:00Z")
	for name, tc := range map[string]struct {
		reason string
		state  *instance.State
		want   steps.Action
		after  time.Duration
		next   time.Time
	}{
		"Planned": {reason: "The next backup is scheduled correctly.",
			state: running(hourly(0), nextAt(four)), want: steps.NoOp,
			after: 30 * time.Minute},
		"Years": {reason: "A clock that was four years ahead has scheduled the next backup.",
			state: running(hourly(0), nextAt(four.AddDate(4, 0, 0))), want: steps.PlanBackups, next: four},
		"Tomorrow": {reason: "A clock that was one day ahead has scheduled the next backup.",
			state: running(hourly(0), nextAt(four.AddDate(0, 0, 1))), want: steps.PlanBackups, next: four},
		"AnHour": {reason: "The backup of 04:00 would be skipped.", state: running(hourly(0), nextAt(four.Add(time.Hour))),
			want: steps.PlanBackups, next: four},
		"OtherMinute": {reason: "The time of the next backup is not a minute of the schedule.",
			state: running(hourly(0), nextAt(four.Add(-time.Minute))), want: steps.PlanBackups, next: four},
		"JustBefore": {reason: "The clock that scheduled the next backup was only slightly ahead.",
			state: running(hourly(0), nextAt(four.Add(time.Hour)), func(s *instance.State) { s.Now = four.Add(-time.Minute) }),
			want:  steps.NoOp, after: time.Hour + time.Minute},
		"AheadDue": {reason: "The backup only appears due, because the controller's clock is ahead.",
			state: running(hourly(0), nextAt(four), skewed(month)), want: steps.WarnOfBackup},
		"BehindPlan": {reason: "No backup must be scheduled while the controller's clock is behind.",
			state: running(hourly(0), skewed(-month), func(s *instance.State) { s.XR.Status.BackupSchedule = nil }),
			want:  steps.WarnOfBackup},
		"Unplan": {reason: "A removed schedule must be removed from the status, which needs no clock.",
			state: running(hourly(0), skewed(month), func(s *instance.State) { s.XR.Spec.Backup.Schedule = nil }),
			want:  steps.PlanBackups},
		"AheadLate": {reason: "The backup only appears overdue, because the controller's clock is ahead.",
			state: running(hourly(0), nextAt(four), silent, skewed(month)), want: steps.WarnOfBackup},
	} {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.state)
			if got.Action != tc.want || got.Action == steps.NoOp && got.After != tc.after {
				t.Fatalf("%s want %s after %s, got %s after %s: %q", tc.reason, tc.want, tc.after, got.Action, got.After,
					got.Text())
			}
			if schedule, _ := fieldsWritten(got)["backupSchedule"].(map[string]any); !tc.next.IsZero() &&
				schedule["nextAt"] != metav1.NewTime(tc.next) {
				t.Errorf("%s want %s planned, got %v", tc.reason, tc.next, schedule)
			}
			if tc.want != steps.WarnOfBackup {
				return
			}
			tc.state.XR.Status.BackupWarning = got.Message
			if got := Next(tc.state); got.Action != steps.NoOp && got.Action != steps.Wait {
				t.Errorf("%s want it to wait, got %s %q", tc.reason, got.Action, got.Text())
			}
		})
	}
}
