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

// runningImage is the image of the server of a running instance, and nextImage belongs to a newer release series.
const (
	runningImage = "mysql:8.4"
	nextImage    = "mysql:9.7"
)

// newImage adds a pending image whose release series is newer than that of the running server.
func newImage(s *instance.State) {
	s.XR.Status.ServedImage, s.XR.Status.PendingImage = s.XR.Status.Image, nextImage
	backupsBound(s)
}

// unwanted removes the pending image, as if the user no longer requested it or its server already accepted clients.
func unwanted(s *instance.State) { s.XR.Status.PendingImage = "" }

func imageChange(c v1.ImageChangeStatus) variation {
	return func(s *instance.State) { s.XR.Status.ImageChange = &c }
}

// stoppedForImage stops the server for the backup before an image change. announced also adds the BackupRecord of
// that backup.
func stoppedForImage(s *instance.State) {
	newImage(s)
	imageChange(v1.ImageChangeStatus{From: runningImage, Fence: true})(s)
}

func announced(p v1.BackupPhase) variation {
	return func(s *instance.State) {
		stoppedForImage(s)
		r := backup.NewRecord(s)
		r.Status.Phase, r.CreationTimestamp = p, metav1.NewTime(now.Add(-time.Hour))
		s.Records = append(s.Records, *r)
	}
}

// TestImageChange checks that a verified backup exists before a server of another release series starts on the data.
func TestImageChange(t *testing.T) {
	own := map[string]string{v1.LabelXR: xrUID}
	empty := func(s *instance.State) { s.BackupJob.Report.Empty, s.BackupJob.Report.SHA256 = true, "" }
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   steps.Action
		says   string
	}{
		"None": {reason: "The server already runs the requested image.",
			state: running(func(s *instance.State) { s.XR.Status.ServedImage = runningImage }), want: steps.NoOp},
		"Begin": {reason: "The server must be stopped before an image of another release series starts.",
			state: running(newImage), want: steps.BeginImageChange,
			says: "mysql:9.7 belongs to a different release series than mysql:8.4"},
		"StoreDown": {reason: "The server must not be stopped for a backup that cannot be written.",
			state: running(newImage, toStore, storeDown), want: steps.Wait,
			says: "The backup before image mysql:9.7 cannot be written, so image mysql:8.4 keeps running: "},
		"StoreStillDown": {reason: "The status already reports that the backup cannot be written.",
			state: running(newImage, toStore, storeDown, imageChange(v1.ImageChangeStatus{Message: "The backup"})),
			want:  steps.Wait},
		"StoreBack": {reason: "The backup can be written now, so the server must be stopped.",
			state: running(newImage, toStore, imageChange(v1.ImageChangeStatus{Message: "The backup"})),
			want:  steps.BeginImageChange},
		"StoreDownReverted": {reason: "The user no longer requests the image, and the server was not stopped.",
			state: running(toStore, imageChange(v1.ImageChangeStatus{Message: "The backup"}),
				func(s *instance.State) { s.XR.Status.ServedImage = runningImage }),
			want: steps.EndImageChange},
		"Again": {reason: "The status belongs to an earlier image change, so another backup must be taken.",
			state: running(newImage, imageChange(v1.ImageChangeStatus{From: "mysql:8.0", Allowed: true})),
			want:  steps.BeginImageChange},
		"Announce": {reason: "The BackupRecord must be created after the image change has begun.",
			state: running(stoppedForImage), want: steps.CreateBackup,
			says: "before image mysql:9.7 starts"},
		"Scaling": {reason: "Crossplane has not scaled down the Deployment yet, so the backup must wait.",
			state: running(announced(v1.BackupPending), deployment(1)), want: steps.Wait,
			says: "Waiting for the server to stop"},
		"Stopping": {reason: "The data must not be copied while the server's pod exists.",
			state: running(announced(v1.BackupPending), withPod(own, corev1.PodRunning)), want: steps.Wait,
			says: "Waiting for the server to stop"},
		"Ended": {reason: "Kubernetes does not delete a failed pod of the server, so the controller must delete it.",
			state: running(announced(v1.BackupPending), withPod(own, corev1.PodFailed)), want: steps.DeleteObjects},
		"Foreign": {reason: "The data must not be copied while a pod of another owner uses the volume.",
			state: running(announced(v1.BackupPending), withPod(nil, corev1.PodRunning)), want: steps.Wait,
			says: `Pod "p" uses the data volume`},
		"Job": {reason: "The server has stopped, so its data must be copied.",
			state: running(announced(v1.BackupPending)), want: steps.CreateBackupJob},
		"Running": {reason: "The BackupRecord must report that the backup Job is running.",
			state: running(announced(v1.BackupPending), withJob()), want: steps.MarkRunning},
		"Copying": {reason: "A backup Job that copies data must have no time limit.",
			state: running(announced(v1.BackupRunning), withJob()), want: steps.Wait},
		"Failed": {reason: "A failed backup must be retried, and the message must not contain a command that loses data.",
			state: running(announced(v1.BackupRunning), withJob(failedAt(time.Minute, "disk full")), broken),
			want:  steps.MarkFailed, says: "disk full"},
		"Retry": {reason: "A failed backup must be retried after a delay.",
			state: running(announced(v1.BackupFailed), withJob(failedAt(-time.Hour, "disk full")), broken,
				func(s *instance.State) { s.Records[0].Status.Message = "disk full" }), want: steps.DeleteObjects},
		"Empty": {reason: "The server had data, so an empty volume must be the wrong volume.",
			state: running(announced(v1.BackupRunning), withJob(complete), empty), want: steps.MarkFailed,
			says: "the server had data"},
		"Note": {reason: "The catalog on the volume must contain the backup before the BackupRecord is verified.",
			state: running(announced(v1.BackupRunning), withJob(complete)), want: steps.RecordBackup},
		"Verified": {reason: "The BackupRecord must be marked as verified after the catalog contains the backup.",
			state: running(announced(v1.BackupRunning), ownEntry, withJob(complete)), want: steps.MarkVerified},
		"Recreated": {reason: "A deleted BackupRecord must be created again from its catalog entry.",
			state: running(announced(v1.BackupRunning), ownEntry, func(s *instance.State) { s.Records = nil }),
			want:  steps.RecreateBackup},
		"JobGoes": {reason: "The Job must be deleted, because its pod holds the volumes.",
			state: running(announced(v1.BackupVerified), withJob(complete)), want: steps.DeleteObjects},
		"Allow": {reason: "The new image must start after the backup is verified.",
			state: running(announced(v1.BackupVerified)), want: steps.AllowImage,
			says: "Starting image mysql:9.7"},
		"Allowed": {reason: "The function starts the new image, so the controller must do nothing.",
			state: running(newImage, imageChange(v1.ImageChangeStatus{From: runningImage, Allowed: true})), want: steps.NoOp},
		"End": {reason: "The server with the new image accepts clients, so the image change must end.",
			state: running(newImage, unwanted, imageChange(v1.ImageChangeStatus{From: runningImage, Allowed: true})),
			want:  steps.EndImageChange},
		"StopJob": {reason: "The user no longer requests the image, so the backup Job must be deleted.",
			state: running(announced(v1.BackupRunning), unwanted, withJob()), want: steps.DeleteObjects},
		"StopNoted": {reason: "A recorded backup must be kept, even if the user no longer requests the image.",
			state: running(announced(v1.BackupRunning), unwanted, ownEntry), want: steps.MarkVerified},
		"StopBegun": {reason: "The user no longer requests the image, so the unfinished backup must be deleted.",
			state: running(announced(v1.BackupRunning), unwanted), want: steps.DeleteUnprovenBackup},
		"Stopped": {reason: "The user no longer requests the image, so the server must be started again.",
			state: running(stoppedForImage, unwanted), want: steps.EndImageChange},
		"Lost": {reason: "The message must not contain a command that loses data.",
			state: running(announced(v1.BackupPending), func(s *instance.State) { s.DataPVC.Status.Phase = corev1.ClaimLost }),
			want:  steps.Wait, says: "has lost its volume"},

		// A deletion has priority and takes its own backup.
		"Deleted": {reason: "The deletion must create a BackupRecord of its own.",
			state: running(announced(v1.BackupRunning), dead), want: steps.CreateBackup},
		"DeletedJob": {reason: "A Job of another backup must be deleted, because it reports a different archive.",
			state: fenced(func(s *instance.State) { s.MisplacedJobs = []client.Object{&corev1.Pod{}} }),
			want:  steps.DeleteObjects},
		"DeletedMid": {reason: "An unfinished backup must be deleted, because it would block the next instance.",
			state: fenced(inInstance(v1.BackupRunning)), want: steps.DeleteUnprovenBackup},
		"DeletedLate": {reason: "A recorded backup must be kept, because it is marked as verified after the deletion.",
			state: fenced(inInstance(v1.BackupRunning), entryOfInstance), want: steps.CreateBackupJob},
		"DeletedDone": {reason: "A verified backup must be kept, and the deletion must take a backup of its own.",
			state: fenced(inInstance(v1.BackupVerified)), want: steps.CreateBackupJob},
		"Data": {reason: "The backup Job must be deleted, because it holds the data PVC that is being deleted.",
			state: running(announced(v1.BackupRunning), withJob(), claimDies, stopped), want: steps.DeleteObjects},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.state)
			if got.Action != tc.want || !strings.Contains(got.Text(), tc.says) {
				t.Errorf("%s want %s, got %s: %q", tc.reason, tc.want, got.Action, got.Text())
			}
			if tc.state.XR.IsDeleting() {
				return
			}
			if got.Hint != "" || slices.Contains([]v1.DeletionPhase{v1.DeletionBlocked, v1.DeletionReleasing}, got.Phase) {
				t.Errorf("nothing is given up of what lives, but its phase is %q, and %q", got.Phase, got.Hint)
			}
		})
	}
}

// inInstance adds the BackupRecord of a backup that started before the deletion.
func inInstance(p v1.BackupPhase) variation {
	return func(s *instance.State) {
		r := backup.NewRecord(s)
		r.Name, r.Spec.Origin, r.Status.Phase = s.Instance.NumberedRecordName(1), v1.OriginImageChange, p
		s.Records = append(s.Records, *r)
	}
}

// entryOfInstance adds the catalog entry of the last BackupRecord.
func entryOfInstance(s *instance.State) {
	r := s.Records[len(s.Records)-1]
	r.Spec.Archive = &v1.Archive{PVCName: s.Instance.BackupPVCName(), Path: r.Name + "/" + catalog.ArchiveName}
	s.Entries = []instance.Entry{{Name: r.Name, Volume: "pvc-2", BackupEntry: r.Entry()}}
}

// TestImageChangeCounts checks the numbers of an instance's backups. They increase in the order in which the backups
// were taken, and each backup contains the first number of its instance.
func TestImageChangeCounts(t *testing.T) {
	s := running(announced(v1.BackupVerified))
	first := s.Record().DeepCopy()
	if first.Spec.Number != 1 || first.Spec.Since != 0 || first.Spec.Origin != v1.OriginImageChange {
		t.Errorf("want the first one, got %+v", first.Spec)
	}
	fields := internalOf(Next(s).Changes[0])
	if fields["backupNumber"] != int64(2) {
		t.Errorf("want the next one to be the second, got %v", fields)
	}
	s.XR.Status.ImageChange = nil
	if fields := internalOf(Next(s).Changes[0]); fields["backupNumber"] != int64(2) {
		t.Errorf("want one that nobody has counted not to pass for the next, got %v", fields)
	}
	s.XR.Status.BackupNumber = 2
	second := backup.NewRecord(apply(s, []variation{dead}))
	if second.Spec.Number != 2 || second.Spec.Since != 1 || second.Spec.Origin != v1.OriginDeletion ||
		second.Name == first.Name {
		t.Errorf("want the second one, got %s %+v", second.Name, second.Spec)
	}
	other := second.DeepCopy()
	for _, n := range []struct {
		number int64
		rival  bool
	}{{1, true}, {2, true}, {3, false}} {
		other.Spec.Instance.XR, other.Spec.Number, other.Spec.Since = "other", n.number, 0
		if second.IsRivalOf(other) != n.rival || other.IsRivalOf(second) != n.rival {
			t.Errorf("a backup with number %d of an instance beside one that had 1 and 2: want a rival: %t", n.number, n.rival)
		}
	}
}

// anothers is the UID of another XR.
const anothers = "anothers"

// came adds a verified backup of another instance, for example one that was imported after this instance was created.
func came(number, since int64) variation {
	return func(s *instance.State) {
		r := v1.BackupRecord{}
		r.Name, r.Spec.Instance.XR, r.Spec.Number, r.Spec.Since, r.Status.Phase =
			"came", anothers, number, since, v1.BackupVerified
		s.Records = append(s.Records, r)
	}
}

// TestNumberTaken checks backups that appear under the same name after an instance was created, for example by an
// import. They conflict with the instance's own backups regardless of their numbers, because neither contains the
// rows of the other.
func TestNumberTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		came          variation
		number, since int64
	}{
		"Before": {came(1, 0), 2, 0},
		"Same":   {came(2, 0), 3, 2},
		"Later":  {came(9, 5), 10, 2},
	} {
		s := running(dead, tc.came, func(s *instance.State) { s.XR.Status.BackupNumber = 2 })
		r := backup.NewRecord(s)
		if r.Spec.Number != tc.number || r.Spec.Since != tc.since || r.IsRivalOf(&s.Records[0]) != (tc.since > 0) {
			t.Errorf("%s: want %d since %d, got %d since %d, a rival: %t", name, tc.number, tc.since, r.Spec.Number,
				r.Spec.Since, r.IsRivalOf(&s.Records[0]))
		}
	}
	if r := backup.NewRecord(running(came(9, 0), func(s *instance.State) {
		s.XR.Status.BackupNumber = 2
	})); r.Spec.Number != 2 {
		t.Errorf("one in a life is called by the number that its status has, got %d", r.Spec.Number)
	}
}

// TestFirstNumber checks that the first backup number of an instance is kept when its next backup gets a higher
// number. The first number shows which instances existed at the same time. Failed attempts and imported backups leave
// no BackupRecord of this instance that contains it.
func TestFirstNumber(t *testing.T) {
	first := func(s *instance.State) any { return internalOf(Next(s).Changes[0])["firstBackupNumber"] }
	for name, s := range map[string]*instance.State{
		"Left":    running(answered(v1.LastBackupFailing)),
		"Adopted": running(asks(modelRequest), came(3, 0)),
	} {
		if got := first(s); got != int64(1) {
			t.Errorf("%s: it began with %v", name, got)
		}
	}
	if got := first(running(asks(modelRequest))); got != nil {
		t.Errorf("nothing has changed, and %v is said", got)
	}
	s := running(dead, came(3, 0),
		func(s *instance.State) { s.XR.Status.BackupNumber, s.XR.Status.FirstBackupNumber = 4, 1 })
	if got := backup.CountTo(s, 5); got["firstBackupNumber"] != nil {
		t.Errorf("it is said again: %v", got)
	}
	kept := backup.IdentityAnnotations(s)
	lost := running(dead, came(3, 0), func(s *instance.State) {
		s.XR.Status.BackupNumber, s.DataPV.Labels = 4, s.Instance.Labels()
	})
	if r := backup.NewRecord(lost); r.Spec.Since != 0 {
		t.Errorf("nothing says that it began with another number, and its record is since %d", r.Spec.Since)
	}
	lost.DataPV.Annotations[v1.AnnotationFirstBackupNumber] = "1"
	if r := backup.NewRecord(lost); r.Spec.Since != 1 {
		t.Errorf("its volume knows what a lost status has said, and its record is since %d", r.Spec.Since)
	}
	if lost.DataPV.Labels[v1.LabelXR] = anothers; backup.NewRecord(lost).Spec.Since != 0 ||
		backup.IdentityAnnotations(lost)[v1.AnnotationFirstBackupNumber] != "" {
		t.Error("what another life began with is taken for its own")
	}
	if _, ok := backup.IdentityAnnotations(lost)[v1.AnnotationFirstBackupNumber]; !ok {
		t.Error("what another life began with stays on the volume")
	}
	if r := backup.NewRecord(s); r.Spec.Number != 4 || r.Spec.Since != 1 || !r.IsRivalOf(&s.Records[0]) {
		t.Errorf("its record is %d since %d", r.Spec.Number, r.Spec.Since)
	}
	s.XR, s.Orphan = nil, &instance.Identity{BackupNumber: 4, FirstBackupNumber: 1}
	if r := backup.NewRecord(s); kept[v1.AnnotationFirstBackupNumber] != "1" || r.Spec.Since != 1 ||
		!r.IsRivalOf(&s.Records[0]) {
		t.Errorf("the volume says %v, and the record is %d since %d", kept, r.Spec.Number, r.Spec.Since)
	}
}

// TestImageChangeLeavesNumber checks that the number of a canceled backup on a volume is not used again. In all other
// cases, the backup number does not change.
func TestImageChangeLeavesNumber(t *testing.T) {
	for name, tc := range map[string]struct {
		state *instance.State
		want  any
	}{
		"Stopped": {running(stoppedForImage, unwanted), int64(2)},
		"End":     {running(newImage, unwanted, imageChange(v1.ImageChangeStatus{From: runningImage, Allowed: true})), nil},
		"Store":   {running(stoppedForImage, unwanted, toStore), nil},
	} {
		step := Next(tc.state)
		if got := internalOf(step.Changes[len(step.Changes)-1])["backupNumber"]; step.Action != steps.EndImageChange ||
			got != tc.want {
			t.Errorf("%s: %s leaves %v, want %v", name, step.Action, got, tc.want)
		}
	}
}
