package compose

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestPlan checks that a suspended instance with spec.restore.at reports a plan or a refusal, and creates nothing.
func TestPlan(t *testing.T) {
	choice := v1.ChoiceAt + testMoment
	plan := &v1.RecoveryPlan{At: testMoment, Backup: "b1", Segments: 3}
	found := &v1.RecoverySource{Choice: choice, Backup: "b1", Recovery: recoveryTo(testTimeline), Plan: plan}
	// previous("") means that the controller has not looked for backups of a previous instance.
	two := []func(*Input){previous(""), suspended, record("b1", 1, v1.BackupVerified, inStore),
		record("b2", 2, v1.BackupVerified, inStore)}
	const nothing = "Suspended: nothing is restored or created until spec.suspend is false. "
	cases := map[string]struct {
		reason           string
		in               Input
		plan             *v1.RecoveryPlan
		message, refusal string
	}{
		"Found": {reason: "The status must contain the plan.", in: given(append(two, at(found))...), plan: plan,
			message: nothing + "status.backups.recoveryPlan describes the recovery"},
		"NotSearched": {reason: "Only the controller reads the store.", in: given(append(two, at(nil))...),
			message: nothing + "Waiting for the controller to find a backup"},
		"Changed": {reason: "The plan is for another time.",
			in: given(append(two, at(&v1.RecoverySource{Choice: "@earlier", Backup: "b1", Recovery: recoveryTo(testTimeline),
				Plan: plan}))...),
			message: nothing + "Waiting for the controller to find a backup"},
		"Refused": {reason: "The message must contain the possible times.",
			in:      given(append(two, at(&v1.RecoverySource{Choice: choice, Message: "Possible is a to b"}))...),
			refusal: "spec.restore.at: Possible is a to b. Change the field"},
		"RecordsUnread": {reason: "Crossplane reads the BackupRecords in the second call.",
			in: given(append(two, at(found), func(in *Input) {
				in.Required.Records = Required[v1.BackupRecord]{}
			})...), plan: plan, message: nothing + "Waiting for Crossplane to read the backups"},
		"SourceUnread": {reason: "Crossplane has not read the backups of the other instance.",
			in:   given(append(two, at(found), func(in *Input) { in.XR.Spec.Restore.From = new("other") })...),
			plan: nil, message: nothing + "Waiting for Crossplane to read the backups"},
		"Foreign": {reason: "A plan must be checked like a recovery.",
			in: given(append(two, at(&v1.RecoverySource{Choice: choice, Backup: "b1",
				Recovery: recoveryTo("v1-log/theirs/earlier/20260301093000-k7v2m9xw4q")}))...), refusal: "does not belong to backup"},
		"Used": {reason: "The recovery to this time was already applied, so it would be ignored.",
			in: given(previous(""), suspended, record("b1", 1, v1.BackupVerified, inStore),
				record("b2", 2, v1.BackupVerified, inStore, began(choice)), at(found)),
			plan: plan, message: "spec.restore.at: " + testMoment + " is ignored"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := tryCompose(t, tc.in)
			if tc.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refusal) {
					t.Errorf("%s want the refusal %q, got %v", tc.reason, tc.refusal, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got *v1.RecoveryPlan
			if b := out.Status.Backups; b != nil {
				got = b.RecoveryPlan
			}
			if diff := cmp.Diff(tc.plan, got); diff != "" || !strings.Contains(out.Status.Message, tc.message) {
				t.Errorf("%s want the message %q, got %q, and the plan -want, +got:\n%s", tc.reason, tc.message, out.Status.Message, diff)
			}
			if len(out.Resources) > 0 || out.Ready || out.Status.Restore != nil || out.Status.Started ||
				out.Status.Reason != v1.ReasonSuspended {
				t.Errorf("%s want nothing but a plan, got %d resources and %+v", tc.reason, len(out.Resources), out.Status)
			}
		})
	}
}

// TestPlanEnds checks that objects which exist are kept, and that the plan is in the status until the server starts.
func TestPlanEnds(t *testing.T) {
	found := &v1.RecoverySource{Choice: v1.ChoiceAt + testMoment, Backup: "b1", Recovery: recoveryTo(testTimeline),
		Plan: &v1.RecoveryPlan{Backup: "b1"}}
	one := record("b1", 1, v1.BackupVerified, inStore)
	out := composed(t, given(suspended, scaled(0), one, at(found)))
	if _, ok := out.Resources[v1.ResourceDeployment]; !ok || len(out.Resources) != 1 {
		t.Error("want that the existing objects are kept")
	}
	out = composed(t, given(one, at(found), func(in *Input) { in.XR.Status.PreviousBackup = "b1" }))
	if _, ok := out.Resources[v1.ResourceDataPVC]; !ok || out.Status.Restore == nil || out.Status.Backups.RecoveryPlan == nil {
		t.Errorf("want the recovery with its plan, got %+v", out.Status)
	}
	out = composed(t, given(one, at(found), server(1), func(in *Input) { in.XR.Status.Started = true }))
	if b := out.Status.Backups; b != nil && b.RecoveryPlan != nil {
		t.Error("want no plan of a started server")
	}
	out = composed(t, given(suspended, one, func(in *Input) { in.XR.Status.RecoverySource = found }))
	if _, ok := out.Resources[v1.ResourceDataPVC]; !ok {
		t.Error("want the objects of a suspended instance that is not recovered to a time")
	}
}
