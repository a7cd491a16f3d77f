package lifecycle

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// TestHint checks that the message of claim and XR contains the command that deletes the data without a backup.
// Messages that are shown elsewhere, for example by the doctor, do not contain it.
func TestHint(t *testing.T) {
	cases := map[string]struct {
		reason string
		state  *instance.State
		hint   string
	}{
		"Failed": {reason: "The message of a failed backup must contain the command.",
			state: fenced(withJob(failedAt(0, "full")), failedForRoom, broken),
			hint:  v1.AnnotationSkipBackup + "=" + xrUID},
		"Held": {reason: "A user has to act, so the message must contain the command.",
			state: fenced(func(s *instance.State) { s.PVCNameConflict = true }),
			hint:  v1.AnnotationSkipBackup + "=" + xrUID},
		"NotStarted": {reason: "No server could start from the backup, so the message must contain the command.",
			state: verifiedState(requireRestoreTest, restorable(0, metav1.ConditionFalse)), hint: `"requireRestoreTest":false`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			step := Next(tc.state)
			shown := 0
			for _, c := range step.Changes {
				deletion, ok := c.Fields["deletion"].(map[string]any)
				if !ok {
					continue
				}
				shown++
				if message, _ := c.Fields["message"].(string); !strings.Contains(message, tc.hint) {
					t.Errorf("%s want the hint %q in the message %q", tc.reason, tc.hint, message)
				}
				if message, _ := deletion["message"].(string); message == "" || strings.Contains(message, tc.hint) {
					t.Errorf("%s want no hint in %q", tc.reason, message)
				}
			}
			if shown == 0 {
				t.Errorf("%s %s shows nothing", tc.reason, step.Action)
			}
		})
	}
}

// TestShowInRecord checks that a deletion without XR and claim reports in its BackupRecord why it waits, unless the
// BackupRecord already contains another message.
func TestShowInRecord(t *testing.T) {
	waits := func(s *instance.State) { s.PVCNameConflict = true }
	announced := func(s *instance.State) { s.Record().Status.Message = Next(s).Message }
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   bool
	}{
		"Waits": {reason: "The next claim waits for this deletion, so the BackupRecord must report why it waits.",
			state: fenced(orphaned, originGone, waits), want: true},
		"Said": {reason: "The BackupRecord already contains the message.",
			state: fenced(orphaned, originGone, waits, announced)},
		"Failed": {reason: "The BackupRecord already contains the error.",
			state: fenced(orphaned, originGone, mounted, withJob(failedAt(0, "full")), failedForRoom, broken)},
		"Runs": {reason: "The BackupRecord must not contain the progress of the backup.",
			state: fenced(orphaned, originGone, mounted, phase(v1.BackupRunning),
				withJob(func(j *instance.Job) { j.Progress = &agent.Progress{Phase: agent.PhaseCopy, Percent: 84} }))},
		"Has XR": {reason: "The status of the XR contains the message, so the BackupRecord does not need it.",
			state: fenced(waits)},
		"Refused": {reason: "The BackupRecord must report that a quota refuses the Job.",
			state: fenced(orphaned, originGone, mounted,
				refusedAs(steps.CreateBackupJob, instance.Refusal{Message: "exceeded quota"})), want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			step, says := Next(tc.state), ""
			for _, c := range step.Changes {
				if r, ok := c.Object.(*v1.BackupRecord); ok && c.Verb == change.PatchStatus && step.Action != steps.MarkRunning {
					says = r.Status.Message
				}
			}
			if (says != "") != tc.want || tc.want && says != step.Message || step.Message == "" {
				t.Errorf("%s the record says %q, and the step (%s) %q", tc.reason, says, step.Action, step.Message)
			}
		})
	}
}
