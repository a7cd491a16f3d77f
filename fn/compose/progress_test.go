package compose

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestProgressConditions checks what kstatus reads: Stalled if a user must act, Reconciling if the instance continues
// by itself, and never both.
func TestProgressConditions(t *testing.T) {
	condition := func(kind string, isTrue bool, reason string) Condition {
		return Condition{Type: kind, True: isTrue, Reason: reason, Message: "message of " + kind}
	}
	serving := condition(v1.ConditionServing, true, v1.ReasonRunning)
	starting := condition(v1.ConditionServing, false, v1.ReasonStarting)
	settled := Condition{Type: v1.ConditionReconciling, Reason: v1.ReasonReconciled}
	notStalled := Condition{Type: v1.ConditionStalled, Reason: v1.ReasonNotStalled}
	as := func(kind string, c Condition) Condition {
		return Condition{Type: kind, True: true, Reason: c.Reason, Message: c.Message}
	}
	stalled := func(c Condition) []Condition { return []Condition{as(v1.ConditionStalled, c), settled} }
	reconciling := func(c Condition) []Condition { return []Condition{notStalled, as(v1.ConditionReconciling, c)} }
	refused := condition(v1.ConditionAccepted, false, v1.ReasonInvalid)
	restoreFailed := condition(v1.ConditionRestored, false, v1.ReasonRestoreFailed)
	blocked := condition(v1.ConditionBlocked, true, v1.ReasonPodFailure)
	takenBack := condition(v1.ConditionPendingRestart, true, v1.ReasonSettingsTakenBack)
	refusedSettings := condition(v1.ConditionPendingRestart, true, v1.ReasonSettingsRefused)
	validating := condition(v1.ConditionPendingRestart, true, v1.ReasonValidatingSettings)
	onTrial := condition(v1.ConditionPendingRestart, true, v1.ReasonSettingsOnTrial)
	for name, tc := range map[string]struct {
		others        []Condition
		changingImage bool
		want          []Condition
	}{
		"Serving": {others: []Condition{condition(v1.ConditionAccepted, true, v1.ReasonAccepted), serving,
			condition(v1.ConditionPendingRestart, true, v1.ReasonUpdateWaits),
			condition(v1.ConditionLastBackupSucceeded, false, v1.ReasonLastBackupFailed),
			condition(v1.ConditionBlocked, false, v1.ReasonNotBlocked)}, want: []Condition{notStalled, settled}},
		"Starting": {others: []Condition{starting}, want: reconciling(starting)},
		"Suspended": {others: []Condition{condition(v1.ConditionServing, false, v1.ReasonSuspended)},
			want: []Condition{notStalled, settled}},
		"Unknown": {others: []Condition{{Type: v1.ConditionServing, Unknown: true, Reason: v1.ReasonNotAccepted}},
			want: []Condition{notStalled, settled}},
		"Refused":       {others: []Condition{refused, serving}, want: stalled(refused)},
		"RestoreFailed": {others: []Condition{restoreFailed, starting}, want: stalled(restoreFailed)},
		"Restoring": {others: []Condition{condition(v1.ConditionRestored, false, v1.ReasonRestoring), starting},
			want: reconciling(starting)},
		"Blocked":         {others: []Condition{starting, blocked}, want: stalled(blocked)},
		"First":           {others: []Condition{refused, blocked}, want: stalled(refused)},
		"SettingsRefused": {others: []Condition{serving, refusedSettings}, want: stalled(refusedSettings)},
		"TakenBack":       {others: []Condition{serving, takenBack}, want: stalled(takenBack)},
		"Validating":      {others: []Condition{serving, validating}, want: reconciling(validating)},
		"OnTrial":         {others: []Condition{starting, onTrial}, want: reconciling(starting)},
		"Image": {others: []Condition{serving}, changingImage: true,
			want: []Condition{notStalled, {Type: v1.ConditionReconciling, True: true, Reason: v1.ReasonImageChange}}},
		"ImageBlocked": {others: []Condition{starting, blocked}, changingImage: true, want: stalled(blocked)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ProgressConditions(tc.others, tc.changingImage)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}
