package lifecycle

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// beginsAgain sets the condition Serving to Unknown, as Crossplane does when it fails to compose.
func beginsAgain(s *instance.State) {
	meta.SetStatusCondition(&s.XR.Conditions,
		metav1.Condition{Type: v1.ConditionServing, Status: metav1.ConditionUnknown, Reason: "FatalError"})
}

func publishesIn(name string) variation {
	return func(s *instance.State) {
		if err := unstructured.SetNestedField(s.Claim.Object, name, "spec", "writeConnectionSecretToRef",
			"name"); err != nil {
			panic(err)
		}
	}
}

// claimUnsynced makes Crossplane report the claim as not synced. since is the time for which it has done so.
func claimUnsynced(message string, since time.Duration) variation {
	return func(s *instance.State) {
		s.Claim.Conditions = []metav1.Condition{
			{Type: conditionSynced, Status: metav1.ConditionFalse, Reason: reasonError, Message: message,
				LastTransitionTime: metav1.NewTime(s.Now.Add(-since))}}
	}
}

// refusedServiceFor records that the Service of the instance was refused. since is the time for which Crossplane has
// been synced without the Service.
func refusedServiceFor(since time.Duration) variation {
	return func(s *instance.State) {
		s.XR.Status.RefusedService = &v1.RefusedService{Digest: "d", Message: "no"}
		s.XR.Conditions = append(s.XR.Conditions,
			metav1.Condition{Type: conditionSynced, Status: metav1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(s.Now.Add(-since))})
	}
}

// TestCrossplaneReachesTheMessage checks that errors of Crossplane about a claim or its composite resource are
// written to the status for the function if they persist, and removed afterwards.
func TestCrossplaneReachesTheMessage(t *testing.T) {
	own := "spec.writeConnectionSecretToRef.name: the controller creates Secret default/db-connection,"
	invalid := func(s *instance.State) { s.Uncomposed = "spec.ports: is used up" }
	told := func(s *instance.State) { s.XR.Status.CrossplaneWarning = crossplaneWarning(s) }
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   steps.Action
		says   string
		after  time.Duration
	}{
		"Fine": {reason: "There is no error of Crossplane to report.", state: running(), want: steps.NoOp},
		"OwnSecret": {reason: "The warning must appear before Crossplane reports an error.",
			state: running(publishesIn("db-connection")), want: steps.WarnOfCrossplane, says: own},
		"OtherOwn": {reason: "A Secret that the controller creates only later must be reported, too.",
			state: running(publishesIn("db-connection-pending")), want: steps.WarnOfCrossplane,
			says: "db-connection-pending, so Crossplane cannot write"},
		"OwnTold": {reason: "The status already contains the warning about the Secret.",
			state: running(publishesIn("db-connection"), told), want: steps.NoOp, says: own},
		"Foreign": {reason: "The claim may name a Secret that the controller does not create.",
			state: running(publishesIn("for-clients")), want: steps.NoOp},
		"Claim": {reason: "The claim has a condition of its own, which must be reported, too.",
			state: running(claimUnsynced("cannot propagate connection details", time.Minute)), want: steps.WarnOfCrossplane,
			says: "Crossplane cannot reconcile the claim: cannot propagate connection details"},
		"ClaimTold": {reason: "The status already contains the warning, which Crossplane copies to the claim.",
			state: running(claimUnsynced("cannot propagate connection details", time.Minute), told), want: steps.NoOp,
			says: "cannot propagate"},
		"ClaimStuck": {reason: "Crossplane does not copy the status to the claim, so the controller must write it there.",
			state: running(claimUnsynced("cannot bind and sync claim", time.Minute), told), want: steps.ReportBlockedClaim,
			says: "cannot bind and sync claim"},
		"ClaimSaid": {reason: "The claim's status already contains the error.",
			state: running(claimUnsynced("cannot bind and sync claim", time.Minute), told, func(s *instance.State) {
				s.Claim.Status.Message = "Crossplane cannot reconcile the claim: cannot bind and sync claim"
			}), want: steps.NoOp, says: "cannot bind and sync claim"},
		"ClaimSoon": {reason: "Crossplane may recover from a new error, so the controller must check again later.",
			state: running(claimUnsynced("conflict", time.Second)), want: steps.Wait, after: unsyncedFor},
		"Invalid": {reason: "The warning must contain the reason from the event.",
			state: running(unsynced(reasonError, "Unsynced resources: service", time.Minute), invalid),
			want:  steps.WarnOfCrossplane,
			says:  "the composite resource: Unsynced resources: service (spec.ports: is used up)"},
		"Over": {reason: "The XR is synced again, so the warning must be removed.",
			state: running(func(s *instance.State) { s.XR.Status.CrossplaneWarning = "old" }), want: steps.WarnOfCrossplane},
		"Refused": {reason: "A refused Service must be requested again only after ten minutes.",
			state: running(refusedServiceFor(4 * time.Minute)), want: steps.Wait, after: 6 * time.Minute},
		"RefusedNow": {reason: "Ten minutes have passed, so the refused Service must be requested again.",
			state: running(refusedServiceFor(retryServiceAfter)), want: steps.RetryService},
		"RefusedNot": {reason: "Crossplane is not synced, so the refused Service must not be requested again.",
			state: running(refusedServiceFor(time.Hour), unsyncedNow, told), want: steps.NoOp,
			says: "Unsynced resources: config"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			step := Next(tc.state)
			if step.Action != tc.want || tc.after > 0 && step.After != tc.after {
				t.Errorf("%s want %s after %s, got %+v", tc.reason, tc.want, tc.after, step)
			}
			if got := crossplaneWarning(tc.state); !strings.Contains(got, tc.says) || (got == "") != (tc.says == "") {
				t.Errorf("%s want %q, got %q", tc.reason, tc.says, got)
			}
			if len(step.Changes) == 0 && (tc.want == steps.WarnOfCrossplane || tc.want == steps.RetryService) {
				t.Errorf("%s the step writes nothing", tc.reason)
			}
		})
	}
}

// TestClaimWithoutXRSaysWhy checks that a claim for which Crossplane creates no composite resource reports the
// reason.
func TestClaimWithoutXRSaysWhy(t *testing.T) {
	s := running(claimUnsynced("cannot apply composite resource: denied by a webhook", time.Minute))
	s.XR, s.DataPVC = nil, nil
	step := Next(s)
	if step.Action != steps.ReportBlockedClaim ||
		step.Message != "Crossplane cannot reconcile the claim: cannot apply composite resource: denied by a webhook" {
		t.Errorf("want the claim to say so, got %+v", step)
	}
	s.Claim.Status.Message = step.Message
	if step := Next(s); step.Action != steps.NoOp {
		t.Errorf("want it said once, got %+v", step)
	}
}

// unsyncedNow makes Crossplane report the XR as not synced.
func unsyncedNow(s *instance.State) {
	meta.SetStatusCondition(&s.XR.Conditions,
		metav1.Condition{Type: conditionSynced, Status: metav1.ConditionFalse, Reason: reasonError,
			Message: "Unsynced resources: config", LastTransitionTime: metav1.NewTime(s.Now.Add(-time.Hour))})
}
