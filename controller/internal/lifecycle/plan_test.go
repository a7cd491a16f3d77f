package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// onlyPlanned returns a suspended instance that only plans a recovery. It has no objects.
func onlyPlanned(changes ...variation) *instance.State {
	return running(append([]variation{beginning, func(s *instance.State) {
		s.DataPVC, s.DataPV, s.BackupPVC, s.BackupPV, s.Deployment = nil, nil, nil, nil, nil
		s.XR.Spec.Suspend, s.XR.Spec.Restore.At = true, new("2026-11-22T18:00:00Z")
		s.XR.Spec.Restore.From = new("shop")
		s.XR.Status.Volume, s.XR.Status.BackupNumber = "", 0
	}}, changes...)...)
}

// foundRecovery is a result of the search for a backup and a binary log.
func foundRecovery() *v1.RecoverySource {
	return &v1.RecoverySource{Choice: "@2026-11-22T18:00:00Z", Backup: "old-a",
		Recovery: &v1.Recovery{At: "2026-11-22T18:00:00Z", Timeline: "log/one", Segment: 7},
		Plan: &v1.RecoveryPlan{Backup: "old-a", BackupTime: metav1.NewTime(now), Segments: 3,
			NextTransaction: &v1.PlannedTransaction{GTID: "x:1"}}}
}

// TestPlanRecovery checks when the plan of a suspended instance is written.
func TestPlanRecovery(t *testing.T) {
	finds := func(s *instance.State) { s.Recovery = foundRecovery() }
	knows := func(s *instance.State) { s.XR.Status.RecoverySource = foundRecovery() }
	incomplete := func(source *v1.RecoverySource) { source.Plan.Message = "Segment 3 was not read" }
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   steps.Action
		after  time.Duration
	}{
		"Found": {reason: "The user waits for the plan, so it must be written to the status.",
			state: onlyPlanned(finds), want: steps.PlanRecovery},
		"Known": {reason: "The status already contains the plan.",
			state: onlyPlanned(finds, knows), want: steps.Wait, after: steps.RequeueForPerson},
		"Grown": {reason: "The binary log of a running server always grows, so the plan must not be written again.",
			state: onlyPlanned(finds, knows, func(s *instance.State) { s.Recovery.Recovery.Segment, s.Recovery.Plan.Segments = 8, 4 }),
			want:  steps.Wait, after: steps.RequeueForPerson},
		"OtherBackup": {reason: "The backup of the plan was deleted, so the plan must be written again.",
			state: onlyPlanned(finds, knows, func(s *instance.State) { s.Recovery.Backup = "old-b" }), want: steps.PlanRecovery},
		"OtherTimeline": {reason: "The transactions are in another timeline, so the plan must be written again.",
			state: onlyPlanned(finds, knows, func(s *instance.State) { s.Recovery.Recovery.Timeline = "log/two" }),
			want:  steps.PlanRecovery},
		"OtherTime": {reason: "The user has changed the time, so the plan must be written again.",
			state: onlyPlanned(finds, knows, func(s *instance.State) { s.Recovery.Choice = "@2026-11-22T19:00:00Z" }),
			want:  steps.PlanRecovery},
		"Completed": {reason: "The platform team has added the identity, so the complete plan must be written.",
			state: onlyPlanned(finds, knows, func(s *instance.State) { incomplete(s.XR.Status.RecoverySource) }), want: steps.PlanRecovery},
		"StillIncomplete": {reason: "The incomplete plan has not changed, so it must not be written again.",
			state: onlyPlanned(finds, knows, func(s *instance.State) {
				incomplete(s.XR.Status.RecoverySource)
				incomplete(s.Recovery)
			}), want: steps.Wait, after: steps.RequeueForPerson},
		"WithoutPlan": {reason: "The kind of an earlier release drops the plan, so it must not be written again and again.",
			state: onlyPlanned(finds, knows, func(s *instance.State) { s.XR.Status.RecoverySource.Plan = nil }), want: steps.Wait,
			after: steps.RequeueForPerson},
		"Refused": {reason: "The message must contain the times that are possible.",
			state: onlyPlanned(func(s *instance.State) {
				s.Recovery = &v1.RecoverySource{Choice: "@2026-11-22T18:00:00Z", Message: "Possible is a to b"}
			}), want: steps.PlanRecovery},
		"RefusedAgain": {reason: "A backup may be verified soon, so the controller must check again.",
			state: onlyPlanned(func(s *instance.State) {
				s.Recovery = &v1.RecoverySource{Choice: "@2026-11-22T18:00:00Z", Message: "Possible is a to b"}
				s.XR.Status.RecoverySource = s.Recovery
			}), want: steps.Wait, after: steps.RequeueLater},
		"Unsearched": {reason: "The restore source was not read yet, so the controller must check again.",
			state: onlyPlanned(), want: steps.Wait, after: steps.RequeueLater},
		"StoreDown": {reason: "The status must report why there is no plan.",
			state: onlyPlanned(func(s *instance.State) { s.StoreFailure, s.PodFailure = "no response", "no response" }),
			want:  steps.ReportPodFailure},
		"StoreUp": {reason: "The store responds again, so the failure must be removed from the status.",
			state: onlyPlanned(finds, knows, func(s *instance.State) { s.XR.Status.BlockedBy = &v1.Blocker{Message: "no response"} }),
			want:  steps.ReportPodFailure},
		"NotSuspended": {reason: "The function creates the data PVC of an instance that is not suspended.",
			state: onlyPlanned(finds, func(s *instance.State) { s.XR.Spec.Suspend = false }), want: steps.NoOp},
		"NoTime": {reason: "A restore without a time needs no plan.",
			state: onlyPlanned(finds, func(s *instance.State) { s.XR.Spec.Restore.At = nil }), want: steps.NoOp},
		"Started": {reason: "A started instance is not restored again.",
			state: onlyPlanned(finds, func(s *instance.State) { s.XR.Status.Started = true }), want: steps.NoOp},
		"Unprotected": {reason: "The finalizers must be added before the plan is written.",
			state: onlyPlanned(finds, func(s *instance.State) { s.XR.SetFinalizers(nil) }), want: steps.AddFinalizers},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.state)
			if diff := cmp.Diff(tc.want, got.Action); diff != "" || got.After != tc.after {
				t.Errorf("%s\n%q after %s, want %s\n-want, +got:\n%s", tc.reason, got.Text(), got.After, tc.after, diff)
			}
			if got.Action != steps.PlanRecovery {
				return
			}
			if len(got.Changes) != 1 {
				t.Fatalf("want one change, got %v", got.Changes)
			}
			internal, _ := got.Changes[0].Fields["internal"].(map[string]any)
			if len(internal) != 1 || internal["recoverySource"] == nil {
				t.Errorf("no server may start because of a plan, but it writes %v", internal)
			}
		})
	}
}

// TestPlanIsReplaced checks that each field of an earlier plan is removed if the new plan lacks it. A merge patch
// removes only fields that are null.
func TestPlanIsReplaced(t *testing.T) {
	s := onlyPlanned(func(s *instance.State) { s.Recovery = foundRecovery() })
	source, _ := backup.RecoverySourceFields(s).(map[string]any)
	fields, _ := source["plan"].(map[string]any)
	for _, name := range []string{"at", "backup", "backupTime", "segments", "transactions", "fetchSize", "applySize",
		"estimatedDuration", "lastTransaction", "nextTransaction", "message"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("the patch lacks %s", name)
		}
	}
	next, _ := fields["nextTransaction"].(map[string]any)
	if v, ok := next["commitTime"]; !ok || v != nil || fields["message"] != nil {
		t.Errorf("want null for empty fields, got %v", fields)
	}
	s.Recovery = &v1.RecoverySource{Message: "Possible is a to b"}
	source, _ = backup.RecoverySourceFields(s).(map[string]any)
	if v, ok := source["plan"]; !ok || v != nil {
		t.Errorf("want no plan, got %v", source)
	}
}

// TestDeletePlanned checks that an instance that only has a plan is deleted at once, without a backup.
func TestDeletePlanned(t *testing.T) {
	s := onlyPlanned(func(s *instance.State) {
		s.Recovery = foundRecovery()
		s.XR.SetDeletionTimestamp(&metav1.Time{Time: now})
		s.Claim.SetDeletionTimestamp(&metav1.Time{Time: now})
	})
	if got := Next(s); got.Action != steps.RemoveXRFinalizer || !strings.Contains(got.Text(), "never had a volume") {
		t.Errorf("want the end of the deletion, got %s: %s", got.Action, got.Text())
	}
}
