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

// noted writes the catalog entry of the BackupRecord to the volume.
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
		"Rest": {reason: "There is nothing to do for a verified backup that the catalog contains."},
		"Deleted": {reason: "The BackupRecord must be deleted, and its archive must be kept.",
			given: []func(*keepsake){recordDeleted},
			want:  []steps.Action{catalog.LetRecordGo}, says: "so its archive is kept"},
		"DeletedUnnoted": {reason: "The catalog on the volume must contain the backup before the BackupRecord is deleted.",
			given: []func(*keepsake){unnoted, recordDeleted},
			want:  []steps.Action{catalog.StoreEntryOfRecord}},
		"DeletedUnproven": {reason: "An unverified backup needs no catalog entry.",
			given: []func(*keepsake){unnoted, recordPhase(v1.BackupFailed), recordDeleted},
			want:  []steps.Action{catalog.LetRecordGo}},
		"DeletedInTest": {reason: "The BackupRecord must stay until the Job of its restore test is deleted.",
			given: []func(*keepsake){recordDeleted, inRestoreTest}, want: []steps.Action{steps.Wait}},
		"EraseInTest": {reason: "The archive must stay while the Job of a restore test reads it.",
			given: []func(*keepsake){mayRemove("record"), inRestoreTest}, want: []steps.Action{steps.Wait}},
		"OtherUID": {reason: "An annotation with the UID of another BackupRecord must not delete the archive.",
			given: []func(*keepsake){mayRemove("another")}, want: []steps.Action{catalog.LetRecordGo}},
		"Unheld": {reason: "The BackupRecord must have a finalizer, so that the controller sees its deletion.",
			given: []func(*keepsake){func(k *keepsake) { k.record.Finalizers = nil }}, want: []steps.Action{catalog.ProtectRecord}},
		"Earlier release": {reason: "A backup of an earlier release must get a catalog entry on its volume.",
			given: []func(*keepsake){unnoted},
			want:  []steps.Action{catalog.StoreEntryOfRecord}},
		"Again": {reason: "The catalog entry must contain the UID of the BackupRecord that exists now.",
			given: []func(*keepsake){func(k *keepsake) { k.record.UID = "again" }}, want: []steps.Action{catalog.StoreEntryOfRecord}},
		"Unlabelled": {reason: "No catalog entry can be written if the volume of the backup is unknown.",
			given: []func(*keepsake){unnoted, func(k *keepsake) { k.volume.Annotations = map[string]string{} }}},

		"Lost": {reason: "An unfinished backup without an instance must be reported, because it blocks its name.",
			given: []func(*keepsake){unnoted, recordPhase(v1.BackupRunning), neverVerified},
			want:  []steps.Action{catalog.ReportLost}, says: "If its data is lost: kubectl delete backuprecord"},
		"LostNote": {reason: "A BackupRecord that was restored without its status and its volume must be reported.",
			given: []func(*keepsake){unnoted, recordPhase("")}, want: []steps.Action{catalog.ReportLost},
			says: "import its backups (kubectl mysql adopt)"},
		"LostTold": {reason: "The status already reports that the backup is lost.",
			given: []func(*keepsake){unnoted, recordPhase(v1.BackupRunning),
				func(k *keepsake) { k.record.Status.Message = catalog.WhyLost(k.record) }}},

		"ItsLife": {reason: "The reconcile of the existing instance handles the BackupRecord.",
			given: []func(*keepsake){unnoted, instances(dead)}},
		"ItsLifeWaits": {reason: "The reconcile of the existing instance also handles the deletion of the BackupRecord.",
			given: []func(*keepsake){recordDeleted, instances(dead)},
			want:  []steps.Action{steps.Wait}},
		"OtherLife": {reason: "An instance with another UID must not delay the deletion of the BackupRecord.",
			given: []func(*keepsake){recordDeleted, other("later")}, want: []steps.Action{catalog.LetRecordGo}},

		"Erase": {reason: "The archive must be deleted if the annotation contains the UID of the BackupRecord.",
			given: []func(*keepsake){mayRemove("record")},
			want:  []steps.Action{catalog.StartRemoval}},
		"EraseRuns": {reason: "The controller must wait until the Job has deleted the archive.",
			given: []func(*keepsake){mayRemove("record"), erasing()},
			want:  []steps.Action{steps.Wait}},
		"EraseDone": {reason: "The catalog entry and the BackupRecord must be deleted after the archive.",
			given: []func(*keepsake){mayRemove("record"), erasing(complete)}, want: []steps.Action{catalog.ArchiveRemoved}},
		"EraseFailed": {reason: "The BackupRecord must report why the archive could not be deleted.",
			given: []func(*keepsake){mayRemove("record"), erasing(failedAt(0, ""))},
			want:  []steps.Action{catalog.ReportDelay}, says: "could not be deleted"},
		"EraseAgain": {reason: "A failed deletion of the archive must be retried after a delay.",
			given: []func(*keepsake){mayRemove("record"), erasing(failedAt(-time.Minute, ""))},
			want:  []steps.Action{catalog.RetryRemoval}},
		"EraseElse": {reason: "A Job that used another volume does not prove that the archive is deleted.",
			given: []func(*keepsake){mayRemove("record"), erasing(complete),
				func(k *keepsake) { k.job.Annotations[v1.AnnotationRemoves] = "other/pv" }}, want: []steps.Action{
				catalog.RetryRemoval}},
		"EraseNoClaim": {reason: "No Job can delete the archive while the backup PVC does not exist.",
			given: []func(*keepsake){mayRemove("record"), func(k *keepsake) { k.claim = nil }},
			want:  []steps.Action{catalog.ReportDelay}, says: "does not exist. The controller creates it"},
		"EraseUnbound": {reason: "No Job can delete the archive while the backup PVC is not bound to its volume.",
			given: []func(*keepsake){mayRemove("record"), func(k *keepsake) { k.claim.UID = "new" }},
			want:  []steps.Action{catalog.ReportDelay}, says: "is not bound to volume"},
		"EraseLost": {reason: "A missing volume does not prove that the archive is deleted.",
			given: []func(*keepsake){mayRemove("record"), func(k *keepsake) { k.volume.Annotations = map[string]string{} }},
			want:  []steps.Action{catalog.ReportDelay}, says: "Restore the volume"},
		"EraseOdd": {reason: "An archive outside of the directory of its backup must not be deleted.",
			given: []func(*keepsake){mayRemove("record"), func(k *keepsake) {
				k.record.Spec.Archive.Path = "x/" + catalog.ArchiveName
				noted(k)
			}}, want: []steps.Action{catalog.ReportDelay}, says: "manually"},
		"EraseInUse": {reason: "An archive must not be deleted while an instance is being restored from it.",
			given: []func(*keepsake){mayRemove("record"), restoring},
			want:  []steps.Action{catalog.ReportDelay}, says: "is being restored from it"},
		"EraseBeside": {reason: "A running instance does not need the archive of an earlier instance.",
			given: []func(*keepsake){mayRemove("record"), other("later")}, want: []steps.Action{catalog.StartRemoval}},
		"EraseEmpty": {reason: "A backup that was never verified has no archive.",
			given: []func(*keepsake){unnoted, recordPhase(v1.BackupPending), mayRemove("record")},
			want:  []steps.Action{catalog.LetRecordGo}},

		"Gone": {reason: "No user has requested that the deleted BackupRecord is created again.",
			given: []func(*keepsake){recordGone}},
		"Asked": {reason: "A user has requested the BackupRecord by its name.",
			given: []func(*keepsake){wants(running().Instance.RecordName()), recordGone},
			want:  []steps.Action{catalog.RemakeRecord}},
		"AskedForAll": {reason: "A user has requested all BackupRecords of the volume.",
			given: []func(*keepsake){wants(v1.MakeAllRecords), recordGone},
			want:  []steps.Action{catalog.RemakeRecord}},
		"AskedOther": {reason: "A request for a backup that the volume does not contain must be removed.",
			given: []func(*keepsake){wants("other"), recordGone},
			want:  []steps.Action{catalog.RemoveRequest}},
		"AskedMade": {reason: "A BackupRecord that was created again must be marked as verified.",
			given: []func(*keepsake){wants(v1.MakeAllRecords), recordPhase("")},
			want:  []steps.Action{catalog.VerifyRecord}},
		"AskedDone": {reason: "The request must be removed when all requested BackupRecords are verified.",
			given: []func(*keepsake){wants(v1.MakeAllRecords)},
			want:  []steps.Action{catalog.RemoveRequest}},
		"AskedForgot": {reason: "A user can request the BackupRecord of a backup that was ignored before.",
			given: []func(*keepsake){wants(v1.MakeAllRecords), forgotten("record"), recordGone},
			want:  []steps.Action{catalog.RemakeRecord}},
		"WithoutState": {reason: "A BackupRecord without a status must be updated from its catalog entry.",
			given: []func(*keepsake){recordPhase("")}, want: []steps.Action{catalog.VerifyRecord}},
		"Unreadable": {reason: "A BackupRecord cannot be created from an unreadable catalog entry.",
			want: []steps.Action{catalog.RemoveRequest},
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
// BackupRecord, the archive, its catalog entry and the BackupRecord are deleted. Otherwise only the BackupRecord is
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
