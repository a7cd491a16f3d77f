package compose

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestRequestedBackup checks that the server is stopped during an on-demand backup and starts again afterwards. If
// the backup fails, the message contains the error.
func TestRequestedBackup(t *testing.T) {
	const request = "one"
	answered := func(b v1.LastBackupStatus) func(*Input) {
		return func(in *Input) {
			b.Request = request
			in.XR.Status.RequestedBackup = &b
		}
	}
	cases := map[string]struct {
		reason   string
		in       Input
		replicas int32
		says     string
		silent   string
	}{
		"Asked": {reason: "The server must run until the controller begins the backup.",
			in:       given(serving),
			replicas: 1, says: "Running"},
		"Running": {reason: "The server must be stopped while the backup is in progress.",
			in: given(serving, answered(v1.LastBackupStatus{Phase: v1.LastBackupRunning, Fence: true,
				Message: "Backing up the data, 50%"})), says: `The server is stopped for backup "one". Backing up the data, 50%`},
		"Failing": {reason: "The server must be stopped until the controller has cleaned up the failed backup.",
			in:   given(serving, answered(v1.LastBackupStatus{Phase: v1.LastBackupFailing, Fence: true})),
			says: "stopped for backup"},
		"Failed": {reason: "The server must start again after the backup has failed.",
			in:       given(serving, answered(v1.LastBackupStatus{Phase: v1.LastBackupFailed, Message: "exceeded quota"})),
			replicas: 1, says: `Backup "one" has failed: exceeded quota. To retry, create another Backup`},
		"Online": {
			reason: "The server must run during an online backup.", in: given(serving,
				answered(v1.LastBackupStatus{Phase: v1.LastBackupRunning, Method: v1.MethodOnline,
					Message: "Backing up the data, 16%: cloning it"})),
			replicas: 1,
			says:     `Running. Taking backup "one": Backing up the data, 16%: cloning it`,
		},
		"Verified": {reason: "The server must start again after the backup is verified.",
			in: given(serving, answered(v1.LastBackupStatus{Phase: v1.LastBackupVerified, Backup: "b"})), replicas: 1,
			says: "Running", silent: "one"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := composed(t, tc.in)
			if d := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment); *d.Spec.Replicas != tc.replicas {
				t.Errorf("%s want %d, got %d", tc.reason, tc.replicas, *d.Spec.Replicas)
			}
			if m := out.Status.Message; !strings.Contains(m, tc.says) || tc.silent != "" && strings.Contains(m, tc.silent) {
				t.Errorf("%s it says %q", tc.reason, m)
			}
		})
	}
}

// TestPlannedBackup checks that the message contains the time since which a scheduled backup has been overdue, and
// the progress of a running backup.
func TestPlannedBackup(t *testing.T) {
	timestamp := metav1.NewTime(v1.PlannedAt("2026-11-26T03:00Z"))
	planned := func(change func(*v1.MySQLStatus)) func(*Input) {
		return func(in *Input) {
			in.XR.Spec.Backup.Schedule = &v1.BackupSchedule{Cron: "0 3 * * *", Method: v1.MethodCold}
			in.XR.Status.BackupSchedule = &v1.BackupScheduleStatus{Schedule: "0 3 * * *", NextAt: &timestamp}
			change(&in.XR.Status)
		}
	}
	cases := map[string]struct {
		reason   string
		in       Input
		replicas int32
		says     string
		wrong    bool
	}{
		"Planned": {reason: "No scheduled backup is overdue.",
			in: given(serving, planned(func(*v1.MySQLStatus) {})), replicas: 1,
			says: "Running"},
		"Cold": {
			reason: "The server must be stopped during a cold scheduled backup.",
			in: given(serving, planned(func(status *v1.MySQLStatus) {
				status.ScheduledBackup = &v1.LastBackupStatus{Request: "2026-11-26T03:00Z", Phase: v1.LastBackupRunning,
					Method: v1.MethodCold, Fence: true}
			})), says: "The server is stopped for the scheduled backup of 2026-11-26T03:00Z",
		},
		"Failed": {
			reason: "The message must contain the error of the scheduled backup.",
			in: given(serving, planned(func(status *v1.MySQLStatus) {
				status.ScheduledBackup = &v1.LastBackupStatus{Request: "2026-11-26T03:00Z", Phase: v1.LastBackupFailed,
					Message: "disk broken"}
				status.BackupSchedule.MissedAt, status.BackupSchedule.Message = &timestamp, "disk broken"
			})), replicas: 1, says: "A scheduled backup has been overdue since 2026-11-26T03:00Z: disk broken", wrong: true,
		},
		"Again": {
			reason:   "The message must report the overdue backup while it is retried.",
			in:       given(serving, planned(func(status *v1.MySQLStatus) { status.BackupSchedule.MissedAt = &timestamp })),
			replicas: 1, says: "A scheduled backup has been overdue since 2026-11-26T03:00Z", wrong: true,
		},
		"Zone": {
			reason: "Without a valid time zone, no backup is scheduled.",
			in: given(serving, planned(func(status *v1.MySQLStatus) {
				status.BackupSchedule.NextAt, status.BackupSchedule.Message = nil, "there is no such zone"
			})), replicas: 1, says: "No backup is scheduled: there is no such zone", wrong: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := composed(t, tc.in)
			if d := out.Resources[v1.ResourceDeployment].Object.(*appsv1.Deployment); *d.Spec.Replicas != tc.replicas {
				t.Errorf("%s want %d, got %d", tc.reason, tc.replicas, *d.Spec.Replicas)
			}
			if m := out.Status.Message; !strings.Contains(m, tc.says) {
				t.Errorf("%s it says %q", tc.reason, m)
			}
			n := slices.IndexFunc(out.Conditions, func(c Condition) bool { return c.Type == v1.ConditionLastBackupSucceeded })
			if n < 0 || out.Conditions[n].isFalse() != tc.wrong || tc.wrong && !strings.Contains(out.Conditions[n].Message, tc.says) {
				t.Errorf("%s got %+v", tc.reason, out.Conditions)
			}
		})
	}
}

// TestLastBackup checks that the condition and the status report the result of the last backup, with and without a
// schedule.
func TestLastBackup(t *testing.T) {
	timestamp := metav1.NewTime(v1.PlannedAt("2026-11-26T03:00Z"))
	recent := func(in *Input) {
		in.XR.Status.Backups = &v1.BackupsStatus{Recent: []v1.ListedBackup{{Name: "broken", Phase: v1.BackupFailed},
			{Name: "newest", Phase: v1.BackupVerified, CompletionTime: &timestamp, Size: "1.5Gi"},
			{Name: "older", Phase: v1.BackupVerified}}}
	}
	ended := func(requested, scheduled v1.LastBackupPhase) func(*Input) {
		return func(in *Input) {
			in.XR.Status.RequestedBackup = &v1.LastBackupStatus{Request: "a", Phase: requested, Message: "disk broken",
				BegunAt: timestamp}
			in.XR.Status.ScheduledBackup = &v1.LastBackupStatus{Phase: scheduled,
				BegunAt: metav1.NewTime(timestamp.Add(time.Hour))}
		}
	}
	last := &v1.LastBackup{Name: "newest", CompletionTime: &timestamp, Size: "1.5Gi"}
	const failed, verified, running = v1.LastBackupFailed, v1.LastBackupVerified, v1.LastBackupRunning
	for name, tc := range map[string]struct {
		reason string
		in     Input
		want   Condition
		status string
		last   *v1.LastBackup
	}{
		"None": {reason: "Without a backup, the condition must be Unknown.", in: given(serving),
			want: Condition{Unknown: true, Reason: v1.ReasonNoBackup}, status: v1.ReasonRunning},
		"Verified": {reason: "The newest backup is verified.", in: given(serving, recent),
			want: Condition{True: true, Reason: v1.ReasonBackupSucceeded}, status: v1.ReasonRunning, last: last},
		"Failed": {reason: "The on-demand backup has failed.", in: given(serving, recent, ended(failed, running)),
			want: Condition{Reason: v1.ReasonLastBackupFailed}, status: v1.ReasonLastBackupFailed, last: last},
		"Later": {reason: "A later backup is verified.", in: given(serving, ended(failed, verified)),
			want: Condition{True: true, Reason: v1.ReasonBackupSucceeded}, status: v1.ReasonRunning},
		"Outside": {reason: "The backup does not contain all data.",
			in:   given(serving, recent, func(in *Input) { in.XR.Status.OutsideData = "a table" }),
			want: Condition{Reason: v1.ReasonDataOutside}, status: v1.ReasonDataOutside, last: last},
	} {
		t.Run(name, func(t *testing.T) {
			out := composed(t, tc.in)
			n := slices.IndexFunc(out.Conditions, func(c Condition) bool { return c.Type == v1.ConditionLastBackupSucceeded })
			got := out.Conditions[n]
			got.Type, got.Message = "", ""
			if got != tc.want || out.Status.Reason != tc.status {
				t.Errorf("%s want %+v and %s, got %+v and %s", tc.reason, tc.want, tc.status, got, out.Status.Reason)
			}
			backups := out.Status.Backups
			if backups == nil {
				backups = &v1.BackupsStatus{}
			}
			if diff := cmp.Diff(tc.last, backups.Last); diff != "" || backups.Recent != nil {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestUnplanned checks that an invalid schedule is refused before the first start. Afterwards, it only makes the
// condition Accepted false, and other changes are still applied.
func TestUnplanned(t *testing.T) {
	nowhere := func(in *Input) {
		in.XR.Spec.Backup = v1.BackupSpec{Schedule: &v1.BackupSchedule{Cron: "0 3 * * *", TimeZone: "Europe/Berln", Method: v1.MethodCold}}
	}
	if _, err := tryCompose(t, given(nowhere)); err == nil || !strings.Contains(err.Error(), "spec.backup.schedule.timeZone") {
		t.Errorf("before its start: %v", err)
	}
	out, err := tryCompose(t, given(serving, nowhere))
	if err != nil {
		t.Fatal(err)
	}
	n := slices.IndexFunc(out.Conditions, func(c Condition) bool { return c.Type == v1.ConditionAccepted })
	if c := out.Conditions[n]; c.True || c.Reason != v1.ReasonInvalid ||
		!strings.Contains(c.Message, "spec.backup.schedule.timeZone") {
		t.Errorf("it says %+v", c)
	}
	if _, exists := out.Resources[v1.ResourceDeployment]; !exists {
		t.Errorf("it has %v", out.Resources)
	}
}
