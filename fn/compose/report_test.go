package compose

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestBlocked checks that the message of a blocked server and its condition Blocked contain the cause.
func TestBlocked(t *testing.T) {
	cases := map[string]struct {
		reason string
		given  func(in *Input)
		says   string
		want   Condition
	}{
		"Pod": {reason: "The message must contain the error of the kubelet, which the controller reports.",
			want: Condition{True: true, Reason: v1.ReasonPodFailure, Message: "pod p: ErrImagePull: none"},
			given: func(in *Input) {
				in.XR.Status.BlockedBy = &v1.Blocker{Reason: v1.ReasonPodFailure, Message: "pod p: ErrImagePull: none"}
			}, says: "Starting the server (pod p: ErrImagePull: none)"},
		"Deployment": {reason: "Without a pod, the cause is in a condition of the Deployment.",
			want: Condition{True: true, Reason: v1.ReasonPodsRefused, Message: "quota exceeded"},
			says: "Starting the server (quota exceeded)", given: func(in *Input) {
				in.Observed.Deployment = &appsv1.Deployment{
					Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
						{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "quota exceeded"},
					}}}
			}},
		"Held": {reason: "The controller reports which backup has no BackupRecord.",
			want: Condition{True: true, Reason: v1.ReasonRecordMissing, Message: "backup b"}, given: func(in *Input) {
				in.XR.Status.PreviousBackup, in.XR.Status.BlockedBy = v1.PreviousHeld, &v1.Blocker{Reason: v1.ReasonRecordMissing,
					Message: "backup b"}
			}, says: "The condition Blocked says how to recreate the BackupRecord (backup b)"},
		"Fine": {reason: "Without a cause, the message must not contain one.",
			given: func(*Input) {}, says: "Starting the server",
			want: Condition{Reason: v1.ReasonNotBlocked}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := composed(t, given(tc.given))
			if got := out.Status.Message; !strings.HasSuffix(got, tc.says) {
				t.Errorf("%s want %q at its end, got %q", tc.reason, tc.says, got)
			}
			tc.want.Type = v1.ConditionBlocked
			if !slices.Contains(out.Conditions, tc.want) {
				t.Errorf("%s want %+v, got %+v", tc.reason, tc.want, out.Conditions)
			}
		})
	}
}

func TestPasswordWarning(t *testing.T) {
	for state, want := range map[string]string{
		v1.CredentialsInSync:   "",
		v1.CredentialsChanging: ". Changing the password: why",
		v1.CredentialsFailed:   ", but its password could not be changed: why",
	} {
		if got := passwordWarning(&v1.CredentialsStatus{State: state, Message: "why"}); got != want {
			t.Errorf("%s: want %q, got %q", state, want, got)
		}
	}
	if got := passwordWarning(nil); got != "" {
		t.Errorf("nothing is known yet: got %q", got)
	}
}
