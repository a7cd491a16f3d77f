package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A keepsake contains what remains of a deleted instance: a BackupRecord, the volume with its archive, and the PVC of
// that volume.
type keepsake struct {
	record    *v1.BackupRecord
	volume    *corev1.PersistentVolume
	claim     *corev1.PersistentVolumeClaim
	instances []*instance.State
	job       *batchv1.Job
	// unasked is true if the store did not report whether the backup of the BackupRecord is verified.
	unasked bool
	// restoring is the name of an instance that is about to be restored from the backup.
	restoring string
}

func leaves(t *testing.T, changes ...func(*keepsake)) *keepsake {
	t.Helper()
	s := running(dead)
	k := &keepsake{record: backup.NewRecord(s), claim: s.BackupPVC}
	k.record.UID, k.record.CreationTimestamp = "record", metav1.NewTime(now.Add(-time.Hour))
	k.record.Status.Phase = v1.BackupVerified
	k.record.Spec.Archive = &v1.Archive{PVCName: s.Instance.BackupPVCName(), Path: k.record.Name + "/" + catalog.ArchiveName}
	k.claim.UID = backupsUID
	k.volume = &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-2", Labels: steps.BackupLabels(s.Instance), Annotations: backup.PVAnnotations(s),
			Finalizers: []string{v1.Finalizer}}}
	k.volume.Spec.ClaimRef = steps.ReservedFor(home, k.claim.Name)
	k.volume.Spec.ClaimRef.UID = k.claim.UID
	noted(k)
	for _, c := range changes {
		c(k)
	}
	return k
}

// noted stores the metadata of the BackupRecord on the volume.
func noted(k *keepsake) {
	steps.SetAnnotation(k.volume, v1.AnnotationBackupPrefix+k.record.Name, catalog.EntryText(k.record))
}

func unnoted(k *keepsake) { delete(k.volume.Annotations, v1.AnnotationBackupPrefix+k.record.Name) }

func recordDeleted(k *keepsake) { k.record.DeletionTimestamp = &metav1.Time{Time: now} }

func recordGone(k *keepsake) { k.record = nil }

// mayRemove deletes the BackupRecord, with the annotation that also allows the deletion of the archive. The
// annotation contains the given UID.
func mayRemove(uid string) func(*keepsake) {
	return func(k *keepsake) {
		recordDeleted(k)
		steps.SetAnnotation(k.record, v1.AnnotationDeleteArchive, uid)
	}
}

func inRestoreTest(k *keepsake) { k.record.Status.RestoreTest = &v1.RestoreTest{ID: "turn"} }

func wants(word string) func(*keepsake) {
	return func(k *keepsake) { steps.SetAnnotation(k.volume, v1.AnnotationMakeRecord, word) }
}

func forgotten(uid string) func(*keepsake) {
	return func(k *keepsake) {
		steps.SetAnnotation(k.volume, v1.AnnotationForgetPrefix+running().Instance.RecordName(), uid)
	}
}

func recordPhase(p v1.BackupPhase) func(*keepsake) {
	return func(k *keepsake) { k.record.Status.Phase = p }
}

func neverVerified(k *keepsake) { k.record.Spec.Archive = nil }

// instances adds an existing instance with the name of the deleted one.
func instances(changes ...variation) func(*keepsake) {
	return func(k *keepsake) { k.instances = append(k.instances, running(changes...)) }
}

func erasing(changes ...func(*instance.Job)) func(*keepsake) {
	return func(k *keepsake) {
		k.job = catalog.RemovalJob(k.archives(), k.record, k.volume)
		for _, h := range changes {
			h(&instance.Job{Job: k.job})
		}
	}
}

func (k *keepsake) archives() *instance.Archives {
	var records []v1.BackupRecord
	if k.record != nil {
		records = append(records, *k.record)
	}
	a := instance.ArchivesOf(key(), records, []metav1.PartialObjectMetadata{{ObjectMeta: k.volume.ObjectMeta}})
	a.Volumes[0].Spec, a.Now, a.Instances, a.PVC, a.Erasing = k.volume.Spec, now, k.instances, k.claim, map[string]*instance.Job{}
	if k.restoring != "" {
		a.Restoring = map[string]string{k.record.Name: k.restoring}
	}
	if k.job != nil {
		a.Erasing[k.record.Name] = &instance.Job{Job: k.job}
	}
	return a
}

// TestNextOfArchives checks that deleting a BackupRecord deletes nothing else, unless an annotation on the
// BackupRecord allows it.
func TestNextOfArchives(t *testing.T) {
	other := func(uid types.UID, changes ...variation) func(*keepsake) {
		return instances(append(changes, func(s *instance.State) { s.XR.SetUID(uid); s.Instance.XR = uid })...)
	}
	restoring := func(k *keepsake) { k.restoring = "XMySQL later" }
	cases := map[string]struct {
		reason string
		given  []func(*keepsake)
		want   []steps.Action
		says   string
	}{
		"Rest": {reason: "All is as it should be."},
		"Deleted": {reason: "The record goes, and the archive stays.", given: []func(*keepsake){recordDeleted},
			want: []steps.Action{catalog.LetRecordGo}, says: "so its archive is kept"},
		"DeletedUnnoted": {reason: "Not before its volume knows of it.", given: []func(*keepsake){unnoted, recordDeleted},
			want: []steps.Action{catalog.StoreEntryOfRecord}},
		"DeletedUnproven": {reason: "What is not proven needs no note.",
			given: []func(*keepsake){unnoted, recordPhase(v1.BackupFailed), recordDeleted},
			want:  []steps.Action{catalog.LetRecordGo}},
		"DeletedInTest": {reason: "Only the record tells that the Job is ours.",
			given: []func(*keepsake){recordDeleted, inRestoreTest}, want: []steps.Action{steps.Wait}},
		"EraseInTest": {reason: "And the Job reads the archive.",
			given: []func(*keepsake){mayRemove("record"), inRestoreTest}, want: []steps.Action{steps.Wait}},
		"OtherUID": {reason: "A word about another record is none about this.",
			given: []func(*keepsake){mayRemove("another")}, want: []steps.Action{catalog.LetRecordGo}},
		"Unheld": {reason: "A deletion must be seen.",
			given: []func(*keepsake){func(k *keepsake) { k.record.Finalizers = nil }}, want: []steps.Action{catalog.ProtectRecord}},
		"Earlier release": {reason: "Its volume gets the note.", given: []func(*keepsake){unnoted},
			want: []steps.Action{catalog.StoreEntryOfRecord}},
		"Again": {reason: "The note names the record that there is.",
			given: []func(*keepsake){func(k *keepsake) { k.record.UID = "again" }}, want: []steps.Action{catalog.StoreEntryOfRecord}},
		"Unlabelled": {reason: "Without its volume nothing can be noted.",
			given: []func(*keepsake){unnoted, func(k *keepsake) { k.volume.Annotations = map[string]string{} }}},

		"Lost": {reason: "Nobody finishes it, and it holds the name.",
			given: []func(*keepsake){unnoted, recordPhase(v1.BackupRunning), neverVerified},
			want:  []steps.Action{catalog.ReportLost}, says: "If its data is lost: kubectl delete backuprecord"},
		"LostNote": {reason: "It was restored without its status and without its volume: what it says of its archive was " +
			"proven once.", given: []func(*keepsake){unnoted, recordPhase("")}, want: []steps.Action{catalog.ReportLost},
			says: "import its backups (kubectl mysql adopt)"},
		"LostTold": {reason: "Once.", given: []func(*keepsake){unnoted, recordPhase(v1.BackupRunning),
			func(k *keepsake) { k.record.Status.Message = catalog.WhyLost(k.record) }}},

		"ItsLife": {reason: "Its own life deals with it.", given: []func(*keepsake){unnoted, instances(dead)}},
		"ItsLifeWaits": {reason: "Also with its deletion.", given: []func(*keepsake){recordDeleted, instances(dead)},
			want: []steps.Action{steps.Wait}},
		"OtherLife": {reason: "Another life has nothing to do with it.",
			given: []func(*keepsake){recordDeleted, other("later")}, want: []steps.Action{catalog.LetRecordGo}},

		"Erase": {reason: "Its archive goes as it said.", given: []func(*keepsake){mayRemove("record")},
			want: []steps.Action{catalog.StartRemoval}},
		"EraseRuns": {reason: "It takes a moment.", given: []func(*keepsake){mayRemove("record"), erasing()},
			want: []steps.Action{steps.Wait}},
		"EraseDone": {reason: "What was kept for it goes then.",
			given: []func(*keepsake){mayRemove("record"), erasing(complete)}, want: []steps.Action{catalog.ArchiveRemoved}},
		"EraseFailed": {reason: "It says why.", given: []func(*keepsake){mayRemove("record"), erasing(failedAt(0, ""))},
			want: []steps.Action{catalog.ReportDelay}, says: "could not be deleted"},
		"EraseAgain": {reason: "And tries again.",
			given: []func(*keepsake){mayRemove("record"), erasing(failedAt(-time.Minute, ""))},
			want:  []steps.Action{catalog.RetryRemoval}},
		"EraseElse": {reason: "A Job counts for the volume that it wrote to.",
			given: []func(*keepsake){mayRemove("record"), erasing(complete),
				func(k *keepsake) { k.job.Annotations[v1.AnnotationRemoves] = "other/pv" }}, want: []steps.Action{
				catalog.RetryRemoval}},
		"EraseNoClaim": {reason: "No Job can get there.",
			given: []func(*keepsake){mayRemove("record"), func(k *keepsake) { k.claim = nil }},
			want:  []steps.Action{catalog.ReportDelay}, says: "does not exist. The controller creates it"},
		"EraseUnbound": {reason: "Nor there.",
			given: []func(*keepsake){mayRemove("record"), func(k *keepsake) { k.claim.UID = "new" }},
			want:  []steps.Action{catalog.ReportDelay}, says: "is not bound to volume"},
		"EraseLost": {reason: "Doubt is not absence.",
			given: []func(*keepsake){mayRemove("record"), func(k *keepsake) { k.volume.Annotations = map[string]string{} }},
			want:  []steps.Action{catalog.ReportDelay}, says: "Restore the volume"},
		"EraseOdd": {reason: "Nothing is removed but a folder of ours.",
			given: []func(*keepsake){mayRemove("record"), func(k *keepsake) {
				k.record.Spec.Archive.Path = "x/" + catalog.ArchiveName
				noted(k)
			}}, want: []steps.Action{catalog.ReportDelay}, says: "manually"},
		"EraseInUse": {reason: "What is being restored stays.", given: []func(*keepsake){mayRemove("record"), restoring},
			want: []steps.Action{catalog.ReportDelay}, says: "is being restored from it"},
		"EraseBeside": {reason: "An instance that runs does not need it.",
			given: []func(*keepsake){mayRemove("record"), other("later")}, want: []steps.Action{catalog.StartRemoval}},
		"EraseEmpty": {reason: "What was never proven has no archive.",
			given: []func(*keepsake){unnoted, recordPhase(v1.BackupPending), mayRemove("record")},
			want:  []steps.Action{catalog.LetRecordGo}},

		"Gone": {reason: "Nobody asks.", given: []func(*keepsake){recordGone}},
		"Asked": {reason: "By its name.", given: []func(*keepsake){wants(running().Instance.RecordName()), recordGone},
			want: []steps.Action{catalog.RemakeRecord}},
		"AskedForAll": {reason: "Or with all.", given: []func(*keepsake){wants(v1.MakeAllRecords), recordGone},
			want: []steps.Action{catalog.RemakeRecord}},
		"AskedOther": {reason: "There is no such backup.", given: []func(*keepsake){wants("other"), recordGone},
			want: []steps.Action{catalog.RemoveRequest}},
		"AskedMade": {reason: "It is proven next.", given: []func(*keepsake){wants(v1.MakeAllRecords), recordPhase("")},
			want: []steps.Action{catalog.VerifyRecord}},
		"AskedDone": {reason: "Then nobody asks any more.", given: []func(*keepsake){wants(v1.MakeAllRecords)},
			want: []steps.Action{catalog.RemoveRequest}},
		"AskedForgot": {reason: "What was forgotten can be remembered.",
			given: []func(*keepsake){wants(v1.MakeAllRecords), forgotten("record"), recordGone},
			want:  []steps.Action{catalog.RemakeRecord}},
		"WithoutState": {reason: "A record that was brought back without its status is what the note says.",
			given: []func(*keepsake){recordPhase("")}, want: []steps.Action{catalog.VerifyRecord}},
		"Unreadable": {reason: "Nobody can say what it was.", want: []steps.Action{catalog.RemoveRequest},
			given: []func(*keepsake){wants(v1.MakeAllRecords), recordGone, func(k *keepsake) {
				steps.SetAnnotation(k.volume, v1.AnnotationBackupPrefix+running().Instance.RecordName(), "{")
			}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			next := catalog.NextOfArchives(leaves(t, tc.given...).archives())
			got := make([]steps.Action, 0, len(next))
			var output strings.Builder
			for _, step := range next {
				got = append(got, step.Action)
				output.WriteString(step.Message)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" || !strings.Contains(output.String(), tc.says) {
				t.Errorf("%s\nmessage %q\n-want, +got:\n%s", tc.reason, output.String(), diff)
			}
		})
	}
}

// runOnArchives runs the controller until it has nothing to do.
func (w *world) runOnArchives(ctx context.Context, t *testing.T) error {
	t.Helper()
	for range 20 {
		w.turn(ctx, t)
		a, err := gathererFrom(w).Archives(ctx, key())
		if err != nil {
			return err
		}
		steps := catalog.NextOfArchives(a)
		var changes []change.Change
		for _, step := range steps {
			changes = append(changes, step.Changes...)
		}
		if err := w.apply(ctx, changes); err != nil {
			return err
		}
		if len(steps) == 0 {
			return nil
		}
	}
	return errors.New("it comes to no end")
}

// TestRecordDeleted crashes the controller before and after each write. If the annotation contains the UID of the
// BackupRecord, the archive, its metadata and the BackupRecord are deleted. Otherwise only the BackupRecord is
// deleted, and it can be created again.
func TestRecordDeleted(t *testing.T) {
	type left struct{ Record, Entry, Jobs, Asked bool }
	cases := map[string]struct {
		given []func(*keepsake)
		want  left
	}{
		"with the archive":    {given: []func(*keepsake){mayRemove("record")}},
		"without it":          {given: []func(*keepsake){recordDeleted}, want: left{Entry: true}},
		"of another":          {given: []func(*keepsake){mayRemove("another")}, want: left{Entry: true}},
		"of an older release": {given: []func(*keepsake){unnoted, recordDeleted}, want: left{Entry: true}},
		"and asked for": {given: []func(*keepsake){wants(v1.MakeAllRecords), recordGone},
			want: left{Record: true, Entry: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, after := range []bool{false, true} {
				for step, crashed := 1, true; crashed; step++ {
					ctx, k := context.Background(), leaves(t, tc.given...)
					objects := []client.Object{k.volume, k.claim, running().Namespace}
					if k.record != nil {
						objects = append(objects, k.record)
					}
					w := newWorldOf(t, step, after, objects)
					err := w.runOnArchives(ctx, t)
					if crashed = errors.Is(err, errCrash); crashed {
						err = w.runOnArchives(ctx, t)
					}
					if err != nil {
						t.Fatalf("crash at write %d (after it: %t): %v", step, after, err)
					}
					v, jobs := &corev1.PersistentVolume{}, &batchv1.JobList{}
					if err := errors.Join(w.Get(ctx, client.ObjectKey{Name: k.volume.Name}, v), w.List(ctx, jobs)); err != nil {
						t.Fatal(err)
					}
					name, r := running().Instance.RecordName(), &v1.BackupRecord{}
					rerr := w.Get(ctx, client.ObjectKey{Name: name}, r)
					got := left{
						Record: rerr == nil && r.IsVerified() && instance.HasFinalizer(r),
						Entry:  v.Annotations[v1.AnnotationBackupPrefix+name] != "",
						Jobs:   len(jobs.Items) > 0, Asked: v.Annotations[v1.AnnotationMakeRecord] != "",
					}
					if diff := cmp.Diff(tc.want, got); diff != "" || !got.Record && !kerrors.IsNotFound(rerr) {
						t.Fatalf("crash at write %d (after it: %t): record %v, -want, +left:\n%s", step, after, rerr, diff)
					}
				}
			}
		})
	}
}

// TestRemovalJob checks that the Job removes one directory and has access to nothing else.
func TestRemovalJob(t *testing.T) {
	k := leaves(t, mayRemove("record"))
	j := catalog.RemovalJob(k.archives(), k.record, k.volume)
	pod := j.Spec.Template.Spec
	if diff := cmp.Diff([]string{agent.Program, "prune", "--volume=/backup", "--dir=" + k.record.Name},
		pod.Containers[0].Command); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if len(pod.Volumes) != 1 || pod.Volumes[0].PersistentVolumeClaim.ClaimName != k.claim.Name ||
		*pod.AutomountServiceAccountToken {
		t.Errorf("want the backups' volume only, and no token, got %+v", pod)
	}
}
