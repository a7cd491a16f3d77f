package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// asks requests an on-demand backup. The argument is the name of the Backup object.
func asks(request string) variation {
	return func(s *instance.State) {
		backupsBound(s)
		s.Requested = instance.Request{Name: request, Method: v1.MethodCold}
	}
}

// answered adds an on-demand backup in the given phase to the status.
func answered(p v1.LastBackupPhase) variation {
	return func(s *instance.State) {
		asks(modelRequest)(s)
		s.XR.Status.RequestedBackup = &v1.LastBackupStatus{Request: modelRequest, Phase: p,
			BegunAt: metav1.NewTime(now.Add(-time.Minute)), Fence: p == v1.LastBackupRunning || p == v1.LastBackupFailing}
	}
}

// begunAgo sets how long ago the on-demand backup started.
func begunAgo(ago time.Duration) variation {
	return func(s *instance.State) { s.XR.Status.RequestedBackup.BegunAt = metav1.NewTime(now.Add(-ago)) }
}

// begun adds an on-demand backup that has a BackupRecord. ago is the time since the backup started.
func begun(p v1.BackupPhase, ago time.Duration) variation {
	return func(s *instance.State) {
		answered(v1.LastBackupRunning)(s)
		s.XR.Status.RequestedBackup.BegunAt = metav1.NewTime(now.Add(-ago))
		r := backup.NewRecord(s)
		r.Status.Phase, r.CreationTimestamp = p, metav1.NewTime(now.Add(-ago))
		s.Records = append(s.Records, *r)
	}
}

func failing(s *instance.State) { s.XR.Status.RequestedBackup.Phase = v1.LastBackupFailing }

// TestRequested checks that the controller takes one backup for each Backup object, and that it stops the server for
// at most one attempt.
func TestRequested(t *testing.T) {
	own := map[string]string{v1.LabelXR: xrUID}
	verified := func(s *instance.State) {
		begun(v1.BackupVerified, time.Minute)(s)
		s.Records[0].Spec.Request, s.Records[0].Spec.Archive = modelRequest, &v1.Archive{PVCName: s.Instance.BackupPVCName(),
			Path: s.Records[0].Name + "/" + catalog.ArchiveName}
	}
	late := backup.Patience + time.Second
	jobPod := func(p corev1.PodPhase) func(*instance.Job) {
		return func(j *instance.Job) { j.Pods = []corev1.Pod{{Status: corev1.PodStatus{Phase: p}}} }
	}
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   steps.Action
		says   string
	}{
		"None": {reason: "No user has requested a backup.", state: running(backupsBound), want: steps.NoOp},
		"Begin": {reason: "A requested backup must be started.",
			state: running(asks(modelRequest)), want: steps.BeginBackup,
			says: `backup "one"`},
		"Nobody": {reason: "Without a Backup object, no backup must be started.",
			state: running(asks(modelRequest), func(s *instance.State) { s.Requested = instance.Request{} }), want: steps.NoOp},
		"Silent": {reason: "A requested backup must wait until the server accepts clients.",
			state: running(asks(modelRequest), silent), want: steps.Wait},
		"Off": {reason: "A requested backup must wait until the suspended instance runs again.",
			state: running(asks(modelRequest), suspended), want: steps.NoOp},
		"OffSoon": {reason: "A requested backup must not delay the suspension of the instance.",
			state: running(asks(modelRequest), func(s *instance.State) { s.XR.Spec.Suspend = true }), want: steps.NoOp},
		"Again": {reason: "A backup must be taken only once for each request.",
			state: running(answered(v1.LastBackupVerified)), want: steps.NoOp},
		"Failed": {reason: "A failed backup must not be taken again for the same request.",
			state: running(answered(v1.LastBackupFailed)), want: steps.NoOp},
		"Another": {reason: "A new request must start another backup.",
			state: running(answered(v1.LastBackupVerified), asks("two")), want: steps.BeginBackup, says: `"two"`},
		"AfterFail": {reason: "A new request must start another backup, even after a failed one.",
			state: running(answered(v1.LastBackupFailed), asks("two")), want: steps.BeginBackup},
		"Lost": {reason: "The BackupRecord proves that the backup was taken, even if the status was lost.",
			state: running(verified, func(s *instance.State) { s.XR.Status.RequestedBackup = nil }), want: steps.NoOp},
		"Image": {reason: "An image change must start before a requested backup.",
			state: running(asks(modelRequest), newImage), want: steps.BeginImageChange},
		"ImageAfter": {
			reason: "An image change must not interrupt a running backup.",
			state:  running(begun(v1.BackupRunning, time.Minute), newImage, withJob()),
			want:   steps.Wait,
		},
		"Announce": {reason: "The BackupRecord must be created when the backup starts.",
			state: running(answered(v1.LastBackupRunning)), want: steps.CreateBackup, says: `backup "one"`},
		"Scaling": {reason: "Crossplane has not scaled down the Deployment yet, so the backup must wait.",
			state: running(begun(v1.BackupPending, time.Minute), deployment(1)), want: steps.Wait,
			says: "Waiting for the server to stop"},
		"Stopping": {reason: "The backup must wait for the server, however long its shutdown takes.",
			state: running(begun(v1.BackupPending, time.Hour), withPod(own, corev1.PodRunning)), want: steps.Wait,
			says: "Waiting for the server to stop"},
		"Foreign": {reason: "A pod of another owner uses the data volume, so the backup must wait.",
			state: running(begun(v1.BackupPending, time.Minute), withPod(nil, corev1.PodRunning)), want: steps.Wait,
			says: `Pod "p" uses the data volume`},
		"ForeignStays": {
			reason: "The backup must fail if a pod of another owner uses the data volume for too long.",
			state:  running(begun(v1.BackupPending, late), withPod(nil, corev1.PodRunning)), want: steps.GiveUpBackup,
			says: `Pod "p" uses the data volume`,
		},
		"Job": {reason: "The server has stopped, so its data must be copied.",
			state: running(begun(v1.BackupPending, time.Minute)), want: steps.CreateBackupJob},
		"Pending": {reason: "The backup must wait for a Job's pod that is pending for a short time.",
			state: running(begun(v1.BackupRunning, time.Minute), withJob(jobPod(corev1.PodPending))), want: steps.Wait},
		"PendingOn": {reason: "The backup must fail if the Job's pod is pending for too long.",
			state: running(begun(v1.BackupRunning, late), withJob(jobPod(corev1.PodPending))), want: steps.GiveUpBackup},
		"Copying": {reason: "A backup Job that copies data must have no time limit.",
			state: running(begun(v1.BackupRunning, time.Hour), withJob(jobPod(corev1.PodRunning))), want: steps.Wait},
		"Refused": {
			reason: "The backup must fail if a quota refuses the Job, because clients wait for the server.",
			state: running(begun(v1.BackupPending, time.Minute), func(s *instance.State) {
				s.Refusal = &instance.Refusal{Of: string(steps.CreateBackupJob), Message: "exceeded quota"}
			}), want: steps.GiveUpBackup, says: "Backing up the data: exceeded quota",
		},
		"DoneLate": {reason: "A backup whose Job is complete must be recorded, even if it is late.",
			state: running(begun(v1.BackupRunning, late), withJob(complete)), want: steps.RecordBackup},
		"JobFails": {reason: "A failed backup of a running instance must not be retried, because clients wait.",
			state: running(begun(v1.BackupRunning, time.Minute), withJob(failedAt(0, "disk broken")), broken),
			want:  steps.GiveUpBackup, says: "disk broken"},
		"Held": {reason: "The backup must fail if a user has to act, because clients wait for the server.",
			state: running(begun(v1.BackupPending, time.Minute), func(s *instance.State) {
				s.DataPVC.Status.Phase = corev1.ClaimLost
			}), want: steps.GiveUpBackup, says: "has lost its volume"},
		"Note": {reason: "The catalog on the volume must contain the backup before the BackupRecord is verified.",
			state: running(begun(v1.BackupRunning, time.Minute), withJob(complete)), want: steps.RecordBackup},
		"Verified": {reason: "The BackupRecord must be marked as verified after the catalog contains the backup.",
			state: running(begun(v1.BackupRunning, time.Minute), ownEntry, withJob(complete)), want: steps.MarkVerified},
		"JobGoes": {reason: "The Job must be deleted, because its pod holds the volumes.",
			state: running(verified, withJob(complete)), want: steps.DeleteObjects},
		"End": {reason: "The server must be started after the backup.",
			state: running(verified), want: steps.EndBackup, says: "Verified backup"},
		"FailJob": {reason: "The Job of a failed backup must be deleted first.",
			state: running(begun(v1.BackupRunning, time.Minute), failing, withJob()), want: steps.DeleteObjects},
		"FailRecord": {reason: "The BackupRecord of a failed backup would block the next instance, so it must be deleted.",
			state: running(begun(v1.BackupRunning, time.Minute), failing), want: steps.DeleteUnprovenBackup},
		"FailEnd": {reason: "The server must be started after a failed backup.",
			state: running(answered(v1.LastBackupFailing)), want: steps.EndBackup},
		"FailNoted": {reason: "A recorded backup must be marked as verified, even if it was reported as failed.",
			state: running(begun(v1.BackupRunning, time.Minute), failing, ownEntry), want: steps.MarkVerified},
		"Withdrawn": {reason: "A backup that has started must be completed, even if its Backup object is deleted.",
			state: running(begun(v1.BackupPending, time.Minute), asks("")), want: steps.CreateBackupJob},
		"Deleted": {reason: "The deletion of the instance must take its own backup.",
			state: running(begun(v1.BackupRunning, time.Minute), dead), want: steps.CreateBackup},
		"DeletedMid": {reason: "An unfinished backup must be deleted, because the backup of the deletion replaces it.",
			state: fenced(inInstance(v1.BackupRunning), answered(v1.LastBackupRunning)), want: steps.DeleteUnprovenBackup},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.state)
			if got.Action != tc.want || !strings.Contains(got.Text(), tc.says) {
				t.Errorf("%s want %s, got %s: %q", tc.reason, tc.want, got.Action, got.Text())
			}
			if !tc.state.XR.IsDeleting() &&
				(got.Hint != "" || slices.Contains([]v1.DeletionPhase{v1.DeletionBlocked, v1.DeletionReleasing}, got.Phase)) {
				t.Errorf("nothing is given up of what lives, but its phase is %q, and %q", got.Phase, got.Hint)
			}
		})
	}
}

// resumed lets the server run again during a cold backup, as after the copy of the data.
func resumed(s *instance.State) { s.XR.Status.RequestedBackup.Fence = false }

// TestColdBackupLetsServerGo checks that the server is stopped only while its data is copied. If the backup cannot be
// recorded or its objects cannot be deleted, the controller waits while the server runs, and only for a limited time.
func TestColdBackupLetsServerGo(t *testing.T) {
	refused := refusedAs(steps.RecordBackup, instance.Refusal{Message: "the store refuses the note", Passing: true})
	going := func(j *instance.Job) { j.DeletionTimestamp = &metav1.Time{Time: now} }
	copied := func(extra ...variation) *instance.State {
		return running(append([]variation{begun(v1.BackupRunning, 240*time.Hour), toStore, sentAt(time.Minute)}, extra...)...)
	}
	verifiedInStore := func(s *instance.State) { entryInStore(s); s.Records[0].Status.Phase = v1.BackupVerified }
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   steps.Action
		says   string
	}{
		"Copied": {reason: "The server must start again when its data is copied and verified.",
			state: copied(), want: steps.ResumeServer,
			says: "copied and verified"},
		"Refused": {reason: "The server must not wait until the store accepts the catalog entry.",
			state: copied(refused), want: steps.ResumeServer},
		"Down": {reason: "The server must not wait until the store responds.",
			state: copied(storeDown), want: steps.ResumeServer},
		"NotedAlready": {reason: "The server must not wait until the BackupRecord is updated.",
			state: copied(entryInStore), want: steps.ResumeServer},
		"JobHangs": {reason: "The server must not wait for the deletion of a Job whose node is lost.",
			state: running(begun(v1.BackupVerified, time.Hour), withJob(complete, going)), want: steps.ResumeServer},
		"OnVolume": {reason: "The server must not wait until the API server accepts the catalog entry.",
			state: running(begun(v1.BackupRunning, time.Hour), withJob(complete),
				refusedAs(steps.RecordBackup, instance.Refusal{Message: "again", Passing: true})), want: steps.ResumeServer},
		"Copying": {reason: "The server must stay stopped while the Job copies the data.",
			state: running(begun(v1.BackupRunning, time.Hour), toStore, withJob(runs)), want: steps.Wait},
		"FailedHangs": {reason: "The server must not wait for the deletion of a failed Job.",
			state: running(begun(v1.BackupRunning, time.Hour), failing, withJob(failedAt(0, "disk broken"), going)),
			want:  steps.ResumeServer},
		"FailingRuns": {reason: "The server must stay stopped while the Job of a failed backup still reads the data.",
			state: running(begun(v1.BackupRunning, time.Hour), failing, withJob(runs, going)), want: steps.Wait},

		"Then": {reason: "The backup must be recorded while the server runs.",
			state: copied(resumed), want: steps.RecordBackup},
		"ThenRefused": {reason: "A refused catalog entry must be written again.",
			state: copied(resumed, refused), want: steps.RecordBackup,
			says: "the store refuses the note"},
		"ThenDown": {reason: "The controller must wait until the store responds.",
			state: copied(resumed, storeDown), want: steps.Wait},
		"ThenNoted": {reason: "The BackupRecord must be marked as verified after the catalog contains the backup.",
			state: copied(resumed, entryInStore), want: steps.MarkVerified},
		"ThenRuns": {reason: "The backup must not wait for the server to stop again.",
			state: copied(resumed, deployment(1), withPod(map[string]string{v1.LabelXR: xrUID}, corev1.PodRunning)),
			want:  steps.RecordBackup},
		"ThenProven": {reason: "The Job must be deleted after the backup is verified.",
			state: copied(resumed, verifiedInStore), want: steps.DeleteObjects},
		"Overdue": {reason: "The backup must fail if the store refuses the catalog entry for too long.",
			state: running(begun(v1.BackupRunning, time.Hour), toStore, sentAt(backup.PatienceOnline), resumed, refused),
			want:  steps.GiveUpBackup, says: "the store refuses the note"},
		"OverdueDown": {reason: "The backup must fail if the store does not respond for too long.",
			state: running(begun(v1.BackupRunning, time.Hour), toStore, sentAt(backup.PatienceOnline), resumed, storeDown),
			want:  steps.GiveUpBackup, says: "the store is down"},
		"Lost": {reason: "The backup must fail if its copy is lost, because the data has changed since then.",
			state: running(begun(v1.BackupRunning, time.Hour), toStore, resumed), want: steps.GiveUpBackup,
			says: "was lost before it was recorded"},
		"Unreported": {reason: "The backup must fail if the Job's report was deleted together with its pod.",
			state: copied(resumed, func(s *instance.State) { s.BackupJob.Report = nil }), want: steps.GiveUpBackup,
			says: "was lost"},
		"StillRuns": {reason: "A copy that is taken while the server runs is not valid.",
			state: running(begun(v1.BackupRunning, time.Hour), toStore, withJob(runs), resumed), want: steps.GiveUpBackup},
	}
	for name, tc := range cases {
		got := Next(tc.state)
		if got.Action != tc.want || !strings.Contains(got.Text(), tc.says) {
			t.Errorf("%s: %s want %s, got %s: %q", name, tc.reason, tc.want, got.Action, got.Text())
		}
		if got.Action == steps.ResumeServer {
			status, _ := internalOf(got.Changes[len(got.Changes)-1])[backup.StatusFields[tc.state.Attempt().Origin]].(map[string]any)
			if fence, ok := status["fence"]; !ok || fence != nil {
				t.Errorf("%s: the fence stays: %v", name, status)
			}
		}
	}
}

// TestRequestedStatus checks the status after each step, because the function acts on it and users read it.
func TestRequestedStatus(t *testing.T) {
	fields := func(s *instance.State) (all, requested map[string]any) {
		t.Helper()
		for _, c := range Next(s).Changes {
			if r, ok := internalOf(c)["requestedBackup"].(map[string]any); ok {
				return c.Fields, r
			}
		}
		t.Fatal("nothing is said")
		return nil, nil
	}
	all, r := fields(running(asks(modelRequest)))
	if r["fence"] != true || r["request"] != modelRequest || r["phase"] != v1.LastBackupRunning ||
		all["internal"].(map[string]any)["backupNumber"] != int64(1) {
		t.Errorf("it begins with %v", all)
	}
	s := running(begun(v1.BackupVerified, time.Minute))
	all, r = fields(s)
	if r["fence"] != nil || r["phase"] != v1.LastBackupVerified || r["backup"] != s.Record().Name ||
		all["internal"].(map[string]any)["backupNumber"] != int64(2) {
		t.Errorf("it ends with %v", all)
	}
	if listed, _ := all["backups"].(map[string]any)["recent"].([]v1.ListedBackup); len(listed) != 1 || listed[0].Name != modelRequest ||
		listed[0].Record != s.Record().Name ||
		listed[0].Phase != v1.BackupVerified {
		t.Errorf("the claim lists %+v", listed)
	}
	if r := s.Record(); r.Spec.Origin != v1.OriginRequest || r.Spec.Request != modelRequest {
		t.Errorf("its record says %+v", r.Spec)
	}
	_, r = fields(running(begun(v1.BackupRunning, time.Minute), withJob(failedAt(0, "disk broken")), broken))
	if _, ok := r["fence"]; ok || r["phase"] != v1.LastBackupFailing ||
		!strings.Contains(r["message"].(string), "disk broken") {
		t.Errorf("a failure says %v, before its Job is gone", r)
	}
	all, r = fields(running(answered(v1.LastBackupFailing)))
	if all["internal"].(map[string]any)["backupNumber"] != int64(2) || r["fence"] != nil || r["phase"] != v1.LastBackupFailed {
		t.Errorf("it ends with %v, and what lies under its number on the volume would be in the way of the next", all)
	}
	if inStore, _ := fields(running(answered(v1.LastBackupFailing), toStore)); inStore["internal"].(map[string]any)["backupNumber"] != nil {
		t.Errorf("what is in a store is discarded: %v", inStore)
	}
	if _, told := r["message"]; told {
		t.Error("and why is forgotten")
	}
}

// tried adds a restore test to the backup with the given number. concluded is true if the test has a result.
func tried(s *instance.State, number int64, concluded bool) *instance.State {
	for i := range s.Records {
		if r := &s.Records[i]; r.Spec.Number == number {
			r.Status.RestoreTest = &v1.RestoreTest{Job: "job", Concluded: concluded}
		}
	}
	return s
}

// beforeNext makes the next scheduled backup due.
func beforeNext(s *instance.State) *instance.State {
	due("03:00")(s)
	return s
}

// TestRequestedExpire checks that retention applies to on-demand backups while the instance exists. The oldest
// backups are deleted first, and the newest restore-tested backup is never deleted. Expired backups are deleted
// before the next scheduled backup starts. Otherwise they would never be deleted if each backup takes as long as the
// interval of the schedule.
func TestRequestedExpire(t *testing.T) {
	kept := func(n int, keep int32, restorable ...int) *instance.State {
		s := running(answered(v1.LastBackupVerified))
		s.XR.Spec.Backup.Retention.Count = new(keep)
		for i := n; i >= 0; i-- { // The oldest backup is the final backup of a previous instance.
			name := s.Instance.NumberedRecordName(int64(i))
			r := v1.BackupRecord{
				ObjectMeta: metav1.ObjectMeta{Name: name,
					CreationTimestamp: metav1.NewTime(now.Add(time.Duration(i-n) * time.Hour))},
				Spec: v1.BackupRecordSpec{Instance: s.BackedUp(), Origin: v1.OriginRequest, Number: int64(i),
					Archive: &v1.Archive{PVCName: s.Instance.BackupPVCName(), Path: name + "/" + catalog.ArchiveName}},
				Status: v1.BackupRecordStatus{Phase: v1.BackupVerified},
			}
			if i == 0 {
				r.Spec.Origin = v1.OriginDeletion
			}
			if slices.Contains(restorable, i) {
				r.Status.Conditions = []metav1.Condition{{Type: v1.ConditionRestorable, Status: metav1.ConditionTrue}}
			}
			s.Records = append(s.Records, r)
		}
		return s
	}
	cases := map[string]struct {
		state *instance.State
		want  []int
	}{
		"Few":        {kept(3, 3), nil},
		"Many":       {kept(5, 3), []int{2, 1}},
		"Restorable": {kept(5, 3, 1), []int{2}},
		"Newer":      {kept(5, 3, 4, 1), []int{2, 1}},
		"Tried":      {tried(kept(5, 3), 1, false), []int{2}},
		"Known":      {tried(kept(5, 3), 1, true), []int{2, 1}},
		"Due":        {beforeNext(kept(5, 3)), []int{2, 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.state)
			var names []string
			for _, n := range tc.want {
				names = append(names, tc.state.Instance.NumberedRecordName(int64(n)))
			}
			if targets := namesOf(got.Targets); !slices.Equal(targets, names) ||
				(got.Action == steps.MarkForRemoval) != (len(names) > 0) {
				t.Errorf("want %v, got %s %v", names, got.Action, targets)
			}
			tc.state.XR.Conditions = nil
			if got := Next(tc.state); got.Action == steps.MarkForRemoval {
				t.Error("one goes while the server is not there")
			}
			tc.state.XR.Status.RequestedBackup, tc.state.Requested = nil, instance.Request{}
			if got := Next(tc.state); got.Action == steps.MarkForRemoval {
				t.Error("who never asked keeps all until the end")
			}
		})
	}
}

func namesOf(objects []client.Object) []string {
	out := make([]string, 0, len(objects))
	for _, o := range objects {
		out = append(out, o.GetName())
	}
	return out
}
