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
		"KeptWhenBound": {reason: "The backup volume must be retained when it is bound, before it contains an archive.",
			state: fenced(unretainedBackups), want: steps.RetainBackupPV},
		"KeptWhileRunning": {reason: "A backup volume that the Job's pod has bound must be retained while the Job is running.",
			state: fenced(withJob(podRuns), unretainedBackups, phase(v1.BackupRunning)), want: steps.RetainBackupPV},
		"KeptBeforeItGoes": {reason: "The backup volume must be retained before its PVC is deleted.",
			state: fenced(going, unretainedBackups), want: steps.RetainBackupPV},
		"BackupsReplaced": {reason: "The archive was written to the volume of another PVC.",
			state: fenced(withJob(complete), backupsReplaced), want: steps.DeleteObjects, says: "a volume was replaced"},
		"EmptyReplaced": {reason: "The empty volume that the Job has read may be another volume.",
			state: fenced(silent, withJob(complete, func(j *instance.Job) { j.Report.Empty = true }),
				func(s *instance.State) { s.DataPVC.UID = another }), want: steps.DeleteObjects, says: "a volume was replaced"},
		"DataReplaced": {reason: "The Job may have copied the data of another PVC.",
			state: fenced(withJob(complete), func(s *instance.State) { s.DataPVC.UID = another }), want: steps.DeleteObjects,
			says: "a volume was replaced"},
		"DataGone": {reason: "A backup is valid, even if the data PVC was deleted after it.",
			state: fenced(withJob(complete), func(s *instance.State) { s.DataPVC, s.DataPV = nil, nil }),
			want:  steps.RecordBackup},
		"OlderJob": {reason: "The report of a Job that does not name its PVCs must not be accepted.",
			state: fenced(withJob(complete, func(j *instance.Job) { delete(j.Annotations, v1.AnnotationPVCs) })),
			want:  steps.DeleteObjects},
		"GoesWhileRunning": {reason: "A running backup Job must not be interrupted, because it has mounted the volume.",
			state: fenced(withJob(podRuns), going, phase(v1.BackupRunning)), want: steps.Wait},
		"GoesAfterwards": {reason: "A terminated pod blocks the deletion of the backup PVC, so the Job must be deleted.",
			state: fenced(withJob(complete, podEnded), going), want: steps.DeleteObjects, says: "retrying"},
		"GoesBefore": {reason: "A pod that waits for a deleted PVC never starts, so the Job must be deleted.",
			state: fenced(withJob(), going, phase(v1.BackupRunning)), want: steps.DeleteObjects, says: "retrying"},
		"HealRestored": {reason: "The pod of a finished restore blocks the deletion of the data PVC, so its Job must be deleted.",
			state: running(claimDies, stopped, restoring(0, complete), withPod(own, corev1.PodSucceeded)),
			want:  steps.DeleteObjects},
		"HealRestoring": {reason: "A running restore must not be interrupted.",
			state: running(claimDies, stopped, restoring(0), withPod(own, corev1.PodRunning)), want: steps.Wait},
		"BackupsRestored": {reason: "The pod of a finished restore also blocks the deletion of the backup PVC.",
			state: running(served, going, restoring(0, complete)), want: steps.DeleteObjects},
		"PruneReplaced": {reason: "The prune Job may have used another volume, so the BackupRecords must be kept.",
			state: verifiedState(older(3), pruned(complete), backupsReplaced), want: steps.ReleaseDataPV},
		"PruneWithoutPlace": {reason: "A prune Job must not be created while the backup PVC is being deleted.",
			state: verifiedState(older(3), going), want: steps.ReleaseDataPV},
		"PruneInVain": {reason: "The prune Job must be deleted, because its pod can no longer mount the backup PVC.",
			state: verifiedState(older(3), pruned(func(*instance.Job) {}), going), want: steps.DeleteObjects},
		"WipeReplaced": {reason: "The wipe Job has emptied the directory of another volume, so it must run again.",
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
