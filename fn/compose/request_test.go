package compose

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestRequestedBackup: the server does not run while a backup is taken that its claim asks for, and then as before; why there is
// none the claim says.
func TestRequestedBackup(t *testing.T) {
	const request = "one"
	answered := func(b v1.LastBackupStatus) func(*Input) {
		return func(in *Input) {
			in.XR.Spec.Backup.Request, in.XR.Spec.Backup.Method = request, v1.MethodCold
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
		"Asked":   {reason: "The controller has not begun.", in: given(serving, func(in *Input) { in.XR.Spec.Backup.Request, in.XR.Spec.Backup.Method = request, v1.MethodCold }), replicas: 1, says: "Running"},
		"Running": {reason: "It is under way.", in: given(serving, answered(v1.LastBackupStatus{Phase: v1.LastBackupRunning, Fence: true, Message: "Backing up the data, 50%"})), says: `The server is stopped for the backup that backup.request "one" asks for. Backing up the data, 50%`},
		"Failing": {reason: "What is left of it is put aside.", in: given(serving, answered(v1.LastBackupStatus{Phase: v1.LastBackupFailing, Fence: true})), says: "stopped for the backup"},
		"Failed":  {reason: "It is over.", in: given(serving, answered(v1.LastBackupStatus{Phase: v1.LastBackupFailed, Message: "exceeded quota"})), replicas: 1, says: `backup.request "one" asked for has failed: exceeded quota. Another text asks for another one`},
		"Online": {
			reason: "It goes on.", in: given(serving, answered(v1.LastBackupStatus{Phase: v1.LastBackupRunning, Method: v1.MethodOnline, Message: "Backing up the data, 16%: cloning it"})),
			replicas: 1, says: `Running. The backup that backup.request "one" asks for is under way: Backing up the data, 16%: cloning it`,
		},
		"Proven": {reason: "It is over.", in: given(serving, answered(v1.LastBackupStatus{Phase: v1.LastBackupProven, Backup: "b"})), replicas: 1, says: "Running", silent: "backup.request"},
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

// TestPlannedBackup: a claim says since when there is no backup that was planned, and what is done about one.
func TestPlannedBackup(t *testing.T) {
	at := metav1.NewTime(v1.PlannedAt("2026-11-26T03:00Z"))
	planned := func(how func(*v1.MySQLStatus)) func(*Input) {
		return func(in *Input) {
			in.XR.Spec.Backup.Schedule, in.XR.Spec.Backup.Method = "0 3 * * *", v1.MethodCold
			in.XR.Status.BackupSchedule = &v1.BackupScheduleStatus{Schedule: "0 3 * * *", NextAt: &at}
			how(&in.XR.Status)
		}
	}
	cases := map[string]struct {
		reason   string
		in       Input
		replicas int32
		says     string
		wrong    bool
	}{
		"Planned": {reason: "All is well.", in: given(serving, planned(func(*v1.MySQLStatus) {})), replicas: 1, says: "Running"},
		"Cold": {
			reason: "It is taken.", in: given(serving, planned(func(is *v1.MySQLStatus) {
				is.ScheduledBackup = &v1.LastBackupStatus{Request: "2026-11-26T03:00Z", Phase: v1.LastBackupRunning, Method: v1.MethodCold, Fence: true}
			})), says: "The server is stopped for the backup that backup.schedule at 2026-11-26T03:00Z asks for",
		},
		"Failed": {
			reason: "It has failed.", in: given(serving, planned(func(is *v1.MySQLStatus) {
				is.ScheduledBackup = &v1.LastBackupStatus{Request: "2026-11-26T03:00Z", Phase: v1.LastBackupFailed, Message: "disk broken"}
				is.BackupSchedule.MissedAt, is.BackupSchedule.Message = &at, "disk broken"
			})), replicas: 1, says: "There is no backup that was planned since 2026-11-26T03:00Z: disk broken", wrong: true,
		},
		"Again": {
			reason: "Another try is under way.", in: given(serving, planned(func(is *v1.MySQLStatus) { is.BackupSchedule.MissedAt = &at })),
			replicas: 1, says: "There is no backup that was planned since 2026-11-26T03:00Z", wrong: true,
		},
		"Zone": {
			reason: "Nothing is planned.", in: given(serving, planned(func(is *v1.MySQLStatus) {
				is.BackupSchedule.NextAt, is.BackupSchedule.Message = nil, "there is no such zone"
			})), replicas: 1, says: "No backup is planned: there is no such zone", wrong: true,
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
			n := slices.IndexFunc(out.Conditions, func(c Condition) bool { return c.Type == v1.ConditionBackedUp })
			if n < 0 || out.Conditions[n].True == tc.wrong || tc.wrong && !strings.Contains(out.Conditions[n].Message, tc.says) {
				t.Errorf("%s got %+v", tc.reason, out.Conditions)
			}
		})
	}
	if slices.ContainsFunc(composed(t, given(serving)).Conditions, func(c Condition) bool { return c.Type == v1.ConditionBackedUp }) {
		t.Error("where none is planned, none is missed")
	}
}

// TestUnplanned: a schedule by which nothing can be planned keeps nobody's server from being started or stopped. Before it has started, it is refused.
func TestUnplanned(t *testing.T) {
	nowhere := func(in *Input) {
		in.XR.Spec.Backup = v1.BackupSpec{Schedule: "0 3 * * *", TimeZone: "Europe/Berln", Method: v1.MethodCold}
	}
	if _, err := tryCompose(t, given(nowhere)); err == nil || !strings.Contains(err.Error(), "spec.backup.timeZone") {
		t.Errorf("before its start: %v", err)
	}
	out, err := tryCompose(t, given(serving, nowhere))
	if err != nil {
		t.Fatal(err)
	}
	n := slices.IndexFunc(out.Conditions, func(c Condition) bool { return c.Type == v1.ConditionAccepted })
	if c := out.Conditions[n]; c.True || c.Reason != v1.ReasonInvalid || !strings.Contains(c.Message, "spec.backup.timeZone") {
		t.Errorf("it says %+v", c)
	}
	if _, there := out.Resources[v1.ResourceDeployment]; !there {
		t.Errorf("it has %v", out.Resources)
	}
}
