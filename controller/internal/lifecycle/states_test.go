package lifecycle

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

const (
	xrUID   = "6f9b3a52-6f6a-4d0f-9a35-0c5d3d1c7b11"
	volume1 = "pvc-1"
	// earlierUID is that of a namespace that had the same name.
	earlierUID = "earlier"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A variation makes one thing of a state different.
type variation func(*instance.State)

// running instance: all is protected, and nothing is to be done.
func running(changes ...variation) *instance.State {
	life := v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "db", XR: xrUID}
	s := instance.NewState(instance.Subject{
		Settings: instance.Settings{AgentImage: "ghcr.io/crossplane-mysql/crossplane-mysql:v0.1.0"},
		Life:     life, Now: now,
		Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}},
		Claim:     composite("MySQL", "db", "claim"),
		XR:        composite("XMySQL", "db-x", xrUID),
	})
	s.DataPVC = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: life.DataPVCName(), Namespace: "default", UID: "claim",
			Finalizers: []string{v1.Finalizer}},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: volume1, StorageClassName: new("fast")},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	s.DataPV = &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume1, Finalizers: []string{v1.Finalizer}, Labels: life.Labels()},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: life.DataPVCName(),
				UID: "claim"},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	s.BackupPVC = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: life.BackupPVCName(), Namespace: "default", Labels: steps.BackupLabels(life),
			Annotations: map[string]string{v1.AnnotationRetainedPV: "pvc-2"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "pvc-2", StorageClassName: new("fast"),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	s.XR.Status = v1.MySQLStatus{Volume: volume1, Image: runningImage,
		InternalStatus: v1.InternalStatus{Started: true, PreviousBackup: v1.PreviousNone, BackupNumber: 1}}
	s.XR.Conditions = []metav1.Condition{{Type: v1.ConditionServing, Status: metav1.ConditionTrue}}
	s.XR.Spec.StorageSize, s.XR.Spec.DeletionPolicy = new("1Gi"), v1.DeletionBackup
	s.Claim.Spec = s.XR.Spec
	s.DataPV.Annotations = backup.IdentityAnnotations(s)
	s.DataPV.Annotations[v1.AnnotationReclaimPolicy] = "Delete"
	steps.MarkUID(s.DataPV)
	steps.MarkUID(s.DataPVC)
	return apply(s, changes)
}

// fenced instance: deleted a minute ago, announced, and its server is gone.
func fenced(changes ...variation) *instance.State {
	s := running(dead, backupsBound)
	s.Records = []v1.BackupRecord{*backup.NewRecord(s)}
	s.Records[0].Status.Phase = v1.BackupPending
	return apply(s, changes)
}

// backupsBound is the volume of the backup PVC, where it is read.
func backupsBound(s *instance.State) {
	s.BackupPV = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: s.BackupPVC.Spec.VolumeName, Labels: steps.BackupLabels(s.Life), Annotations: backup.PVAnnotations(s),
		Finalizers: []string{v1.Finalizer},
	}}
	s.BackupPV.Spec.ClaimRef = steps.ReservedFor(s.BackupPVC.Namespace, s.BackupPVC.Name)
	s.BackupPV.Spec.ClaimRef.UID = s.BackupPVC.UID
}

// proven instance: the backup is, and nothing has been released yet.
func provenState(changes ...variation) *instance.State {
	return apply(fenced(withJob(complete), phase(v1.BackupProven)), changes)
}

func apply(s *instance.State, changes []variation) *instance.State {
	for _, c := range changes {
		c(s)
	}
	if s.XR != nil && !slices.ContainsFunc(s.XR.Status.ListedBackups(),
		func(b v1.ListedBackup) bool { return b.Name == unlisted }) {
		s.XR.Status.Backups = &v1.BackupsStatus{Recent: v1.ListBackups(s.Records)}
	}
	return s
}

// unlisted is the name of what a status has that is to be written anew.
const unlisted = "unlisted"

func composite(kind, name, uid string) *instance.Composite {
	u := &unstructured.Unstructured{
		Object: map[string]any{"kind": kind, "metadata": map[string]any{"name": name, "uid": uid}}}
	u.SetFinalizers([]string{v1.Finalizer})
	return &instance.Composite{Unstructured: u}
}

// blocked XR, as its status has it.
func blocked(reason, blocker string) variation {
	return func(s *instance.State) { s.XR.Status.BlockedBy = &v1.Blocker{Reason: reason, Message: blocker} }
}

func dead(s *instance.State) {
	timestamp := metav1.NewTime(now.Add(-time.Minute))
	s.Claim.SetDeletionTimestamp(&timestamp)
	s.XR.SetDeletionTimestamp(&timestamp)
}

// nothingLeft is left, nor data.
func nothingLeft(s *instance.State) {
	s.XR, s.Life.XR, s.DataPVC, s.DataPV = nil, "", nil, nil
}

// composing may be Crossplane, and has been awaited for so long.
func composing(awaited time.Duration) variation {
	return func(s *instance.State) {
		s.XR.SetFinalizers([]string{v1.Finalizer, instance.FinalizerCrossplane})
		s.CrossplaneAwaited = awaited
	}
}

func undefined(s *instance.State) { s.Undefined = true }

// bare removes the controller's finalizer from a composite resource that Crossplane holds.
func bare(s *instance.State) { s.XR.SetFinalizers([]string{instance.FinalizerCrossplane}) }

// removedForeignFinalizer returns a finalizer that a change removes and that is not the controller's, or "".
func removedForeignFinalizer(c change.Change) string {
	if c.Verb != change.Patch {
		return ""
	}
	for _, f := range c.Read.GetFinalizers() {
		if f != v1.Finalizer && !slices.Contains(c.Object.GetFinalizers(), f) {
			return f
		}
	}
	return ""
}

// dyingClaim is held by these, and Crossplane has been awaited for so long.
func dyingClaim(awaited time.Duration, finalizers ...string) variation {
	return func(s *instance.State) {
		s.CrossplaneAwaited = awaited
		s.Claim.SetFinalizers(finalizers)
		s.Claim.SetNamespace(s.Life.Namespace)
		s.Claim.SetDeletionTimestamp(&metav1.Time{Time: now})
	}
}

// claimDies while our finalizer is on it.
func claimDies(s *instance.State) { s.DataPVC.DeletionTimestamp = &metav1.Time{Time: now} }

// claimGone is one that somebody took the finalizer from.
func claimGone(s *instance.State) { s.DataPVC = nil }

// unbound volume can be had by a claim of its name.
func unbound(s *instance.State) { s.DataPV.Spec.ClaimRef.UID = "" }

// atPlace is a volume that is reserved for the place of the rescue.
func atPlace(s *instance.State) {
	s.DataPV.Spec.ClaimRef = steps.ReservedFor(s.JobLocation().Namespace, s.JobLocation().Data)
}

// mounted at the place of the rescue.
func mounted(s *instance.State) {
	atPlace(s)
	s.DataPVC = pvcOnDataPV(s)
}

// homeless life: its namespace goes, and its claims go with it.
func homeless(s *instance.State) {
	s.Namespace.DeletionTimestamp = &metav1.Time{Time: now}
	s.OriginalPVC, s.DataPVC, s.BackupPVC = s.DataPVC, nil, nil
	s.OriginalPVC.DeletionTimestamp = &metav1.Time{Time: now}
}

// superseded life: the claim has another XR by now.
func superseded(s *instance.State) { s.OrphanedFromClaim, s.Claim = true, nil }

// orphaned life: its XR was let go by somebody else.
func orphaned(s *instance.State) {
	s.Orphan, s.XR, s.Claim = new(s.Identity()), nil, nil
	s.OriginalPVC, s.DataPVC = s.DataPVC, nil
}

// copied volume: it has the labels of a life that was elsewhere.
func copied(s *instance.State) { s.Orphan.Copy = s.DataPV }

// besideCopy is a life whose name such data has, too.
func besideCopy(s *instance.State) { s.PredecessorTerminating, s.PredecessorCopy = true, s.DataPV }

// lostSkip is the annotation of the volume, as the life has it.
func lostSkip(s *instance.State) {
	s.Orphan.Annotations = map[string]string{v1.AnnotationSkipBackup: xrUID}
}

func originGone(s *instance.State) { s.OriginalPVC = nil }

// stopped server of an instance that lives.
func stopped(s *instance.State) { s.XR.Status.PVCDeleted = true }

// silent server: nobody ever reached it.
func silent(s *instance.State) { s.XR.Conditions = nil }

// suspended, as the function says.
func suspended(s *instance.State) {
	s.XR.Spec.Suspend = true
	s.XR.Conditions = []metav1.Condition{
		{Type: v1.ConditionServing, Status: metav1.ConditionFalse, Reason: v1.ReasonSuspended}}
}

func phase(p v1.BackupPhase) variation {
	return func(s *instance.State) { s.Records[0].Status.Phase = p }
}

func complete(j *instance.Job) {
	j.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
	j.Report = &agent.Report{Command: "backup", OK: true, Archive: catalog.ArchiveName, SHA256: strings.Repeat("a", 64)}
}

func failedAt(elapsed time.Duration, reason string) func(*instance.Job) {
	return func(j *instance.Job) {
		j.Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(elapsed))}}
		j.Report = &agent.Report{Command: "backup", Error: reason, ExitCode: agent.ExitNoSpace}
	}
}

// lacks so many bytes.
func lacks(bytes int64) func(*instance.Job) {
	return func(j *instance.Job) { j.Report.Lacks = bytes }
}

// backupHas so much room, of what it was asked for.
func backupHas(room, asked string) variation {
	return func(s *instance.State) {
		s.BackupPVC.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(room)}
		s.BackupPVC.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(asked)
	}
}

// needs so much room for backups, as was found when it began.
func needs(size string) variation {
	return func(s *instance.State) { s.XR.Status.BackupNeeds = size }
}

func warned(s *instance.State) {
	s.XR.Status.BackupWarning = "The next backup probably does not fit: it needs 3Gi together with the existing " +
		"backups, and PersistentVolumeClaim backup-db-pvc has 1Gi and cannot be expanded. Delete files that are " +
		"not needed there, or keep fewer backups (spec.backup.retention.count)"
}

// archivesOf all records are so large.
func archivesOf(size string) variation {
	return func(s *instance.State) {
		for i := range s.Records {
			s.Records[i].Spec.Archive.Size = size
		}
	}
}

// refusedSize is what its class, or a quota, did not let it have.
func refusedSize(size string) variation {
	return func(s *instance.State) { s.BackupPVC.Annotations[v1.AnnotationRefusedSize] = size }
}

func withJob(changes ...func(*instance.Job)) variation {
	return func(s *instance.State) {
		s.BackupJob = &instance.Job{Job: backup.NewJob(s)}
		for _, h := range changes {
			h(s.BackupJob)
		}
	}
}

func withPod(labels map[string]string, phase corev1.PodPhase) variation {
	return func(s *instance.State) {
		s.Pods = append(s.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels},
			Status: corev1.PodStatus{Phase: phase}})
	}
}

func deployment(replicas int32) variation {
	return func(s *instance.State) {
		s.Deployment = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "db"},
			Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
	}
}

func older(n int) variation {
	return func(s *instance.State) {
		for i := range n {
			name := "old-" + string(rune('a'+i))
			s.Records = append(s.Records, v1.BackupRecord{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: v1.BackupRecordSpec{
					Instance: v1.BackedUpInstance{XR: "earlier", NamespaceUID: "ns"},
					Archive:  &v1.Archive{PVCName: s.Life.BackupPVCName(), Path: name + "/" + catalog.ArchiveName},
				},
				Status: v1.BackupRecordStatus{Phase: v1.BackupProven},
			})
		}
	}
}

// reborn life, before its first start, in a later namespace of the same name: the
// newest backup is of the earlier one.
func reborn(s *instance.State) {
	older(1)(s)
	s.Records[0].Spec.Instance.NamespaceUID = earlierUID
	s.XR.Status.Started, s.XR.Status.PreviousBackup, s.XR.Conditions = false, s.Records[0].Name, nil
	s.BackupPVC = nil
}

// chosen backup, by the function.
func chosen(s *instance.State) {
	s.XR.Status.Restore = &v1.RestoreStatus{Backup: s.Records[0].Name, Phase: v1.RestoreRunning}
}

// left by the earlier namespace.
func left(s *instance.State) {
	chosen(s)
	s.EarlierBackupPV = backupsOn("pvc-0", earlierUID)
}

// backupsOn a volume that is kept for a namespace.
func backupsOn(name, namespace string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: name, Finalizers: []string{v1.Finalizer}, Annotations: map[string]string{v1.AnnotationNamespaceUID: namespace},
	}}
}

// inTheWay is what an earlier life in this namespace left, which had no data.
func inTheWay(s *instance.State) {
	s.BackupPVC, s.BackupPV = running().BackupPVC, backupsOn("pvc-2", "ns")
}

// earlierPlace is a volume that was made for an earlier life and that one node can use.
func earlierPlace(s *instance.State) {
	backupsBound(s)
	s.BackupPV.Spec.NodeAffinity = agent.OnNode("worker")
	s.BackupPV.UID = "pv"
	steps.MarkUID(s.BackupPV)
	steps.MarkUID(s.BackupPVC)
	steps.SetAnnotation(s.BackupPVC, v1.AnnotationMadeFor, earlierUID)
}

// archived backup of an earlier life on it.
func archived(s *instance.State) { older(1)(s) }

// recorded is what there is to know before a start.
func recorded(s *instance.State) {
	s.XR.Status.PreviousBackup, s.XR.Status.BackupNodes = v1.PreviousNone, backupNodes(s)
}

func claimOfBackupsGone(s *instance.State) { s.BackupPVC = nil }

// letGone is a volume that our finalizer is off.
func letGone(s *instance.State) { s.BackupPV.Finalizers = nil }

// unsynced is what Crossplane has said of an XR for so long.
func unsynced(reason, message string, since time.Duration) variation {
	return func(s *instance.State) {
		s.XR.Conditions = append(s.XR.Conditions, metav1.Condition{
			Type: conditionSynced, Status: metav1.ConditionFalse, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(s.Now.Add(-since)),
		})
	}
}

// refused is a step that a quota has refused.
func refused(action steps.Action) variation {
	return func(s *instance.State) { s.Refusal = &instance.Refusal{Of: string(action), Message: "exceeded quota"} }
}

// outlived is a restore whose program has ended with a code in a pod that goes on.
func outlived(code int32, phase v1.RestorePhase) variation {
	return func(s *instance.State) {
		j := &batchv1.Job{}
		j.Name, j.UID = "restore-job", "job"
		p := corev1.Pod{}
		p.Name = "restore-pod"
		s.RestoreJob = &instance.Job{Job: j, Going: &p, Outlived: &corev1.ContainerStateTerminated{ExitCode: code}}
		s.XR.Status.Restore = &v1.RestoreStatus{Backup: "b", Phase: phase}
	}
}

// doneRestoring is a restore whose program has ended well, and whose Job does not know it yet.
func doneRestoring() variation {
	return func(s *instance.State) {
		j := &batchv1.Job{}
		j.Name, j.UID = "restore-job", "job"
		s.RestoreJob = &instance.Job{Job: j, Succeeded: &corev1.ContainerStateTerminated{}}
	}
}

// completeRestore is one whose Job does.
func completeRestore() variation {
	return func(s *instance.State) {
		doneRestoring()(s)
		s.RestoreJob.Succeeded = nil
		s.RestoreJob.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	}
}

func restorePhase(phase v1.RestorePhase) variation {
	return func(s *instance.State) { s.XR.Status.Restore = &v1.RestoreStatus{Backup: "b", Phase: phase} }
}

func restoredBy(uid types.UID) variation {
	return func(s *instance.State) { s.XR.Status.RestoredBy = uid }
}

// restoring since that many seconds after the backup PVC's deletion.
func restoring(seconds int, changes ...func(*instance.Job)) variation {
	return func(s *instance.State) {
		s.RestoreJob = &instance.Job{Job: &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(time.Duration(seconds) * time.Second))}}}
		for _, h := range changes {
			h(s.RestoreJob)
		}
	}
}

func hostPath(s *instance.State) {
	s.DataPV.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/var/lib/x/" + volume1}
}

// onNode is where a pod of the server has run.
func onNode(s *instance.State) { s.Node = "node1" }

// classless is a data PVC that waits for a volume of its name.
func classless(s *instance.State) { s.DataPVC.Spec.StorageClassName = new("") }

func released(s *instance.State) { s.DataPV.Finalizers = nil }

// broken Job, of something that has nothing to do with room.
func broken(s *instance.State) { s.BackupJob.Report.ExitCode = agent.ExitFailed }

// backupUnbound is a backup PVC that nothing has used yet.
func backupUnbound(s *instance.State) {
	s.BackupPVC.Spec.VolumeName, s.BackupPVC.Status.Phase, s.BackupPVC.Annotations = "", corev1.ClaimPending, nil
}

func larger(s *instance.State) { s.XR.Spec.StorageSize = new("2Gi") }

func going(s *instance.State) { s.BackupPVC.DeletionTimestamp = &metav1.Time{Time: now} }

func noClaim(s *instance.State) { s.DataPVC, s.DataPV, s.BackupJob = nil, nil, nil }

// ephemeral Database: nothing of it outlives its pod, and nothing is protected.
func ephemeral(s *instance.State) {
	s.Life.Kind = v1.KindDatabase
	s.DataPVC, s.DataPV, s.BackupPVC = nil, nil, nil
	s.XR.Spec.StorageSize, s.XR.Status.Volume = nil, ""
	s.Claim.Spec = s.XR.Spec
	s.XR.SetFinalizers(nil)
	s.Claim.SetFinalizers(nil)
}

func asDatabase(s *instance.State) {
	s.Life.Kind = v1.KindDatabase
	s.XR.SetKind(v1.KindXDatabase)
	s.DataPV.Spec.ClaimRef.Name = s.Life.DataPVCName()
	for i := range s.Records {
		s.Records[i].Name = s.Attempt().Record
	}
}

func discard(s *instance.State) { s.Claim.Spec.DeletionPolicy = v1.DeletionDiscard }

func skip(uid string) variation {
	return func(s *instance.State) { s.XR.SetAnnotations(map[string]string{v1.AnnotationSkipBackup: uid}) }
}

func marked(s *instance.State) {
	s.XR.SetAnnotations(map[string]string{v1.AnnotationNothingToLose: xrUID})
}

func neverHadVolume(s *instance.State) {
	s.DataPVC.Spec.VolumeName, s.DataPV, s.XR.Status = "", nil, v1.MySQLStatus{}
}

// failedForRoom is a record that says already what the Job says: full.
func failedForRoom(s *instance.State) {
	s.Records[0].Status = v1.BackupRecordStatus{Phase: v1.BackupFailed, Message: "full"}
}

func pruned(change func(*instance.Job)) variation {
	return func(s *instance.State) {
		s.PruneJob = &instance.Job{Job: backup.PruneJob(s, catalog.ExpiredBackups(s))}
		change(s.PruneJob)
	}
}

func wiped(change func(*instance.Job)) variation {
	return func(s *instance.State) {
		s.WipeJob = &instance.Job{Job: backup.WipeJob(s)}
		change(s.WipeJob)
	}
}

// requireRestoreTest says that a server must start from the backup.
func requireRestoreTest(s *instance.State) {
	s.XR.Spec.Backup.FinalBackup = &v1.FinalBackup{RequireRestoreTest: new(true)}
	s.Claim.Spec.Backup.FinalBackup = &v1.FinalBackup{RequireRestoreTest: new(true)}
}

// restorable is the verdict on the nth record.
func restorable(n int, status metav1.ConditionStatus) variation {
	return func(s *instance.State) {
		s.Records[n].Status.Conditions = []metav1.Condition{{Type: v1.ConditionRestorable, Status: status, Message: "why"}}
	}
}

// ownNote is that of the life's own backup.
func ownNote(s *instance.State) {
	r := s.Record().DeepCopy()
	r.Spec.Archive = &v1.Archive{PVCName: s.Life.BackupPVCName(), Path: r.Name + "/" + catalog.ArchiveName,
		SHA256: strings.Repeat("a", 64)}
	s.Notes = []instance.Note{{Name: r.Name, Volume: "pvc-2", BackupNote: r.Note()}}
}

// beginning is an instance that nobody has looked for earlier ones of.
func beginning(s *instance.State) {
	s.XR.Status.Started, s.XR.Status.PreviousBackup, s.XR.Conditions = false, "", nil
}

// noteLeft is one of a backup whose record is gone.
func noteLeft(s *instance.State) {
	s.Notes = []instance.Note{{Name: "old-a", Volume: "pvc-2",
		BackupNote: v1.BackupNote{Record: "record", AnnouncedAt: metav1.NewTime(now.Add(-time.Hour))}}}
	s.Notes[0].Spec.Instance.XR = earlierUID
}

func claimDeleted(s *instance.State) { s.Claim.SetDeletionTimestamp(&metav1.Time{Time: now}) }

func pausedClaim(s *instance.State) {
	s.Claim.SetAnnotations(map[string]string{instance.AnnotationPaused: "true"})
}
