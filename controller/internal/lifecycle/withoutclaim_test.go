package lifecycle

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// withoutClaim removes the claim, and makes the composite resource a MySQL. The names of the other objects do not
// change.
func withoutClaim(s *instance.State) {
	s.Claim = nil
	s.XR.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.KindMySQL))
	s.XR.SetNamespace("default")
}

// TestCommandsWithoutClaim checks that each printed command works without a claim, when the kind xmysql does not
// exist.
func TestCommandsWithoutClaim(t *testing.T) {
	const own = "mysqlinstances.crossplane-mysql.io db-x --namespace default "
	outside := func(s *instance.State) { s.BackupJob.Report.ExitCode = agent.ExitOutside }
	for name, tc := range map[string]struct {
		state *instance.State
		want  string
	}{
		"SkipBackup": {
			fenced(withJob(failedAt(0, "full")), failedForRoom, broken, withoutClaim),
			"kubectl annotate " + own + v1.AnnotationSkipBackup + "=" + xrUID},
		"OutsideBeforeStop": {
			fenced(deployment(1), withPod(map[string]string{v1.LabelXR: xrUID}, corev1.PodRunning),
				answeredBy(steps.StopServer, "`shop`.`orders` (/tmp/shop/orders.ibd)", true), withoutClaim),
			"kubectl annotate " + own + v1.AnnotationWithoutOutside},
		"OutsideAfterStop": {
			fenced(withJob(failedAt(0, "/tmp")), phase(v1.BackupFailed), outside, withoutClaim),
			"kubectl annotate " + own + v1.AnnotationWithoutOutside},
		"RestoreTest": {
			verifiedState(requireRestoreTest, restorable(0, metav1.ConditionFalse), withoutClaim),
			"kubectl patch " + own + "--type=merge"},
	} {
		t.Run(name, func(t *testing.T) {
			step := Next(tc.state)
			if !strings.Contains(step.Hint, tc.want) {
				t.Errorf("want a hint with %q, got %s, %q, %q", tc.want, step.Action, step.Hint, step.Message)
			}
		})
	}
}

// TestForegroundDeletionBeforeProtection checks a foreground deletion of an XR that the controller has not protected yet.
// The XR waits for the data PVC, and the data PVC waits for the controller, so the deletion must not wait for the XR.
func TestForegroundDeletionBeforeProtection(t *testing.T) {
	foreground := func(s *instance.State) { s.XR.SetFinalizers([]string{metav1.FinalizerDeleteDependents}) }
	unprotected := func(s *instance.State) { s.XR.SetFinalizers(nil) }
	dies := func(s *instance.State) { s.DataPVC.DeletionTimestamp = &metav1.Time{Time: now} }
	unbound := func(s *instance.State) {
		s.DataPV, s.DataPVC.Spec.VolumeName, s.DataPVC.Status.Phase, s.XR.Status.Volume = nil, "", corev1.ClaimPending, ""
		s.Records, s.XR.Status.Started = nil, false
	}
	released := func(s *instance.State) { s.DataPVC.Finalizers = nil }
	for name, tc := range map[string]struct {
		state *instance.State
		want  steps.Action
	}{
		"Unbound":    {fenced(withoutClaim, foreground, dies, unbound), steps.ReleaseDataPVC},
		"Data":       {fenced(withoutClaim, foreground, dies), Next(fenced(withoutClaim, dies)).Action},
		"Released":   {fenced(withoutClaim, foreground, dies, unbound, released), steps.NoOp},
		"Background": {fenced(withoutClaim, unprotected, dies), steps.NoOp},
	} {
		t.Run(name, func(t *testing.T) {
			if step := Next(tc.state); step.Action != tc.want {
				t.Errorf("want %s, got %s: %s", tc.want, step.Action, step.Message)
			}
		})
	}
}
