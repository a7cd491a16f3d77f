package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// online makes the requested backup an online backup, during which the server keeps running.
func online(s *instance.State) {
	s.Requested.Method = v1.MethodOnline
	if b := s.XR.Status.RequestedBackup; b != nil {
		b.Method, b.Fence = v1.MethodOnline, false
	}
	deployment(1)(s)
	withPod(map[string]string{v1.LabelXR: xrUID}, corev1.PodRunning)(s)
	s.XR.Status.TLS, s.XR.Status.Authorities = &v1.TLSStatus{}, "an authority"
}

// access adds the Secret with which a Job logs in to the server for a clone.
func access(s *instance.State) {
	s.CloneAccess = agent.AccessSecret(s.Instance, s.Instance.Namespace, s.Instance.Accesses().Clone())
	s.CloneAccess.SetUID("access")
}

// answeredBy records that the server refused an action.
func answeredBy(action steps.Action, reason string, passing bool) variation {
	return func(s *instance.State) {
		s.Refusal = &instance.Refusal{Of: string(action), Message: reason, Passing: passing}
	}
}

// verbs returns the verbs of a step's changes in order.
func verbs(step steps.Step) []change.Verb {
	out := make([]change.Verb, 0, len(step.Changes))
	for _, c := range step.Changes {
		out = append(out, c.Verb)
	}
	return out
}

// TestOnline checks that a running server is backed up, and that the account for the clone is removed afterwards.
func TestOnline(t *testing.T) {
	cloned := func(j *instance.Job) { j.Cloned = true }
	runs := func(j *instance.Job) {
		j.Pods = []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodRunning}}}
	}
	verified := func(s *instance.State) {
		begun(v1.BackupVerified, time.Minute)(s)
		s.Records[0].Spec.Request, s.Records[0].Spec.Archive = modelRequest, &v1.Archive{PVCName: s.Instance.BackupPVCName(),
			Path: s.Records[0].Name + "/" + catalog.ArchiveName}
	}
	late := backup.PatienceOnline + time.Second
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   steps.Action
		says   string
		does   []change.Verb
		late   bool
	}{
		"Begin": {reason: "The server must keep running during an online backup.",
			state: running(asks(modelRequest), online), want: steps.BeginBackup,
			says: "while the server runs", does: []change.Verb{change.PatchStatus}},
		"Announce": {reason: "The BackupRecord must be created when the backup starts.",
			state: running(answered(v1.LastBackupRunning), online), want: steps.CreateBackup},
		"Offer": {reason: "The account must be created before the Job that clones the running server.",
			state: running(begun(v1.BackupPending, time.Minute), online), want: steps.CreateBackupJob,
			does: []change.Verb{change.OfferClone, change.Create}},
		"Down": {
			reason: "A server that refuses connections must be asked again, because no client waits for the backup.",
			state: running(begun(v1.BackupPending, time.Minute), online,
				answeredBy(steps.CreateBackupJob, "connection refused", true)),
			want: steps.CreateBackupJob, says: "connection refused",
			does: []change.Verb{change.PatchStatus, change.OfferClone, change.Create},
		},
		"DownLong": {reason: "The backup must fail if the server refuses connections for too long.",
			state: running(begun(v1.BackupPending, late), online, answeredBy(steps.CreateBackupJob, "connection refused", true)),
			want:  steps.GiveUpBackup},
		"Engine": {reason: "A table that cannot be cloned must end the backup, because a user has to change it.",
			state: running(begun(v1.BackupPending, time.Minute), online,
				answeredBy(steps.CreateBackupJob, "shop.log (MyISAM)",
					false)), want: steps.GiveUpBackup, says: "shop.log (MyISAM)"},
		"Crashed": {reason: "An account without a Job is from before a crash, so it must be removed.",
			state: running(begun(v1.BackupPending, time.Minute), online, access), want: steps.WithdrawClone,
			does: []change.Verb{change.WithdrawClone, change.Delete}},
		"Cloning": {reason: "The backup must wait while the Job clones the server.",
			state: running(begun(v1.BackupRunning, time.Minute), online, access, withJob(runs)), want: steps.Wait, does: nil},
		"Cloned": {reason: "The clone is complete, so the account must be removed.",
			state: running(begun(v1.BackupRunning, time.Minute), online, access, withJob(runs, cloned)),
			want:  steps.WithdrawClone, does: []change.Verb{change.WithdrawClone, change.Delete}},
		"Archives": {reason: "A Job that archives a clone must have no time limit.",
			state: running(begun(v1.BackupRunning, late), online, withJob(runs, cloned)), want: steps.Wait},
		"JobFails": {reason: "A failed online backup must be retried, because no client waits for it.",
			state: running(begun(v1.BackupRunning, time.Minute), online, withJob(failedAt(0, "the clone has failed")), broken),
			want:  steps.MarkFailed, says: "the clone has failed"},
		"Again": {
			reason: "The failed Job must be deleted before the next attempt.",
			state: running(begun(v1.BackupRunning, time.Minute), online, withJob(failedAt(-time.Hour, "broken")), broken,
				func(s *instance.State) {
					s.Records[0].Status.Phase, s.Records[0].Status.Message = v1.BackupFailed, "broken"
				}), want: steps.DeleteObjects,
		},
		"JobFailsLate": {reason: "An online backup must not be retried after its time limit.",
			state: running(begun(v1.BackupRunning, late), online, withJob(failedAt(0, "the clone has failed"))),
			want:  steps.GiveUpBackup},
		"FailedAccess": {reason: "The Job has failed, so the account must be removed.",
			state: running(begun(v1.BackupRunning, time.Minute), online, access, withJob(failedAt(0, "broken"))),
			want:  steps.WithdrawClone},
		"Lost": {reason: "An online backup does not need the data PVC.",
			state: running(begun(v1.BackupPending, time.Minute), online,
				func(s *instance.State) { s.DataPVC.Status.Phase = corev1.ClaimLost }), want: steps.CreateBackupJob},
		"Note": {reason: "The catalog on the volume must contain the backup before the BackupRecord is verified.",
			state: running(begun(v1.BackupRunning, time.Minute), online, withJob(complete)), want: steps.RecordBackup},
		"JobGoes": {reason: "The Job must be deleted, because its pod holds the backup volume.",
			state: running(verified, online, withJob(complete)), want: steps.DeleteObjects},
		"End": {reason: "The account must be removed, because a controller that crashed may have left it.",
			state: running(verified, online),
			want:  steps.EndBackup, says: "Verified backup", does: []change.Verb{change.WithdrawClone, change.PatchStatus}},
		"EndDown": {
			reason: "The backup must not end before the account is removed.",
			state:  running(verified, online, answeredBy(steps.EndBackup, "connection refused", true)),
			want:   steps.EndBackup, says: "connection refused",
			does: []change.Verb{change.PatchStatus, change.WithdrawClone, change.PatchStatus},
		},
		"FailEnd": {reason: "The account must also be removed after a failed backup.",
			state: running(answered(v1.LastBackupFailing), online, access),
			want:  steps.EndBackup, does: []change.Verb{change.WithdrawClone, change.Delete, change.PatchStatus}},
		"FailEndLate": {reason: "A server that refuses connections for too long must not prevent other backups.",
			state: running(answered(v1.LastBackupFailing), online, access, begunAgo(late),
				answeredBy(steps.EndBackup, "connection refused", true)), want: steps.EndBackup, does: []change.Verb{
				change.PatchStatus, change.WithdrawClone, change.Delete, change.PatchStatus}, late: true},
		"FailEndFirst": {reason: "The controller must try to remove the account before it gives up.",
			state: running(answered(v1.LastBackupFailing), online, access, begunAgo(late)), want: steps.EndBackup,
			does: []change.Verb{change.WithdrawClone, change.Delete, change.PatchStatus}},
		"Deleted": {reason: "A deletion must stop the server, even if the account cannot be removed.",
			state: fenced(answered(v1.LastBackupRunning), online), want: steps.StopServer},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.state)
			if got.Action != tc.want || !strings.Contains(got.Text(), tc.says) {
				t.Errorf("%s want %s, got %s: %q", tc.reason, tc.want, got.Action, got.Text())
			}
			if tc.does != nil && !slices.Equal(verbs(got), tc.does) {
				t.Errorf("%s want %v, got %v", tc.reason, tc.does, verbs(got))
			}
			for _, c := range got.Changes {
				if _, blocks := internalOf(c)["blockedBy"]; blocks {
					t.Error("a server that runs is said to be blocked")
				}
				if c.Server != nil && (c.Server.Of != tc.state.Instance || c.Server.Authorities != "an authority") {
					t.Errorf("it is done in %+v", c.Server)
				}
				if c.Verb == change.WithdrawClone && c.MayFail != (tc.late || tc.state.IsDeleting()) {
					t.Error("a deletion waits for a server, or what comes after a long time does, or somebody else does not")
				}
			}
		})
	}
}

// TestOnlineJob checks the node, the volumes and the containers' volume mounts of the pod.
func TestOnlineJob(t *testing.T) {
	mounts := func(c *corev1.Container) []string {
		out := make([]string, 0, len(c.VolumeMounts))
		for _, m := range c.VolumeMounts {
			out = append(out, m.Name)
		}
		return out
	}
	s := running(begun(v1.BackupPending, time.Minute), online)
	s.XR.Status.ServedImage = "mysql:8.4.6"
	j := backup.NewJob(s)
	pod := j.Spec.Template.Spec
	clone, archiver := &pod.InitContainers[len(pod.InitContainers)-1], &pod.Containers[0]
	if clone.Image != "mysql:8.4.6" || !slices.Equal(mounts(clone), []string{"tools", "donor", "data"}) {
		t.Errorf("%s clones, with %v", clone.Image, mounts(clone))
	}
	if len(pod.Containers) != 1 || archiver.Image != s.Settings.AgentImage ||
		!slices.Equal(mounts(archiver), []string{"data", "backup"}) {
		t.Errorf("%s archives, with %v", archiver.Image, mounts(archiver))
	}
	for _, v := range pod.Volumes {
		if c := v.PersistentVolumeClaim; c != nil && c.ClaimName == s.Instance.DataPVCName() {
			t.Error("it has the data of the server")
		}
	}
	if pod.Affinity != nil {
		t.Error("a volume that is there says itself which nodes can use it")
	}
	s.BackupPVC.Status.Phase = corev1.ClaimPending
	if affinity := backup.NewJob(s).Spec.Template.Spec.Affinity; affinity == nil ||
		affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels[v1.LabelInstance] != s.Instance.Key() {
		t.Errorf("its volume is made anywhere: %+v", affinity)
	}
	s.XR.Status.BackupStore = "offsite"
	if backup.NewJob(s).Spec.Template.Spec.Affinity != nil {
		t.Error("a store is everywhere")
	}
}

// TestOnlineRecord checks that a BackupRecord contains the backup method. A deletion during an online backup takes a
// cold backup.
func TestOnlineRecord(t *testing.T) {
	if r := backup.NewRecord(running(answered(v1.LastBackupRunning), online)); r.Spec.Method != v1.MethodOnline ||
		r.Spec.Origin != v1.OriginRequest {
		t.Errorf("it says %+v", r.Spec)
	}
	s := fenced(answered(v1.LastBackupRunning), online)
	if r, a := backup.NewRecord(s), s.Attempt(); r.Spec.Method != v1.MethodCold || r.Spec.Origin != v1.OriginDeletion ||
		a.IsOnline() {
		t.Errorf("it says %+v", r.Spec)
	}
}

// TestBackupProgress checks that the progress increases through all phases of a Job.
func TestBackupProgress(t *testing.T) {
	for name, tc := range map[string]struct {
		clones bool
		phase  string
		done   int
		want   int32
		says   string
	}{
		"Clone":     {true, agent.PhaseClone, 50, 16, ", 16%: cloning"},
		"CloneCopy": {true, agent.PhaseCopy, 50, 50, ", 50%"},
		"CloneRead": {true, agent.PhaseVerify, 50, 83, ", 83%: verifying"},
		"Copy":      {false, agent.PhaseCopy, 50, 25, ", 25%"},
		"Read":      {false, agent.PhaseVerify, 50, 75, ", 75%: verifying"},
		"Other":     {false, "boot", 40, 20, ", 20%"},
		"TooMuch":   {false, agent.PhaseVerify, 400, 100, ", 100%: verifying"},
	} {
		t.Run(name, func(t *testing.T) {
			s := running(begun(v1.BackupRunning, time.Minute), withJob())
			s.BackupJob.Progress = &agent.Progress{Phase: tc.phase, Percent: tc.done}
			if tc.clones {
				s.BackupJob.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: agent.CloneContainerName}}
			}
			if got, says := backup.Progress(s.BackupJob); got != tc.want || !strings.HasSuffix(says, tc.says) {
				t.Errorf("want %d, %q, got %d, %q", tc.want, tc.says, got, says)
			}
		})
	}
}
