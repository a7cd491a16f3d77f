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

// deleted marks the BackupRecord as being deleted.
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

// TestNext checks which action Next chooses in each state of a restore test.
func TestNext(t *testing.T) {
	cases := map[string]struct {
		reason string
		state  *State
		want   Action
		status metav1.ConditionStatus
		says   string
	}{
		"Start": {reason: "The instance does not exist, so the restore test may use the backup volume.", state: verified(), want: Start},
		"NoRecord": {reason: "Without a BackupRecord there is no backup to test.", state: verified(func(s *State) { s.Record = nil }),
			want: NoOp},
		"Leftover": {reason: "A Job without a BackupRecord must be deleted, because it keeps the backup volume in use.",
			state: verified(strangerFrom(0), func(s *State) { s.Record = nil }), want: Remove},
		"Deleted": {reason: "A Job would outlive the BackupRecord that is being deleted, so none is created.",
			state: verified(deleted), want: NoOp},
		"DeletedRunning": {reason: "The Job must be deleted before its BackupRecord.",
			state: verified(deleted, jobFrom(time.Minute)), want: Remove},
		"DeletedGoing": {reason: "The Job is being deleted, so the controller must wait.",
			state: verified(deleted, jobFrom(time.Minute), func(s *State) { s.Job.DeletionTimestamp = &metav1.Time{Time: now} }),
			want:  Wait},
		"DeletedTurn": {reason: "The Job is deleted, so the restore test must be removed from the BackupRecord.",
			state: verified(deleted, turn("job")),
			want:  EndTurn},
		"DeletedNoJob": {reason: "The Job was never created, so the restore test must be removed from the BackupRecord.",
			state: verified(deleted, turn("")),
			want:  EndTurn},
		"DeletedRequired": {reason: "The deletion of the instance requires the test result, so the BackupRecord still exists.",
			state: verified(dying, required, deleted), want: Start},
		"TurnInVain": {reason: "The volume was deleted before the Job was created, so the restore test must end.",
			state: verified(turn(""), func(s *State) { s.Volume = nil }), want: Conclude, status: metav1.ConditionUnknown,
			says: "the backup volume does not exist"},
		"Turn": {reason: "The maximum number of restore tests is running, so another one must wait.",
			state: verified(busy([]string{"a", "b"}, nil)), want: Wait},
		"TurnInNamespace": {reason: "A restore test is already running in the namespace, so the next one must wait.",
			state: verified(busy([]string{"default"}, nil)), want: Wait},
		"TurnElsewhere": {reason: "Fewer restore tests than the maximum are running, so another one must start.",
			state: verified(busy([]string{"a"}, nil)), want: Start},
		"TurnOfDeletions": {reason: "Restore tests that deletions wait for must not delay other restore tests.",
			state: verified(busy(nil, []string{"a", "b", "default"})),
			want:  Start},
		"RequiredBeside": {reason: "A restore test that a deletion waits for must not be delayed by other restore tests.",
			state: verified(dying, required, busy([]string{"a", "b", "default"}, []string{"c", "d"})), want: Start},
		"RequiredInNamespace": {reason: "Two restore tests that deletions wait for must not run in the same namespace.",
			state: verified(dying, required, busy(nil, []string{"default"})), want: Wait},
		"HasTurn": {reason: "The controller stopped before it created the Job, so the Job must be created now.",
			state: verified(turn(""), busy([]string{"a", "b"}, nil)), want: Start},
		"Unnamed": {reason: "The controller stopped before it stored the UID of the Job in the BackupRecord.",
			state: verified(unnamedJob),
			want:  NameJob},
		"UnnamedSibling": {reason: "A newer backup was verified before the UID of the Job was stored.",
			state: verified(strangerFrom(0), sibling(""), func(s *State) {
				s.Siblings[0].Status.RestoreTest.ID = "earlier"
				s.Job.Annotations = map[string]string{v1.AnnotationRestoreTest: "earlier"}
			}), want: NameJob},
		"TakenForNothing": {reason: "The volume was deleted after the restore test was stored, so no Job can be created.",
			state: verified(turn(""), func(s *State) { s.Volume = nil }), want: Conclude, status: metav1.ConditionUnknown,
			says: "volume"},
		"Vanished": {reason: "A user deleted the Job, so the restore test must be removed and started again.",
			state: verified(turn("job")), want: EndTurn},
		"Replaced": {reason: "A user replaced the Job by one with another UID, so the restore test must be removed.",
			state: verified(jobFrom(0), turn("other")), want: EndTurn},
		"Stranger": {reason: "A Job with the same name and labels is not the controller's if no BackupRecord names its UID.",
			state: verified(strangerFrom(time.Minute)),
			want:  Conclude, status: metav1.ConditionUnknown, says: "kubectl delete job --namespace default restoretest-db-job"},
		"StrangerBefore": {reason: "A Job of another owner with the name of the test Job existed before the restore test.",
			state: verified(strangerFrom(time.Minute), turn("")), want: Conclude, status: metav1.ConditionUnknown,
			says: "no BackupRecord refers to"},
		"StrangerSays": {reason: "The report of a Job that is not the controller's must be ignored.",
			state: verified(report(containerBootCheck, agent.Report{OK: true}), turn("other")), want: EndTurn},
		"StrangerDecided": {reason: "A Job that is not the controller's must not be deleted.",
			state: verified(strangerFrom(time.Minute), verdict(metav1.ConditionUnknown, 0)), want: NoOp},
		"TurnAfterVerdict": {reason: "The backup has a result and the Job is deleted, so the restore test must be removed.",
			state: verified(turn("job"), verdict(metav1.ConditionTrue, 0)), want: EndTurn},
		"SiblingsJob": {reason: "A newer backup was verified, so the Job of the earlier backup must be deleted.",
			state: verified(strangerFrom(0), sibling("job")),
			want:  Remove},
		"SiblingsTurn": {reason: "The Job of the earlier backup is deleted, so its restore test must be removed.",
			state: verified(sibling("job")), want: EndTurn},
		"Off": {reason: "The platform team has disabled restore tests.", state: verified(func(s *State) { s.AtOnce = 0 }),
			want: NoOp},
		"OffRequired": {reason: "A restore test that a deletion requires must run even if restore tests are disabled.",
			state: verified(dying, required, func(s *State) { s.AtOnce = 0 }), want: Start},
		"Releasing": {reason: "A deletion that does not require a restore test must not be delayed by one.", state: verified(dying),
			want: NoOp},
		"Required": {reason: "The deletion requires a restore test, which must start.", state: verified(dying, required), want: Start},
		"Back": {reason: "An instance with this name exists and its restore needs the volume.",
			state: verified(func(s *State) { s.Home = nil }),
			want:  Conclude, status: metav1.ConditionUnknown, says: "exists and needs the volume"},
		"BackRunning": {reason: "A running restore test must end if an instance with this name needs the volume.",
			state: verified(jobFrom(0), func(s *State) { s.Home = nil }), want: Conclude, status: metav1.ConditionUnknown},
		"BackDecided": {reason: "The restore test has its result, so its Job must be deleted to free the volume.",
			state: verified(jobFrom(time.Minute), verdict(metav1.ConditionUnknown, 0), func(s *State) { s.Home = nil }),
			want:  Remove},
		"Running": {reason: "The Job is polled, because no event reports its end if a user removed its labels.",
			state: verified(jobFrom(time.Minute)), want: Wait},
		"Going": {reason: "The Job is being deleted, and its name must be free before the next step.",
			state: verified(jobFrom(time.Minute), func(s *State) { s.Job.DeletionTimestamp = &metav1.Time{Time: now} }),
			want:  Wait},
		"Unlabelled": {reason: "The UID identifies the Job, so a Job without labels must still be used.",
			state: verified(jobFrom(time.Minute), func(s *State) { s.Job.Labels = nil }), want: Wait},
		"Whole": {reason: "The server has started from the copy, so the restore test must succeed.",
			state: verified(report(containerBootCheck, agent.Report{OK: true, Tables: 7, Version: "8.4.6"})), want: Conclude,
			status: metav1.ConditionTrue, says: "7 tables"},
		"WholeElsewhere": {reason: "The PVC was replaced during the restore test, so a success does not apply to this volume.",
			state: verified(report(containerBootCheck, agent.Report{OK: true, Tables: 7, Version: "8.4.6"}), moved),
			want:  Conclude, status: metav1.ConditionUnknown, says: "was replaced during the test"},
		"BrokenElsewhere": {reason: "The PVC was replaced during the restore test, so a failure does not apply to this volume.",
			state: verified(report(containerBootCheck, agent.Report{ExitCode: agent.ExitBroken, Error: "table `a`.`b`: Corrupt"}),
				moved), want: Conclude, status: metav1.ConditionUnknown, says: "was replaced during the test"},
		"Broken": {reason: "The server reported a corrupt table, so the restore test must fail.",
			state: verified(report(containerBootCheck, agent.Report{ExitCode: agent.ExitBroken, Error: "table `a`.`b`: Corrupt"})),
			want:  Conclude, status: metav1.ConditionFalse, says: "Corrupt"},
		"NotKnown": {reason: "If the check itself fails, the backup must not be reported as broken.",
			state: verified(report(containerBootCheck, agent.Report{ExitCode: 1, Error: "killed"})), want: Conclude,
			status: metav1.ConditionUnknown, says: "killed"},
		"Damaged": {reason: "The archive has changed since it was verified, so the restore test must fail.",
			state: verified(report(containerUnpack, agent.Report{ExitCode: agent.ExitDamaged, Error: "checksum"})), want: Conclude,
			status: metav1.ConditionFalse, says: "checksum"},
		"Missing": {reason: "The archive is missing, so the restore test must fail.",
			state: verified(report(containerUnpack, agent.Report{ExitCode: agent.ExitMissing, Error: "the backup volume does not exist"})),
			want:  Conclude, status: metav1.ConditionFalse},
		"NoRoom": {reason: "A lack of space for the copy does not show that the backup is broken.",
			state: verified(report(containerUnpack, agent.Report{ExitCode: agent.ExitNoSpace, Error: "no room"})), want: Conclude,
			status: metav1.ConditionUnknown, says: "no room"},
		"Silent": {reason: "A Job that exceeded its time limit has no report, so its condition must be reported.",
			state: verified(ended), want: Conclude,
			status: metav1.ConditionUnknown, says: "it took too long"},
		"SilentImage": {reason: "The error of the kubelet must be reported if the Job has no report.",
			state: verified(ended, func(s *State) { s.Job.PodFailure = "ErrImagePull: none" }), want: Conclude,
			status: metav1.ConditionUnknown, says: "ErrImagePull"},
		"Decided": {reason: "A backup with a result must not be tested again if no deletion requires it.",
			state: verified(verdict(metav1.ConditionUnknown, time.Hour)),
			want:  NoOp},
		"CleanUp": {reason: "The restore test has its result, so its Job must be deleted.",
			state: verified(jobFrom(time.Minute), verdict(metav1.ConditionTrue, 0), concluded), want: Remove},
		"AgainLater": {reason: "A deletion requires a successful restore test, which must be retried after a delay.",
			state: verified(dying, required, verdict(metav1.ConditionUnknown, time.Minute)), want: Wait},
		"Again": {reason: "The delay since the last attempt is over, so the restore test must be retried.",
			state: verified(dying, required, verdict(metav1.ConditionFalse, time.Hour)),
			want:  Start},
		"AgainOldJob": {reason: "The result of the earlier Job is stored, so that Job must be deleted before the retry.",
			state: verified(dying, required, jobFrom(2*time.Hour), verdict(metav1.ConditionFalse, time.Hour), concluded),
			want:  Remove},
		"AgainAhead": {reason: "A result with a time in the future must not shorten the time of the new Job.",
			state: verified(dying, required, jobFrom(time.Minute), verdict(metav1.ConditionFalse, -time.Hour)),
			want:  Wait},
		"AgainFuture": {reason: "A result with a time in the future must not delay the retry.",
			state: verified(dying, required, verdict(metav1.ConditionFalse, -time.Hour)), want: Start},
		"AgainBehind": {reason: "A Job whose result is stored must be deleted, whatever its creation time is.",
			state: verified(dying, required, jobFrom(0), verdict(metav1.ConditionFalse, time.Hour), concluded), want: Remove},
		"AgainRunning": {reason: "The new Job is still running, so the controller must wait for its result.",
			state: verified(dying, required, jobFrom(time.Minute), verdict(metav1.ConditionFalse, time.Hour)), want: Wait},
		"Mongo": {reason: "The backup is not from mysqld, so no server can be started from it.",
			state: verified(func(s *State) { s.Record.Spec.Version = "8.0.4-MongoDB" }), want: Conclude,
			status: metav1.ConditionUnknown, says: "the version or the image of"},
		"NoVersion": {reason: "The version is unknown if the server never accepted a connection.",
			state: verified(func(s *State) { s.Record.Spec.Version = "" }), want: Conclude, status: metav1.ConditionUnknown,
			says: "version"},
		"NamespaceGoes": {reason: "No object can be created in a namespace that is being deleted.", state: verified(func(s *State) {
			s.Home.Namespace.DeletionTimestamp = &metav1.Time{Time: now}
		}), want: Conclude, status: metav1.ConditionUnknown, says: "namespace"},
		"LaterNamespace": {reason: "A later namespace with the same name may have a different owner.",
			state: verified(func(s *State) { s.Home.Namespace.UID = "other" }), want: Conclude, status: metav1.ConditionUnknown,
			says: "namespace"},
		"NoVolume": {reason: "The PVC is not bound to the backup volume, so the volume must not be mounted.",
			state: verified(func(s *State) { s.Volume = nil }),
			want:  Conclude, status: metav1.ConditionUnknown, says: "volume"},
		"Store": {reason: "A backup in a store can be tested, because the Job gets an ephemeral volume for the copy.",
			state: verified(inStore), want: Start},
		"StoreWhole": {reason: "The result of a backup in a store must be evaluated like any other result.",
			state: verified(inStore, report(containerBootCheck, agent.Report{OK: true, Tables: 7, Version: "8.4.6"}),
				func(s *State) {
					s.Job.Spec.Template.Spec.Volumes = nil
				}), want: Conclude, status: metav1.ConditionTrue, says: "7 tables"},
		"StoreDown": {reason: "No deletion requires the result, so the restore test must wait until the store responds.",
			state: verified(inStore, storeFails),
			want:  Wait},
		"StoreDownNow": {reason: "A deletion requires the result, so the error of the store must be reported.",
			state: verified(inStore, dying, required, storeFails), want: Conclude, status: metav1.ConditionUnknown,
			says: "it is down"},
		"StoreForgot": {reason: "Without a catalog entry there is no manifest for the Job, so the backup cannot be tested.",
			state: verified(inStore, noEntry), want: Conclude,
			status: metav1.ConditionUnknown, says: "no catalog entry"},
		"StoreOther": {reason: "The catalog entry is for another archive, so the backup cannot be tested.",
			state: verified(inStore, entryOfAnother),
			want:  Conclude, status: metav1.ConditionUnknown, says: "a different archive"},
		"InLife": {reason: "The restore test of a backup in a store does not affect the running instance.",
			state: verified(inInstance), want: Start},
		"InLifeWhole": {reason: "The result must be evaluated in the same way while the instance exists.",
			state: verified(inInstance, report(containerBootCheck, agent.Report{OK: true, Tables: 7, Version: "8.4.6"}),
				func(s *State) { s.Job.Spec.Template.Spec.Volumes = nil }), want: Conclude, status: metav1.ConditionTrue},
		"InLifeAway": {reason: "The server does not accept clients and has priority, so the restore test must wait.",
			state: verified(inInstance, away(0), noEntry), want: Wait},
		"InLifeAwayTurn": {reason: "The server has priority, so the restore test must be removed from the BackupRecord.",
			state: verified(inInstance, turn(""), away(0)), want: EndTurn},
		"InLifeStranger": {reason: "The restore test must also be removed if a Job of another owner has the name of its Job.",
			state: verified(inInstance, strangerFrom(0), turn(""), away(0)), want: EndTurn},
		"InLifeShort": {reason: "The server has not accepted clients for only a second, so the restore test may continue.",
			state: verified(inInstance, jobFrom(time.Minute), away(time.Second)), want: Wait},
		"InLifeLong": {reason: "The server has not accepted clients for a minute, so the running restore test must end.",
			state: verified(inInstance, jobFrom(time.Minute), away(serverTimeout)),
			want:  Conclude, status: metav1.ConditionUnknown, says: "had priority"},
		"InLifeSaid": {reason: "The Job has finished, so its result must be used although the server is not available.",
			state: verified(inInstance, report(containerBootCheck, agent.Report{OK: true, Version: "8.4.6"}),
				func(s *State) { s.Job.Spec.Template.Spec.Volumes = nil },
				away(time.Hour)), want: Conclude, status: metav1.ConditionTrue},
		"InLifeEndsSaid": {reason: "The Job has finished, so its result must be used although the instance is being deleted.",
			state: verified(inInstance, report(containerBootCheck, agent.Report{OK: true, Version: "8.4.6"}),
				func(s *State) { s.Job.Spec.Template.Spec.Volumes = nil }, ending), want: Conclude, status: metav1.ConditionTrue},
		"InLifeNew": {reason: "The function has not written the condition of the new instance yet.",
			state: verified(inInstance, jobFrom(time.Minute), func(s *State) {
				s.Home.XR.Conditions = nil
				s.Home.XR.SetCreationTimestamp(metav1.Time{Time: now})
			}), want: Wait},
		"InLifeNever": {reason: "The instance exists for some time and has no condition, so its server has priority.",
			state: verified(inInstance, jobFrom(time.Minute), func(s *State) { s.Home.XR.Conditions = nil }), want: Conclude,
			status: metav1.ConditionUnknown, says: "had priority"},
		"InLifeNoXR": {reason: "The claim has no XR yet, but its server will need the resources of the namespace.",
			state: verified(inInstance, func(s *State) {
				s.Home.Instance.XR, s.Home.XR, s.Home.Claim = "", nil, &instance.Composite{Unstructured: &unstructured.Unstructured{}}
			}), want: Wait},
		"InLifeEnds": {reason: "The deletion takes another backup and needs the resources, so the restore test must end.",
			state: verified(inInstance, ending, jobFrom(time.Minute)), want: Conclude, status: metav1.ConditionUnknown,
			says: "had priority"},
		"InLifeEndsSoon": {reason: "The deletion requires the restore test of its final backup, not of this backup.",
			state: verified(inInstance, ending, required),
			want:  Wait},
		"Backup": {reason: "The next backup of the instance has priority, so the restore test must wait.",
			state: verified(inInstance, backupFor(0, nil)), want: Wait},
		"BackupBeside": {reason: "The backup has just started and may run at the same time as the restore test.",
			state: verified(inInstance, jobFrom(time.Minute), backupFor(time.Second, nil)), want: Wait},
		"BackupRunning": {reason: "The pod of the backup is running, so the restore test may continue.",
			state: verified(inInstance, jobFrom(time.Minute), backupFor(time.Hour, podIn(corev1.PodRunning))), want: Wait},
		"BackupPending": {reason: "The pod of the backup has been pending for too long, so the restore test must end.",
			state: verified(inInstance, jobFrom(time.Minute), backupFor(serverTimeout, podIn(corev1.PodPending))), want: Conclude,
			status: metav1.ConditionUnknown, says: "its backup needed the space"},
		"BackupRefused": {reason: "The Job of the backup was not created in time, so the restore test must end.",
			state: verified(inInstance, jobFrom(time.Minute), backupFor(serverTimeout, nil)),
			want:  Conclude, status: metav1.ConditionUnknown, says: "its backup needed the space"},
		"StoreDownTurn": {reason: "The store does not respond, so the restore test must be removed from the BackupRecord.",
			state: verified(inInstance, turn(""), storeFails), want: EndTurn},
		"Queued": {reason: "The maximum number of restore tests is running, so the store must not be read.",
			state: verified(inInstance, busy([]string{"a", "b"}, nil), noEntry), want: Wait},
		"Planned": {reason: "Each restore test reads a whole backup, so scheduled backups are tested once a day at most.",
			state: verified(inInstance, planned(metav1.ConditionTrue, time.Hour), noEntry), want: Wait},
		"PlannedDue": {reason: "The last restore test of a scheduled backup was a day ago, so the next one must start.",
			state: verified(inInstance, planned(metav1.ConditionTrue, 24*time.Hour)),
			want:  Start},
		"PlannedInVain": {reason: "A restore test without a verdict has also read a whole backup, so the next one must wait.",
			state: verified(inInstance, planned(metav1.ConditionUnknown, time.Hour), noEntry), want: Wait},
		"PlannedAhead": {reason: "A result with a time in the future must not delay the restore test.",
			state: verified(inInstance, planned(metav1.ConditionTrue, -time.Hour)), want: Start},
		"PlannedHasTurn": {reason: "A restore test in the BackupRecord must start even if another backup was tested recently.",
			state: verified(inInstance, planned(metav1.ConditionTrue, time.Hour), turn("")), want: Start},
		"PlannedVolume": {reason: "The daily limit applies only to stores, and this backup is on a volume.",
			state: verified(planned(metav1.ConditionTrue, time.Hour)), want: Start},
		"OddArchive": {reason: "The path of an archive must not lead out of the directory of its backup.",
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

// TestNewest checks that newestVerified does not depend on the order of the BackupRecords.
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
		"Tried": {reason: "The restore test of the earlier backup must continue, or it would never finish.",
			newest: newer, want: tried.Name},
		"Concluded": {reason: "The restore test of the earlier backup has finished, so the newest backup must be tested.",
			newest: newer, change: func() { tried.Status.RestoreTest.Concluded = true },
			want: newer.Name},
		"NoJob": {reason: "The restore test of the earlier backup has no Job yet, so the newest backup must be tested.",
			newest: newer, change: func() { tried.Status.RestoreTest.Job = "" },
			want: newer.Name},
		"Deleted": {reason: "The earlier BackupRecord is being deleted, so the newest backup must be tested.", newest: newer,
			change: func() { tried.DeletionTimestamp = &metav1.Time{Time: now} }, want: newer.Name},
		"OnVolume": {reason: "The earlier backup is on a volume that an instance may need.", newest: newer,
			change: func() { tried.Spec.Archive = last.Spec.Archive }, want: newer.Name},
		"Ended": {reason: "A deletion may require the restore test of the final backup, so this backup must be tested.",
			newest: last, want: last.Name},
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
		"NoOp": {reason: "Without an action, nothing must be written.", state: verified(verdict(metav1.ConditionTrue, 0))},
		"Start": {reason: "The restore test must be stored in the BackupRecord before the Job is created.", state: verified(),
			want: []string{"PatchStatus BackupRecord AsRead", "Create Job "}},
		"Taken": {reason: "After a crash, the restore test is already stored, so only the Job must be created.",
			state: verified(turn("")), want: []string{"Create Job "}},
		"Name": {reason: "The UID of the Job must be stored in the BackupRecord.", state: verified(unnamedJob),
			want: []string{"PatchStatus BackupRecord AsRead"}},
		"Conclude": {reason: "The result must be written only if the BackupRecord has not changed since it was read.",
			state: verified(report(containerBootCheck, agent.Report{OK: true})), want: []string{"PatchStatus BackupRecord AsRead"}},
		"Store": {reason: "The Job must get access to the store before it is created.", state: verified(inStore),
			want: []string{"PatchStatus BackupRecord AsRead", "GiveAccess Secret ", "Create Job "}},
		"StoreOn": {reason: "After a crash, the Job must get access to the store again.", state: verified(inStore, turn("")),
			want: []string{"GiveAccess Secret ", "Create Job "}},
		"StoreEnd": {reason: "Access to the store must be removed when the restore test ends.",
			state: verified(inStore, granted, turn("job"), verdict(metav1.ConditionTrue, 0)),
			want:  []string{"Delete PartialObjectMetadata SameObject", "PatchStatus BackupRecord AsRead"}},
		"StoreOut": {reason: "Access to the store must be removed together with the Job.",
			state: verified(inStore, granted, jobFrom(time.Minute), verdict(metav1.ConditionTrue, 0)),
			want:  []string{"Delete PartialObjectMetadata SameObject", "Delete Job SameObject"}},
		"Remove": {reason: "Only the Job that was read must be deleted, not a later one.",
			state: verified(jobFrom(time.Minute), verdict(metav1.ConditionTrue, 0)), want: []string{"Delete Job SameObject"}},
		"End": {reason: "The Job is deleted, so the restore test must be removed from the BackupRecord.",
			state: verified(turn("job"), verdict(metav1.ConditionTrue, 0)),
			want:  []string{"PatchStatus BackupRecord AsRead"}},
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
