package lifecycle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// toStore makes the instance write its backups to a store, so that it has no backup volume.
func toStore(s *instance.State) {
	s.XR.Status.BackupStore = modelStore
	s.BackupPVC, s.BackupPV = nil, nil
	s.DataPVC.Annotations[v1.AnnotationBackupStore], s.DataPV.Annotations[v1.AnnotationBackupStore] =
		modelStore, modelStore
}

// sent completes a Job, which has written its archive to a store and read it back.
func sent(j *instance.Job) {
	complete(j)
	j.Report.Archive, j.Report.Manifest = "k7v2m9xw4q.tar.zst.age", json.RawMessage(`{"format":1}`)
}

// runs adds a running pod to a Job.
func runs(j *instance.Job) {
	j.Pods = []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodRunning}}}
}

func storeDown(s *instance.State) { s.StoreFailure = "the store is down" }

// olderInStore adds the given number of earlier backups in a store.
func olderInStore(n int) variation {
	return func(s *instance.State) {
		older(n)(s)
		for i := range s.Records {
			if r := &s.Records[i]; strings.HasPrefix(r.Name, "old-") {
				r.Spec.Archive = &v1.Archive{Store: modelStore, Path: v1.StorePrefix(r.Spec.Instance, r.Name) + "/x.tar.zst"}
			}
		}
	}
}

func keepsTwo(s *instance.State) { s.XR.Spec.Backup.Retention.Count = new(int32(2)) }

// accessFor sets how long the backup Job still has access to the store.
func accessFor(left time.Duration) variation {
	return func(s *instance.State) { s.AccessUntil = s.Now.Add(left) }
}

// entryInStore adds the catalog entry of the instance's own backup, which this cluster has published.
func entryInStore(s *instance.State) {
	s.Record().UID = "of-ours"
	ownEntry(s)
	s.Entries[0].Volume, s.Entries[0].Store, s.Entries[0].AnnouncedAt = "", modelStore, metav1.NewTime(now)
	published(s)
}

// published adds the annotation that the controller writes before it publishes the catalog entry.
func published(s *instance.State) {
	s.Entries[0].Spec.Archive = &v1.Archive{Store: modelStore, SHA256: strings.Repeat("a", 64)}
	s.XR.SetAnnotations(map[string]string{v1.AnnotationPublished: s.Entries[0].PublishedArchive()})
}

// unwritten removes the annotation with the published archive.
func unwritten(s *instance.State) { s.XR.SetAnnotations(nil) }

// summed sets the checksum of the archive in the catalog entry.
func summed(sum string) variation {
	return func(s *instance.State) { s.Entries[0].Spec.Archive.SHA256 = sum }
}

// recordedThere makes the catalog entry name the BackupRecord of another cluster.
func recordedThere(s *instance.State) { s.Entries[0].Record = "of-theirs" }

// notedAgo sets how long ago the backup in the catalog entry started.
func notedAgo(ago time.Duration) variation {
	return func(s *instance.State) { s.Entries[0].AnnouncedAt = metav1.NewTime(now.Add(-ago)) }
}

// announcedBefore makes the catalog entry describe a backup from two days ago, with a different BackupRecord.
func announcedBefore(s *instance.State) {
	s.Entries[0].AnnouncedAt, s.Entries[0].Record = metav1.NewTime(now.Add(-48*time.Hour)), "of-then"
}

// sentAt adds a Job that has completed its upload to the store. ago is the time since the completion.
func sentAt(ago time.Duration) variation {
	return withJob(sent, func(j *instance.Job) {
		for i := range j.Status.Conditions {
			j.Status.Conditions[i].LastTransitionTime = metav1.NewTime(now.Add(-ago))
		}
		j.Status.CompletionTime = &metav1.Time{Time: now.Add(-ago)}
	})
}

// notThere marks the BackupRecord as failed, because the store did not contain the archive when the controller tried
// to publish the catalog entry.
func notThere(s *instance.State) {
	s.Record().Status.Phase, s.Record().Status.Message = v1.BackupFailed, "there is no "+backup.StorePrefix(s)+"/"+
		s.BackupJob.Report.Archive
}

// refusedAs records the given refusal of an action.
func refusedAs(action steps.Action, refusal instance.Refusal) variation {
	return func(s *instance.State) {
		refusal.Of = string(action)
		s.Refusal = &refusal
	}
}

func recordGoes(s *instance.State) { s.Records = nil }

// entryOfInstanceInStore adds the catalog entry of a backup of a running instance.
func entryOfInstanceInStore(s *instance.State) {
	s.Entries = []instance.Entry{{Name: s.Attempt().Record, Store: modelStore,
		BackupEntry: v1.BackupEntry{Record: "of-then", AnnouncedAt: metav1.NewTime(now)}}}
	s.Entries[0].Spec.Instance.XR, s.Entries[0].Spec.Request = s.Instance.XR, modelRequest
}

// restoresFrom adds a restore Job that waits for access to the given backup.
func restoresFrom(n *v1.StoreEntry) func(*instance.State) {
	return func(s *instance.State) {
		s.RestoreFrom = n
		s.RestoreTo = &instance.Job{Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "restore-db-job", UID: "job"}}}
	}
}

// TestNextInStore specifies the actions if backups are written to a store.
func TestNextInStore(t *testing.T) {
	from := &v1.StoreEntry{Name: "old-a",
		BackupEntry: v1.BackupEntry{Spec: v1.BackupRecordSpec{
			Archive: &v1.Archive{Store: modelStore, Path: "v1/a/b/old-a/x.tar.zst"}}}}
	report := func(change func(*agent.Report)) variation {
		return withJob(sent, func(j *instance.Job) { change(j.Report) })
	}
	other := func(s *instance.State) { s.Entries[0].Spec.Request = "of-then" }
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   steps.Action
		says   string
	}{
		"Quiet": {reason: "An instance that backs up to a store must not get a backup volume.",
			state: running(toStore), want: steps.NoOp},
		"Before": {reason: "A volume with earlier backups must get a PVC, because an instance may be restored from it.",
			state: running(backupsBound, func(s *instance.State) { v := s.BackupPV; toStore(s); s.BackupPV = v }),
			want:  steps.CreateBackupPVC},
		"VolumeStays": {reason: "The earlier backup PVC must not be expanded, because new backups are written to the store.",
			state: running(func(s *instance.State) { c := s.BackupPVC; toStore(s); s.BackupPVC = c }, larger), want: steps.NoOp},
		"Back": {reason: "The backups are written to a volume again, so the backup PVC must be created.",
			state: running(func(s *instance.State) { s.BackupPVC = nil }), want: steps.CreateBackupPVC},
		"Told": {reason: "The data volume must record the store, because the claim and the XR may be deleted.",
			state: running(toStore, func(s *instance.State) { delete(s.DataPV.Annotations, v1.AnnotationBackupStore) }),
			want:  steps.RetainDataPV},
		"Looks": {reason: "The function waits until the status contains the previous backup.",
			state: running(toStore, beginning), want: steps.RecordPreviousBackup},
		"Unknown": {reason: "The store may contain a backup, so the status must report that it cannot be read.",
			state: running(toStore, beginning, storeDown, func(s *instance.State) { s.PodFailure = "x" }),
			want:  steps.ReportPodFailure},
		"UnknownStill": {reason: "The store may contain a backup, so the controller must try to read it again.",
			state: running(toStore, beginning, storeDown, func(s *instance.State) { s.PodFailure = "x" },
				blocked(v1.ReasonStoreFailed, "x")), want: steps.Wait},
		"Access": {reason: "The restore Job waits for access to the store.", state: running(toStore, restoresFrom(from)),
			want: steps.GiveRestoreAccess},

		"Sends": {reason: "The server is stopped, so its data must be copied to the store.",
			state: fenced(toStore), want: steps.CreateBackupJob,
			says: "BackupStore offsite"},
		"Down": {reason: "It is unknown which backups the store contains, so the deletion must wait.",
			state: fenced(toStore, storeDown), want: steps.Wait,
			says: "the store is down"},
		"DownRunning": {reason: "A running Job retries by itself, so the deletion must wait for it.",
			state: fenced(toStore, storeDown, phase(v1.BackupRunning), withJob(runs)), want: steps.Wait,
			says: "Backing up the data"},
		"Renews": {reason: "The access of the Job to the store must be renewed after half of its lifetime.",
			state: fenced(toStore, phase(v1.BackupRunning), withJob(runs), accessFor(time.Hour-time.Second)),
			want:  steps.RenewAccess, says: "Backing up the data"},
		"RenewsNot": {reason: "The access of the Job to the store must not be renewed during the first half of its lifetime.",
			state: fenced(toStore, phase(v1.BackupRunning), withJob(runs), accessFor(time.Hour)), want: steps.Wait},
		"RenewsEnded": {reason: "The Job is finished, so its access to the store must not be renewed.",
			state: fenced(toStore, withJob(sent), accessFor(time.Minute)), want: steps.RecordBackup},
		"DownSent": {reason: "The store may already contain the catalog entry, so the controller must read it first.",
			state: fenced(toStore, storeDown, withJob(sent)), want: steps.Wait, says: "the store is down"},
		"Sent": {reason: "The Job has read the archive back, so the backup must be recorded.",
			state: fenced(toStore, withJob(sent)), want: steps.RecordBackup},
		"Unpublished": {reason: "The message must report that the store does not respond.",
			state: fenced(toStore, withJob(sent),
				refusedAs(steps.RecordBackup, instance.Refusal{Message: "timeout",
					Passing: true})), want: steps.RecordBackup, says: "the controller cannot record the backup yet: timeout"},
		"Missing": {reason: "The store does not contain the archive, so the backup must be marked as failed.",
			state: fenced(toStore, withJob(sent),
				refusedAs(steps.RecordBackup, instance.Refusal{Message: "there is none",
					Missing: true})), want: steps.MarkFailed, says: "there is none"},
		"MissingWait": {reason: "The backup must be retried after a delay, because the gateway may not see the archive yet.",
			state: fenced(toStore, sentAt(0), notThere), want: steps.Wait, says: "is retried: there is no v1/"},
		"MissingAgain": {reason: "A backup whose archive is missing in the store must be taken again.",
			state: fenced(toStore, sentAt(time.Hour), notThere), want: steps.DeleteObjects, says: "No data is lost"},
		"MissingOther": {reason: "The failure in the BackupRecord belongs to the archive of an earlier attempt.",
			state: fenced(toStore, withJob(sent), failedForRoom), want: steps.RecordBackup},
		"MissingLife": {reason: "If the archive of a cold backup is missing, the backup must end, so that the server starts.",
			state: running(begun(v1.BackupRunning, time.Minute), toStore, withJob(sent),
				refusedAs(steps.RecordBackup, instance.Refusal{Message: "there is none",
					Missing: true})), want: steps.GiveUpBackup, says: "there is none"},
		"MissingOnline": {reason: "If the archive of an online backup is missing, the backup must end, so that others can start.",
			state: running(begun(v1.BackupRunning, time.Minute), toStore, online, withJob(sent),
				refusedAs(steps.RecordBackup, instance.Refusal{Message: "there is none",
					Missing: true})), want: steps.GiveUpBackup, says: "there is none"},
		"NoGateway": {reason: "The message must report that there is no backup gateway.",
			state: fenced(toStore, refusedAs(steps.CreateBackupJob, instance.Refusal{Message: "no gateway", Passing: true})),
			want:  steps.CreateBackupJob, says: "BackupStore offsite: no gateway"},
		"Failed": {reason: "A backup to a store must be marked as failed before it is retried.",
			state: fenced(toStore, withJob(failedAt(0, "no way"))), want: steps.MarkFailed, says: "no way"},
		"Full": {reason: "There is no backup volume that could be expanded.",
			state: fenced(toStore, withJob(failedAt(0, "full"), lacks(1<<30))), want: steps.MarkFailed, says: "full"},
		"NoManifest": {reason: "An archive without a manifest cannot be restored, so it does not verify the backup.",
			state: fenced(toStore, report(func(r *agent.Report) { r.Manifest = nil })), want: steps.MarkFailed,
			says: "does not describe a verified archive"},
		"NoJSON": {reason: "A manifest that is not JSON was not written by a backup Job.",
			state: fenced(toStore, report(func(r *agent.Report) { r.Manifest = []byte("{") })), want: steps.MarkFailed,
			says: "does not describe a verified archive"},
		"Endless": {reason: "A manifest that exceeds the maximum size must be refused.",
			state: fenced(toStore, report(func(r *agent.Report) {
				r.Manifest = []byte(`"` + strings.Repeat("x", agent.MaxManifest) + `"`)
			})), want: steps.MarkFailed, says: "does not describe a verified archive"},
		"OddName": {reason: "An archive name that leads out of the prefix of the backup must be refused.",
			state: fenced(toStore, report(func(r *agent.Report) { r.Archive = "../x.tar.zst" })), want: steps.MarkFailed,
			says: "does not describe a verified archive"},
		"VolumesName": {reason: "The archive name of a backup on a volume must be refused for a backup in a store.",
			state: fenced(toStore, withJob(complete)), want: steps.MarkFailed, says: "does not describe a verified archive"},
		"StoresName": {reason: "The archive name of a backup in a store must be refused for a backup on a volume.",
			state: fenced(withJob(sent)), want: steps.MarkFailed, says: "does not describe a verified archive"},
		"Proves": {reason: "The store contains the catalog entry, so the BackupRecord must be marked as verified.",
			state: fenced(toStore, entryInStore), want: steps.MarkVerified},
		"Remakes": {reason: "A deleted BackupRecord must be created again from the catalog entry in the store.",
			state: fenced(toStore, entryInStore, recordGoes), want: steps.RecreateBackup},
		"RemakesSkew": {reason: "A catalog entry that is slightly older than the deletion is accepted, because clocks differ.",
			state: fenced(toStore, entryInStore, recordGoes, notedAgo(90*time.Second)), want: steps.RecreateBackup},
		"SetBack": {reason: "A backup from before the restore of the cluster does not contain later writes.",
			state: fenced(toStore, entryInStore, recordGoes, announcedBefore), want: steps.Wait, says: "Move the directory v1/"},
		"SetBackLate": {reason: "An older backup in the store must also be found if the store was down at first.",
			state: fenced(toStore, entryInStore, announcedBefore), want: steps.Wait, says: "the cluster was restored from an earlier state"},
		"SetBackSent": {
			reason: "A new backup is not published while the store contains an older backup with the same name.",
			state:  fenced(toStore, withJob(sent), entryInStore, announcedBefore), want: steps.Wait,
			says: "the cluster was restored from an earlier state"},
		"SetBackSkip": {reason: "A user can skip the backup, even if the store contains an older backup.",
			state: fenced(toStore, entryInStore, recordGoes, announcedBefore, skip(xrUID)), want: steps.ReleaseDataPV},
		"RemakesLater": {reason: "The catalog entry is from this cluster, even if its time is wrong because a clock was behind.",
			state: fenced(toStore, entryInStore, recordGoes, notedAgo(48*time.Hour)), want: steps.RecreateBackup},
		"InLife": {reason: "A catalog entry with this number exists without a BackupRecord, so the number must be skipped.",
			state: running(answered(v1.LastBackupRunning), toStore, online, entryOfInstanceInStore), want: steps.SkipNumber},
		"LifeBack": {reason: "The catalog entry with this number belongs to another request, so the number must be skipped.",
			state: running(answered(v1.LastBackupRunning), toStore, online, entryOfInstanceInStore, other),
			want:  steps.SkipNumber},
		"LifeBackJob": {reason: "A Job with the skipped number must be deleted, because the next backup would use its result.",
			state: running(answered(v1.LastBackupRunning), toStore, online, entryOfInstanceInStore, other, withJob(sent)),
			want:  steps.DeleteObjects},
		"LifeBackLate": {reason: "A BackupRecord must be deleted if the store already contains a backup with its number.",
			state: running(begun(v1.BackupRunning, time.Minute), toStore, online, entryOfInstanceInStore, other),
			want:  steps.DeleteUnprovenBackup},
		"LifeBackOwn": {reason: "The catalog entry belongs to this BackupRecord, so the backup must be marked as verified.",
			state: running(begun(v1.BackupRunning, time.Minute), toStore, online, entryOfInstanceInStore,
				func(s *instance.State) { s.Entries[0].Record = s.Record().UID }, published), want: steps.MarkVerified},
		"LifeDown": {reason: "It is unknown whether the backup number is free while the store cannot be read.",
			state: running(answered(v1.LastBackupRunning), toStore, online, storeDown), want: steps.Wait,
			says: "the store is down"},
		"ImageBack": {reason: "The catalog entry may belong to an earlier image change, so its number must be skipped.",
			state: running(announced(v1.BackupRunning), toStore, entryOfInstanceInStore, recordGoes), want: steps.SkipNumber},
		"ImageBackLate": {reason: "The catalog entry may belong to an earlier image change, so the BackupRecord must be deleted.",
			state: running(announced(v1.BackupRunning), toStore, entryOfInstanceInStore), want: steps.DeleteUnprovenBackup},
		"Releases": {reason: "The data must be released after the BackupRecord is marked as verified.",
			state: fenced(toStore, entryInStore, phase(v1.BackupVerified)), want: steps.ReleaseDataPV},
		"Condemns": {reason: "Expired backups in the store must be marked for deletion.",
			state: fenced(toStore, entryInStore, phase(v1.BackupVerified), olderInStore(3), keepsTwo), want: steps.MarkForRemoval},
		"Condemned": {reason: "The deletion must not wait until expired backups are deleted from the store.",
			state: fenced(toStore, entryInStore, phase(v1.BackupVerified), olderInStore(3), keepsTwo, markedForRemoval),
			want:  steps.ReleaseDataPV},
		"Elsewhere": {reason: "The backups on a volume do not count for the retention in a store.",
			state: fenced(toStore, entryInStore, phase(v1.BackupVerified), older(3), keepsTwo), want: steps.ReleaseDataPV},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			step := Next(tc.state)
			if step.Action != tc.want || !strings.Contains(step.Message, tc.says) {
				t.Errorf("%s want %s, %q, got %s, %q", tc.reason, tc.want, tc.says, step.Action, step.Message)
			}
		})
	}
}

// TestForeignEntry checks two clusters with the same etcd data and the same store, for example in a disaster recovery
// drill. They have the same names and UIDs, and delete their instances at the same time. Neither cluster accepts the
// catalog entry of the other, even if its own BackupRecord is incomplete. Both keep their data.
func TestForeignEntry(t *testing.T) {
	other := summed(strings.Repeat("b", 64))
	for name, tc := range map[string]struct {
		reason string
		state  *instance.State
		want   steps.Action
		says   string
	}{
		"NotBegun": {reason: "The catalog entry of another cluster must be refused before this cluster has created a Job.",
			state: fenced(toStore, entryInStore, unwritten, other, recordedThere), want: steps.Wait, says: "Another cluster"},
		"Copies": {reason: "The catalog entry of another cluster must be refused while the backup Job is running.",
			state: fenced(toStore, withJob(runs), entryInStore, unwritten, other, recordedThere), want: steps.Wait,
			says: "Another cluster"},
		"Later": {reason: "The catalog entry of another cluster must be refused, even if it is newer than this backup.",
			state: fenced(toStore, withJob(runs), entryInStore, unwritten, other, recordedThere, notedAgo(-10*time.Minute)),
			want:  steps.Wait, says: "Another cluster"},
		"ReadBack": {reason: "The catalog entry of another cluster must be refused, even if the backup Job is complete.",
			state: fenced(toStore, withJob(sent), entryInStore, unwritten, other, recordedThere), want: steps.Wait,
			says: "Another cluster"},
		"SameRecord": {reason: "The cluster was copied during the deletion, so both clusters have the same BackupRecord.",
			state: fenced(toStore, entryInStore, unwritten, other), want: steps.Wait, says: "Another cluster"},
		"SameRecordJob": {reason: "The checksum in the catalog entry differs from the one that the Job has reported.",
			state: fenced(toStore, withJob(sent), entryInStore, unwritten, other), want: steps.Wait, says: "Another cluster"},
		"SameRecordOld": {reason: "The Job's checksum proves the entry, because earlier releases did not write the annotation.",
			state: fenced(toStore, withJob(sent), entryInStore, unwritten), want: steps.MarkVerified},
		"OtherSum": {reason: "The annotation of the XR names a different archive than the catalog entry.",
			state: fenced(toStore, entryInStore, other), want: steps.Wait, says: "Another cluster"},
		"NoRecord": {reason: "Neither a BackupRecord nor an annotation of this cluster names the catalog entry.",
			state: fenced(toStore, entryInStore, unwritten, recordGoes), want: steps.Wait, says: "Another cluster"},
		"Orphan": {reason: "The XR does not exist, and the volume does not name the published archive.",
			state: fenced(toStore, entryInStore, unwritten, recordGoes, orphaned), want: steps.Wait, says: "Another cluster"},
		"OrphanOwn": {reason: "The annotation of the volume names the published archive.",
			state: fenced(toStore, entryInStore, recordGoes, onVolume, orphaned), want: steps.RecreateBackup},
		"InLife": {reason: "A backup of a running instance must be discarded, and taken again with the next number.",
			state: running(begun(v1.BackupRunning, time.Minute), toStore, online, entryOfInstanceInStore,
				func(s *instance.State) { s.Entries[0].Record = s.Record().UID }), want: steps.DeleteUnprovenBackup},
	} {
		t.Run(name, func(t *testing.T) {
			step := Next(tc.state)
			if step.Action != tc.want || !strings.Contains(step.Message, tc.says) {
				t.Errorf("%s want %s, %q, got %s, %q", tc.reason, tc.want, tc.says, step.Action, step.Message)
			}
			for _, c := range step.Changes {
				if tc.want == steps.Wait && c.Remote != nil {
					t.Errorf("it does %s in the store", c.Verb)
				}
			}
		})
	}
}

// onVolume adds the annotation with the published archive to the data volume.
func onVolume(s *instance.State) {
	s.DataPV.Annotations[v1.AnnotationPublished] = s.Entries[0].PublishedArchive()
}

// markedForRemoval deletes the BackupRecords of the earlier backups.
func markedForRemoval(s *instance.State) {
	for i := range s.Records {
		if strings.HasPrefix(s.Records[i].Name, "old-") {
			s.Records[i].DeletionTimestamp = &metav1.Time{Time: now}
		}
	}
}

// TestStoreChanges checks what the controller writes, and in which order.
func TestStoreChanges(t *testing.T) {
	verbs := func(changes []change.Change) string {
		var out []string
		for _, c := range changes {
			if c.Remote != nil || c.Verb != change.PatchStatus || kindOf(c.Object) == v1.KindBackupRecord {
				out = append(out, string(c.Verb)+" "+kindOf(c.Object))
			}
		}
		return strings.Join(out, ", ")
	}
	remote := func(changes []change.Change) change.Remote {
		for _, c := range changes {
			if c.Remote != nil {
				return *c.Remote
			}
		}
		return change.Remote{}
	}
	begins := Next(fenced(toStore))
	if got := verbs(begins.Changes); got != "GiveAccess Secret, Create Job" {
		t.Errorf("no Job is made before its way is there, got %s", got)
	}
	dir := "v1/ns/" + xrUID + "/" + fenced().Attempt().Record
	if r := remote(begins.Changes); r.Store != modelStore || r.Prefix != dir || r.Archive != "" {
		t.Errorf("a backup may write %+v", r)
	}
	completed := metav1.NewTime(now.Add(-time.Minute).Truncate(time.Second))
	manifest := fmt.Sprintf(`{"format":1,"finishedAt":%q}`, completed.UTC().Format(time.RFC3339Nano))
	publishes := Next(fenced(toStore, withJob(sent, func(j *instance.Job) { j.Report.Manifest = json.RawMessage(manifest) })))
	want := "Patch XMySQL, Patch PersistentVolume, Patch PersistentVolumeClaim, Publish BackupRecord"
	if r := remote(publishes.Changes); verbs(publishes.Changes) != want ||
		r.Entry.Spec.Archive.Path != dir+"/k7v2m9xw4q.tar.zst.age" || r.Entry.Spec.Archive.PVCName != "" ||
		string(r.Entry.Manifest) != manifest || !completed.Equal(r.Entry.Spec.CompletedAt) {
		t.Errorf("got %s, %+v", verbs(publishes.Changes), r)
	}
	if got := verbs(Next(fenced(toStore, entryInStore)).
		Changes); got != "Tidy BackupRecord, Patch BackupRecord, PatchStatus BackupRecord" {
		t.Errorf("what other attempts left goes first, got %s", got)
	}
	if got := verbs(Next(fenced(toStore, entryInStore, phase(v1.BackupVerified), olderInStore(3), keepsTwo)).
		Changes); got != "Patch BackupRecord, Delete BackupRecord" {
		t.Errorf("a record says that its archive may go before it goes, got %s", got)
	}
}

// TestArchivesInStore checks BackupRecords whose archives are in a store.
func TestArchivesInStore(t *testing.T) {
	inStore := func(k *keepsake) {
		k.record.Spec.Instance.NamespaceUID = "ns"
		k.record.Spec.Archive = &v1.Archive{Store: modelStore, Path: v1.StorePrefix(k.record.Spec.Instance, k.record.Name) +
			"/x.tar.zst"}
	}
	dying := func(k *keepsake) {
		k.record.DeletionTimestamp, k.record.Finalizers = &metav1.Time{Time: now}, []string{v1.Finalizer}
	}
	mayGo := func(k *keepsake) {
		k.record.Annotations = map[string]string{v1.AnnotationDeleteArchive: string(k.record.UID)}
	}
	unproven := func(k *keepsake) { k.record.Status.Phase = "" }
	unasked := func(k *keepsake) { k.unasked = true }
	for name, tc := range map[string]struct {
		reason  string
		changes []func(*keepsake)
		want    steps.Action
		says    string
	}{
		"Quiet": {reason: "A verified backup in a store needs no change.", changes: []func(*keepsake){inStore}},
		"Deleted": {reason: "The archive must be kept if only the BackupRecord is deleted.",
			changes: []func(*keepsake){inStore, dying}, want: catalog.LetRecordGo},
		"Erased": {reason: "A user has allowed the deletion of the archive.",
			changes: []func(*keepsake){inStore, dying, mayGo}, want: catalog.RemoveFromStore},
		"Odd": {reason: "An archive outside of the prefix of its backup must not be deleted.",
			changes: []func(*keepsake){inStore, dying, mayGo, func(k *keepsake) {
				k.record.Spec.Archive.Path = "v1/ns/other/one/x.tar.zst"
			}}, want: catalog.ReportDelay, says: "Delete the archive manually"},
		"Lost": {reason: "A BackupRecord without a status and without a catalog entry must be reported as lost.",
			changes: []func(*keepsake){inStore, unproven}, want: catalog.ReportLost,
			says: "BackupStore offsite has no catalog entry for it"},
		"LostTold": {reason: "A lost backup must be checked again, because its files may be restored to the store.",
			changes: []func(*keepsake){inStore, unproven, func(k *keepsake) {
				k.record.Status.Message = catalog.WhyLost(k.record)
			}}, want: steps.Wait},
		"Unasked": {reason: "A store that cannot be read does not prove that the backup is lost.",
			changes: []func(*keepsake){inStore, unproven, unasked}, want: catalog.ReportLost, says: "The controller retries"},
		"UnaskedTold": {reason: "The status already reports that the store cannot be read, so the controller must retry.",
			changes: []func(*keepsake){inStore, unproven, unasked, func(k *keepsake) {
				k.record.Status.Message = catalog.ReportUnrequested(k.record).Message
			}}, want: steps.Wait},
		"UnaskedDeleted": {reason: "A deletion of only the BackupRecord must not wait until the store can be read.",
			changes: []func(*keepsake){inStore, unproven, unasked, dying}, want: catalog.LetRecordGo},
		"UnaskedErased": {reason: "A deletion that includes the archive must wait until the store can be read.",
			changes: []func(*keepsake){inStore, unproven, unasked, dying, mayGo}, want: catalog.ReportDelay,
			says: "it is unknown whether the archive exists"},
	} {
		t.Run(name, func(t *testing.T) {
			k := leaves(t, append(tc.changes, func(k *keepsake) {
				k.volume, k.claim = nil, nil
				k.record.Finalizers = []string{v1.Finalizer}
			})...)
			a := &instance.Archives{Instance: key().Instance(""), Now: now, Records: []v1.BackupRecord{*k.record},
				Unasked: map[string]bool{k.record.Name: k.unasked}}
			steps := catalog.NextOfArchives(a)
			if tc.want == "" && len(steps) > 0 || tc.want != "" &&
				(len(steps) != 1 || steps[0].Action != tc.want || !strings.Contains(steps[0].Message, tc.says)) {
				t.Fatalf("%s want %s, %q, got %+v", tc.reason, tc.want, tc.says, steps)
			}
			if tc.want == catalog.RemoveFromStore {
				if c := steps[0].Changes; len(c) != 2 || c[0].Verb != change.Remove || c[0].Remote.Store != modelStore ||
					c[1].Verb != change.Patch {
					t.Errorf("the archive goes before the record, got %+v", c)
				}
			}
		})
	}
}

// TestDiscardAttempts checks the archive of a backup that will never be verified. It is deleted with its BackupRecord
// after its Job is finished, and no other operation waits for that.
func TestDiscardAttempts(t *testing.T) {
	going := func(s *instance.State) {
		s.Records[0].DeletionTimestamp = &metav1.Time{Time: now}
		s.Records[0].Finalizers = []string{v1.Finalizer}
	}
	failed := running(begun(v1.BackupRunning, time.Minute), toStore, online, failing, going)
	job := fenced(inInstance(v1.BackupRunning), answered(v1.LastBackupRunning), toStore, func(s *instance.State) {
		s.MisplacedJobs = []client.Object{
			&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "request-db-job", DeletionTimestamp: &metav1.Time{Time: now}}}}
	})
	if got := Next(job); got.Action == steps.DeleteUnprovenBackup {
		t.Error("a Job that ends may still send something")
	}
	job.MisplacedJobs = nil
	if got := Next(job); got.Action != steps.DeleteUnprovenBackup {
		t.Errorf("want what was begun before to go, got %s", got.Action)
	}
	got := Next(failed)
	if got.Action != steps.DeleteUnprovenBackup ||
		!slices.Equal(verbs(got), []change.Verb{change.RemoveAttempts, change.Patch}) {
		t.Fatalf("%s does %v", got.Action, verbs(got))
	}
	if first := got.Changes[0]; !first.MayFail || first.Remote.Record != failed.Records[0].Name ||
		first.Remote.Store != modelStore || first.Remote.Instance != failed.BackedUp() {
		t.Errorf("it discards %+v", first.Remote)
	}
}
