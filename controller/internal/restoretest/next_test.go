package restoretest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

const (
	xrUID = "6f9b3a52-6f6a-4d0f-9a35-0c5d3d1c7b11"
	nsUID = "ns"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type given func(*State)

// agentImage is the image of Jobs.
const agentImage = "ghcr.io/crossplane-mysql/crossplane-mysql:v0.1.0"

// verified returns a state with a verified backup that has not been tested. The instance of the backup no longer
// exists.
func verified(changes ...given) *State {
	instanceID := v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "db", XR: xrUID}
	record := instanceID.RecordName()
	s := &State{Now: now, AtOnce: 2, NewTurn: "new", AgentImage: agentImage, Record: &v1.BackupRecord{
		ObjectMeta: metav1.ObjectMeta{Name: record, CreationTimestamp: metav1.Time{Time: now.Add(-time.Hour)}},
		Spec: v1.BackupRecordSpec{
			Instance: v1.BackedUpInstance{Kind: instanceID.Kind, Namespace: "default", NamespaceUID: nsUID, Name: "db", XR: xrUID},
			Image:    "mysql:8.4", Version: "8.4.6", CleanShutdown: true,
			Archive: &v1.Archive{PVCName: instanceID.BackupPVCName(), Path: record + "/data.tar.zst", SHA256: strings.Repeat("a", 64),
				DataBytes: 1 << 30},
		},
		Status: v1.BackupRecordStatus{Phase: v1.BackupVerified},
	}}
	home := instance.NewState(instance.Subject{
		Now: now, Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{UID: nsUID}},
	})
	home.BackupPVC = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: instanceID.BackupPVCName(), UID: "backups"},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	s.Attempt = &Attempt{
		Home:   home,
		Volume: &corev1.PersistentVolume{}, Reports: map[string]agent.Report{},
	}
	for _, c := range changes {
		c(s)
	}
	return s
}

// inStore moves the backup to a store.
func inStore(s *State) {
	a := &v1.Archive{Store: "offsite", Path: "v1/ns/xr/" + s.Record.Name + "/abcdefghij.tar.zst.age",
		SHA256: strings.Repeat("a", 64), DataBytes: 1 << 30}
	s.Record.Spec.Archive, s.Record.Spec.StorageClass, s.Record.Spec.StorageSize = a, "fast", "1Gi"
	s.Entry = &v1.StoreEntry{Name: s.Record.Name, BackupEntry: s.Record.Entry(), Manifest: json.RawMessage(`{"format":1}`)}
	s.Volume, s.Home.BackupPVC = nil, nil
}

// granted adds the Secret that gives the Job access to the store.
func granted(s *State) {
	s.Access = &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-restoretest-access", UID: "access"}}
}

func storeFails(s *State) { s.StoreFailure = "BackupStore offsite: it is down" }

func noEntry(s *State) { s.Entry = nil }

func entryOfAnother(s *State) {
	n := *s.Entry
	n.Spec = *n.Spec.DeepCopy()
	n.Spec.Archive.SHA256 = "other"
	s.Entry = &n
}

// dying adds the instance of the backup, whose deletion waits for the restore test.
func dying(s *State) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetUID(types.UID(xrUID))
	u.SetDeletionTimestamp(&metav1.Time{Time: now})
	s.Home.XR, s.Home.Instance = &instance.Composite{Unstructured: u}, s.Record.Spec.Instance.Instance()
}

// inInstance makes the backup one of a running instance whose server accepts clients. The backup is in a store.
func inInstance(s *State) {
	s.Record.Name = s.Record.Spec.Instance.Instance().NumberedRecordName(1)
	s.Record.Spec.Origin = v1.OriginRequest
	inStore(s)
	dying(s)
	s.Home.XR.SetDeletionTimestamp(nil)
	s.Home.XR.Conditions = []metav1.Condition{{Type: v1.ConditionServing, Status: metav1.ConditionTrue}}
}

// away makes the server accept no clients. ago is the time for which it has not accepted them.
func away(ago time.Duration) given {
	return func(s *State) {
		s.Home.XR.Conditions[0].Status, s.Home.XR.Conditions[0].LastTransitionTime = metav1.ConditionFalse, metav1.Time{
			Time: now.Add(-ago)}
	}
}

// backupFor adds another backup that is running, with or without a Job. ago is the time since its start.
func backupFor(ago time.Duration, job *instance.Job) given {
	return func(s *State) {
		s.Home.XR.Status.ScheduledBackup = &v1.LastBackupStatus{Phase: v1.LastBackupRunning, Method: v1.MethodOnline,
			BegunAt: metav1.Time{Time: now.Add(-ago)}}
		s.Home.BackupJob = job
	}
}

// podIn returns a Job with a pod in the given phase.
func podIn(phase corev1.PodPhase) *instance.Job {
	return &instance.Job{Pods: []corev1.Pod{{Status: corev1.PodStatus{Phase: phase}}}}
}

// ending deletes the instance, which has no final backup yet.
func ending(s *State) { s.Home.XR.SetDeletionTimestamp(&metav1.Time{Time: now}) }

// planned makes the backup a scheduled one. Another backup of the instance has the given test result. ago is the time
// since that result.
func planned(status metav1.ConditionStatus, ago time.Duration) given {
	return func(s *State) {
		s.Record.Spec.Origin = v1.OriginSchedule
		s.Siblings = []v1.BackupRecord{
			{ObjectMeta: metav1.ObjectMeta{Name: "earlier"},
				Status: v1.BackupRecordStatus{Phase: v1.BackupVerified, Conditions: []metav1.Condition{
					{Type: v1.ConditionRestorable, Status: status, LastTransitionTime: metav1.Time{Time: now.Add(-ago)}},
				}}}}
	}
}

func required(s *State) {
	s.Home.XR.Spec.Backup.FinalBackup = &v1.FinalBackup{RequireRestoreTest: new(true)}
}

func verdict(status metav1.ConditionStatus, ago time.Duration) given {
	return func(s *State) {
		s.Record.Status.Conditions = []metav1.Condition{
			{Type: v1.ConditionRestorable, Status: status, LastTransitionTime: metav1.Time{Time: now.Add(-ago)}}}
	}
}

// turn adds a restore test to the BackupRecord. job is the UID of its Job, or "" if the Job does not exist yet.
func turn(job types.UID) given {
	return func(s *State) {
		s.Record.Status.RestoreTest = &v1.RestoreTest{ID: "turn", Job: job,
			StartTime: metav1.Time{Time: now.Add(-time.Minute)}}
	}
}

// concluded marks the restore test in the BackupRecord as finished.
func concluded(s *State) { s.Record.Status.RestoreTest.Concluded = true }

// jobFrom adds the Job of the restore test in the BackupRecord. ago is the time since the creation of the Job.
func jobFrom(ago time.Duration) given {
	return func(s *State) {
		strangerFrom(ago)(s)
		turn("job")(s)
	}
}

// unnamedJob adds the Job of the restore test, but the BackupRecord does not contain the UID of the Job yet.
func unnamedJob(s *State) {
	strangerFrom(0)(s)
	turn("")(s)
	s.Job.Annotations = map[string]string{v1.AnnotationRestoreTest: "turn"}
}

// strangerFrom adds a Job with everything that a tenant can write. No BackupRecord contains its UID. ago is the time
// since its creation.
func strangerFrom(ago time.Duration) given {
	return func(s *State) {
		labels := map[string]string{v1.LabelXR: xrUID, v1.LabelComponent: v1.ComponentRestoreTest}
		s.Job = &instance.Job{Job: &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "restoretest-db-job", UID: "job", Labels: labels,
				Annotations: map[string]string{}, CreationTimestamp: metav1.Time{Time: now.Add(-ago)}}}}
		s.Job.Spec.Template.Spec.Volumes = []corev1.Volume{agent.ToolsVolume(), agent.PVCVolume("backup", "backup-db-pvc")}
		if s.Home != nil {
			instance.RecordPVCs(s.Job.Job, mountedBy(s))
		}
	}
}

// deleted deletes the BackupRecord.
func deleted(s *State) { s.Record.DeletionTimestamp = &metav1.Time{Time: now} }

// sibling adds an earlier BackupRecord with a restore test. job is the UID of its Job.
func sibling(job types.UID) given {
	return func(s *State) {
		s.Siblings = []v1.BackupRecord{
			{ObjectMeta: metav1.ObjectMeta{Name: "earlier"},
				Status: v1.BackupRecordStatus{Phase: v1.BackupVerified, RestoreTest: &v1.RestoreTest{Job: job}}}}
	}
}

// busy adds BackupRecords of other instances with a running restore test. In the namespaces of awaited, deletions
// wait for the tests.
func busy(free, awaited []string) given {
	return func(s *State) {
		namespaces := slices.Concat(free, awaited)
		all := make([]v1.BackupRecord, 0, len(namespaces))
		for i, namespace := range namespaces {
			r := v1.BackupRecord{Spec: v1.BackupRecordSpec{
				Instance: v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: namespace, Name: "other"}}}
			r.Status.RestoreTest = &v1.RestoreTest{StartTime: metav1.Time{Time: now.Add(-time.Hour)}, Awaited: i >= len(free)}
			all = append(all, r)
		}
		s.Others = TurnsOf(all, v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "db"}, now)
	}
}

func ended(s *State) {
	jobFrom(time.Minute)(s)
	s.Job.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Message: "it took too long"}}
}

// moved replaces the backup PVC after the Job was created.
func moved(s *State) { s.Home.BackupPVC.UID = "later" }

func report(container string, r agent.Report) given {
	return func(s *State) {
		ended(s)
		s.Reports[container] = r
	}
}

// TestNext specifies the action in each state.
func TestNext(t *testing.T) {
	cases := map[string]struct {
		reason string
		state  *State
		want   Action
		status metav1.ConditionStatus
		says   string
	}{
		"Start": {reason: "The instance is gone: nobody needs the volume.", state: verified(), want: Start},
		"NoRecord": {reason: "There is nothing to test.", state: verified(func(s *State) { s.Record = nil }),
			want: NoOp},
		"Leftover": {reason: "A Job of a record that is gone keeps the volume.",
			state: verified(strangerFrom(0), func(s *State) { s.Record = nil }), want: Remove},
		"Deleted":        {reason: "A Job would outlive the record that names it.", state: verified(deleted), want: NoOp},
		"DeletedRunning": {reason: "So it goes first.", state: verified(deleted, jobFrom(time.Minute)), want: Remove},
		"DeletedGoing": {reason: "It takes a moment.",
			state: verified(deleted, jobFrom(time.Minute), func(s *State) { s.Job.DeletionTimestamp = &metav1.Time{Time: now} }),
			want:  Wait},
		"DeletedTurn": {reason: "Then its turn ends, and the record can go.", state: verified(deleted, turn("job")),
			want: EndTurn},
		"DeletedNoJob": {reason: "A turn that never came to a Job ends too.", state: verified(deleted, turn("")),
			want: EndTurn},
		"DeletedRequired": {reason: "Its life holds the record, and waits for the verdict.",
			state: verified(dying, required, deleted), want: Start},
		"TurnInVain": {reason: "What the Job needs went before it was made: who waits has its turn.",
			state: verified(turn(""), func(s *State) { s.Volume = nil }), want: Conclude, status: metav1.ConditionUnknown,
			says: "the backup volume does not exist"},
		"Turn": {reason: "A machine full of servers helps nobody.",
			state: verified(busy([]string{"a", "b"}, nil)), want: Wait},
		"TurnInNamespace": {reason: "A namespace has one, and leaves the others to others.",
			state: verified(busy([]string{"default"}, nil)), want: Wait},
		"TurnElsewhere": {reason: "One is left.", state: verified(busy([]string{"a"}, nil)), want: Start},
		"TurnOfDeletions": {reason: "They take nobody's turn.", state: verified(busy(nil, []string{"a", "b", "default"})),
			want: Start},
		"RequiredBeside": {reason: "Nobody takes the turn of a deletion.",
			state: verified(dying, required, busy([]string{"a", "b", "default"}, []string{"c", "d"})), want: Start},
		"RequiredInNamespace": {reason: "One after the other.",
			state: verified(dying, required, busy(nil, []string{"default"})), want: Wait},
		"HasTurn": {reason: "The controller ended before it made the Job.",
			state: verified(turn(""), busy([]string{"a", "b"}, nil)), want: Start},
		"Unnamed": {reason: "The controller ended before it named the Job.", state: verified(unnamedJob),
			want: NameJob},
		"UnnamedSibling": {reason: "A newer backup was proven before the Job was named.",
			state: verified(strangerFrom(0), sibling(""), func(s *State) {
				s.Siblings[0].Status.RestoreTest.ID = "earlier"
				s.Job.Annotations = map[string]string{v1.AnnotationRestoreTest: "earlier"}
			}), want: NameJob},
		"TakenForNothing": {reason: "The volume went after the turn was taken: no Job can be made.",
			state: verified(turn(""), func(s *State) { s.Volume = nil }), want: Conclude, status: metav1.ConditionUnknown,
			says: "volume"},
		"Vanished": {reason: "Somebody deleted the Job: another follows.", state: verified(turn("job")), want: EndTurn},
		"Replaced": {reason: "Somebody deleted the Job, and made one that looks like it.",
			state: verified(jobFrom(0), turn("other")), want: EndTurn},
		"Stranger": {reason: "It has our labels and our name.", state: verified(strangerFrom(time.Minute)),
			want: Conclude, status: metav1.ConditionUnknown, says: "kubectl delete job --namespace default restoretest-db-job"},
		"StrangerBefore": {reason: "It was there when ours was to be made.",
			state: verified(strangerFrom(time.Minute), turn("")), want: Conclude, status: metav1.ConditionUnknown,
			says: "no BackupRecord refers to"},
		"StrangerSays": {reason: "It says that all is well.",
			state: verified(report(containerBootCheck, agent.Report{OK: true}), turn("other")), want: EndTurn},
		"StrangerDecided": {reason: "It is nobody's to remove.",
			state: verified(strangerFrom(time.Minute), verdict(metav1.ConditionUnknown, 0)), want: NoOp},
		"TurnAfterVerdict": {reason: "The turn ends with the Job.",
			state: verified(turn("job"), verdict(metav1.ConditionTrue, 0)), want: EndTurn},
		"SiblingsJob": {reason: "A newer backup was proven meanwhile.", state: verified(strangerFrom(0), sibling("job")),
			want: Remove},
		"SiblingsTurn": {reason: "And its Job is gone.", state: verified(sibling("job")), want: EndTurn},
		"Off": {reason: "The platform may not want it.", state: verified(func(s *State) { s.AtOnce = 0 }),
			want: NoOp},
		"OffRequired": {reason: "Who requires it gets it.",
			state: verified(dying, required, func(s *State) { s.AtOnce = 0 }), want: Start},
		"Releasing": {reason: "A deletion waits for nothing that it need not wait for.", state: verified(dying),
			want: NoOp},
		"Required": {reason: "This one does.", state: verified(dying, required), want: Start},
		"Back": {reason: "The restore needs the volume.", state: verified(func(s *State) { s.Home = nil }),
			want: Conclude, status: metav1.ConditionUnknown, says: "exists and needs the volume"},
		"BackRunning": {reason: "Also while a server runs on the copy.",
			state: verified(jobFrom(0), func(s *State) { s.Home = nil }), want: Conclude, status: metav1.ConditionUnknown},
		"BackDecided": {reason: "Then the Job goes.",
			state: verified(jobFrom(time.Minute), verdict(metav1.ConditionUnknown, 0), func(s *State) { s.Home = nil }),
			want:  Remove},
		"Running": {reason: "Its end is an event, unless somebody took its labels away.",
			state: verified(jobFrom(time.Minute)), want: Wait},
		"Going": {reason: "Its name must be free first.",
			state: verified(jobFrom(time.Minute), func(s *State) { s.Job.DeletionTimestamp = &metav1.Time{Time: now} }),
			want:  Wait},
		"Unlabelled": {reason: "Labels are anybody's, also ours.",
			state: verified(jobFrom(time.Minute), func(s *State) { s.Job.Labels = nil }), want: Wait},
		"Whole": {reason: "A server ran on it.",
			state: verified(report(containerBootCheck, agent.Report{OK: true, Tables: 7, Version: "8.4.6"})), want: Conclude,
			status: metav1.ConditionTrue, says: "7 tables"},
		"WholeElsewhere": {reason: "The PVC was made again: who knows what the pod had mounted.",
			state: verified(report(containerBootCheck, agent.Report{OK: true, Tables: 7, Version: "8.4.6"}), moved),
			want:  Conclude, status: metav1.ConditionUnknown, says: "was replaced during the test"},
		"BrokenElsewhere": {reason: "And what was broken there may be whole here.",
			state: verified(report(containerBootCheck, agent.Report{ExitCode: agent.ExitBroken, Error: "table `a`.`b`: Corrupt"}),
				moved), want: Conclude, status: metav1.ConditionUnknown, says: "was replaced during the test"},
		"Broken": {reason: "None did.",
			state: verified(report(containerBootCheck, agent.Report{ExitCode: agent.ExitBroken, Error: "table `a`.`b`: Corrupt"})),
			want:  Conclude, status: metav1.ConditionFalse, says: "Corrupt"},
		"NotKnown": {reason: "What could not be found out is not called broken.",
			state: verified(report(containerBootCheck, agent.Report{ExitCode: 1, Error: "killed"})), want: Conclude,
			status: metav1.ConditionUnknown, says: "killed"},
		"Damaged": {reason: "The archive has changed since its proof.",
			state: verified(report(containerUnpack, agent.Report{ExitCode: agent.ExitDamaged, Error: "checksum"})), want: Conclude,
			status: metav1.ConditionFalse, says: "checksum"},
		"Missing": {reason: "Or is gone.",
			state: verified(report(containerUnpack, agent.Report{ExitCode: agent.ExitMissing, Error: "the backup volume does not exist"})),
			want:  Conclude, status: metav1.ConditionFalse},
		"NoRoom": {reason: "The volume need not have room for a copy.",
			state: verified(report(containerUnpack, agent.Report{ExitCode: agent.ExitNoSpace, Error: "no room"})), want: Conclude,
			status: metav1.ConditionUnknown, says: "no room"},
		"Silent": {reason: "A Job that took too long has no report.", state: verified(ended), want: Conclude,
			status: metav1.ConditionUnknown, says: "it took too long"},
		"SilentImage": {reason: "The kubelet may know more.",
			state: verified(ended, func(s *State) { s.Job.PodFailure = "ErrImagePull: none" }), want: Conclude,
			status: metav1.ConditionUnknown, says: "ErrImagePull"},
		"Decided": {reason: "Once is enough.", state: verified(verdict(metav1.ConditionUnknown, time.Hour)),
			want: NoOp},
		"CleanUp": {reason: "The Job goes after the verdict.",
			state: verified(jobFrom(time.Minute), verdict(metav1.ConditionTrue, 0), concluded), want: Remove},
		"AgainLater": {reason: "A deletion waits for it: what was in the way may pass.",
			state: verified(dying, required, verdict(metav1.ConditionUnknown, time.Minute)), want: Wait},
		"Again": {reason: "Now.", state: verified(dying, required, verdict(metav1.ConditionFalse, time.Hour)),
			want: Start},
		"AgainOldJob": {reason: "The earlier Job has had its say.",
			state: verified(dying, required, jobFrom(2*time.Hour), verdict(metav1.ConditionFalse, time.Hour), concluded),
			want:  Remove},
		"AgainAhead": {reason: "Whoever wrote the verdict had a clock that is ahead: the new one gets its time all " +
			"the same.", state: verified(dying, required, jobFrom(time.Minute), verdict(metav1.ConditionFalse, -time.Hour)),
			want: Wait},
		"AgainFuture": {reason: "Nor is it waited for such a clock.",
			state: verified(dying, required, verdict(metav1.ConditionFalse, -time.Hour)), want: Start},
		"AgainBehind": {reason: "A Job that has had its say is old, whatever its creation says.",
			state: verified(dying, required, jobFrom(0), verdict(metav1.ConditionFalse, time.Hour), concluded), want: Remove},
		"AgainRunning": {reason: "And the new one gets its time.",
			state: verified(dying, required, jobFrom(time.Minute), verdict(metav1.ConditionFalse, time.Hour)), want: Wait},
		"Mongo": {reason: "Only mysqld is understood.",
			state: verified(func(s *State) { s.Record.Spec.Version = "8.0.4-MongoDB" }), want: Conclude,
			status: metav1.ConditionUnknown, says: "the version or the image of"},
		"NoVersion": {reason: "A server that never answered has none.",
			state: verified(func(s *State) { s.Record.Spec.Version = "" }), want: Conclude, status: metav1.ConditionUnknown,
			says: "version"},
		"NamespaceGoes": {reason: "Nothing can be made there.", state: verified(func(s *State) {
			s.Home.Namespace.DeletionTimestamp = &metav1.Time{Time: now}
		}), want: Conclude, status: metav1.ConditionUnknown, says: "namespace"},
		"LaterNamespace": {reason: "It may be another owner's.",
			state: verified(func(s *State) { s.Home.Namespace.UID = "other" }), want: Conclude, status: metav1.ConditionUnknown,
			says: "namespace"},
		"NoVolume": {reason: "Somebody else's volume is not mounted.", state: verified(func(s *State) { s.Volume = nil }),
			want: Conclude, status: metav1.ConditionUnknown, says: "volume"},
		"Store": {reason: "A volume that goes with the Job takes the copy.", state: verified(inStore), want: Start},
		"StoreWhole": {reason: "It is known as any other is.",
			state: verified(inStore, report(containerBootCheck, agent.Report{OK: true, Tables: 7, Version: "8.4.6"}),
				func(s *State) {
					s.Job.Spec.Template.Spec.Volumes = nil
				}), want: Conclude, status: metav1.ConditionTrue, says: "7 tables"},
		"StoreDown": {reason: "Nobody waits for the verdict: there is one later.", state: verified(inStore, storeFails),
			want: Wait},
		"StoreDownNow": {reason: "Who waits hears why, and it is tried again.",
			state: verified(inStore, dying, required, storeFails), want: Conclude, status: metav1.ConditionUnknown,
			says: "it is down"},
		"StoreForgot": {reason: "The Job believes the note's manifest.", state: verified(inStore, noEntry), want: Conclude,
			status: metav1.ConditionUnknown, says: "no catalog entry"},
		"StoreOther": {reason: "Another archive is another backup.", state: verified(inStore, entryOfAnother),
			want: Conclude, status: metav1.ConditionUnknown, says: "a different archive"},
		"InLife": {reason: "A copy of what is in a store is in nobody's way.", state: verified(inInstance), want: Start},
		"InLifeWhole": {reason: "It is known as any other is.",
			state: verified(inInstance, report(containerBootCheck, agent.Report{OK: true, Tables: 7, Version: "8.4.6"}),
				func(s *State) { s.Job.Spec.Template.Spec.Volumes = nil }), want: Conclude, status: metav1.ConditionTrue},
		"InLifeAway": {reason: "What the namespace may use is the server's first.",
			state: verified(inInstance, away(0), noEntry), want: Wait},
		"InLifeAwayTurn": {reason: "And others have the turn.", state: verified(inInstance, turn(""), away(0)), want: EndTurn},
		"InLifeStranger": {reason: "Also where somebody else's Job has the name.",
			state: verified(inInstance, strangerFrom(0), turn(""), away(0)), want: EndTurn},
		"InLifeShort": {reason: "A server that begins again may have room.",
			state: verified(inInstance, jobFrom(time.Minute), away(time.Second)), want: Wait},
		"InLifeLong": {reason: "It has not.", state: verified(inInstance, jobFrom(time.Minute), away(serverTimeout)),
			want: Conclude, status: metav1.ConditionUnknown, says: "had priority"},
		"InLifeSaid": {reason: "Its word counts, whatever became of the server meanwhile.",
			state: verified(inInstance, report(containerBootCheck, agent.Report{OK: true, Version: "8.4.6"}),
				func(s *State) { s.Job.Spec.Template.Spec.Volumes = nil },
				away(time.Hour)), want: Conclude, status: metav1.ConditionTrue},
		"InLifeEndsSaid": {reason: "Or of the instance.",
			state: verified(inInstance, report(containerBootCheck, agent.Report{OK: true, Version: "8.4.6"}),
				func(s *State) { s.Job.Spec.Template.Spec.Volumes = nil }, ending), want: Conclude, status: metav1.ConditionTrue},
		"InLifeNew": {reason: "Nothing is said of it yet.",
			state: verified(inInstance, jobFrom(time.Minute), func(s *State) {
				s.Home.XR.Conditions = nil
				s.Home.XR.SetCreationTimestamp(metav1.Time{Time: now})
			}), want: Wait},
		"InLifeNever": {reason: "Nor ever.",
			state: verified(inInstance, jobFrom(time.Minute), func(s *State) { s.Home.XR.Conditions = nil }), want: Conclude,
			status: metav1.ConditionUnknown, says: "had priority"},
		"InLifeNoXR": {reason: "A claim is about to have a server.", state: verified(inInstance, func(s *State) {
			s.Home.Instance.XR, s.Home.XR, s.Home.Claim = "", nil, &instance.Composite{Unstructured: &unstructured.Unstructured{}}
		}), want: Wait},
		"InLifeEnds": {reason: "The deletion takes another one, and needs room for that.",
			state: verified(inInstance, ending, jobFrom(time.Minute)), want: Conclude, status: metav1.ConditionUnknown,
			says: "had priority"},
		"InLifeEndsSoon": {reason: "Whatever is required, it is of that one.", state: verified(inInstance, ending, required),
			want: Wait},
		"Backup": {reason: "The next backup goes first.", state: verified(inInstance, backupFor(0, nil)), want: Wait},
		"BackupBeside": {reason: "It may have room beside the test.",
			state: verified(inInstance, jobFrom(time.Minute), backupFor(time.Second, nil)), want: Wait},
		"BackupRunning": {reason: "It has.",
			state: verified(inInstance, jobFrom(time.Minute), backupFor(time.Hour, podIn(corev1.PodRunning))), want: Wait},
		"BackupPending": {reason: "It has not.",
			state: verified(inInstance, jobFrom(time.Minute), backupFor(serverTimeout, podIn(corev1.PodPending))), want: Conclude,
			status: metav1.ConditionUnknown, says: "its backup needed the space"},
		"BackupRefused": {reason: "Nor its Job.", state: verified(inInstance, jobFrom(time.Minute), backupFor(serverTimeout, nil)),
			want: Conclude, status: metav1.ConditionUnknown, says: "its backup needed the space"},
		"StoreDownTurn": {reason: "Others wait for the turn.", state: verified(inInstance, turn(""), storeFails), want: EndTurn},
		"Queued": {reason: "All instances of a cluster may wait.",
			state: verified(inInstance, busy([]string{"a", "b"}, nil), noEntry), want: Wait},
		"Planned": {reason: "Each is read whole: one a day is enough.",
			state: verified(inInstance, planned(metav1.ConditionTrue, time.Hour), noEntry), want: Wait},
		"PlannedDue": {reason: "That was yesterday.", state: verified(inInstance, planned(metav1.ConditionTrue, 24*time.Hour)),
			want: Start},
		"PlannedInVain": {reason: "Also what came to no verdict was read.",
			state: verified(inInstance, planned(metav1.ConditionUnknown, time.Hour), noEntry), want: Wait},
		"PlannedAhead": {reason: "It is not waited for another clock.",
			state: verified(inInstance, planned(metav1.ConditionTrue, -time.Hour)), want: Start},
		"PlannedHasTurn": {reason: "What has begun is not given up.",
			state: verified(inInstance, planned(metav1.ConditionTrue, time.Hour), turn("")), want: Start},
		"PlannedVolume": {reason: "What lies on a volume is there already.",
			state: verified(planned(metav1.ConditionTrue, time.Hour)), want: Start},
		"OddArchive": {reason: "A path leads nowhere else.",
			state: verified(func(s *State) { s.Record.Spec.Archive.Path = "../x/data.tar.zst" }), want: Conclude,
			status: metav1.ConditionUnknown, says: "archive"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.state)
			if got.Action != tc.want || got.Verdict.Status != tc.status || !strings.Contains(got.Verdict.Message, tc.says) {
				t.Errorf("%s\ngot %+v, want %s %s %q", tc.reason, got, tc.want, tc.status, tc.says)
			}
			if got.Action == Wait && got.After <= 0 {
				t.Error("it waits for no time")
			}
		})
	}
}

// TestNewest checks that the order of the list does not affect which backup is the newest.
func TestNewest(t *testing.T) {
	backup := func(name string, phase v1.BackupPhase, hours int) v1.BackupRecord {
		return v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: name,
			CreationTimestamp: metav1.Time{Time: now.Add(time.Duration(hours) * time.Hour)}}, Status: v1.BackupRecordStatus{
			Phase: phase}}
	}
	got := newestVerified([]v1.BackupRecord{backup("a", v1.BackupVerified, 1), backup("b", v1.BackupVerified, 3),
		backup("c", v1.BackupVerified, 2), backup("d", v1.BackupFailed, 4)})
	if got == nil || got.Name != "b" {
		t.Errorf("got %v, want b", got)
	}
	if newestVerified([]v1.BackupRecord{backup("d", v1.BackupRunning, 4)}) != nil {
		t.Error("an unfinished backup is none to test")
	}
}

// TestBackupToTry checks that the running test of a backup in a store continues until it has a result, unless an
// instance is deleted.
func TestBackupToTry(t *testing.T) {
	tried := *verified(inInstance, turn("job")).Record
	newer := *verified(inInstance).Record
	newer.Name, newer.CreationTimestamp = "newer", metav1.Time{Time: now}
	last := *verified().Record
	last.CreationTimestamp = metav1.Time{Time: now}
	for name, tc := range map[string]struct {
		reason string
		change func()
		newest v1.BackupRecord
		want   string
	}{
		"Tried": {reason: "It would never come to its end.", newest: newer, want: tried.Name},
		"Concluded": {reason: "It is known.", newest: newer, change: func() { tried.Status.RestoreTest.Concluded = true },
			want: newer.Name},
		"NoJob": {reason: "It has cost nothing yet.", newest: newer, change: func() { tried.Status.RestoreTest.Job = "" },
			want: newer.Name},
		"Deleted": {reason: "Nobody wants to know.", newest: newer,
			change: func() { tried.DeletionTimestamp = &metav1.Time{Time: now} }, want: newer.Name},
		"OnVolume": {reason: "An instance needs it.", newest: newer,
			change: func() { tried.Spec.Archive = last.Spec.Archive }, want: newer.Name},
		"Ended": {reason: "That may be waited for.", newest: last, want: last.Name},
	} {
		t.Run(name, func(t *testing.T) {
			before := *tried.DeepCopy()
			if tc.change != nil {
				tc.change()
			}
			if got := backupToTry([]v1.BackupRecord{tried, tc.newest}); got == nil || got.Name != tc.want {
				t.Errorf("%s Got %v, want %s", tc.reason, got, tc.want)
			}
			tried = before
		})
	}
}

// TestGiveBack checks that a restore test is removed from its BackupRecord only if the Job was not created. Another
// test can then run.
func TestGiveBack(t *testing.T) {
	for name, tc := range map[string]struct {
		state *State
		want  Action
	}{
		"NotMade": {state: verified(inInstance, turn("")), want: EndTurn},
		"Made":    {state: verified(inInstance, jobFrom(0)), want: NoOp},
		"Unnamed": {state: verified(inInstance, unnamedJob), want: NoOp},
		"Named":   {state: verified(inInstance, turn("job")), want: NoOp},
		"None":    {state: verified(inInstance), want: NoOp},
	} {
		t.Run(name, func(t *testing.T) {
			if got := GiveBack(tc.state); got.Action != tc.want || (len(got.Changes) > 0) != (tc.want == EndTurn) {
				t.Errorf("want %s, got %+v", tc.want, got)
			}
		})
	}
}

// TestLongTestIsFair checks a restore test that runs for a day. It blocks other tests in its own namespace, but tests
// in other namespaces for one hour at most.
func TestLongTestIsFair(t *testing.T) {
	long := func(namespace string, ago time.Duration) v1.BackupRecord {
		r := v1.BackupRecord{}
		r.Spec.Instance = v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: namespace, Name: "huge"}
		r.Status.RestoreTest = &v1.RestoreTest{StartTime: metav1.NewTime(now.Add(-ago))}
		return r
	}
	for ago, want := range map[time.Duration]bool{time.Minute: false, 59 * time.Minute: false, 61 * time.Minute: true,
		23 * time.Hour: true} {
		turns := TurnsOf([]v1.BackupRecord{long("one", ago), long("two", ago)},
			v1.Instance{Kind: v1.KindMySQL, Namespace: "third", Name: "db"}, now)
		if got := turns.mayRun("third", false, 2); got != want {
			t.Errorf("after %s: a third namespace may run one %t, want %t", ago, got, want)
		}
		if turns.mayRun("one", false, 2) {
			t.Errorf("after %s: its own namespace runs a second one", ago)
		}
	}
}

// TestTurnsOf checks that running tests are counted from the BackupRecords, but no longer than the maximum duration
// of a test.
func TestTurnsOf(t *testing.T) {
	record := func(name string, ago time.Duration) v1.BackupRecord {
		r := v1.BackupRecord{Spec: v1.BackupRecordSpec{
			Instance: v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "default", Name: name}}}
		r.Status.RestoreTest = &v1.RestoreTest{StartTime: metav1.Time{Time: now.Add(-ago)}}
		return r
	}
	idle := record("idle", 0)
	idle.Status.RestoreTest = nil
	own := v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "db"}
	got := TurnsOf([]v1.BackupRecord{record("db", 0), record("other", time.Hour),
		record("forgotten", forgotten+time.Second), idle}, own, now)
	if got.all != 1 || got.free["default"] != 1 || len(got.awaited) != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestChanges checks that a restore test is recorded before its Job is created, and that no write of another client
// is overwritten.
func TestChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		state  *State
		want   []string
	}{
		"NoOp": {reason: "Nothing is written.", state: verified(verdict(metav1.ConditionTrue, 0))},
		"Start": {reason: "The turn comes first.", state: verified(),
			want: []string{"PatchStatus BackupRecord AsRead", "Create Job "}},
		"Taken": {reason: "After a crash the turn is there.", state: verified(turn("")), want: []string{"Create Job "}},
		"Name": {reason: "The record names its Job.", state: verified(unnamedJob),
			want: []string{"PatchStatus BackupRecord AsRead"}},
		"Conclude": {reason: "A verdict is of what was read.",
			state: verified(report(containerBootCheck, agent.Report{OK: true})), want: []string{"PatchStatus BackupRecord AsRead"}},
		"Store": {reason: "The Job finds its way.", state: verified(inStore),
			want: []string{"PatchStatus BackupRecord AsRead", "GiveAccess Secret ", "Create Job "}},
		"StoreOn": {reason: "After a crash it is given again.", state: verified(inStore, turn("")),
			want: []string{"GiveAccess Secret ", "Create Job "}},
		"StoreEnd": {reason: "Nobody is to have it then.",
			state: verified(inStore, granted, turn("job"), verdict(metav1.ConditionTrue, 0)),
			want:  []string{"Delete PartialObjectMetadata SameObject", "PatchStatus BackupRecord AsRead"}},
		"StoreOut": {reason: "Nor while the Job goes.",
			state: verified(inStore, granted, jobFrom(time.Minute), verdict(metav1.ConditionTrue, 0)),
			want:  []string{"Delete PartialObjectMetadata SameObject", "Delete Job SameObject"}},
		"Remove": {reason: "This Job, and no later one.",
			state: verified(jobFrom(time.Minute), verdict(metav1.ConditionTrue, 0)), want: []string{"Delete Job SameObject"}},
		"End": {reason: "The turn ends with the Job.", state: verified(turn("job"), verdict(metav1.ConditionTrue, 0)),
			want: []string{"PatchStatus BackupRecord AsRead"}},
	} {
		t.Run(name, func(t *testing.T) {
			changes := Next(tc.state).Changes
			got := make([]string, 0, len(changes))
			for _, c := range changes {
				got = append(got, fmt.Sprintf("%s %s %s", c.Verb, reflect.TypeOf(c.Object).Elem().Name(), c.If))
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
