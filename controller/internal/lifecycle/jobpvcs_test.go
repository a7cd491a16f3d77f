package lifecycle

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// another is the UID of another PVC that has the same name.
const another = "another"

// backupsReplaced replaces the backup PVC with another PVC with the same name.
func backupsReplaced(s *instance.State) { s.BackupPVC.UID = another }

func unretainedBackups(s *instance.State) { s.BackupPVC.Annotations = nil }

func podRuns(j *instance.Job) {
	j.Pods = []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodRunning}}}
}

func podEnded(j *instance.Job) {
	j.Pods = []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}}
}

// TestNothingBelievedMoved checks that a report of a Job is accepted only for the PVCs that the Job was created for.
// Pods that prevent the deletion of a PVC are deleted.
func TestNothingBelievedMoved(t *testing.T) {
	served := func(s *instance.State) {
		s.XR.Conditions = []metav1.Condition{{Type: v1.ConditionServing, Status: metav1.ConditionTrue}}
	}
	own := map[string]string{v1.LabelXR: xrUID}
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   steps.Action
		says   string
	}{
		"KeptWhenBound": {reason: "The volume is kept as soon as it is bound, not when the archive is on it.",
			state: fenced(unretainedBackups), want: steps.RetainBackupPV},
		"KeptWhileRunning": {reason: "So it is where the Job's pod bound it.",
			state: fenced(withJob(podRuns), unretainedBackups, phase(v1.BackupRunning)), want: steps.RetainBackupPV},
		"KeptBeforeItGoes": {reason: "Before its claim goes, above all.", state: fenced(going, unretainedBackups),
			want: steps.RetainBackupPV},
		"BackupsReplaced": {reason: "The archive was written to the volume of another claim.",
			state: fenced(withJob(complete), backupsReplaced), want: steps.DeleteObjects, says: "a volume was replaced"},
		"EmptyReplaced": {reason: "An empty volume may have been another one.",
			state: fenced(silent, withJob(complete, func(j *instance.Job) { j.Report.Empty = true }),
				func(s *instance.State) { s.DataPVC.UID = another }), want: steps.DeleteObjects, says: "a volume was replaced"},
		"DataReplaced": {reason: "The data may have been another's.",
			state: fenced(withJob(complete), func(s *instance.State) { s.DataPVC.UID = another }), want: steps.DeleteObjects,
			says: "a volume was replaced"},
		"DataGone": {reason: "Data that went after its backup is backed up.",
			state: fenced(withJob(complete), func(s *instance.State) { s.DataPVC, s.DataPV = nil, nil }),
			want:  steps.RecordBackup},
		"OlderJob": {reason: "A Job that does not say what it was made for is not believed.",
			state: fenced(withJob(complete, func(j *instance.Job) { delete(j.Annotations, v1.AnnotationPVCs) })),
			want:  steps.DeleteObjects},
		"GoesWhileRunning": {reason: "A copy under way has its volume.",
			state: fenced(withJob(podRuns), going, phase(v1.BackupRunning)), want: steps.Wait},
		"GoesAfterwards": {reason: "A pod that has ended holds the claim all the same.",
			state: fenced(withJob(complete, podEnded), going), want: steps.DeleteObjects, says: "retrying"},
		"GoesBefore": {reason: "A pod that has no node yet waits for ever.",
			state: fenced(withJob(), going, phase(v1.BackupRunning)), want: steps.DeleteObjects, says: "retrying"},
		"HealRestored": {reason: "The pod of a restore that has ended holds the data PVC for a day.",
			state: running(claimDies, stopped, restoring(0, complete), withPod(own, corev1.PodSucceeded)),
			want:  steps.DeleteObjects},
		"HealRestoring": {reason: "A restore under way is not cut off.",
			state: running(claimDies, stopped, restoring(0), withPod(own, corev1.PodRunning)), want: steps.Wait},
		"BackupsRestored": {reason: "It holds the backup PVC, too.", state: running(served, going, restoring(0, complete)),
			want: steps.DeleteObjects},
		"PruneReplaced": {reason: "The archives of these records may be on another volume.",
			state: verifiedState(older(3), pruned(complete), backupsReplaced), want: steps.ReleaseDataPV},
		"PruneWithoutPlace": {reason: "There is nothing to remove archives from.", state: verifiedState(older(3), going),
			want: steps.ReleaseDataPV},
		"PruneInVain": {reason: "No pod gets the volume any more.",
			state: verifiedState(older(3), pruned(func(*instance.Job) {}), going), want: steps.DeleteObjects},
		"WipeReplaced": {reason: "Another folder was emptied.",
			state: verifiedState(hostPath, wiped(complete), func(s *instance.State) {
				s.DataPVC.UID, s.DataPV.Spec.ClaimRef.UID = another, another
			}), want: steps.DeleteObjects},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.state)
			if got.Action != tc.want || !strings.Contains(got.Message, tc.says) {
				t.Errorf("%s want %s %q, got %s %q", tc.reason, tc.want, tc.says, got.Action, got.Message)
			}
		})
	}
}
