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
	// earlierUID is the UID of a previous namespace with the same name.
	earlierUID = "earlier"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A variation changes the healthy instance that running returns into the state that a test needs.
type variation func(*instance.State)

// running returns an existing instance whose data is protected, so that the controller has nothing to do.
func running(changes ...variation) *instance.State {
	instanceID := v1.Instance{Kind: v1.KindMySQL, Namespace: "default", Name: "db", XR: xrUID}
	s := instance.NewState(instance.Subject{
		Settings: instance.Settings{AgentImage: "ghcr.io/crossplane-mysql/crossplane-mysql:v0.1.0"},
		Instance: instanceID, Now: now,
		Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}},
		Claim:     composite("MySQL", "db", "claim"),
		XR:        composite("XMySQL", "db-x", xrUID),
	})
	s.DataPVC = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: instanceID.DataPVCName(), Namespace: "default", UID: "claim",
			Finalizers: []string{v1.Finalizer}},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: volume1, StorageClassName: new("fast")},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	s.DataPV = &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume1, Finalizers: []string{v1.Finalizer}, Labels: instanceID.Labels()},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: instanceID.DataPVCName(),
				UID: "claim"},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	s.BackupPVC = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: instanceID.BackupPVCName(), Namespace: "default", Labels: steps.BackupLabels(instanceID),
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

// fenced returns an instance that was deleted a minute ago. It has a BackupRecord, and its server has stopped.
func fenced(changes ...variation) *instance.State {
	s := running(dead, backupsBound)
	s.Records = []v1.BackupRecord{*backup.NewRecord(s)}
	s.Records[0].Status.Phase = v1.BackupPending
	return apply(s, changes)
}

// backupsBound adds the volume that the backup PVC is bound to.
func backupsBound(s *instance.State) {
	s.BackupPV = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: s.BackupPVC.Spec.VolumeName, Labels: steps.BackupLabels(s.Instance), Annotations: backup.PVAnnotations(s),
		Finalizers: []string{v1.Finalizer},
	}}
	s.BackupPV.Spec.ClaimRef = steps.ReservedFor(s.BackupPVC.Namespace, s.BackupPVC.Name)
	s.BackupPV.Spec.ClaimRef.UID = s.BackupPVC.UID
}

// verifiedState returns an instance whose backup is verified and whose data is not released yet.
func verifiedState(changes ...variation) *instance.State {
	return apply(fenced(withJob(complete), phase(v1.BackupVerified)), changes)
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

// unlisted is a backup name in the status. It makes the list of backups outdated, so that the controller must write
// the list again.
const unlisted = "unlisted"

func composite(kind, name, uid string) *instance.Composite {
	u := &unstructured.Unstructured{
		Object: map[string]any{"kind": kind, "metadata": map[string]any{"name": name, "uid": uid}}}
	u.SetFinalizers([]string{v1.Finalizer})
	return &instance.Composite{Unstructured: u}
}

// blocked sets status.internal.blockedBy, in which the controller reports why the instance does not start.
func blocked(reason, blocker string) variation {
	return func(s *instance.State) { s.XR.Status.BlockedBy = &v1.Blocker{Reason: reason, Message: blocker} }
}

func dead(s *instance.State) {
	timestamp := metav1.NewTime(now.Add(-time.Minute))
	s.Claim.SetDeletionTimestamp(&timestamp)
	s.XR.SetDeletionTimestamp(&timestamp)
}

// nothingLeft removes the XR and the data.
func nothingLeft(s *instance.State) {
	s.XR, s.Instance.XR, s.DataPVC, s.DataPV = nil, "", nil, nil
}

// composing adds Crossplane's finalizer to the XR. awaited is the time for which the deletion has waited for
// Crossplane.
func composing(awaited time.Duration) variation {
	return func(s *instance.State) {
		s.XR.SetFinalizers([]string{v1.Finalizer, instance.FinalizerCrossplane})
		s.CrossplaneAwaited = awaited
	}
}

func undefined(s *instance.State) { s.Undefined = true }

// bare leaves only the finalizer of Crossplane on the XR.
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

// dyingClaim deletes the claim, which has the given finalizers. awaited is the time for which the deletion has waited
// for Crossplane.
func dyingClaim(awaited time.Duration, finalizers ...string) variation {
	return func(s *instance.State) {
		s.CrossplaneAwaited = awaited
		s.Claim.SetFinalizers(finalizers)
		s.Claim.SetNamespace(s.Instance.Namespace)
		s.Claim.SetDeletionTimestamp(&metav1.Time{Time: now})
	}
}

// claimDies deletes the data PVC, which has the controller's finalizer.
func claimDies(s *instance.State) { s.DataPVC.DeletionTimestamp = &metav1.Time{Time: now} }

// claimGone removes the data PVC, as if a user had removed its finalizer.
func claimGone(s *instance.State) { s.DataPVC = nil }

// unbound reserves the data volume for the data PVC, without binding it.
func unbound(s *instance.State) { s.DataPV.Spec.ClaimRef.UID = "" }

// atPlace reserves the data volume for the PVC in the recovery namespace.
func atPlace(s *instance.State) {
	s.DataPV.Spec.ClaimRef = steps.ReservedFor(s.JobLocation().Namespace, s.JobLocation().Data)
}

// mounted binds the data volume to the PVC in the recovery namespace.
func mounted(s *instance.State) {
	atPlace(s)
	s.DataPVC = pvcOnDataPV(s)
}

// homeless deletes the namespace of the instance together with its PVCs.
func homeless(s *instance.State) {
	s.Namespace.DeletionTimestamp = &metav1.Time{Time: now}
	s.OriginalPVC, s.DataPVC, s.BackupPVC = s.DataPVC, nil, nil
	s.OriginalPVC.DeletionTimestamp = &metav1.Time{Time: now}
}

// superseded binds the claim of the XR to another XR.
func superseded(s *instance.State) { s.OrphanedFromClaim, s.Claim = true, nil }

// orphaned removes the XR and the claim, as if another client had removed the finalizers.
func orphaned(s *instance.State) {
	s.Orphan, s.XR, s.Claim = new(s.Identity()), nil, nil
	s.OriginalPVC, s.DataPVC = s.DataPVC, nil
}

// copied makes the data volume a copy of another volume, with the labels of the original instance.
func copied(s *instance.State) { s.Orphan.Copy = s.DataPV }

// besideCopy adds a previous instance with the same name, whose data volume is a copy.
func besideCopy(s *instance.State) { s.PredecessorTerminating, s.PredecessorCopy = true, s.DataPV }

// lostSkip adds the annotation that skips the backup to the volume of this instance.
func lostSkip(s *instance.State) {
	s.Orphan.Annotations = map[string]string{v1.AnnotationSkipBackup: xrUID}
}

func originGone(s *instance.State) { s.OriginalPVC = nil }

// stopped makes the function stop the server because the data PVC is being deleted.
func stopped(s *instance.State) { s.XR.Status.PVCDeleted = true }

// silent removes the conditions of the XR, as if its server had never accepted a client.
func silent(s *instance.State) { s.XR.Conditions = nil }

// suspended suspends the instance.
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

// lacks sets the number of bytes that the Job reports as missing on the backup volume.
func lacks(bytes int64) func(*instance.Job) {
	return func(j *instance.Job) { j.Report.Lacks = bytes }
}

// backupHas sets the capacity and the request of the backup PVC.
func backupHas(room, asked string) variation {
	return func(s *instance.State) {
		s.BackupPVC.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(room)}
		s.BackupPVC.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(asked)
	}
}

// needs sets the space that backups need, as it was computed at the start of the backup.
func needs(size string) variation {
	return func(s *instance.State) { s.XR.Status.BackupNeeds = size }
}

func warned(s *instance.State) {
	s.XR.Status.BackupWarning = "The next backup probably does not fit: with the existing backups, it needs 3Gi, but " +
		"PersistentVolumeClaim backup-db-pvc has only 1Gi and cannot be expanded. Delete unneeded files there, or keep " +
		"fewer backups (spec.backup.retention.count)"
}

// archivesOf sets the size of the archives of all BackupRecords.
func archivesOf(size string) variation {
	return func(s *instance.State) {
		for i := range s.Records {
			s.Records[i].Spec.Archive.Size = size
		}
	}
}

// refusedSize records a size of the backup PVC that the StorageClass or a quota has refused.
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
					Archive:  &v1.Archive{PVCName: s.Instance.BackupPVCName(), Path: name + "/" + catalog.ArchiveName},
				},
				Status: v1.BackupRecordStatus{Phase: v1.BackupVerified},
			})
		}
	}
}

// reborn changes the instance to one in a recreated namespace, before its first start. The newest backup is from the
// previous namespace.
func reborn(s *instance.State) {
	older(1)(s)
	s.Records[0].Spec.Instance.NamespaceUID = earlierUID
	s.XR.Status.Started, s.XR.Status.PreviousBackup, s.XR.Conditions = false, s.Records[0].Name, nil
	s.BackupPVC = nil
}

// chosen sets the backup that the function has chosen.
func chosen(s *instance.State) {
	s.XR.Status.Restore = &v1.RestoreStatus{Backup: s.Records[0].Name, Phase: v1.RestoreRunning}
}

// left adds the backup volume of the previous namespace, which contains the backup that the function chose.
func left(s *instance.State) {
	chosen(s)
	s.EarlierBackupPV = backupsOn("pvc-0", earlierUID)
}

// backupsOn returns a retained backup volume of a namespace.
func backupsOn(name, namespace string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: name, Finalizers: []string{v1.Finalizer}, Annotations: map[string]string{v1.AnnotationNamespaceUID: namespace},
	}}
}

// inTheWay adds an empty backup volume of an earlier instance in this namespace.
func inTheWay(s *instance.State) {
	s.BackupPVC, s.BackupPV = running().BackupPVC, backupsOn("pvc-2", "ns")
}

// earlierPlace adds a backup volume that was created for a previous instance and that only one node can use.
func earlierPlace(s *instance.State) {
	backupsBound(s)
	s.BackupPV.Spec.NodeAffinity = agent.OnNode("worker")
	s.BackupPV.UID = "pv"
	steps.MarkUID(s.BackupPV)
	steps.MarkUID(s.BackupPVC)
	steps.SetAnnotation(s.BackupPVC, v1.AnnotationMadeFor, earlierUID)
}

// archived adds a backup of a previous instance.
func archived(s *instance.State) { older(1)(s) }

// recorded writes the status fields that the function needs before it starts the server.
func recorded(s *instance.State) {
	s.XR.Status.PreviousBackup, s.XR.Status.BackupNodes = v1.PreviousNone, backupNodes(s)
}

func claimOfBackupsGone(s *instance.State) { s.BackupPVC = nil }

// letGone removes the controller's finalizer from the backup volume.
func letGone(s *instance.State) { s.BackupPV.Finalizers = nil }

// unsynced makes Crossplane report the XR as not synced. since is the time for which it has done so.
func unsynced(reason, message string, since time.Duration) variation {
	return func(s *instance.State) {
		s.XR.Conditions = append(s.XR.Conditions, metav1.Condition{
			Type: conditionSynced, Status: metav1.ConditionFalse, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(s.Now.Add(-since)),
		})
	}
}

// refused records that a quota refused an action.
func refused(action steps.Action) variation {
	return func(s *instance.State) { s.Refusal = &instance.Refusal{Of: string(action), Message: "exceeded quota"} }
}

// outlived adds a restore whose program has exited with the given code, while another container keeps its pod
// running.
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

// doneRestoring adds a restore whose program has succeeded, while the status of its Job does not show this yet.
func doneRestoring() variation {
	return func(s *instance.State) {
		j := &batchv1.Job{}
		j.Name, j.UID = "restore-job", "job"
		s.RestoreJob = &instance.Job{Job: j, Succeeded: &corev1.ContainerStateTerminated{}}
	}
}

// completeRestore adds a restore whose Job is complete.
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

// restoring adds a restore Job that was created the given number of seconds after the deletion of the backup PVC.
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

// onNode sets node1 as the node on which the server's pod has run.
func onNode(s *instance.State) { s.Node = "node1" }

// classless removes the StorageClass from the data PVC.
func classless(s *instance.State) { s.DataPVC.Spec.StorageClassName = new("") }

func released(s *instance.State) { s.DataPV.Finalizers = nil }

// broken makes the backup Job fail for a reason other than disk space.
func broken(s *instance.State) { s.BackupJob.Report.ExitCode = agent.ExitFailed }

// backupUnbound makes the backup PVC unbound, as if no pod had mounted it yet.
func backupUnbound(s *instance.State) {
	s.BackupPVC.Spec.VolumeName, s.BackupPVC.Status.Phase, s.BackupPVC.Annotations = "", corev1.ClaimPending, nil
}

func larger(s *instance.State) { s.XR.Spec.StorageSize = new("2Gi") }

func going(s *instance.State) { s.BackupPVC.DeletionTimestamp = &metav1.Time{Time: now} }

func noClaim(s *instance.State) { s.DataPVC, s.DataPV, s.BackupJob = nil, nil, nil }

// ephemeral makes the instance a Database without storage, which has no data to protect.
func ephemeral(s *instance.State) {
	s.Instance.Kind = v1.KindDatabase
	s.DataPVC, s.DataPV, s.BackupPVC = nil, nil, nil
	s.XR.Spec.StorageSize, s.XR.Status.Volume = nil, ""
	s.Claim.Spec = s.XR.Spec
	s.XR.SetFinalizers(nil)
	s.Claim.SetFinalizers(nil)
}

func asDatabase(s *instance.State) {
	s.Instance.Kind = v1.KindDatabase
	s.XR.SetKind(v1.KindXDatabase)
	s.DataPV.Spec.ClaimRef.Name = s.Instance.DataPVCName()
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

// failedForRoom marks the BackupRecord as failed with the error "full" of the Job.
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

// requireRestoreTest requires a restore test of the final backup.
func requireRestoreTest(s *instance.State) {
	s.XR.Spec.Backup.FinalBackup = &v1.FinalBackup{RequireRestoreTest: new(true)}
	s.Claim.Spec.Backup.FinalBackup = &v1.FinalBackup{RequireRestoreTest: new(true)}
}

// restorable sets the result of the restore test of the nth BackupRecord.
func restorable(n int, status metav1.ConditionStatus) variation {
	return func(s *instance.State) {
		s.Records[n].Status.Conditions = []metav1.Condition{{Type: v1.ConditionRestorable, Status: status, Message: "why"}}
	}
}

// ownEntry adds the catalog entry of the instance's own backup.
func ownEntry(s *instance.State) {
	r := s.Record().DeepCopy()
	r.Spec.Archive = &v1.Archive{PVCName: s.Instance.BackupPVCName(), Path: r.Name + "/" + catalog.ArchiveName,
		SHA256: strings.Repeat("a", 64)}
	s.Entries = []instance.Entry{{Name: r.Name, Volume: "pvc-2", BackupEntry: r.Entry()}}
}

// beginning makes the instance a new one, for which the controller has not searched for earlier backups.
func beginning(s *instance.State) {
	s.XR.Status.Started, s.XR.Status.PreviousBackup, s.XR.Conditions = false, "", nil
}

// entryLeft adds the catalog entry of a backup whose BackupRecord is deleted.
func entryLeft(s *instance.State) {
	s.Entries = []instance.Entry{{Name: "old-a", Volume: "pvc-2",
		BackupEntry: v1.BackupEntry{Record: "record", AnnouncedAt: metav1.NewTime(now.Add(-time.Hour))}}}
	s.Entries[0].Spec.Instance.XR = earlierUID
}

func claimDeleted(s *instance.State) { s.Claim.SetDeletionTimestamp(&metav1.Time{Time: now}) }

func pausedClaim(s *instance.State) {
	s.Claim.SetAnnotations(map[string]string{instance.AnnotationPaused: "true"})
}
