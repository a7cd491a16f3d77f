package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// TestNext specifies the action and the message in each state.
func TestNext(t *testing.T) {
	const shortly, late = instance.CrossplaneMayTake - time.Second, instance.CrossplaneMayTake
	own := map[string]string{v1.LabelXR: xrUID}
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   steps.Action
		says   string
	}{
		"RoomKnown": {reason: "The status must contain the space that the existing backups and the next one need.",
			state: running(beginning, older(2), archivesOf("2Gi")), want: steps.RecordPreviousBackup},
		"RoomGrows": {reason: "The backup PVC must be expanded early, so that a deletion does not wait for it.",
			state: running(needs("3Gi")), want: steps.ExpandBackupPVC},
		"RoomLimited": {reason: "The backup PVC must not be expanded beyond five times the size of the data.",
			state: running(needs("100Gi"), backupHas("5Gi", "5Gi")), want: steps.NoOp},
		"RoomEnough": {reason: "The backup PVC is already large enough.",
			state: running(needs("3Gi"), backupHas("3Gi", "3Gi")), want: steps.NoOp},
		"RoomRefused": {reason: "The status must warn that the backup PVC is too small while there is time to act.",
			state: running(needs("3Gi"), backupHas("1Gi", "1Gi"), refusedSize("3Gi")), want: steps.WarnOfBackup},
		"RoomTold": {reason: "The status already contains the warning about the backup PVC.",
			state: running(needs("3Gi"), backupHas("1Gi", "1Gi"), refusedSize("3Gi"), warned), want: steps.NoOp},
		"RoomMade": {reason: "The backup PVC is large enough now, so the warning must be removed.",
			state: running(needs("3Gi"), backupHas("4Gi", "4Gi"), warned), want: steps.WarnOfBackup},
		"Unlisted": {reason: "The list of backups in the status is outdated and must be written again.",
			state: running(older(2), func(s *instance.State) {
				s.XR.Status.Started, s.XR.Status.PreviousBackup = false, s.Latest()
				s.XR.Status.BackupNumber, s.XR.Status.BackupNeeds = backup.NextBackupNumber(s), backup.NeededRoom(s)
				s.XR.Status.Backups = &v1.BackupsStatus{Recent: []v1.ListedBackup{{Name: unlisted}}}
			}), want: steps.RecordPreviousBackup},

		"RoomOnNode": {reason: "A hostPath volume has the space of its node's disk, so it must not be expanded.",
			state: running(hostPath, needs("100Gi")), want: steps.NoOp},

		"Unsynced": {reason: "Crossplane discards the function's status, so the controller must report the error.",
			state: running(unsynced(reasonError,
				`[cannot compose resources: cannot apply composed resource "data-claim": exceeded quota, and more]`,
				time.Minute)), want: steps.ReportUnsynced, says: "Crossplane cannot create the objects of this " +
				"instance: cannot apply composed resource \"data-claim\": exceeded quota, and more"},
		"PausedClaim": {reason: "Crossplane does not delete the XR of a paused claim, so the status must report the pause.",
			state: running(claimDeleted, pausedClaim), want: steps.ReportBlockedClaim,
			says: "kubectl annotate mysql db crossplane.io/paused-"},
		"PausedSaid": {reason: "The claim's status already reports the pause.",
			state: running(claimDeleted, pausedClaim, func(s *instance.State) { s.Claim.Status.Message = Next(s).Message }),
			want:  steps.NoOp},
		"UnsyncedPaused": {reason: "A user has paused the XR, and the message must contain the command that resumes it.",
			state: running(unsynced(reasonPaused, "paused", time.Minute)),
			want:  steps.ReportUnsynced, says: "kubectl annotate xmysql"},
		"UnsyncedFields": {reason: "The message must keep the brackets of the function's own error.",
			state: running(unsynced(reasonError, "cannot compose resources: a step: [spec.image: no, spec.config: no]",
				time.Minute)), want: steps.ReportUnsynced, says: "a step: [spec.image: no, spec.config: no]"},
		"UnsyncedSoon": {reason: "Crossplane may recover from a new error, so the controller must check again later.",
			state: running(unsynced(reasonError, "cannot compose resources: no", time.Second)), want: steps.Wait},
		"UnsyncedTold": {reason: "The status already contains this error of Crossplane.",
			state: running(unsynced(reasonError, "cannot compose resources: no", time.Minute), func(s *instance.State) {
				s.XR.Status.Message = "Crossplane cannot create the objects of this instance: no"
			}), want: steps.NoOp},
		"UnsyncedOther": {reason: "The function can report this error after the controller has stored it in the status.",
			state: running(unsynced(reasonError, "Invalid resources: data-pvc", time.Minute)), want: steps.WarnOfCrossplane},
		"UnsyncedBegins": {reason: "The error must be reported without delay, even if the server does not accept clients.",
			state: running(beginsAgain, unsynced(reasonError, cannotCompose+": no", time.Minute)), want: steps.ReportUnsynced,
			says: "cannot create the objects of this instance: no"},
		"UnsyncedBefore": {reason: "Crossplane fails before it calls the function, so the controller must report the error.",
			state: running(unsynced(reasonError, "cannot select Composition: none", time.Minute)), want: steps.ReportUnsynced,
			says: "cannot select Composition: none"},
		"UnsyncedLater": {reason: "The controller must add its finalizer before it reports that the XR is paused.",
			state: running(unsynced(reasonPaused, "paused", time.Minute), func(s *instance.State) { s.XR.SetFinalizers(nil) }),
			want:  steps.AddFinalizers},

		"UnreadableXR": {reason: "Crossplane cannot remove its finalizer from an XR with unreadable settings.",
			state: running(dead, unreadable(xrOf)), want: steps.RemoveSettings, says: "spec.config.mysqld cannot be read"},
		"UnreadableClaim": {reason: "No client can remove a finalizer from a claim with unreadable settings.",
			state: running(dead, unreadable(claimOf)), want: steps.RemoveSettings, says: "spec.config.mysqld cannot be read"},
		"UnreadableLives": {reason: "The controller must not remove the settings of an instance that is not being deleted.",
			state: running(unreadable(xrOf), unreadable(claimOf)), want: steps.NoOp},

		"SettingsRefused": {reason: "The status must contain the reason why the new settings were refused.",
			state: running(func(s *instance.State) {
				s.XR.Status.Settings = &v1.SettingsStatus{ID: "new", Phase: v1.SettingsValidating}
				s.SettingsVerdict = &v1.SettingsVerdict{ID: "new", Message: "no"}
			}), want: steps.ReportSettings},
		"SettingsKnown": {reason: "The status already contains the verdict on the new settings.",
			state: running(func(s *instance.State) {
				s.XR.Status.Settings = &v1.SettingsStatus{ID: "new", Phase: v1.SettingsRefused}
				s.SettingsVerdict = &v1.SettingsVerdict{ID: "new", Message: "no"}
				s.XR.Status.SettingsVerdict = s.SettingsVerdict
			}), want: steps.NoOp},
		"SettingsTried": {reason: "The controller does not watch pods, so it must check again while settings are on trial.",
			state: running(func(s *instance.State) {
				s.XR.Status.Settings = &v1.SettingsStatus{ID: "new", Phase: v1.SettingsOnTrial}
			}), want: steps.Wait},
		"SettingsServe": {reason: "An outdated verdict on settings must be removed from the status.",
			state: running(func(s *instance.State) {
				s.XR.Status.SettingsVerdict = &v1.SettingsVerdict{ID: "new", Message: "no"}
			}), want: steps.ReportSettings},

		"Refused": {reason: "A user must change the quota, so the message must contain the refusal.",
			state: running(func(s *instance.State) { s.BackupPVC = nil }, refused(steps.CreateBackupPVC)),
			want:  steps.CreateBackupPVC, says: "It is kept when the instance is deleted: exceeded quota"},
		"RefusedBefore": {reason: "The refused step is not the current one, so the refusal must be reported in the status.",
			state: running(refused(steps.CreateBackupPVC)), want: steps.ReportPodFailure},

		"OutlivedNote": {reason: "A restore is complete when its program has succeeded, even if its pod still runs.",
			state: running(outlived(0, v1.RestoreRunning)), want: steps.RecordRestored,
			says: "A container that another client added to pod restore-pod still runs"},
		"RestoreDone": {reason: "The controller must not wait for the Job's status when the restore program has succeeded.",
			state: running(doneRestoring(), restorePhase(v1.RestoreRunning)), want: steps.RecordRestored},
		"RestoreNoted": {reason: "The status already contains the Job's UID, and the function reports the end of the restore.",
			state: running(doneRestoring(), restorePhase(v1.RestoreRunning), restoredBy("job")), want: steps.NoOp},
		"RestoreSaid": {reason: "The Job reports its own completion now, so its UID must be removed from the status.",
			state: running(completeRestore(), restorePhase(v1.RestoreSucceeded), restoredBy("job")), want: steps.RecordRestored},
		"RestoreUnsaid": {reason: "The function has not reported the end of the restore yet, so the Job's UID must stay.",
			state: running(completeRestore(), restorePhase(v1.RestoreRunning), restoredBy("job")), want: steps.NoOp},
		"OutlivedWait": {reason: "The function would create a deleted Job again until it has reported the end of the restore.",
			state: running(outlived(0, v1.RestoreRunning), restoredBy("job")), want: steps.Wait},
		"OutlivedEnd": {reason: "The function has reported the end of the restore, so the Job must be deleted.",
			state: running(outlived(0, v1.RestoreSucceeded), restoredBy("job")), want: steps.DeleteObjects},
		"OutlivedOther": {reason: "The UID in the status belongs to an earlier restore Job.",
			state: running(outlived(0, v1.RestoreRunning), restoredBy("earlier")), want: steps.RecordRestored},
		"OutlivedGone": {reason: "The restore Job is deleted, so its UID must be removed from the status.",
			state: running(restoredBy("job")), want: steps.RecordRestored},
		"OutlivedAgain": {reason: "After a failed restore, the pod that still runs must be deleted, so that the Job retries.",
			state: running(outlived(1, v1.RestoreRunning)), want: steps.DeleteObjects},

		// Cases with an existing instance:
		"Quiet": {reason: "There is nothing to do for a healthy instance.", state: running(), want: steps.NoOp},
		"NoFinalizer": {reason: "The claim and the XR must have the finalizer before a server starts.",
			state: running(func(s *instance.State) { s.XR.SetFinalizers(nil) }), want: steps.AddFinalizers},
		"ClaimFirst": {reason: "A claim without an XR must get the finalizer, too.",
			state: running(func(s *instance.State) { s.XR, s.Instance.XR = nil, ""; s.Claim.SetFinalizers(nil) }),
			want:  steps.AddFinalizers},
		"BackupPV": {reason: "The backup volume must exist before there is data to back up.",
			state: running(func(s *instance.State) {
				s.BackupPVC = nil
				s.XR.Status.PreviousBackup = ""
				s.XR.Status.Started = false
			}), want: steps.CreateBackupPVC},
		"DataPVCNext": {reason: "The backup PVC uses the StorageClass of the data PVC, which does not exist yet.",
			state: running(func(s *instance.State) { s.BackupPVC, s.DataPVC, s.DataPV = nil, nil, nil }), want: steps.NoOp},
		"Look": {reason: "The function waits until the status contains the previous backup.",
			state: running(func(s *instance.State) { s.XR.Status.PreviousBackup = ""; s.XR.Status.Started = false }),
			want:  steps.RecordPreviousBackup, says: "no backup"},
		"LookAgain": {reason: "A backup that was verified in the meantime must be recorded in the status.",
			state: running(older(1), func(s *instance.State) { s.XR.Status.Started = false }), want: steps.RecordPreviousBackup,
			says: "old-a"},
		"LookedAt": {reason: "A started instance is never restored, so its previous backup in the status must not change.",
			state: running(older(1)), want: steps.NoOp},
		"Retain": {reason: "The bound data volume must be retained, even if its PVC is deleted.",
			state: running(func(s *instance.State) {
				s.DataPV.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			}), want: steps.RetainDataPV},
		"RetainPolicy": {reason: "The volume must record the deletion policy, because the claim and the XR may be deleted.",
			state: running(func(s *instance.State) { s.XR.Spec.DeletionPolicy = v1.DeletionDiscard }), want: steps.RetainDataPV},
		"Pin": {reason: "A hostPath volume must be pinned to its node, because its directory is empty on other nodes.",
			state: running(hostPath, backupsBound, onNode), want: steps.SetNodeAffinity},
		"PinBoth": {reason: "The controller pins both volumes together, so it waits for the backup volume.",
			state: running(hostPath, onNode), want: steps.Wait},
		"Grow": {reason: "The backup PVC must be expanded together with the data volume.",
			state: running(func(s *instance.State) { s.XR.Spec.StorageSize = new("2Gi") }), want: steps.ExpandBackupPVC},
		"GrowRefused": {reason: "The controller must not request a size again that the StorageClass has refused.",
			state: running(func(s *instance.State) {
				s.XR.Spec.StorageSize = new("2Gi")
				s.BackupPVC.Annotations[v1.AnnotationRefusedSize] = "2Gi"
			}), want: steps.NoOp},
		"Beginning": {reason: "The controller must check the server's pods until the server accepts clients.",
			state: running(silent), want: steps.Wait},
		"Tell": {reason: "The function does not see why a pod does not run, so the controller must report it.",
			state: running(silent, func(s *instance.State) { s.PodFailure = "pod p: ErrImagePull: none" }),
			want:  steps.ReportPodFailure, says: "Pod p: ErrImagePull"},
		"Told": {reason: "The status already contains the failure of the pod.",
			state: running(silent, func(s *instance.State) { s.PodFailure = "x" }, blocked(v1.ReasonPodFailure, "x")),
			want:  steps.Wait},
		"Over": {reason: "The pod no longer fails, so the failure must be removed from the status.",
			state: running(blocked(v1.ReasonPodFailure, "x")), want: steps.ReportPodFailure},
		"ClaimDeleted": {reason: "The server must stop, because no new pod can mount a data PVC that is being deleted.",
			state: running(claimDies), want: steps.FenceServer, says: "was deleted"},
		"Outgrown": {reason: "An unbound backup PVC cannot be expanded, so it must be created again.",
			state: running(backupUnbound, larger), want: steps.DeleteBackupPVC, says: "created again with 2Gi"},
		"OutgrownGoes": {reason: "The backup PVC is already being deleted.", state: running(backupUnbound, larger, going),
			want: steps.NoOp},
		"OutgrownForeign": {reason: "The controller must not delete a PVC that does not belong to the instance.",
			state: running(backupUnbound, larger, func(s *instance.State) { s.BackupPVC.Labels = nil }), want: steps.NoOp},
		"OutgrownNever": {reason: "An unbound backup PVC that is large enough must not be deleted.",
			state: running(backupUnbound), want: steps.NoOp},

		// Cases with a namespace that was deleted and created again:
		"RebornLooks": {reason: "The function chooses a backup only after the status contains the previous backup.",
			state: running(reborn, func(s *instance.State) { s.XR.Status.PreviousBackup = "" }),
			want:  steps.RecordPreviousBackup, says: "old-a"},
		"RebornWaits": {
			reason: "The backup PVC must not be created before the function chooses a backup.",
			state:  running(reborn), want: steps.NoOp},
		"RebornRetains": {reason: "The data volume must be retained before the function chooses a backup.",
			state: running(reborn, func(s *instance.State) { s.DataPV.Finalizers = nil }), want: steps.RetainDataPV},
		"Unseen": {reason: "The backups are stored next to hostPath data, so the data volume must be known first.",
			state: running(classless, func(s *instance.State) { s.BackupPVC, s.DataPV = nil, nil }), want: steps.Wait},
		"Misplaced": {reason: "A backup PVC that does not name its hostPath volume could bind a foreign volume.",
			state: running(hostPath, backupUnbound), want: steps.DeleteBackupPVC},
		"MisplacedDies": {reason: "A deletion must also replace a backup PVC that does not name its hostPath volume.",
			state: fenced(hostPath, backupUnbound), want: steps.DeleteBackupPVC},
		"RebornNever": {reason: "The instance started without a backup, so it needs a backup volume of its own.",
			state: running(reborn, func(s *instance.State) { s.XR.Status.Started = true }), want: steps.CreateBackupPVC},
		"RebornAgain": {reason: "The existing backup volume of this namespace must get a PVC again.",
			state: running(reborn, func(s *instance.State) { s.BackupPV = backupsOn("pvc-2", "ns") }),
			want:  steps.CreateBackupPVC},
		"RebornUnproven": {reason: "The function never chooses an unverified backup, so the backup PVC must be created.",
			state: running(reborn, phase(v1.BackupFailed), func(s *instance.State) {
				s.XR.Status.PreviousBackup = v1.PreviousNone
			}), want: steps.CreateBackupPVC},
		"RebornOther": {reason: "The chosen backup belongs to another claim, so this instance needs its own backup volume.",
			state: running(reborn, chosen, func(s *instance.State) { s.XR.Status.Restore.Backup = "other" }),
			want:  steps.CreateBackupPVC},
		"Inherit": {reason: "The function has chosen a backup of the previous namespace, so its volume must be adopted.",
			state: running(reborn, left), want: steps.AdoptBackupPV, says: "previous namespace"},
		"InheritBusy": {reason: "A backup volume that another PVC still uses must not be adopted.",
			state: running(reborn, left, func(s *instance.State) { s.BackupBusy = true }), want: steps.Wait},
		"InheritFailed": {reason: "A restore Job that failed without its archive must be deleted, so that it is created again.",
			state: running(reborn, left, restoring(0, failedAt(0, ""))), want: steps.DeleteObjects},
		"InheritFails": {reason: "The controller must wait until the failed restore Job is deleted.",
			state: running(reborn, left, restoring(0, failedAt(0, ""),
				func(j *instance.Job) { j.DeletionTimestamp = &metav1.Time{Time: now} })), want: steps.Wait},
		"InheritRuns": {reason: "A restore Job that waits for its PVC must not prevent the adoption of the volume.",
			state: running(reborn, left, restoring(0)), want: steps.AdoptBackupPV},
		"InheritLost": {reason: "The backup volume is missing, so the status must report it, and no new volume is created.",
			state: running(reborn, chosen, func(s *instance.State) { s.PodFailure = "no PersistentVolume" }),
			want:  steps.ReportPodFailure},
		"InheritDone": {reason: "An adopted backup volume must get a PVC, like any volume that has lost its PVC.",
			state: running(reborn, chosen, func(s *instance.State) { s.BackupPV = backupsOn("pvc-0", "ns") }),
			want:  steps.CreateBackupPVC},

		// Cases in which an empty backup volume takes the place of the previous one:
		"GiveWay": {reason: "An empty backup volume must be released if a volume with the chosen backup replaces it.",
			state: running(reborn, left, inTheWay), want: steps.ReleaseBackupPV, says: `"pvc-0"`},
		"GiveWayAlone": {reason: "An empty backup volume must also be released if its PVC does not exist.",
			state: running(reborn, left, inTheWay, claimOfBackupsGone), want: steps.ReleaseBackupPV},
		"GiveWayClaim": {reason: "After the release of the empty backup volume, its PVC must be deleted.",
			state: running(reborn, left, inTheWay, letGone), want: steps.DeleteBackupPVC},
		"GiveWayUnbound": {reason: "A backup PVC without a volume must be deleted immediately.",
			state: running(reborn, left, inTheWay, backupUnbound, func(s *instance.State) { s.BackupPV = nil }),
			want:  steps.DeleteBackupPVC},
		"GiveWayRestore": {reason: "A restore Job that mounts the empty backup volume would not find its archive.",
			state: running(reborn, left, inTheWay, letGone, going, restoring(0)), want: steps.DeleteObjects},
		"GiveWayNext": {reason: "A restore Job that was created after the PVC was deleted must stay and wait for the next PVC.",
			state: running(reborn, left, inTheWay, letGone, going, restoring(1)), want: steps.Wait},
		"GiveWayNot": {reason: "A backup volume with a backup must not be replaced, even if the backup has failed.",
			state: running(reborn, left, inTheWay, older(1), func(s *instance.State) {
				s.Records[1].Status.Phase = v1.BackupFailed
			}), want: steps.Wait},
		"GiveWayOld": {reason: "A backup volume with backups of adopted namespaces must not be replaced.",
			state: running(reborn, left, inTheWay, older(1), func(s *instance.State) {
				s.Records[1].Spec.Instance.NamespaceUID = "first"
				steps.SetAnnotation(s.BackupPV, v1.AnnotationEarlierNamespaces, "zero,first")
			}), want: steps.Wait},
		"GiveWayForeign": {reason: "A backup PVC that does not belong to the instance must not be replaced.",
			state: running(reborn, left, inTheWay, func(s *instance.State) { s.BackupPVC.Labels = nil }), want: steps.Wait},

		// Cases in which not all nodes can use the backup volume:
		"PlaceOfBackups": {reason: "The server must run on the nodes of a volume with backups, so they must be in the status.",
			state: running(beginning, earlierPlace, entryLeft, func(s *instance.State) {
				steps.SetAnnotation(s.BackupPV, v1.AnnotationBackupPrefix+"old-a", "{}")
			}), want: steps.RecordPreviousBackup},
		"PlaceKnown": {reason: "The status already contains the nodes that can use the backup volume.",
			state: running(beginning, earlierPlace, func(s *instance.State) {
				steps.SetAnnotation(s.BackupPVC, v1.AnnotationMadeFor, xrUID)
			}, recorded), want: steps.NoOp},
		"PlaceAwaited": {reason: "The location of the backup volume is not known yet, so the server must wait.",
			state: running(beginning, backupUnbound, func(s *instance.State) { s.BackupPVCAwaited = true }), want: steps.Wait},
		"PlaceRefused": {reason: "The status must report why the backup volume is not provisioned.",
			state: running(beginning, backupUnbound, func(s *instance.State) {
				s.BackupPVCAwaited, s.PodFailure = true, "no volume yet"
			}), want: steps.ReportPodFailure, says: "No volume yet"},
		"PlaceEmpty": {reason: "An empty backup volume of a previous instance must be replaced by one near the data.",
			state: running(beginning, earlierPlace), want: steps.ReleaseBackupPV, says: "it is replaced by a new volume " +
				"near the data"},
		"PlaceReleased": {reason: "After the release of the empty backup volume, its PVC must be deleted.",
			state: running(beginning, earlierPlace, letGone), want: steps.DeleteBackupPVC},
		"PlaceGoing": {reason: "The PVC of the released backup volume is already being deleted.",
			state: running(beginning, earlierPlace, letGone, going, recorded), want: steps.NoOp},
		"PlaceOwn": {reason: "A backup volume that was created for this instance must not be replaced.",
			state: running(beginning, earlierPlace, func(s *instance.State) {
				steps.SetAnnotation(s.BackupPVC, v1.AnnotationMadeFor, xrUID)
			}), want: steps.RecordPreviousBackup},
		"PlaceStarted": {reason: "The backup volume of a started instance must not be replaced.",
			state: running(earlierPlace), want: steps.NoOp},
		"PlaceUsed": {reason: "A backup volume that contains a backup must not be replaced.",
			state: running(beginning, earlierPlace, archived), want: steps.RecordPreviousBackup},
		"PlaceCopied": {reason: "A backup volume that was restored from elsewhere may have contents and must not be replaced.",
			state: running(beginning, earlierPlace, func(s *instance.State) { s.BackupPV.UID = another }),
			want:  steps.RecordPreviousBackup},
		"PlaceEverywhere": {reason: "A backup volume that all nodes can use must not be replaced.",
			state: running(beginning, earlierPlace, func(s *instance.State) { s.BackupPV.Spec.NodeAffinity = nil }),
			want:  steps.RecordPreviousBackup},
		"PlaceFolder": {reason: "A hostPath backup volume must not be replaced: a new one would have the same directory.",
			state: running(beginning, earlierPlace, func(s *instance.State) {
				s.BackupPV.Spec.HostPath = &corev1.HostPathVolumeSource{}
			}), want: steps.RecordPreviousBackup},

		// Cases with a Database instead of a MySQL:
		"Ephemeral": {reason: "A Database without storageSize has no data to protect.", state: running(ephemeral),
			want: steps.NoOp},
		"EphemeralClaim": {reason: "A Database claim without storageSize will have no data to protect.",
			state: running(ephemeral, func(s *instance.State) { s.XR, s.Instance.XR = nil, "" }), want: steps.NoOp},
		"EphemeralDies": {reason: "A Database without storageSize must be deleted without a backup.",
			state: running(ephemeral, dead), want: steps.NoOp},
		"EphemeralTrouble": {reason: "The status must report why the pod of a Database without storageSize does not run.",
			state: running(ephemeral, func(s *instance.State) { s.PodFailure = "no such image" }), want: steps.ReportPodFailure,
			says: "No such image"},
		"EphemeralVolume": {reason: "A Database with a volume has data to protect, even if its spec has no storageSize.",
			state: running(ephemeral, func(s *instance.State) { s.XR.Status.Volume = volume1 }), want: steps.AddFinalizers},
		"EphemeralMySQL": {reason: "A MySQL without storageSize is invalid, but its data must still be protected.",
			state: running(ephemeral, func(s *instance.State) { s.Instance.Kind = v1.KindMySQL }), want: steps.AddFinalizers},
		"Stored": {reason: "A Database with storageSize must be protected like a MySQL.",
			state: running(asDatabase, func(s *instance.State) { s.XR.SetFinalizers(nil) }), want: steps.AddFinalizers},
		"StoredClaim": {reason: "The claim of a Database with storageSize must get the finalizer before the XR exists.",
			state: running(asDatabase, func(s *instance.State) { s.XR, s.Instance.XR = nil, ""; s.Claim.SetFinalizers(nil) }),
			want:  steps.AddFinalizers},
		"StoredDies": {reason: "The deletion of a Database with storageSize must create a BackupRecord first.",
			state: running(asDatabase, dead, deployment(1)), want: steps.CreateBackup},
		"StoredHint": {reason: "The message must contain the exact command that deletes the data without a backup.",
			state: fenced(withJob(failedAt(0, "full")), failedForRoom, broken, asDatabase), want: steps.Wait,
			says: "kubectl annotate xdatabase db-x crossplane-mysql.io/skip-backup=" + xrUID},

		// Cases in which a deletion creates the BackupRecord and stops the server:
		"Announce": {reason: "The BackupRecord must exist before the server stops.", state: running(dead, deployment(1)),
			want: steps.CreateBackup},
		"Composing": {reason: "Crossplane may still apply the Deployment, so the deletion must wait.",
			state: fenced(deployment(1), func(s *instance.State) {
				s.XR.SetFinalizers([]string{v1.Finalizer, instance.FinalizerCrossplane})
			}), want: steps.Wait, says: "Crossplane"},
		"ComposingNot": {reason: "The message must tell the user what to do if Crossplane was uninstalled permanently.",
			state: fenced(deployment(1), composing(late)), want: steps.Wait,
			says: "Crossplane has not removed its finalizer from XMySQL db-x. No data is deleted: the backup of the data " +
				"starts when the finalizer is removed. Check that Crossplane is running. If Crossplane was uninstalled " +
				"permanently, remove the finalizer: " +
				`kubectl patch xmysql db-x --type json --patch '[{"op":"test","path":"/metadata/finalizers/1","value":"composite.apiextensions.crossplane.io"},{"op":"remove","path":"/metadata/finalizers/1"}]'`},
		"ComposingHold": {reason: "The command must not remove the finalizers of other controllers.",
			state: fenced(deployment(1), composing(late), func(s *instance.State) {
				s.XR.SetFinalizers([]string{instance.FinalizerCrossplane, "a.example/b", v1.Finalizer})
			}), want: steps.Wait, says: `{"op":"remove","path":"/metadata/finalizers/0"}]'`},
		"Forsaken": {reason: "The XRD is being deleted, so the message must contain the command that removes the finalizer.",
			state: fenced(deployment(1), composing(late), undefined), want: steps.Wait,
			says: "The XRD is being deleted or no longer exists. If Crossplane was started after that, it never removes the " +
				"finalizer. Remove it: kubectl patch xmysql db-x"},
		"ForsakenPlain": {reason: "The message must not promise a backup if the data is deleted without one.",
			state: fenced(deployment(1), composing(late), undefined, discard), want: steps.Wait,
			says: "from XMySQL db-x. The XRD is being deleted"},
		"ForsakenSoon": {reason: "Crossplane may still remove its finalizer, so the message must not ask the user to do it yet.",
			state: fenced(deployment(1), composing(shortly), undefined), want: steps.Wait, says: "Crossplane to finish"},
		"ForsakenClock": {reason: "A clock that is one hour ahead must not make Crossplane appear late.",
			state: fenced(deployment(1), composing(0), undefined, func(s *instance.State) { s.Now = s.Now.Add(time.Hour) }),
			want:  steps.Wait, says: "Crossplane to finish"},
		"ForsakenPause": {reason: "A user has paused the XR, so the message must report the pause instead of the finalizer.",
			state: fenced(deployment(1), composing(late), undefined, func(s *instance.State) {
				s.XR.SetAnnotations(map[string]string{instance.AnnotationPaused: "true"})
			}), want: steps.Wait, says: "Crossplane does not reconcile XMySQL db-x, because it is paused"},
		"ForsakenBare": {reason: "Crossplane's finalizer must also be reported if it is the only one left.",
			state: fenced(composing(late), undefined, bare),
			want:  steps.Wait, says: "from XMySQL db-x. The XRD is being deleted"},
		"BareAwaits": {reason: "Crossplane may still remove its finalizer, so the controller must wait.",
			state: fenced(composing(shortly), bare), want: steps.Wait},
		"ForsakenClaim": {reason: "The message of the blocked claim must contain that the backup is verified.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson, instance.FinalizerCrossplaneClaim), undefined,
				func(s *instance.State) {
					s.Claim.Status.Deletion = &v1.DeletionStatus{Phase: v1.DeletionReleasing, Message: `Backup "b" is verified`}
				}), want: steps.ReportBlockedClaim,
			says: `All other objects of the instance are already deleted. Backup "b" is verified. The XRD is being deleted or no longer exists`},
		"ClaimSoon": {reason: "Crossplane has not had enough time yet to remove its finalizer from the claim.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson-time.Second, instance.FinalizerCrossplaneClaim),
				undefined), want: steps.Wait},
		"ClaimAwaits": {reason: "The claim's status must report that Crossplane's finalizer blocks the deletion.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson, "a.example/b", instance.FinalizerCrossplaneClaim)),
			want:  steps.ReportBlockedClaim, says: "Crossplane has not removed its finalizer from MySQL db. All other objects " +
				"of the instance are already deleted. Check that Crossplane is running. If Crossplane was uninstalled " +
				"permanently, remove the finalizer: " +
				`kubectl patch mysql db --namespace default --type json --patch '[{"op":"test","path":"/metadata/finalizers/1","value":"finalizer.apiextensions.crossplane.io"},{"op":"remove","path":"/metadata/finalizers/1"}]'`},
		"ClaimTold": {reason: "The claim's status already reports that Crossplane's finalizer blocks the deletion.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson, instance.FinalizerCrossplaneClaim),
				func(s *instance.State) { s.Claim.Status.Message = awaitRelease(s).Message }), want: steps.Wait},
		"ClaimPaused": {reason: "A user has paused the claim, so Crossplane's finalizer must not be reported.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson, instance.FinalizerCrossplaneClaim), undefined,
				pausedClaim), want: steps.NoOp},
		"ClaimOfOurs": {reason: "The controller must remove its own finalizer before it reports the one of Crossplane.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson, instance.FinalizerCrossplaneClaim, v1.Finalizer),
				undefined), want: steps.RemoveClaimFinalizer},
		"ClaimOfOthers": {reason: "The controller must not report the finalizer of another component.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson, "example.org/hold"), undefined), want: steps.NoOp},
		"Stop": {reason: "The server must be stopped before its data is backed up.",
			state: fenced(deployment(1), withPod(own, corev1.PodRunning)), want: steps.StopServer},
		"StopDefault": {reason: "A Deployment without a number of replicas has one replica, so it must be scaled down.",
			state: fenced(deployment(1), func(s *instance.State) { s.Deployment.Spec.Replicas = nil }), want: steps.StopServer},
		"Stopping": {reason: "The data must not be read while the server's pod exists.",
			state: fenced(deployment(0), withPod(own, corev1.PodRunning)), want: steps.Wait, says: "server to stop"},
		"EndedPod": {reason: "An evicted pod stays forever, so the controller must delete it.",
			state: fenced(deployment(0), withPod(own, corev1.PodFailed)), want: steps.DeleteObjects},
		"Stranger": {reason: "A pod of another owner must not be deleted, but the backup must wait for it.",
			state: fenced(deployment(0), withPod(nil, corev1.PodSucceeded)), want: steps.Wait,
			says: `Pod "p" uses the data volume`},
		"StopsRestore": {reason: "A running restore Job mounts the data volume, so it must be deleted.",
			state: fenced(func(s *instance.State) { s.RestoreJob = &instance.Job{Job: &batchv1.Job{}} }),
			want:  steps.DeleteObjects,
			says:  "restore"},
		"NoScalingUp": {reason: "The Deployment must be deleted, so that no client can scale it up.",
			state: fenced(deployment(0)), want: steps.DeleteObjects},
		"FenceHolds": {reason: "A server that was started again must be stopped, even after the backup is verified.",
			state: verifiedState(deployment(1)), want: steps.StopServer},
		"DiscardFenced": {reason: "The server must also be stopped if the data is deleted without a backup.",
			state: fenced(deployment(1), discard), want: steps.StopServer},

		// Cases in which the data is being backed up:
		"StartBackup": {reason: "The server is stopped, so its data must be copied.",
			state: fenced(), want: steps.CreateBackupJob},
		"BackupPlace": {reason: "A deleted backup PVC must be created again.",
			state: fenced(func(s *instance.State) { s.BackupPVC = nil }), want: steps.CreateBackupPVC},
		"DropsPlace": {reason: "An unbound backup PVC must be replaced if the instance was expanded.",
			state: fenced(backupUnbound, larger), want: steps.DeleteBackupPVC},
		"PlaceGoes": {reason: "The next backup PVC can be created only after the previous one is deleted.",
			state: fenced(backupUnbound, larger, going), want: steps.Wait, says: "created again"},
		"PlaceInUse": {reason: "The backup PVC must not be replaced while the backup Job waits for it.",
			state: fenced(backupUnbound, larger, withJob()), want: steps.MarkRunning},
		"PlaceDeleted": {reason: "The backup PVC will be created again on its volume, which keeps the existing backups.",
			state: fenced(going), want: steps.Wait,
			says: "on its volume"},
		"Running": {reason: "The BackupRecord must report that the backup Job is running.",
			state: fenced(withJob()), want: steps.MarkRunning},
		"Progress": {reason: "The message must contain the progress of the backup.",
			state: fenced(withJob(func(j *instance.Job) { j.Progress = &agent.Progress{Phase: agent.PhaseCopy, Percent: 84} }),
				phase(v1.BackupRunning)), want: steps.Wait, says: "42%"},
		"Trouble": {reason: "The message must contain the reason why the Job's pod does not run.",
			state: fenced(withJob(func(j *instance.Job) { j.PodFailure = "0/2 nodes are available" }), phase(v1.BackupRunning)),
			want:  steps.Wait, says: "0/2 nodes"},
		"Failed": {reason: "The BackupRecord must contain the error of the backup Job.",
			state: fenced(withJob(failedAt(0, "the volume is full")), phase(v1.BackupRunning), refusedSize("2Gi")),
			want:  steps.MarkFailed, says: "the volume is full"},
		"FailedWaits": {reason: "A failed backup must be retried after a delay, and the data must stay until then.",
			state: fenced(withJob(failedAt(0, "full")), failedForRoom, broken), want: steps.Wait, says: "No data is lost"},
		"FailedHint": {reason: "The message must contain the exact command that deletes the data without a backup.",
			state: fenced(withJob(failedAt(0, "full")), failedForRoom, broken), want: steps.Wait,
			says: "kubectl annotate xmysql db-x crossplane-mysql.io/skip-backup=" + xrUID},
		"Grows": {reason: "The backup PVC must be expanded if the backup does not fit.",
			state: fenced(withJob(failedAt(0, "full")), phase(v1.BackupRunning)), want: steps.GrowBackupPVC,
			says: "PersistentVolumeClaim backup-db-pvc for the backups to 2Gi (full)"},
		"GrowsAsSaid": {reason: "The missing space that the Job reports must determine the new size of the backup PVC.",
			state: fenced(withJob(failedAt(0, "full"), lacks(2<<30)), phase(v1.BackupRunning)), want: steps.GrowBackupPVC,
			says: "for the backups to 4Gi"},
		"GrowsSoFar": {reason: "The PVC must not exceed five times the data size, because users can forge the Job's report.",
			state: fenced(withJob(failedAt(0, "full"), lacks(1<<62)), phase(v1.BackupRunning)),
			want:  steps.GrowBackupPVC, says: "for the backups to 5Gi"},
		"GrowsOnce": {reason: "The expansion of the backup PVC is already requested.",
			state: fenced(withJob(failedAt(0, "full")), phase(v1.BackupRunning), backupHas("1Gi", "2Gi")),
			want:  steps.MarkFailed},
		"GrowsAgain": {reason: "The first expansion was not enough, so the backup PVC must be expanded again.",
			state: fenced(withJob(failedAt(0, "full")), phase(v1.BackupRunning), backupHas("2Gi", "2Gi")),
			want:  steps.GrowBackupPVC, says: "for the backups to 4Gi"},
		"GrowsNoMore": {reason: "The backup PVC has its maximum size, so it must not be expanded again.",
			state: fenced(withJob(failedAt(0, "full")), phase(v1.BackupRunning), backupHas("5Gi", "5Gi")),
			want:  steps.MarkFailed},
		"GrowsForOther": {reason: "The backup PVC must be expanded only if the backup ran out of space.",
			state: fenced(withJob(failedAt(0, "full"), func(j *instance.Job) { j.Report.ExitCode = agent.ExitFailed }),
				phase(v1.BackupRunning)), want: steps.MarkFailed},
		"NoRoom": {reason: "The message must contain the exact command that expands the backup PVC.",
			state: fenced(withJob(failedAt(0, "full")), phase(v1.BackupRunning), refusedSize("2Gi")), want: steps.MarkFailed,
			says: "full. Delete unneeded files from PersistentVolumeClaim backup-db-pvc, or expand it: " +
				"kubectl patch pvc --namespace default backup-db-pvc --patch " +
				"'{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"2Gi\"}}}}'"},
		"NoRoomOnNode": {reason: "A hostPath volume has the space of its node's disk, so the message must mention the disk.",
			state: fenced(hostPath, withJob(failedAt(0, "full")), phase(v1.BackupRunning)), want: steps.MarkFailed,
			says: "the node's disk"},
		"FailedAgain": {reason: "A failed backup must be retried after the delay.",
			state: fenced(withJob(failedAt(-20*time.Second, "full")), failedForRoom, broken), want: steps.DeleteObjects},
		"NoReport": {reason: "A Job without a report does not verify the backup, so it must run again.",
			state: fenced(withJob(complete, func(j *instance.Job) { j.Report = nil })), want: steps.DeleteObjects},
		"ForgedReport": {reason: "A report without a checksum does not verify the backup.",
			state: fenced(withJob(complete, func(j *instance.Job) { j.Report.SHA256 = "" }), phase(v1.BackupRunning)),
			want:  steps.MarkFailed},
		"RestoreReport": {reason: "The report of another command does not verify the backup.",
			state: fenced(withJob(complete, func(j *instance.Job) { j.Report.Command = "restore" }), phase(v1.BackupRunning)),
			want:  steps.MarkFailed},
		"Empty": {reason: "A volume without a database has no data to lose.",
			state: fenced(silent, withJob(complete, func(j *instance.Job) { j.Report.Empty = true })), want: steps.MarkNoData},
		"EmptyServed": {reason: "The server has run, so it had data, and an empty volume must be the wrong volume.",
			state: fenced(silent, withJob(complete, func(j *instance.Job) { j.Report.Empty = true }), phase(v1.BackupRunning),
				func(s *instance.State) {
					s.DataPVC.Annotations = map[string]string{v1.AnnotationVersion: "8.4.6"}
				}), want: steps.MarkFailed, says: "the right volume"},
		"EmptyRestored": {reason: "The instance was restored, so it had data, and an empty volume must be the wrong volume.",
			state: fenced(silent, withJob(complete, func(j *instance.Job) { j.Report.Empty = true }), phase(v1.BackupRunning),
				func(s *instance.State) {
					s.XR.Status.Restore = &v1.RestoreStatus{Phase: v1.RestoreSucceeded}
				}), want: steps.MarkFailed},
		"PinDying": {reason: "The node is unknown after the pod is deleted, so the volumes must be pinned before.",
			state: fenced(hostPath, deployment(1), onNode), want: steps.SetNodeAffinity},
		"PinBothDying": {reason: "The message must report that the backup volume is not bound yet.",
			state: fenced(hostPath, deployment(1), onNode, func(s *instance.State) { s.BackupPV = nil }), want: steps.Wait,
			says: "is not bound to"},
		"BackupsKept": {reason: "A backup must not be recorded on a volume that would be deleted with its PVC.",
			state: fenced(withJob(complete), func(s *instance.State) { s.BackupPVC.Annotations = nil }),
			want:  steps.RetainBackupPV},
		"Note": {reason: "The catalog on the volume must contain the backup before the BackupRecord is verified.",
			state: fenced(withJob(complete)), want: steps.RecordBackup},
		"Prove": {reason: "The BackupRecord must be marked as verified after the catalog contains the backup.",
			state: fenced(withJob(complete), ownEntry), want: steps.MarkVerified},
		"ProveUnread": {reason: "A catalog entry proves that the backup is verified, even without the Job.",
			state: fenced(ownEntry), want: steps.MarkVerified},
		"ProveSkip": {reason: "A recorded backup must be marked as verified, even if the user has skipped the backup.",
			state: fenced(ownEntry, skip(xrUID)), want: steps.MarkVerified},
		"ProveFence": {reason: "The server must be stopped before the BackupRecord is marked as verified.",
			state: fenced(ownEntry, deployment(1)), want: steps.StopServer},
		"RecordGone": {reason: "A deleted BackupRecord must be created again, because its backup may be the only copy.",
			state: fenced(ownEntry, noClaim, func(s *instance.State) { s.Records = nil }), want: steps.RecreateBackup},
		"NoteOfAnother": {reason: "A catalog entry of another instance does not verify the backup of this one.",
			state: fenced(ownEntry, func(s *instance.State) { s.Entries[0].Spec.Instance.XR = "another" }),
			want:  steps.CreateBackupJob},
		"NoteUnreadable": {reason: "An unreadable catalog entry does not verify the backup.",
			state: fenced(ownEntry, func(s *instance.State) { s.Entries[0].Unreadable = true }), want: steps.CreateBackupJob},
		"ClaimGone": {reason: "The data is on the volume, so a deleted data PVC must be created again.",
			state: fenced(claimGone, unbound), want: steps.CreatePVC, says: volume1},
		"ClaimStale": {reason: "The volume still refers to the deleted PVC, so it must be reserved for the new one.",
			state: fenced(claimGone), want: steps.ReserveDataPV},
		"ClaimTaken": {reason: "A PVC that does not belong to the instance has the name of the data PVC.",
			state: fenced(claimGone, func(s *instance.State) { s.PVCNameConflict = true }), want: steps.Wait,
			says: "does not belong to this instance"},
		"VolumeGone": {reason: "Missing objects do not prove that the data is deleted, so the deletion must wait.",
			state: fenced(noClaim), want: steps.Wait, says: volume1},
		"ClaimTerminate": {reason: "No new pod can mount the data PVC, so it must be deleted, and its volume stays.",
			state: fenced(claimDies), want: steps.DeletePVC},
		"ClaimTerminateUnkept": {reason: "The volume must be retained before the data PVC is deleted.",
			state: fenced(claimDies, func(s *instance.State) { s.DataPV.Finalizers = nil }), want: steps.RetainDataPV},
		"ClaimTerminateNoVolume": {reason: "A missing volume does not prove that the data is deleted, so the deletion must wait.",
			state: fenced(claimDies, func(s *instance.State) { s.DataPV = nil }), want: steps.Wait, says: "Restore the volume"},

		// Cases with a namespace that is being deleted, or is deleted:
		"HomelessHandle": {reason: "The data PVC in the deleted namespace must be released first.",
			state: fenced(homeless), want: steps.DeletePVC},
		"HomelessRebind": {reason: "The data volume must be reserved for a PVC in the recovery namespace, where Jobs can run.",
			state: fenced(homeless, originGone), want: steps.ReserveDataPV, says: v1.RecoveryNamespace},
		"HomelessMake": {reason: "A PVC for the data volume must be created in the recovery namespace.",
			state: fenced(homeless, originGone, atPlace), want: steps.CreatePVC},
		"HomelessBackups": {reason: "A PVC for the backup volume must also be created in the recovery namespace.",
			state: fenced(homeless, originGone, mounted), want: steps.CreateBackupPVC},
		"HomelessBusy": {reason: "The backup volume must not get a new PVC while the PVC in the deleted namespace exists.",
			state: fenced(homeless, originGone, mounted, func(s *instance.State) { s.BackupPV, s.BackupBusy = s.DataPV, true }),
			want:  steps.Wait},
		"HomelessFence": {reason: "The server must stop before the PVC in the deleted namespace is released.",
			state: fenced(homeless, deployment(0), withPod(own, corev1.PodRunning)), want: steps.Wait},
		"HomelessStray": {reason: "A Job in the deleted namespace mounts the data volume there, so it must be deleted.",
			state: fenced(homeless, func(s *instance.State) { s.MisplacedJobs = []client.Object{&batchv1.Job{}} }),
			want:  steps.DeleteObjects},
		"HomelessBack": {reason: "The next instance needs the backup volume, so the PVC in the recovery namespace is deleted.",
			state: verifiedState(homeless, originGone, released, mounted, func(s *instance.State) {
				s.BackupJob, s.DataPVC, s.Settings.BackupClass = nil, nil, new("fast")
				s.BackupPVC = backup.NewPVC(s)
			}), want: steps.DeleteObjects},
		"HomelessReborn": {reason: "A later namespace with the same name may have another owner, so no Job may run there.",
			state: fenced(func(s *instance.State) { s.Namespace.UID = "later" }, originGone, claimGone),
			want:  steps.ReserveDataPV, says: v1.RecoveryNamespace},

		// Cases in which another client has deleted the XR:
		"LostAnnounce": {reason: "The backup of an instance that lost its XR must also get a BackupRecord first.",
			state: running(dead, orphaned), want: steps.CreateBackup},
		"LostCopy": {reason: "The controller must not change data that was restored from elsewhere until a user decides.",
			state: running(dead, orphaned, copied), want: steps.Wait,
			says: "kubectl annotate pv " + volume1 + " " + v1.AnnotationTakeOver},
		"LostCopied": {reason: "The controller must not change a copied volume, even if its backup is verified.",
			state: verifiedState(orphaned, originGone, mounted, copied), want: steps.Wait,
			says: "To ignore the volume and start without its data: kubectl annotate pv"},
		"Stale": {reason: "The status belongs to an earlier XR with the same name, so it must be cleared.",
			state: running(func(s *instance.State) { s.XR.Stale = true }), want: steps.ClearStatus},
		"LostLeft": {reason: "A user has annotated the copied volume as leave-alone, so the finalizer must be removed.",
			state: running(dead, orphaned, copied, func(s *instance.State) { s.Orphan.Left = []client.Object{s.DataPV} }),
			want:  steps.LetCopyGo},
		"BesideCopy": {reason: "The next instance must report that it waits for a decision about the copied volume.",
			state: running(besideCopy), want: steps.ReportCopy, says: "was copied or restored from elsewhere"},
		"BesideTold": {reason: "The status already reports the copied volume.",
			state: running(besideCopy, func(s *instance.State) { s.XR.Status.BlockedBy = blocker(s) }), want: steps.Wait},
		"BesideSays": {reason: "The controller must report the copied volume if Crossplane discards the function's status.",
			state: running(besideCopy, unsynced(reasonError, cannotCompose+": name taken", time.Minute),
				func(s *instance.State) {
					s.DataPVC, s.DataPV, s.XR.Status.BlockedBy = nil, nil,
						blocker(s)
				}), want: steps.ReportUnsynced, says: "To back up that data"},
		"BesideTaken": {reason: "A user has decided about the copied volume, so the report must be removed from the status.",
			state: running(func(s *instance.State) { s.PredecessorTerminating = true }, blocked(v1.ReasonCopyFound, "held")),
			want:  steps.ReportPodFailure},
		"LostHandle": {reason: "The data PVC must be released, because the next instance needs its name.",
			state: fenced(orphaned), want: steps.DeletePVC},
		"LostMake": {reason: "The new data PVC must have a name that belongs to this instance only.",
			state: fenced(orphaned, originGone, atPlace), want: steps.CreatePVC, says: "default/data-default-db-"},
		"LostBackup": {reason: "The data of an instance without an XR must be backed up like any other data.",
			state: fenced(orphaned, originGone, mounted), want: steps.CreateBackupJob},
		"LostHint": {reason: "There is no XR, so the command must annotate the volume.",
			state: fenced(orphaned, originGone, mounted, withJob(failedAt(0, "full")), failedForRoom, broken), want: steps.Wait,
			says: "kubectl annotate pv " + volume1},
		"LostSkip": {reason: "The PVC must record that there is no data to lose, because the volume is released first.",
			state: fenced(orphaned, originGone, mounted, lostSkip), want: steps.MarkNoData},
		"LostSkipped": {reason: "The PVC already records that there is no data to lose.",
			state: fenced(orphaned, originGone, mounted, lostSkip, func(s *instance.State) {
				s.Orphan.Annotations[v1.AnnotationNothingToLose] = xrUID
			}), want: steps.ReleaseDataPV},
		"LostVolume": {reason: "Without a PVC, the volume must be released last, because it identifies the instance.",
			state: fenced(orphaned, originGone, lostSkip), want: steps.DeleteUnprovenBackup, says: "skipped"},
		"LostClaim": {reason: "The data PVC must be released last, because it identifies the instance.",
			state: verifiedState(orphaned, originGone, mounted, released, func(s *instance.State) { s.BackupJob = nil }),
			want:  steps.ReleaseDataPVC},
		"LostJobs": {reason: "The data PVC must not be released before the Jobs are deleted.",
			state: verifiedState(orphaned, originGone, mounted, released), want: steps.DeleteObjects},
		"Superseded": {reason: "No claim refers to the XR, so the controller must delete it, and its data is backed up.",
			state: running(superseded), want: steps.DeleteOrphanedXR, says: "backed up"},
		"SupersededUp": {reason: "An orphaned XR must get the finalizer before it is deleted, so that its data is backed up.",
			state: running(superseded, func(s *instance.State) { s.XR.SetFinalizers(nil) }), want: steps.AddFinalizers},
		"Earlier": {reason: "The instance must wait for the previous one, which determines the data that it starts from.",
			state: running(func(s *instance.State) {
				s.PredecessorTerminating, s.XR.Status.Started, s.XR.Status.PreviousBackup = true, false, ""
			}), want: steps.Wait},

		// Cases in which the data PVC is deleted while the instance exists:
		"HealRebind": {reason: "The volume must be reserved for the next data PVC.", state: running(claimGone),
			want: steps.ReserveDataPV},
		"HealWaits": {reason: "The function creates the data PVC, so the controller must do nothing.",
			state: running(claimGone, unbound), want: steps.NoOp},
		"HealRetain": {reason: "The volume must be retained before the data PVC is released.",
			state: running(claimDies, func(s *instance.State) { s.DataPV.Finalizers = nil }), want: steps.RetainDataPV},
		"HealPods": {reason: "The server must stop before the data PVC is released.",
			state: running(claimDies, stopped, withPod(own, corev1.PodRunning)), want: steps.Wait},
		"HealRelease": {reason: "The data PVC must be released after the server has stopped.",
			state: running(claimDies, stopped), want: steps.DeletePVC},
		"HealGoes": {reason: "The data PVC has no finalizer any more, and Kubernetes deletes it.",
			state: running(claimDies, stopped, func(s *instance.State) { s.DataPVC.Finalizers = nil }), want: steps.Wait},
		"HealDone": {reason: "The server must be started when the new data PVC is bound to the volume.",
			state: running(stopped), want: steps.UnfenceServer},
		"HealUnbound": {reason: "The server must not be started before the new data PVC is bound.",
			state: running(stopped, func(s *instance.State) { s.DataPVC.Status.Phase = corev1.ClaimPending }), want: steps.NoOp},
		"HealNever": {reason: "A data PVC that never had a volume must be released, so that it is created again.",
			state: running(claimDies, func(s *instance.State) { s.DataPVC.Spec.VolumeName, s.DataPV = "", nil }),
			want:  steps.DeletePVC},
		"HealLost": {reason: "A missing volume does not prove that the data is deleted, so the data PVC must stay.",
			state: running(claimDies, func(s *instance.State) { s.DataPV = nil }), want: steps.NoOp,
			says: "restore the volume"},
		"ClaimLost": {reason: "A lost volume does not prove that the data is deleted, so the deletion must wait.",
			state: fenced(func(s *instance.State) { s.DataPVC.Status.Phase = corev1.ClaimLost }), want: steps.Wait,
			says: "lost its volume"},

		// Cases with a backup whose BackupRecord is missing:
		"Held": {reason: "An empty server must not start while the BackupRecord of a backup is missing.",
			state: running(beginning, entryLeft), want: steps.RecordPreviousBackup,
			says: `Backup "old-a" of a previous instance with this name exists, but its BackupRecord is missing. No empty server`},
		"HeldKnown": {reason: "The status must report the backup whose BackupRecord is missing.",
			state: running(beginning, entryLeft, func(s *instance.State) {
				s.XR.Status.PreviousBackup, s.XR.Status.HeldBackup, s.PodFailure = v1.PreviousHeld, "old-a", "backup old-a"
			}), want: steps.ReportPodFailure, says: "Backup old-a"},
		"HeldUnproven": {reason: "A BackupRecord without a status must still count as missing.",
			state: running(beginning, entryLeft, older(1), func(s *instance.State) { s.Records[0].Status.Phase = "" }),
			want:  steps.RecordPreviousBackup, says: "its BackupRecord is missing"},
		"HeldNewer": {reason: "The next instance starts from a verified BackupRecord that is newer than the catalog entry.",
			state: running(beginning, entryLeft, older(1), func(s *instance.State) {
				s.Records[0].CreationTimestamp = metav1.NewTime(now)
			}), want: steps.RecordPreviousBackup, says: `Backup "old-a" of a previous instance with this name exists`},
		"HeldBy": {reason: "An older BackupRecord must not hide that a newer one is missing.",
			state: running(beginning, older(1), func(s *instance.State) { s.Records[0].Name = "before" }, entryLeft),
			want:  steps.RecordPreviousBackup, says: "its BackupRecord is missing"},
		"Forgotten": {reason: "A user may decide to ignore a backup without a BackupRecord.",
			state: running(beginning, entryLeft, func(s *instance.State) { s.Entries[0].Forgotten = true }),
			want:  steps.RecordPreviousBackup, says: "There is no backup"},
		"HeldStarted": {reason: "A running server must not be stopped because a BackupRecord is missing.",
			state: running(entryLeft), want: steps.NoOp},
		"HeldVolume": {reason: "The backup PVC must not be created before a user decides about the missing BackupRecord.",
			state: running(beginning, entryLeft, func(s *instance.State) {
				s.BackupPVC, s.XR.Status.PreviousBackup, s.XR.Status.HeldBackup = nil, v1.PreviousHeld, "old-a"
			}), want: steps.NoOp},
		"HeldOther": {reason: "The status must name the backup whose BackupRecord is missing now.",
			state: running(beginning, entryLeft, func(s *instance.State) {
				s.XR.Status.PreviousBackup, s.XR.Status.HeldBackup = v1.PreviousHeld, "old-b"
			}), want: steps.RecordPreviousBackup, says: `Backup "old-a"`},

		// Cases with a deletion without a backup:
		"Discard": {reason: "The deletionPolicy of the claim allows a deletion without a backup.",
			state: fenced(discard), want: steps.ReleaseDataPV,
			says: "deletionPolicy is Discard"},
		"DiscardStale": {reason: "The deletionPolicy of the claim has priority over the outdated one of the XR.",
			state: fenced(func(s *instance.State) { s.XR.Spec.DeletionPolicy = v1.DeletionDiscard }),
			want:  steps.CreateBackupJob},
		"Skip": {reason: "The annotation contains the UID of this instance, so the backup must be skipped.",
			state: fenced(skip(xrUID)), want: steps.ReleaseDataPV, says: "skipped"},
		"SkipWrong": {reason: "An annotation with the UID of another instance must not skip the backup.",
			state: fenced(skip("another")), want: steps.CreateBackupJob},
		"NothingMarked": {reason: "The annotation records that there is no data, even after the Job is deleted.",
			state: fenced(marked), want: steps.ReleaseDataPV,
			says: "no database"},
		"NeverBoundStarted": {reason: "The XR must record that there is no data before the PVC that proves it is deleted.",
			state: running(dead, neverHadVolume, func(s *instance.State) { s.XR.Status.Started = true }), want: steps.MarkNoData,
			says: "never had a volume"},
		"NeverBound": {reason: "An instance that never had a volume has no data to back up.",
			state: running(dead, neverHadVolume), want: steps.ReleaseDataPVC, says: "never had a volume"},
		"NeverSeen": {reason: "A started instance has data, even if its PVC is missing.",
			state: running(dead, neverHadVolume, func(s *instance.State) { s.XR.Status.Started = true; s.DataPVC = nil }),
			want:  steps.CreateBackup},

		// Cases in which the data and the other objects are released after the backup:
		"Prune": {reason: "Expired backups must be deleted after the newer backup is verified.",
			state: verifiedState(older(3)), want: steps.CreatePruneJob},
		"PruneKeeps": {reason: "There are no more backups than the retention keeps.", state: verifiedState(older(2)),
			want: steps.ReleaseDataPV},
		"PruneInUse": {reason: "A backup from which another instance is being restored must not be deleted.",
			state: verifiedState(older(3), func(s *instance.State) {
				s.Restoring = map[string]string{s.Records[3].Name: "XMySQL copy"}
			}), want: steps.ReleaseDataPV},
		"PruneInUseSince": {reason: "The prune Job must be deleted, because another instance now restores one of its backups.",
			state: verifiedState(older(3), pruned(func(*instance.Job) {}),
				func(s *instance.State) {
					s.Restoring = map[string]string{
						s.Records[3].Name: "XMySQL copy"}
				}), want: steps.DeleteObjects},
		"PruneOrphan": {reason: "Without an XR, the retention settings are unknown, so all backups must be kept.",
			state: verifiedState(older(3), orphaned), want: steps.ReleaseDataPV},
		"PruneOther": {reason: "An archive outside of the directory of its backup must not be deleted.",
			state: verifiedState(older(3), func(s *instance.State) { s.Records[3].Spec.Archive.Path = "elsewhere/x.tar.zst" }),
			want:  steps.ReleaseDataPV},
		"PruneRival": {reason: "A backup that conflicts with the new one must not be deleted until a user decides.",
			state: verifiedState(older(3), func(s *instance.State) { s.Records[0].Spec.Number, s.Records[3].Spec.Number = 4, 4 }),
			want:  steps.ReleaseDataPV},
		"PruneRestorable": {reason: "The newest restore-tested backup must be kept, even if it is expired.",
			state: verifiedState(older(3), restorable(3, metav1.ConditionTrue)), want: steps.ReleaseDataPV},
		"PruneRestorables": {reason: "Only the newest restore-tested backup must be kept, so an older one is deleted.",
			state: verifiedState(older(4), restorable(1, metav1.ConditionTrue), restorable(4, metav1.ConditionTrue)),
			want:  steps.CreatePruneJob},
		"Unrequired": {reason: "A failed restore test must not delay the deletion if no restore test is required.",
			state: verifiedState(restorable(0, metav1.ConditionFalse)), want: steps.ReleaseDataPV},
		"Required": {reason: "The data must be kept until the backup has passed the required restore test.",
			state: verifiedState(requireRestoreTest), want: steps.Wait, says: "a server is started"},
		"RequiredOfXR": {reason: "Without a claim, the XR must determine whether a restore test is required.",
			state: verifiedState(requireRestoreTest, func(s *instance.State) { s.Claim = nil }), want: steps.Wait},
		"RequiredBroken": {reason: "After a failed restore test, the message must contain the command that skips the test.",
			state: verifiedState(requireRestoreTest, restorable(0, metav1.ConditionFalse)), want: steps.Wait,
			says: `kubectl patch mysql --namespace default db --type=merge --patch '{"spec":{"backup":{"finalBackup":{"requireRestoreTest":false}}}}'`},
		"RequiredUnknown": {reason: "An unknown result of the restore test must not allow the deletion of the data.",
			state: verifiedState(requireRestoreTest, restorable(0, metav1.ConditionUnknown)), want: steps.Wait,
			says: "no server has started from it"},
		"RequiredWhole": {reason: "The backup has passed the required restore test, so the data must be released.",
			state: verifiedState(requireRestoreTest, restorable(0, metav1.ConditionTrue)), want: steps.ReleaseDataPV},
		"RequiredNoMore": {reason: "The claim no longer requires a restore test, and it has priority over the XR.",
			state: verifiedState(requireRestoreTest, func(s *instance.State) {
				s.Claim.Spec.Backup.FinalBackup = &v1.FinalBackup{RequireRestoreTest: new(false)}
			}), want: steps.ReleaseDataPV},
		"RequiredSkip": {reason: "A deletion that skips the backup must not wait for a restore test.",
			state: verifiedState(requireRestoreTest, skip(xrUID)), want: steps.ReleaseDataPV},
		"RequiredReleased": {reason: "The data is already released, so the deletion must not wait for a restore test.",
			state: verifiedState(requireRestoreTest, released), want: steps.DeleteObjects},
		"RequiredFence": {reason: "The server must be stopped while the restore test is awaited.",
			state: verifiedState(requireRestoreTest, deployment(1)), want: steps.StopServer},
		"PruneInherited": {reason: "The backups on an adopted volume count for the retention.",
			state: verifiedState(older(3), func(s *instance.State) {
				s.BackupPV = backupsOn("pvc-2", "ns")
				steps.SetAnnotation(s.BackupPV, v1.AnnotationEarlierNamespaces, earlierUID)
				s.Records[3].Spec.Instance.NamespaceUID = earlierUID
			}), want: steps.CreatePruneJob},
		"PruneElsewhere": {reason: "The backups on another volume do not count for the retention.",
			state: verifiedState(older(3), func(s *instance.State) { s.Records[3].Spec.Instance.NamespaceUID = earlierUID }),
			want:  steps.ReleaseDataPV},
		"PruneUnread": {reason: "Older backups must not be deleted before the new backup is verified.",
			state: fenced(withJob(), older(9), phase(v1.BackupRunning)), want: steps.Wait},
		"Forget": {reason: "The BackupRecord must be deleted after its archive.",
			state: verifiedState(older(3), pruned(complete)), want: steps.DeleteOldBackups},
		"PruneForged": {reason: "A forged prune Job must not cause the deletion of a BackupRecord of another volume.",
			state: verifiedState(older(3), func(s *instance.State) {
				pruned(complete)(s)
				s.PruneJob.Annotations[v1.AnnotationPruned] = `["` + s.Records[3].Name + `"]`
				s.Records[3].Spec.Instance.NamespaceUID = earlierUID
			}), want: steps.ReleaseDataPV},
		"PruneFailed": {reason: "A failed prune Job must not prevent the release of the data.",
			state: verifiedState(older(3), pruned(failedAt(0, ""))), want: steps.ReleaseDataPV},
		"Wipe": {reason: "Kubernetes does not empty the directory of a hostPath volume, so a Job must do it.",
			state: verifiedState(hostPath), want: steps.CreateWipeJob},
		"Wiped": {reason: "The data volume must be released immediately after the wipe.",
			state: verifiedState(hostPath, wiped(complete)), want: steps.ReleaseDataPV},
		"WipeFails": {reason: "A failed wipe must be retried after a delay.",
			state: verifiedState(hostPath, wiped(failedAt(0, "busy"))), want: steps.Wait, says: "busy"},
		"Unretain": {reason: "The data volume must get its original reclaim policy back.",
			state: verifiedState(), want: steps.ReleaseDataPV,
			says: "is verified"},
		"Jobs": {reason: "A completed pod still holds the data PVC, so the Jobs must be deleted.",
			state: verifiedState(released), want: steps.DeleteObjects},
		"Claim": {reason: "The data PVC must be released after the Jobs are deleted.",
			state: verifiedState(released, func(s *instance.State) { s.BackupJob = nil }), want: steps.ReleaseDataPVC},
		"ClaimGoes": {reason: "The controller must wait until Kubernetes has deleted the data PVC.",
			state: verifiedState(released, func(s *instance.State) {
				s.BackupJob, s.DataPVC.Finalizers, s.DataPVC.DeletionTimestamp = nil, nil, &metav1.Time{Time: now}
			}), want: steps.Wait},
		"Rest": {reason: "An orphaning deletion leaves the Service, so the controller must delete it.",
			state: verifiedState(noClaim, func(s *instance.State) { s.Leftovers = []client.Object{&corev1.Service{}} }),
			want:  steps.DeleteObjects},
		"Record": {reason: "An unverified BackupRecord would block the next instance, so it must be deleted.",
			state: fenced(noClaim, discard), want: steps.DeleteUnprovenBackup},
		"XR": {reason: "All objects are released, so the finalizer of the XR must be removed.",
			state: verifiedState(noClaim), want: steps.RemoveXRFinalizer},
		"LetGo": {reason: "The XR has no finalizer of the controller any more, so Kubernetes deletes it.",
			state: verifiedState(noClaim, func(s *instance.State) { s.XR.SetFinalizers(nil) }), want: steps.NoOp},
		"Name": {reason: "The finalizer of the claim must be removed when no other object is left.",
			state: verifiedState(noClaim, func(s *instance.State) { s.XR, s.Instance.XR = nil, "" }),
			want:  steps.RemoveClaimFinalizer},
		"NameHeld": {reason: "The name must stay in use while a volume contains data without a backup.",
			state: verifiedState(func(s *instance.State) {
				s.XR, s.Instance.XR = nil, ""
				s.DataPVC.DeletionTimestamp = &metav1.Time{Time: now}
			}), want: steps.Wait, says: "still contains the data"},
		"NothingThere": {reason: "There is nothing to do for an event of a deleted instance.",
			state: &instance.State{}, want: steps.NoOp},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.state)
			if diff := cmp.Diff(tc.want, got.Action); diff != "" || !strings.Contains(got.Text(), tc.says) {
				t.Errorf("%s\nmessage %q\n-want, +got:\n%s", tc.reason, got.Text(), diff)
			}
			for _, c := range got.Changes {
				if f := removedForeignFinalizer(c); f != "" {
					t.Errorf("%s removes finalizer %s, which is not the controller's", got.Action, f)
				}
			}
		})
	}
}

// TestLateCrossplaneIsReported checks that claim and composite resource report the command, and that the phase shows
// that the deletion waits for manual action.
func TestLateCrossplaneIsReported(t *testing.T) {
	for name, s := range map[string]*instance.State{
		"Forsaken": fenced(deployment(1), composing(instance.CrossplaneMayTake), undefined),
		"Off":      fenced(deployment(1), composing(instance.CrossplaneMayTake)),
		"Bare":     fenced(composing(instance.CrossplaneMayTake), undefined, bare),
	} {
		got := Next(s)
		if got.Phase != v1.DeletionBlocked || len(got.Changes) != 2 {
			t.Fatalf("%s: want phase Held, shown twice, got %s and %d changes", name, got.Phase, len(got.Changes))
		}
		for i, c := range []*instance.Composite{s.XR, s.Claim} {
			message, _ := got.Changes[i].Fields["message"].(string)
			if reason := got.Changes[i].Fields["reason"]; reason != v1.DeletionBlocked {
				t.Errorf("%s: want the column of %s to say Held, got %v", name, c.GetKind(), reason)
			}
			if got.Changes[i].Object != client.Object(c.Unstructured) ||
				!strings.HasSuffix(message, s.XR.CommandToRemove(instance.FinalizerCrossplane)) {
				t.Errorf("%s: want the command in the status of %s, got %q", name, c.GetKind(), message)
			}
		}
	}
}

// TestNeverReleases checks that data is released only with a verified backup, an annotation that skips the backup, or
// an empty volume.
func TestNeverReleases(t *testing.T) {
	releases := []steps.Action{steps.ReleaseDataPV, steps.ReleaseDataPVC, steps.RemoveXRFinalizer, steps.CreateWipeJob,
		steps.CreatePruneJob}
	states := map[string]variation{
		"pending": phase(v1.BackupPending), "running": phase(v1.BackupRunning), "failed": phase(v1.BackupFailed),
		"unknown":   phase("Later"),
		"no record": func(s *instance.State) { s.Records = nil },
		"other": func(s *instance.State) {
			s.Records[0].Spec.Instance.XR = "another"
			s.Records[0].Status.Phase = v1.BackupVerified
		},
	}
	jobs := map[string]variation{
		"none": func(*instance.State) {}, "runs": withJob(), "complete": withJob(complete),
		"failed": withJob(failedAt(0, "x")),
		"silent": withJob(complete, func(j *instance.Job) { j.Report = nil }), "old": withJob(failedAt(-time.Hour, "x")),
	}
	for state, one := range states {
		for job, two := range jobs {
			for _, three := range []variation{func(*instance.State) {}, noClaim, hostPath,
				func(s *instance.State) { s.DataPV = nil }, func(s *instance.State) { s.Claim = nil }} {
				got := Next(fenced(one, two, three))
				for _, r := range releases {
					if got.Action == r {
						t.Errorf("record %s, job %s: %s without a proof (%s)", state, job, r, got.Message)
					}
				}
			}
		}
	}
}

// TestBlocker checks status.internal.blockedBy. Its reason shows users and scripts who must act.
func TestBlocker(t *testing.T) {
	failure := func(s *instance.State) { s.PodFailure = "why" }
	cases := map[string]struct {
		reason string
		state  *instance.State
		want   *v1.Blocker
	}{
		"Nothing": {reason: "A pod failure that is over must not stay in the status.",
			state: running(blocked(v1.ReasonPodFailure, "x"))},
		"Pod": {reason: "The failure of a pod must be reported with the reason PodFailure.", state: running(failure),
			want: &v1.Blocker{Reason: v1.ReasonPodFailure, Message: "why"}},
		"Held": {reason: "A missing BackupRecord must be reported with a reason that asks a user to decide.",
			state: running(beginning, entryLeft, failure), want: &v1.Blocker{Reason: v1.ReasonRecordMissing, Message: "why"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, blocker(tc.state)); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func xrOf(s *instance.State) *instance.Composite { return s.XR }

func claimOf(s *instance.State) *instance.Composite { return s.Claim }

// unreadable replaces a setting in the config of the claim or XR with a map, and adds a readable setting.
func unreadable(composite func(*instance.State) *instance.Composite) variation {
	return func(s *instance.State) {
		c := composite(s)
		c.Object["spec"] = map[string]any{
			"config": map[string]any{"mysqld": map[string]any{"port": int64(1)}, "max_connections": int64(200)}}
		c.Unreadable = instance.Decode(c.Unstructured).Unreadable
	}
}

// TestRemoveSettings checks that exactly the unreadable settings are removed.
func TestRemoveSettings(t *testing.T) {
	s := running(dead, unreadable(xrOf), unreadable(claimOf))
	for _, c := range []*instance.Composite{s.XR, s.Claim} {
		changes := Next(s).Changes
		last := changes[len(changes)-1]
		got, ok := last.Object.(*unstructured.Unstructured)
		if !ok || got.GetKind() != c.GetKind() || last.Verb != change.Patch {
			t.Fatalf("want a patch of the %s, got %s of %v", c.GetKind(), last.Verb, last.Object)
		}
		want := map[string]any{"max_connections": int64(200)}
		if diff := cmp.Diff(want, got.Object["spec"].(map[string]any)["config"]); diff != "" {
			t.Error(diff)
		}
		c.Unstructured, c.Unreadable = got, nil
	}
	if got := Next(s).Action; got == steps.RemoveSettings {
		t.Error("there is nothing left to remove")
	}
}
