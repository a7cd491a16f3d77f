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
		"RoomKnown": {reason: "The backups that are there and one more are to fit.",
			state: running(beginning, older(2), archivesOf("2Gi")), want: steps.RecordPreviousBackup},
		"RoomGrows": {reason: "Before a deletion has to wait for it.", state: running(needs("3Gi")),
			want: steps.ExpandBackupPVC},
		"RoomLimited": {reason: "Five times the size of the data is asked for at most.",
			state: running(needs("100Gi"), backupHas("5Gi", "5Gi")), want: steps.NoOp},
		"RoomEnough": {reason: "It has that much.", state: running(needs("3Gi"), backupHas("3Gi", "3Gi")), want: steps.NoOp},
		"RoomRefused": {reason: "The claim says so while there is time.",
			state: running(needs("3Gi"), backupHas("1Gi", "1Gi"), refusedSize("3Gi")), want: steps.WarnOfBackup},
		"RoomTold": {reason: "Once.", state: running(needs("3Gi"), backupHas("1Gi", "1Gi"), refusedSize("3Gi"), warned),
			want: steps.NoOp},
		"RoomMade": {reason: "Somebody has made room.", state: running(needs("3Gi"), backupHas("4Gi", "4Gi"), warned),
			want: steps.WarnOfBackup},
		"Unlisted": {reason: "People see them in the claim.", state: running(older(2), func(s *instance.State) {
			s.XR.Status.Started, s.XR.Status.PreviousBackup = false, s.Latest()
			s.XR.Status.BackupNumber, s.XR.Status.BackupNeeds = backup.NextBackupNumber(s), backup.NeededRoom(s)
			s.XR.Status.Backups = &v1.BackupsStatus{Recent: []v1.ListedBackup{{Name: unlisted}}}
		}), want: steps.RecordPreviousBackup},

		"RoomOnNode": {reason: "A folder has the room of its disk.", state: running(hostPath, needs("100Gi")),
			want: steps.NoOp},

		"Unsynced": {reason: "The function cannot say it: Crossplane keeps its status to itself.",
			state: running(unsynced(reasonError,
				`[cannot compose resources: cannot apply composed resource "data-claim": exceeded quota, and more]`,
				time.Minute)), want: steps.ReportUnsynced, says: "Crossplane cannot create the objects of this " +
				"instance: cannot apply composed resource \"data-claim\": exceeded quota, and more"},
		"PausedClaim": {reason: "Crossplane does not even delete the XR, and says nothing.",
			state: running(claimDeleted, pausedClaim), want: steps.ReportBlockedClaim,
			says: "kubectl annotate mysql db crossplane.io/paused-"},
		"PausedSaid": {reason: "Once is enough.",
			state: running(claimDeleted, pausedClaim, func(s *instance.State) { s.Claim.Status.Message = Next(s).Message }),
			want:  steps.NoOp},
		"UnsyncedPaused": {reason: "Somebody has paused it.", state: running(unsynced(reasonPaused, "paused", time.Minute)),
			want: steps.ReportUnsynced, says: "kubectl annotate xmysql"},
		"UnsyncedFields": {reason: "The function has brackets of its own.",
			state: running(unsynced(reasonError, "cannot compose resources: a step: [spec.image: no, spec.config: no]",
				time.Minute)), want: steps.ReportUnsynced, says: "a step: [spec.image: no, spec.config: no]"},
		"UnsyncedSoon": {reason: "It may get over that, and no event says that it does not.",
			state: running(unsynced(reasonError, "cannot compose resources: no", time.Second)), want: steps.Wait},
		"UnsyncedTold": {reason: "Once.",
			state: running(unsynced(reasonError, "cannot compose resources: no", time.Minute), func(s *instance.State) {
				s.XR.Status.Message = "Crossplane cannot create the objects of this instance: no"
			}), want: steps.NoOp},
		"UnsyncedOther": {reason: "The function says it, once the controller has told it.",
			state: running(unsynced(reasonError, "Invalid resources: data-pvc", time.Minute)), want: steps.WarnOfCrossplane},
		"UnsyncedBegins": {reason: "It is not said later because the server is not up.",
			state: running(beginsAgain, unsynced(reasonError, cannotCompose+": no", time.Minute)), want: steps.ReportUnsynced,
			says: "cannot create the objects of this instance: no"},
		"UnsyncedBefore": {reason: "The function is not even called.",
			state: running(unsynced(reasonError, "cannot select Composition: none", time.Minute)), want: steps.ReportUnsynced,
			says: "cannot select Composition: none"},
		"UnsyncedLater": {reason: "What is the controller's to do comes first.",
			state: running(unsynced(reasonPaused, "paused", time.Minute), func(s *instance.State) { s.XR.SetFinalizers(nil) }),
			want:  steps.AddFinalizers},

		"UnreadableXR": {reason: "Crossplane could not take its finalizer off.", state: running(dead, unreadable(xrOf)),
			want: steps.RemoveSettings, says: "spec.config.mysqld cannot be read"},
		"UnreadableClaim": {reason: "Nor could anybody let the claim go.", state: running(dead, unreadable(claimOf)),
			want: steps.RemoveSettings, says: "spec.config.mysqld cannot be read"},
		"UnreadableLives": {reason: "Its settings are its owner's.", state: running(unreadable(xrOf), unreadable(claimOf)),
			want: steps.NoOp},

		"SettingsRefused": {reason: "The claim says why.", state: running(func(s *instance.State) {
			s.XR.Status.Settings = &v1.SettingsStatus{ID: "new", Phase: v1.SettingsValidating}
			s.SettingsVerdict = &v1.SettingsVerdict{ID: "new", Message: "no"}
		}), want: steps.ReportSettings},
		"SettingsKnown": {reason: "Once.", state: running(func(s *instance.State) {
			s.XR.Status.Settings = &v1.SettingsStatus{ID: "new", Phase: v1.SettingsRefused}
			s.SettingsVerdict = &v1.SettingsVerdict{ID: "new", Message: "no"}
			s.XR.Status.SettingsVerdict = s.SettingsVerdict
		}), want: steps.NoOp},
		"SettingsTried": {reason: "Pods are not watched.", state: running(func(s *instance.State) {
			s.XR.Status.Settings = &v1.SettingsStatus{ID: "new", Phase: v1.SettingsOnTrial}
		}), want: steps.Wait},
		"SettingsServe": {reason: "What is over is not shown.", state: running(func(s *instance.State) {
			s.XR.Status.SettingsVerdict = &v1.SettingsVerdict{ID: "new", Message: "no"}
		}), want: steps.ReportSettings},

		"Refused": {reason: "A quota is somebody's to change.",
			state: running(func(s *instance.State) { s.BackupPVC = nil }, refused(steps.CreateBackupPVC)),
			want:  steps.CreateBackupPVC, says: "It is kept when the instance is deleted: exceeded quota"},
		"RefusedBefore": {reason: "That was another step.", state: running(refused(steps.CreateBackupPVC)),
			want: steps.ReportPodFailure},

		"OutlivedNote": {reason: "A restore whose pod never ends is over when its program says so.",
			state: running(outlived(0, v1.RestoreRunning)), want: steps.RecordRestored,
			says: "A container that another client added to pod restore-pod still runs"},
		"RestoreDone": {reason: "Nobody waits for the Job to say what its program has said.",
			state: running(doneRestoring(), restorePhase(v1.RestoreRunning)), want: steps.RecordRestored},
		"RestoreNoted": {reason: "The function says that it is over.",
			state: running(doneRestoring(), restorePhase(v1.RestoreRunning), restoredBy("job")), want: steps.NoOp},
		"RestoreSaid": {reason: "The Job says it now.",
			state: running(completeRestore(), restorePhase(v1.RestoreSucceeded), restoredBy("job")), want: steps.RecordRestored},
		"RestoreUnsaid": {reason: "The function has not read it yet.",
			state: running(completeRestore(), restorePhase(v1.RestoreRunning), restoredBy("job")), want: steps.NoOp},
		"OutlivedWait": {reason: "The function would make the Job again.",
			state: running(outlived(0, v1.RestoreRunning), restoredBy("job")), want: steps.Wait},
		"OutlivedEnd": {reason: "It says that all is restored.",
			state: running(outlived(0, v1.RestoreSucceeded), restoredBy("job")), want: steps.DeleteObjects},
		"OutlivedOther": {reason: "That was another Job.",
			state: running(outlived(0, v1.RestoreRunning), restoredBy("earlier")), want: steps.RecordRestored},
		"OutlivedGone": {reason: "Nobody needs the note any more.", state: running(restoredBy("job")),
			want: steps.RecordRestored},
		"OutlivedAgain": {reason: "One that failed is tried again without its pod.",
			state: running(outlived(1, v1.RestoreRunning)), want: steps.DeleteObjects},

		// An existing instance.
		"Quiet": {reason: "All is as it should be.", state: running(), want: steps.NoOp},
		"NoFinalizer": {reason: "Nothing may start before claim and XR are protected.",
			state: running(func(s *instance.State) { s.XR.SetFinalizers(nil) }), want: steps.AddFinalizers},
		"ClaimFirst": {reason: "A claim without an XR is protected, too.",
			state: running(func(s *instance.State) { s.XR, s.Instance.XR = nil, ""; s.Claim.SetFinalizers(nil) }),
			want:  steps.AddFinalizers},
		"BackupPV": {reason: "There must be a place for the backup before there is data.",
			state: running(func(s *instance.State) {
				s.BackupPVC = nil
				s.XR.Status.PreviousBackup = ""
				s.XR.Status.Started = false
			}), want: steps.CreateBackupPVC},
		"DataPVCNext": {reason: "The backup volume is of the data's class, which is known from its claim.",
			state: running(func(s *instance.State) { s.BackupPVC, s.DataPVC, s.DataPV = nil, nil, nil }), want: steps.NoOp},
		"Look": {reason: "The function waits for our word.",
			state: running(func(s *instance.State) { s.XR.Status.PreviousBackup = ""; s.XR.Status.Started = false }),
			want:  steps.RecordPreviousBackup, says: "no backup"},
		"LookAgain": {reason: "A backup that was proven meanwhile is seen.",
			state: running(older(1), func(s *instance.State) { s.XR.Status.Started = false }), want: steps.RecordPreviousBackup,
			says: "old-a"},
		"LookedAt": {reason: "What has started is never restored: the word stays.", state: running(older(1)),
			want: steps.NoOp},
		"Retain": {reason: "A bound volume is kept whatever becomes of its PVC.", state: running(func(s *instance.State) {
			s.DataPV.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		}), want: steps.RetainDataPV},
		"RetainPolicy": {reason: "The volume says what is wanted, also when claim and XR are gone.",
			state: running(func(s *instance.State) { s.XR.Spec.DeletionPolicy = v1.DeletionDiscard }), want: steps.RetainDataPV},
		"Pin": {reason: "On another node a hostPath folder is empty.",
			state: running(hostPath, backupsBound, onNode), want: steps.SetNodeAffinity},
		"PinBoth": {reason: "That of the backups is not left behind.", state: running(hostPath, onNode),
			want: steps.Wait},
		"Grow": {reason: "The backups' volume grows with the data's.",
			state: running(func(s *instance.State) { s.XR.Spec.StorageSize = new("2Gi") }), want: steps.ExpandBackupPVC},
		"GrowRefused": {reason: "What its class refused is not asked for again.", state: running(func(s *instance.State) {
			s.XR.Spec.StorageSize = new("2Gi")
			s.BackupPVC.Annotations[v1.AnnotationRefusedSize] = "2Gi"
		}), want: steps.NoOp},
		"Beginning": {reason: "Its pods are looked at until it takes clients.", state: running(silent),
			want: steps.Wait},
		"Tell": {reason: "A composition cannot see what keeps a pod from running.",
			state: running(silent, func(s *instance.State) { s.PodFailure = "pod p: ErrImagePull: none" }),
			want:  steps.ReportPodFailure, says: "Pod p: ErrImagePull"},
		"Told": {reason: "And says it once.",
			state: running(silent, func(s *instance.State) { s.PodFailure = "x" }, blocked(v1.ReasonPodFailure, "x")),
			want:  steps.Wait},
		"Over": {reason: "What is over is not shown.", state: running(blocked(v1.ReasonPodFailure, "x")),
			want: steps.ReportPodFailure},
		"ClaimDeleted": {reason: "A claim that is being deleted cannot be mounted again: the server stops until it is " +
			"made anew.", state: running(claimDies), want: steps.FenceServer, says: "was deleted"},
		"Outgrown": {reason: "What has no volume cannot grow.", state: running(backupUnbound, larger),
			want: steps.DeleteBackupPVC, says: "created again with 2Gi"},
		"OutgrownGoes": {reason: "Kubernetes takes a moment to let it go.", state: running(backupUnbound, larger, going),
			want: steps.NoOp},
		"OutgrownForeign": {reason: "Nobody else's claim is deleted.",
			state: running(backupUnbound, larger, func(s *instance.State) { s.BackupPVC.Labels = nil }), want: steps.NoOp},
		"OutgrownNever": {reason: "A larger place for the backups does no harm.", state: running(backupUnbound),
			want: steps.NoOp},

		// The namespace was deleted and created again.
		"RebornLooks": {reason: "The function chooses by what is there.",
			state: running(reborn, func(s *instance.State) { s.XR.Status.PreviousBackup = "" }),
			want:  steps.RecordPreviousBackup, says: "old-a"},
		"RebornWaits": {
			reason: "The backup that it chooses has a volume of its own; one that it refuses is nobody's here.",
			state:  running(reborn), want: steps.NoOp},
		"RebornRetains": {reason: "The data's volume is kept all the same.",
			state: running(reborn, func(s *instance.State) { s.DataPV.Finalizers = nil }), want: steps.RetainDataPV},
		"Unseen": {reason: "On hostPath the backups lie beside the data: where that is must be seen first.",
			state: running(classless, func(s *instance.State) { s.BackupPVC, s.DataPV = nil, nil }), want: steps.Wait},
		"Misplaced": {reason: "A claim that waits for any volume would take anybody's.",
			state: running(hostPath, backupUnbound), want: steps.DeleteBackupPVC},
		"MisplacedDies": {reason: "Also before the backup.", state: fenced(hostPath, backupUnbound),
			want: steps.DeleteBackupPVC},
		"RebornNever": {reason: "An empty server was wanted.",
			state: running(reborn, func(s *instance.State) { s.XR.Status.Started = true }), want: steps.CreateBackupPVC},
		"RebornAgain": {reason: "What is this namespace's is found again.",
			state: running(reborn, func(s *instance.State) { s.BackupPV = backupsOn("pvc-2", "ns") }),
			want:  steps.CreateBackupPVC},
		"RebornUnproven": {reason: "Nobody chooses a backup that is not proven.",
			state: running(reborn, phase(v1.BackupFailed), func(s *instance.State) {
				s.XR.Status.PreviousBackup = v1.PreviousNone
			}), want: steps.CreateBackupPVC},
		"RebornOther": {reason: "What was chosen is another claim's backup.",
			state: running(reborn, chosen, func(s *instance.State) { s.XR.Status.Restore.Backup = "other" }),
			want:  steps.CreateBackupPVC},
		"Inherit": {reason: "The function chose it: the platform allows it.", state: running(reborn, left),
			want: steps.AdoptBackupPV, says: "previous namespace"},
		"InheritBusy": {reason: "Not while another claim is on it.",
			state: running(reborn, left, func(s *instance.State) { s.BackupBusy = true }), want: steps.Wait},
		"InheritFailed": {reason: "A restore that had no archive is made again.",
			state: running(reborn, left, restoring(0, failedAt(0, ""))), want: steps.DeleteObjects},
		"InheritFails": {reason: "When it is gone.",
			state: running(reborn, left, restoring(0, failedAt(0, ""),
				func(j *instance.Job) { j.DeletionTimestamp = &metav1.Time{Time: now} })), want: steps.Wait},
		"InheritRuns": {reason: "One that waits for its claim goes on to wait.",
			state: running(reborn, left, restoring(0)), want: steps.AdoptBackupPV},
		"InheritLost": {reason: "Doubt is not absence: there is no new volume, and people hear of it.",
			state: running(reborn, chosen, func(s *instance.State) { s.PodFailure = "no PersistentVolume" }),
			want:  steps.ReportPodFailure},
		"InheritDone": {reason: "Then it is like any volume that lost its claim.",
			state: running(reborn, chosen, func(s *instance.State) { s.BackupPV = backupsOn("pvc-0", "ns") }),
			want:  steps.CreateBackupPVC},

		// An empty backup volume takes the place of the previous one.
		"GiveWay": {reason: "Nothing was ever written there: its class says what becomes of it.",
			state: running(reborn, left, inTheWay), want: steps.ReleaseBackupPV, says: `"pvc-0"`},
		"GiveWayAlone": {reason: "Also where its claim is gone.",
			state: running(reborn, left, inTheWay, claimOfBackupsGone), want: steps.ReleaseBackupPV},
		"GiveWayClaim": {reason: "Then its claim goes.", state: running(reborn, left, inTheWay, letGone),
			want: steps.DeleteBackupPVC},
		"GiveWayUnbound": {reason: "One without a volume goes at once.",
			state: running(reborn, left, inTheWay, backupUnbound, func(s *instance.State) { s.BackupPV = nil }),
			want:  steps.DeleteBackupPVC},
		"GiveWayRestore": {reason: "The restore that mounts it would find nothing.",
			state: running(reborn, left, inTheWay, letGone, going, restoring(0)), want: steps.DeleteObjects},
		"GiveWayNext": {reason: "One that came later waits for the next claim.",
			state: running(reborn, left, inTheWay, letGone, going, restoring(1)), want: steps.Wait},
		"GiveWayNot": {reason: "Nothing goes that has a backup.",
			state: running(reborn, left, inTheWay, older(1), func(s *instance.State) {
				s.Records[1].Status.Phase = v1.BackupFailed
			}), want: steps.Wait},
		"GiveWayOld": {reason: "Nor one that was inherited before.",
			state: running(reborn, left, inTheWay, older(1), func(s *instance.State) {
				s.Records[1].Spec.Instance.NamespaceUID = "first"
				steps.SetAnnotation(s.BackupPV, v1.AnnotationEarlierNamespaces, "zero,first")
			}), want: steps.Wait},
		"GiveWayForeign": {reason: "Nor somebody else's.",
			state: running(reborn, left, inTheWay, func(s *instance.State) { s.BackupPVC.Labels = nil }), want: steps.Wait},

		// Not all nodes can use the backup volume.
		"PlaceOfBackups": {reason: "The server has to run there.",
			state: running(beginning, earlierPlace, entryLeft, func(s *instance.State) {
				steps.SetAnnotation(s.BackupPV, v1.AnnotationBackupPrefix+"old-a", "{}")
			}), want: steps.RecordPreviousBackup},
		"PlaceKnown": {reason: "It does.",
			state: running(beginning, earlierPlace, func(s *instance.State) {
				steps.SetAnnotation(s.BackupPVC, v1.AnnotationMadeFor, xrUID)
			}, recorded), want: steps.NoOp},
		"PlaceAwaited": {reason: "Nobody knows where they will be, and will soon.",
			state: running(beginning, backupUnbound, func(s *instance.State) { s.BackupPVCAwaited = true }), want: steps.Wait},
		"PlaceRefused": {reason: "Nobody will, and people hear why.",
			state: running(beginning, backupUnbound, func(s *instance.State) {
				s.BackupPVCAwaited, s.PodFailure = true, "no volume yet"
			}), want: steps.ReportPodFailure, says: "No volume yet"},
		"PlaceEmpty": {reason: "A volume of an earlier life is elsewhere, and there is nothing on it.",
			state: running(beginning, earlierPlace), want: steps.ReleaseBackupPV, says: "it is replaced by a new volume " +
				"near the data"},
		"PlaceReleased": {reason: "Then its PVC goes.", state: running(beginning, earlierPlace, letGone),
			want: steps.DeleteBackupPVC},
		"PlaceGoing": {reason: "And is waited for.", state: running(beginning, earlierPlace, letGone, going, recorded),
			want: steps.NoOp},
		"PlaceOwn": {reason: "This life's own is where it is.",
			state: running(beginning, earlierPlace, func(s *instance.State) {
				steps.SetAnnotation(s.BackupPVC, v1.AnnotationMadeFor, xrUID)
			}), want: steps.RecordPreviousBackup},
		"PlaceStarted": {reason: "And so is that of one that has data.", state: running(earlierPlace), want: steps.NoOp},
		"PlaceUsed": {reason: "There is a backup on it.", state: running(beginning, earlierPlace, archived),
			want: steps.RecordPreviousBackup},
		"PlaceCopied": {reason: "It was restored from elsewhere: nobody knows what is on it.",
			state: running(beginning, earlierPlace, func(s *instance.State) { s.BackupPV.UID = another }),
			want:  steps.RecordPreviousBackup},
		"PlaceEverywhere": {reason: "All nodes can use it.",
			state: running(beginning, earlierPlace, func(s *instance.State) { s.BackupPV.Spec.NodeAffinity = nil }),
			want:  steps.RecordPreviousBackup},
		"PlaceFolder": {reason: "A folder is made again where it was.",
			state: running(beginning, earlierPlace, func(s *instance.State) {
				s.BackupPV.Spec.HostPath = &corev1.HostPathVolumeSource{}
			}), want: steps.RecordPreviousBackup},

		// A Database.
		"Ephemeral": {reason: "Without storageSize there is nothing to keep.", state: running(ephemeral),
			want: steps.NoOp},
		"EphemeralClaim": {reason: "There will be nothing to keep.",
			state: running(ephemeral, func(s *instance.State) { s.XR, s.Instance.XR = nil, "" }), want: steps.NoOp},
		"EphemeralDies": {reason: "It just goes.", state: running(ephemeral, dead), want: steps.NoOp},
		"EphemeralTrouble": {reason: "People hear what keeps it from running all the same.",
			state: running(ephemeral, func(s *instance.State) { s.PodFailure = "no such image" }), want: steps.ReportPodFailure,
			says: "No such image"},
		"EphemeralVolume": {reason: "What has a volume is none, whatever its spec says.",
			state: running(ephemeral, func(s *instance.State) { s.XR.Status.Volume = volume1 }), want: steps.AddFinalizers},
		"EphemeralMySQL": {reason: "A MySQL without a size is an error, and no reason to let go.",
			state: running(ephemeral, func(s *instance.State) { s.Instance.Kind = v1.KindMySQL }), want: steps.AddFinalizers},
		"Stored": {reason: "With storageSize it is kept as a MySQL is.",
			state: running(asDatabase, func(s *instance.State) { s.XR.SetFinalizers(nil) }), want: steps.AddFinalizers},
		"StoredClaim": {reason: "Its claim first.",
			state: running(asDatabase, func(s *instance.State) { s.XR, s.Instance.XR = nil, ""; s.Claim.SetFinalizers(nil) }),
			want:  steps.AddFinalizers},
		"StoredDies": {reason: "Its backup is announced.", state: running(asDatabase, dead, deployment(1)),
			want: steps.CreateBackup},
		"StoredHint": {reason: "The exact command that gives the data up.",
			state: fenced(withJob(failedAt(0, "full")), failedForRoom, broken, asDatabase), want: steps.Wait,
			says: "kubectl annotate xdatabase db-x crossplane-mysql.io/skip-backup=" + xrUID},

		// Create the BackupRecord and stop the server.
		"Announce": {reason: "The record is there before anything stops.", state: running(dead, deployment(1)),
			want: steps.CreateBackup},
		"Composing": {reason: "Crossplane may still apply the Deployment.",
			state: fenced(deployment(1), func(s *instance.State) {
				s.XR.SetFinalizers([]string{v1.Finalizer, instance.FinalizerCrossplane})
			}), want: steps.Wait, says: "Crossplane"},
		"ComposingNot": {reason: "If Crossplane is gone for good, a person says so.",
			state: fenced(deployment(1), composing(late)), want: steps.Wait,
			says: "Crossplane has not removed its finalizer from XMySQL db-x. No data is deleted: the backup of the data " +
				"starts when the finalizer is removed. Check that Crossplane is running. If Crossplane was uninstalled " +
				"permanently, remove the finalizer: " +
				`kubectl patch xmysql db-x --type json --patch '[{"op":"test","path":"/metadata/finalizers/1","value":"composite.apiextensions.crossplane.io"},{"op":"remove","path":"/metadata/finalizers/1"}]'`},
		"ComposingHold": {reason: "The command leaves the finalizers of others.",
			state: fenced(deployment(1), composing(late), func(s *instance.State) {
				s.XR.SetFinalizers([]string{instance.FinalizerCrossplane, "a.example/b", v1.Finalizer})
			}), want: steps.Wait, says: `{"op":"remove","path":"/metadata/finalizers/0"}]'`},
		"Forsaken": {reason: "Crossplane was started while the XRD was being deleted. Its finalizer is for a person " +
			"to remove.", state: fenced(deployment(1), composing(late), undefined), want: steps.Wait,
			says: "The XRD is being deleted or no longer exists. If Crossplane was started after that, it never removes the " +
				"finalizer. Remove it: kubectl patch xmysql db-x"},
		"ForsakenPlain": {reason: "No backup is promised if none is taken.",
			state: fenced(deployment(1), composing(late), undefined, discard), want: steps.Wait,
			says: "from XMySQL db-x. The XRD is being deleted"},
		"ForsakenSoon": {reason: "It may have been about to.", state: fenced(deployment(1), composing(shortly), undefined),
			want: steps.Wait, says: "Crossplane to finish"},
		"ForsakenClock": {reason: "A clock that is an hour ahead is no reason.",
			state: fenced(deployment(1), composing(0), undefined, func(s *instance.State) { s.Now = s.Now.Add(time.Hour) }),
			want:  steps.Wait, says: "Crossplane to finish"},
		"ForsakenPause": {reason: "A person does not want it to go on.",
			state: fenced(deployment(1), composing(late), undefined, func(s *instance.State) {
				s.XR.SetAnnotations(map[string]string{instance.AnnotationPaused: "true"})
			}), want: steps.Wait, says: "Crossplane does not reconcile XMySQL db-x, because it is paused"},
		"ForsakenBare": {reason: "Crossplane's finalizer is the only one.", state: fenced(composing(late), undefined, bare),
			want: steps.Wait, says: "from XMySQL db-x. The XRD is being deleted"},
		"BareAwaits": {reason: "Crossplane may be about to.", state: fenced(composing(shortly), bare), want: steps.Wait},
		"ForsakenClaim": {reason: "The claim says what was proven.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson, instance.FinalizerCrossplaneClaim), undefined,
				func(s *instance.State) {
					s.Claim.Status.Deletion = &v1.DeletionStatus{Phase: v1.DeletionReleasing, Message: `Backup "b" is verified`}
				}), want: steps.ReportBlockedClaim,
			says: `All other objects of the instance are already deleted. Backup "b" is verified. The XRD is being deleted or no longer exists`},
		"ClaimSoon": {reason: "Crossplane has its own time for it.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson-time.Second, instance.FinalizerCrossplaneClaim),
				undefined), want: steps.Wait},
		"ClaimAwaits": {reason: "People are told who holds it.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson, "a.example/b", instance.FinalizerCrossplaneClaim)),
			want:  steps.ReportBlockedClaim, says: "Crossplane has not removed its finalizer from MySQL db. All other objects " +
				"of the instance are already deleted. Check that Crossplane is running. If Crossplane was uninstalled " +
				"permanently, remove the finalizer: " +
				`kubectl patch mysql db --namespace default --type json --patch '[{"op":"test","path":"/metadata/finalizers/1","value":"finalizer.apiextensions.crossplane.io"},{"op":"remove","path":"/metadata/finalizers/1"}]'`},
		"ClaimTold": {reason: "They have been told.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson, instance.FinalizerCrossplaneClaim),
				func(s *instance.State) { s.Claim.Status.Message = awaitRelease(s).Message }), want: steps.Wait},
		"ClaimPaused": {reason: "A person does not want it to go on.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson, instance.FinalizerCrossplaneClaim), undefined,
				pausedClaim), want: steps.NoOp},
		"ClaimOfOurs": {reason: "Ours goes first.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson, instance.FinalizerCrossplaneClaim, v1.Finalizer),
				undefined), want: steps.RemoveClaimFinalizer},
		"ClaimOfOthers": {reason: "Who else holds it has reasons of its own.",
			state: running(nothingLeft, dyingClaim(steps.RequeueForPerson, "example.org/hold"), undefined), want: steps.NoOp},
		"Stop": {reason: "The server stops first.", state: fenced(deployment(1), withPod(own, corev1.PodRunning)),
			want: steps.StopServer},
		"StopDefault": {reason: "No number of replicas means one.",
			state: fenced(deployment(1), func(s *instance.State) { s.Deployment.Spec.Replicas = nil }), want: steps.StopServer},
		"Stopping": {reason: "No byte is read while its pod is there.",
			state: fenced(deployment(0), withPod(own, corev1.PodRunning)), want: steps.Wait, says: "server to stop"},
		"EndedPod": {reason: "An evicted pod stays for ever if nobody removes it.",
			state: fenced(deployment(0), withPod(own, corev1.PodFailed)), want: steps.DeleteObjects},
		"Stranger": {reason: "Nobody else's pod is touched, and none is ignored.",
			state: fenced(deployment(0), withPod(nil, corev1.PodSucceeded)), want: steps.Wait,
			says: `Pod "p" uses the data volume`},
		"StopsRestore": {reason: "A restore under way mounts the volume.",
			state: fenced(func(s *instance.State) { s.RestoreJob = &instance.Job{Job: &batchv1.Job{}} }),
			want:  steps.DeleteObjects,
			says:  "restore"},
		"NoScalingUp": {reason: "A Deployment that is gone cannot be scaled up.", state: fenced(deployment(0)),
			want: steps.DeleteObjects},
		"FenceHolds": {reason: "Also after the proof: a server that came back is stopped.",
			state: verifiedState(deployment(1)), want: steps.StopServer},
		"DiscardFenced": {reason: "Also what is discarded stops first.", state: fenced(deployment(1), discard),
			want: steps.StopServer},

		// Back up.
		"StartBackup": {reason: "The server is gone: its data is copied.", state: fenced(), want: steps.CreateBackupJob},
		"BackupPlace": {reason: "A backup PVC that was deleted is made again.",
			state: fenced(func(s *instance.State) { s.BackupPVC = nil }), want: steps.CreateBackupPVC},
		"DropsPlace": {reason: "An instance that grew needs more room for its first backup.",
			state: fenced(backupUnbound, larger), want: steps.DeleteBackupPVC},
		"PlaceGoes": {reason: "The next one is made when it is gone.", state: fenced(backupUnbound, larger, going),
			want: steps.Wait, says: "created again"},
		"PlaceInUse": {reason: "The Job waits for this very claim.", state: fenced(backupUnbound, larger, withJob()),
			want: steps.MarkRunning},
		"PlaceDeleted": {reason: "What is on its volume is found again.", state: fenced(going), want: steps.Wait,
			says: "on its volume"},
		"Running": {reason: "The record says that the copy runs.", state: fenced(withJob()), want: steps.MarkRunning},
		"Progress": {reason: "People see how far it is.",
			state: fenced(withJob(func(j *instance.Job) { j.Progress = &agent.Progress{Phase: agent.PhaseCopy, Percent: 84} }),
				phase(v1.BackupRunning)), want: steps.Wait, says: "42%"},
		"Trouble": {reason: "A pod that does not run says why.",
			state: fenced(withJob(func(j *instance.Job) { j.PodFailure = "0/2 nodes are available" }), phase(v1.BackupRunning)),
			want:  steps.Wait, says: "0/2 nodes"},
		"Failed": {reason: "The record says what went wrong.",
			state: fenced(withJob(failedAt(0, "the volume is full")), phase(v1.BackupRunning), refusedSize("2Gi")),
			want:  steps.MarkFailed, says: "the volume is full"},
		"FailedWaits": {reason: "Not at once again, and never without.",
			state: fenced(withJob(failedAt(0, "full")), failedForRoom, broken), want: steps.Wait, says: "No data is lost"},
		"FailedHint": {reason: "The exact command that gives the data up.",
			state: fenced(withJob(failedAt(0, "full")), failedForRoom, broken), want: steps.Wait,
			says: "kubectl annotate xmysql db-x crossplane-mysql.io/skip-backup=" + xrUID},
		"Grows": {reason: "It makes room where it can.",
			state: fenced(withJob(failedAt(0, "full")), phase(v1.BackupRunning)), want: steps.GrowBackupPVC,
			says: "PersistentVolumeClaim backup-db-pvc for the backups to 2Gi (full)"},
		"GrowsAsSaid": {reason: "The agent knows how much is missing.",
			state: fenced(withJob(failedAt(0, "full"), lacks(2<<30)), phase(v1.BackupRunning)), want: steps.GrowBackupPVC,
			says: "for the backups to 4Gi"},
		"GrowsSoFar": {reason: "Five times what the data can be is enough for three backups, and whoever makes Jobs " +
			"must not have it all.", state: fenced(withJob(failedAt(0, "full"), lacks(1<<62)), phase(v1.BackupRunning)),
			want: steps.GrowBackupPVC, says: "for the backups to 5Gi"},
		"GrowsOnce": {reason: "It is on its way.",
			state: fenced(withJob(failedAt(0, "full")), phase(v1.BackupRunning), backupHas("1Gi", "2Gi")),
			want:  steps.MarkFailed},
		"GrowsAgain": {reason: "It was not enough.",
			state: fenced(withJob(failedAt(0, "full")), phase(v1.BackupRunning), backupHas("2Gi", "2Gi")),
			want:  steps.GrowBackupPVC, says: "for the backups to 4Gi"},
		"GrowsNoMore": {reason: "Something else is wrong.",
			state: fenced(withJob(failedAt(0, "full")), phase(v1.BackupRunning), backupHas("5Gi", "5Gi")),
			want:  steps.MarkFailed},
		"GrowsForOther": {reason: "Only for want of room.",
			state: fenced(withJob(failedAt(0, "full"), func(j *instance.Job) { j.Report.ExitCode = agent.ExitFailed }),
				phase(v1.BackupRunning)), want: steps.MarkFailed},
		"NoRoom": {reason: "The exact command that makes room.",
			state: fenced(withJob(failedAt(0, "full")), phase(v1.BackupRunning), refusedSize("2Gi")), want: steps.MarkFailed,
			says: "full. Delete unneeded files from PersistentVolumeClaim backup-db-pvc, or expand it: " +
				"kubectl patch pvc --namespace default backup-db-pvc --patch " +
				"'{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"2Gi\"}}}}'"},
		"NoRoomOnNode": {reason: "A folder has the room of its disk.",
			state: fenced(hostPath, withJob(failedAt(0, "full")), phase(v1.BackupRunning)), want: steps.MarkFailed,
			says: "the node's disk"},
		"FailedAgain": {reason: "After a while it is tried again.",
			state: fenced(withJob(failedAt(-20*time.Second, "full")), failedForRoom, broken), want: steps.DeleteObjects},
		"NoReport": {reason: "A Job whose pod is gone proves nothing: it runs again.",
			state: fenced(withJob(complete, func(j *instance.Job) { j.Report = nil })), want: steps.DeleteObjects},
		"ForgedReport": {reason: "A report without a sum proves nothing.",
			state: fenced(withJob(complete, func(j *instance.Job) { j.Report.SHA256 = "" }), phase(v1.BackupRunning)),
			want:  steps.MarkFailed},
		"RestoreReport": {reason: "A report of another command proves nothing.",
			state: fenced(withJob(complete, func(j *instance.Job) { j.Report.Command = "restore" }), phase(v1.BackupRunning)),
			want:  steps.MarkFailed},
		"Empty": {reason: "No database: nothing to lose.",
			state: fenced(silent, withJob(complete, func(j *instance.Job) { j.Report.Empty = true })), want: steps.MarkNoData},
		"EmptyServed": {reason: "A server that answered had data: this is another volume.",
			state: fenced(silent, withJob(complete, func(j *instance.Job) { j.Report.Empty = true }), phase(v1.BackupRunning),
				func(s *instance.State) {
					s.DataPVC.Annotations = map[string]string{v1.AnnotationVersion: "8.4.6"}
				}), want: steps.MarkFailed, says: "the right volume"},
		"EmptyRestored": {reason: "So had one that was restored.",
			state: fenced(silent, withJob(complete, func(j *instance.Job) { j.Report.Empty = true }), phase(v1.BackupRunning),
				func(s *instance.State) {
					s.XR.Status.Restore = &v1.RestoreStatus{Phase: v1.RestoreSucceeded}
				}), want: steps.MarkFailed},
		"PinDying": {reason: "Nobody knows the node once the pod is gone.",
			state: fenced(hostPath, deployment(1), onNode), want: steps.SetNodeAffinity},
		"PinBothDying": {reason: "People hear what it waits for.",
			state: fenced(hostPath, deployment(1), onNode, func(s *instance.State) { s.BackupPV = nil }), want: steps.Wait,
			says: "is not bound to"},
		"BackupsKept": {reason: "A proof on a volume that goes with its claim is none.",
			state: fenced(withJob(complete), func(s *instance.State) { s.BackupPVC.Annotations = nil }),
			want:  steps.RetainBackupPV},
		"Note": {reason: "The volume knows it before the record says so.", state: fenced(withJob(complete)),
			want: steps.RecordBackup},
		"Prove": {reason: "Then the record does.", state: fenced(withJob(complete), ownEntry),
			want: steps.MarkVerified},
		"ProveUnread": {reason: "The volume's word is enough, whatever became of the Job.", state: fenced(ownEntry),
			want: steps.MarkVerified},
		"ProveSkip": {reason: "Also where the data may go without it by now: what is proven stays known.",
			state: fenced(ownEntry, skip(xrUID)), want: steps.MarkVerified},
		"ProveFence": {reason: "Behind the fence.", state: fenced(ownEntry, deployment(1)),
			want: steps.StopServer},
		"RecordGone": {reason: "A record that is gone is made again: the data may be gone already.",
			state: fenced(ownEntry, noClaim, func(s *instance.State) { s.Records = nil }), want: steps.RecreateBackup},
		"NoteOfAnother": {reason: "Another life's note is none of this.",
			state: fenced(ownEntry, func(s *instance.State) { s.Entries[0].Spec.Instance.XR = "another" }),
			want:  steps.CreateBackupJob},
		"NoteUnreadable": {reason: "Doubt is not proof.",
			state: fenced(ownEntry, func(s *instance.State) { s.Entries[0].Unreadable = true }), want: steps.CreateBackupJob},
		"ClaimGone": {reason: "The volume is the data; a claim is a handle.", state: fenced(claimGone, unbound),
			want: steps.CreatePVC, says: volume1},
		"ClaimStale": {reason: "The volume still names the claim that is gone.", state: fenced(claimGone),
			want: steps.ReserveDataPV},
		"ClaimTaken": {reason: "Somebody else's claim has the name.",
			state: fenced(claimGone, func(s *instance.State) { s.PVCNameConflict = true }), want: steps.Wait,
			says: "does not belong to this instance"},
		"VolumeGone": {reason: "Doubt is not absence.", state: fenced(noClaim), want: steps.Wait, says: volume1},
		"ClaimTerminate": {reason: "No new pod can mount it: it goes, and its volume stays.",
			state: fenced(claimDies), want: steps.DeletePVC},
		"ClaimTerminateUnkept": {reason: "Not before the volume stays.",
			state: fenced(claimDies, func(s *instance.State) { s.DataPV.Finalizers = nil }), want: steps.RetainDataPV},
		"ClaimTerminateNoVolume": {reason: "Doubt is not absence.",
			state: fenced(claimDies, func(s *instance.State) { s.DataPV = nil }), want: steps.Wait, says: "Restore the volume"},

		// The namespace is being deleted, or is deleted.
		"HomelessHandle": {reason: "The claim in it is let go first.", state: fenced(homeless), want: steps.DeletePVC},
		"HomelessRebind": {reason: "The volume is reserved for a claim where a Job can run.",
			state: fenced(homeless, originGone), want: steps.ReserveDataPV, says: v1.RecoveryNamespace},
		"HomelessMake": {reason: "Which is made.", state: fenced(homeless, originGone, atPlace), want: steps.CreatePVC},
		"HomelessBackups": {reason: "So is one for the backups.", state: fenced(homeless, originGone, mounted),
			want: steps.CreateBackupPVC},
		"HomelessBusy": {reason: "But not while the one in the namespace is there.",
			state: fenced(homeless, originGone, mounted, func(s *instance.State) { s.BackupPV, s.BackupBusy = s.DataPV, true }),
			want:  steps.Wait},
		"HomelessFence": {reason: "Whatever goes: the server is gone first.",
			state: fenced(homeless, deployment(0), withPod(own, corev1.PodRunning)), want: steps.Wait},
		"HomelessStray": {reason: "A Job that was made in the namespace holds the volume there.",
			state: fenced(homeless, func(s *instance.State) { s.MisplacedJobs = []client.Object{&batchv1.Job{}} }),
			want:  steps.DeleteObjects},
		"HomelessBack": {reason: "The volume of the backups is for the next instance.",
			state: verifiedState(homeless, originGone, released, mounted, func(s *instance.State) {
				s.BackupJob, s.DataPVC, s.Settings.BackupClass = nil, nil, new("fast")
				s.BackupPVC = backup.NewPVC(s)
			}), want: steps.DeleteObjects},
		"HomelessReborn": {reason: "A later namespace of the same name may be another owner's.",
			state: fenced(func(s *instance.State) { s.Namespace.UID = "later" }, originGone, claimGone),
			want:  steps.ReserveDataPV, says: v1.RecoveryNamespace},

		// Another client has deleted the XR.
		"LostAnnounce": {reason: "Also what lost its XR is announced.", state: running(dead, orphaned),
			want: steps.CreateBackup},
		"LostCopy": {reason: "What was restored from elsewhere is nobody's to wind up.",
			state: running(dead, orphaned, copied), want: steps.Wait,
			says: "kubectl annotate pv " + volume1 + " " + v1.AnnotationTakeOver},
		"LostCopied": {reason: "Not even where a backup is proven.",
			state: verifiedState(orphaned, originGone, mounted, copied), want: steps.Wait,
			says: "To ignore the volume and start without its data: kubectl annotate pv"},
		"Stale": {reason: "Its status is of an earlier XR of its name: nothing of that is true.",
			state: running(func(s *instance.State) { s.XR.Stale = true }), want: steps.ClearStatus},
		"LostLeft": {reason: "A person said that it is nobody's.",
			state: running(dead, orphaned, copied, func(s *instance.State) { s.Orphan.Left = []client.Object{s.DataPV} }),
			want:  steps.LetCopyGo},
		"BesideCopy": {reason: "The next life of the name says what it waits for.", state: running(besideCopy),
			want: steps.ReportCopy, says: "was copied or restored from elsewhere"},
		"BesideTold": {reason: "Once.",
			state: running(besideCopy, func(s *instance.State) { s.XR.Status.BlockedBy = blocker(s) }), want: steps.Wait},
		"BesideSays": {reason: "Where Crossplane keeps the function from saying it, the controller does.",
			state: running(besideCopy, unsynced(reasonError, cannotCompose+": name taken", time.Minute),
				func(s *instance.State) {
					s.DataPVC, s.DataPV, s.XR.Status.BlockedBy = nil, nil,
						blocker(s)
				}), want: steps.ReportUnsynced, says: "To back up that data"},
		"BesideTaken": {reason: "And says no more once it is over.",
			state: running(func(s *instance.State) { s.PredecessorTerminating = true }, blocked(v1.ReasonCopyFound, "held")),
			want:  steps.ReportPodFailure},
		"LostHandle": {reason: "The usual name is the next instance's.", state: fenced(orphaned), want: steps.DeletePVC},
		"LostMake": {reason: "Its own is of this life alone.", state: fenced(orphaned, originGone, atPlace),
			want: steps.CreatePVC, says: "default/data-default-db-"},
		"LostBackup": {reason: "And then it is backed up like any other.", state: fenced(orphaned, originGone, mounted),
			want: steps.CreateBackupJob},
		"LostHint": {reason: "There is no XR to annotate.",
			state: fenced(orphaned, originGone, mounted, withJob(failedAt(0, "full")), failedForRoom, broken), want: steps.Wait,
			says: "kubectl annotate pv " + volume1},
		"LostSkip": {reason: "So its volume is. That goes first, and its word with it.",
			state: fenced(orphaned, originGone, mounted, lostSkip), want: steps.MarkNoData},
		"LostSkipped": {reason: "The claim remembers.",
			state: fenced(orphaned, originGone, mounted, lostSkip, func(s *instance.State) {
				s.Orphan.Annotations[v1.AnnotationNothingToLose] = xrUID
			}), want: steps.ReleaseDataPV},
		"LostVolume": {reason: "Where there is no claim, by its volume what is left of it is found.",
			state: fenced(orphaned, originGone, lostSkip), want: steps.DeleteUnprovenBackup, says: "skipped"},
		"LostClaim": {reason: "By its claim what is left of it is found: it goes last.",
			state: verifiedState(orphaned, originGone, mounted, released, func(s *instance.State) { s.BackupJob = nil }),
			want:  steps.ReleaseDataPVC},
		"LostJobs": {reason: "After all else.", state: verifiedState(orphaned, originGone, mounted, released),
			want: steps.DeleteObjects},
		"Superseded": {reason: "Nobody else will delete it, and its data is the next one's.", state: running(superseded),
			want: steps.DeleteOrphanedXR, says: "backed up"},
		"SupersededUp": {reason: "Not before it is protected: deleting it is what Crossplane does with all it made.",
			state: running(superseded, func(s *instance.State) { s.XR.SetFinalizers(nil) }), want: steps.AddFinalizers},
		"Earlier": {reason: "What an earlier life leaves decides what this one starts from.",
			state: running(func(s *instance.State) {
				s.PredecessorTerminating, s.XR.Status.Started, s.XR.Status.PreviousBackup = true, false, ""
			}), want: steps.Wait},

		// The data PVC is deleted while the instance exists.
		"HealRebind": {reason: "The next claim of the name can have the volume.", state: running(claimGone),
			want: steps.ReserveDataPV},
		"HealWaits": {reason: "The function makes the claim.", state: running(claimGone, unbound), want: steps.NoOp},
		"HealRetain": {reason: "Nothing goes before the volume stays.",
			state: running(claimDies, func(s *instance.State) { s.DataPV.Finalizers = nil }), want: steps.RetainDataPV},
		"HealPods": {reason: "The server stops first.",
			state: running(claimDies, stopped, withPod(own, corev1.PodRunning)), want: steps.Wait},
		"HealRelease": {reason: "Then the claim goes.", state: running(claimDies, stopped), want: steps.DeletePVC},
		"HealGoes": {reason: "Kubernetes removes it.",
			state: running(claimDies, stopped, func(s *instance.State) { s.DataPVC.Finalizers = nil }), want: steps.Wait},
		"HealDone": {reason: "The server starts when the claim is back on its volume.", state: running(stopped),
			want: steps.UnfenceServer},
		"HealUnbound": {reason: "Not before.",
			state: running(stopped, func(s *instance.State) { s.DataPVC.Status.Phase = corev1.ClaimPending }), want: steps.NoOp},
		"HealNever": {reason: "A claim that never had a volume is made again.",
			state: running(claimDies, func(s *instance.State) { s.DataPVC.Spec.VolumeName, s.DataPV = "", nil }),
			want:  steps.DeletePVC},
		"HealLost": {reason: "Doubt is not absence.",
			state: running(claimDies, func(s *instance.State) { s.DataPV = nil }), want: steps.NoOp,
			says: "restore the volume"},
		"ClaimLost": {reason: "Doubt is not absence.",
			state: fenced(func(s *instance.State) { s.DataPVC.Status.Phase = corev1.ClaimLost }), want: steps.Wait,
			says: "lost its volume"},

		// A backup with this name exists, but its BackupRecord is missing.
		"Held": {reason: "No server starts empty beside it.", state: running(beginning, entryLeft),
			want: steps.RecordPreviousBackup,
			says: `Backup "old-a" of a previous instance with this name exists, but its BackupRecord is missing. No empty server`},
		"HeldKnown": {reason: "People hear it.", state: running(beginning, entryLeft, func(s *instance.State) {
			s.XR.Status.PreviousBackup, s.XR.Status.HeldBackup, s.PodFailure = v1.PreviousHeld, "old-a", "backup old-a"
		}), want: steps.ReportPodFailure, says: "Backup old-a"},
		"HeldUnproven": {reason: "A record that was made again comes without its status, and is no news before that.",
			state: running(beginning, entryLeft, older(1), func(s *instance.State) { s.Records[0].Status.Phase = "" }),
			want:  steps.RecordPreviousBackup, says: "its BackupRecord is missing"},
		"HeldNewer": {reason: "A record that is newer is what the next instance starts from.",
			state: running(beginning, entryLeft, older(1), func(s *instance.State) {
				s.Records[0].CreationTimestamp = metav1.NewTime(now)
			}), want: steps.RecordPreviousBackup, says: `Backup "old-a" of a previous instance with this name exists`},
		"HeldBy": {reason: "An older one is not.",
			state: running(beginning, older(1), func(s *instance.State) { s.Records[0].Name = "before" }, entryLeft),
			want:  steps.RecordPreviousBackup, says: "its BackupRecord is missing"},
		"Forgotten": {reason: "A person may say so.",
			state: running(beginning, entryLeft, func(s *instance.State) { s.Entries[0].Forgotten = true }),
			want:  steps.RecordPreviousBackup, says: "There is no backup"},
		"HeldStarted": {reason: "A server that runs is not stopped for it.", state: running(entryLeft), want: steps.NoOp},
		"HeldVolume": {reason: "A new volume would be in its way.",
			state: running(beginning, entryLeft, func(s *instance.State) {
				s.BackupPVC, s.XR.Status.PreviousBackup, s.XR.Status.HeldBackup = nil, v1.PreviousHeld, "old-a"
			}), want: steps.NoOp},
		"HeldOther": {reason: "People hear which.",
			state: running(beginning, entryLeft, func(s *instance.State) {
				s.XR.Status.PreviousBackup, s.XR.Status.HeldBackup = v1.PreviousHeld, "old-b"
			}), want: steps.RecordPreviousBackup, says: `Backup "old-a"`},

		// Deletions without a backup.
		"Discard": {reason: "The claim says so.", state: fenced(discard), want: steps.ReleaseDataPV,
			says: "deletionPolicy is Discard"},
		"DiscardStale": {reason: "The claim's word counts, which the XR has not got.",
			state: fenced(func(s *instance.State) { s.XR.Spec.DeletionPolicy = v1.DeletionDiscard }),
			want:  steps.CreateBackupJob},
		"Skip": {reason: "The annotation names this very life.", state: fenced(skip(xrUID)),
			want: steps.ReleaseDataPV, says: "skipped"},
		"SkipWrong": {reason: "Another life's annotation means nothing.", state: fenced(skip("another")),
			want: steps.CreateBackupJob},
		"NothingMarked": {reason: "The agent's word outlives its Job.", state: fenced(marked), want: steps.ReleaseDataPV,
			says: "no database"},
		"NeverBoundStarted": {reason: "What its claim says outlives the claim.",
			state: running(dead, neverHadVolume, func(s *instance.State) { s.XR.Status.Started = true }), want: steps.MarkNoData,
			says: "never had a volume"},
		"NeverBound": {reason: "What never had a volume has no data.", state: running(dead, neverHadVolume),
			want: steps.ReleaseDataPVC, says: "never had a volume"},
		"NeverSeen": {reason: "What started has data, wherever its claim is.",
			state: running(dead, neverHadVolume, func(s *instance.State) { s.XR.Status.Started = true; s.DataPVC = nil }),
			want:  steps.CreateBackup},

		// Release.
		"Prune": {reason: "Older backups go after the newer one is proven.", state: verifiedState(older(3)),
			want: steps.CreatePruneJob},
		"PruneKeeps": {reason: "As many are kept as the spec says.", state: verifiedState(older(2)),
			want: steps.ReleaseDataPV},
		"PruneInUse": {reason: "Another instance is being made from it.",
			state: verifiedState(older(3), func(s *instance.State) {
				s.Restoring = map[string]string{s.Records[3].Name: "XMySQL copy"}
			}), want: steps.ReleaseDataPV},
		"PruneInUseSince": {reason: "It was chosen once the Job was made, which has not ended.",
			state: verifiedState(older(3), pruned(func(*instance.Job) {}),
				func(s *instance.State) {
					s.Restoring = map[string]string{
						s.Records[3].Name: "XMySQL copy"}
				}), want: steps.DeleteObjects},
		"PruneOrphan": {reason: "The XR that said how many to keep is gone.", state: verifiedState(older(3), orphaned),
			want: steps.ReleaseDataPV},
		"PruneOther": {reason: "An archive that lies elsewhere is not ours to remove.",
			state: verifiedState(older(3), func(s *instance.State) { s.Records[3].Spec.Archive.Path = "elsewhere/x.tar.zst" }),
			want:  steps.ReleaseDataPV},
		"PruneRival": {reason: "Which of two is wanted nobody has said.",
			state: verifiedState(older(3), func(s *instance.State) { s.Records[0].Spec.Number, s.Records[3].Spec.Number = 4, 4 }),
			want:  steps.ReleaseDataPV},
		"PruneRestorable": {reason: "The newest that a server has started from stays until a newer one is as good.",
			state: verifiedState(older(3), restorable(3, metav1.ConditionTrue)), want: steps.ReleaseDataPV},
		"PruneRestorables": {reason: "One of them is enough.",
			state: verifiedState(older(4), restorable(1, metav1.ConditionTrue), restorable(4, metav1.ConditionTrue)),
			want:  steps.CreatePruneJob},
		"Unrequired": {reason: "Nobody waits for what nobody asked for.",
			state: verifiedState(restorable(0, metav1.ConditionFalse)), want: steps.ReleaseDataPV},
		"Required": {reason: "The data stays until a server has run on its backup.",
			state: verifiedState(requireRestoreTest), want: steps.Wait, says: "a server is started"},
		"RequiredOfXR": {reason: "Also where the claim is gone.",
			state: verifiedState(requireRestoreTest, func(s *instance.State) { s.Claim = nil }), want: steps.Wait},
		"RequiredBroken": {reason: "A person decides.",
			state: verifiedState(requireRestoreTest, restorable(0, metav1.ConditionFalse)), want: steps.Wait,
			says: `kubectl patch mysql --namespace default db --type=merge --patch '{"spec":{"backup":{"finalBackup":{"requireRestoreTest":false}}}}'`},
		"RequiredUnknown": {reason: "Doubt is not proof.",
			state: verifiedState(requireRestoreTest, restorable(0, metav1.ConditionUnknown)), want: steps.Wait,
			says: "no server has started from it"},
		"RequiredWhole": {reason: "It has.", state: verifiedState(requireRestoreTest, restorable(0, metav1.ConditionTrue)),
			want: steps.ReleaseDataPV},
		"RequiredNoMore": {reason: "The claim's word counts.",
			state: verifiedState(requireRestoreTest, func(s *instance.State) {
				s.Claim.Spec.Backup.FinalBackup = &v1.FinalBackup{RequireRestoreTest: new(false)}
			}), want: steps.ReleaseDataPV},
		"RequiredSkip": {reason: "Who gives the data up needs no server.",
			state: verifiedState(requireRestoreTest, skip(xrUID)), want: steps.ReleaseDataPV},
		"RequiredReleased": {reason: "What is gone is not waited for.", state: verifiedState(requireRestoreTest, released),
			want: steps.DeleteObjects},
		"RequiredFence": {reason: "The fence holds meanwhile.", state: verifiedState(requireRestoreTest, deployment(1)),
			want: steps.StopServer},
		"PruneInherited": {reason: "What was inherited counts.", state: verifiedState(older(3), func(s *instance.State) {
			s.BackupPV = backupsOn("pvc-2", "ns")
			steps.SetAnnotation(s.BackupPV, v1.AnnotationEarlierNamespaces, earlierUID)
			s.Records[3].Spec.Instance.NamespaceUID = earlierUID
		}), want: steps.CreatePruneJob},
		"PruneElsewhere": {reason: "What lies on another volume does not.",
			state: verifiedState(older(3), func(s *instance.State) { s.Records[3].Spec.Instance.NamespaceUID = earlierUID }),
			want:  steps.ReleaseDataPV},
		"PruneUnread": {reason: "Nothing is pruned before the proof.",
			state: fenced(withJob(), older(9), phase(v1.BackupRunning)), want: steps.Wait},
		"Forget": {reason: "A record goes after its archive.", state: verifiedState(older(3), pruned(complete)),
			want: steps.DeleteOldBackups},
		"PruneForged": {reason: "A Job that anybody can make takes no record of another volume along.",
			state: verifiedState(older(3), func(s *instance.State) {
				pruned(complete)(s)
				s.PruneJob.Annotations[v1.AnnotationPruned] = `["` + s.Records[3].Name + `"]`
				s.Records[3].Spec.Instance.NamespaceUID = earlierUID
			}), want: steps.ReleaseDataPV},
		"PruneFailed": {reason: "That is no reason to keep the instance.",
			state: verifiedState(older(3), pruned(failedAt(0, ""))), want: steps.ReleaseDataPV},
		"Wipe": {reason: "Nobody else empties a hostPath folder.", state: verifiedState(hostPath),
			want: steps.CreateWipeJob},
		"Wiped": {reason: "The finalizer goes right after.", state: verifiedState(hostPath, wiped(complete)),
			want: steps.ReleaseDataPV},
		"WipeFails": {reason: "It is tried again.", state: verifiedState(hostPath, wiped(failedAt(0, "busy"))),
			want: steps.Wait, says: "busy"},
		"Unretain": {reason: "The volume gets its policy back.", state: verifiedState(), want: steps.ReleaseDataPV,
			says: "is verified"},
		"Jobs": {reason: "A completed pod still holds the volume.", state: verifiedState(released),
			want: steps.DeleteObjects},
		"Claim": {reason: "Then the handle of the data goes.",
			state: verifiedState(released, func(s *instance.State) { s.BackupJob = nil }), want: steps.ReleaseDataPVC},
		"ClaimGoes": {reason: "And is waited for.", state: verifiedState(released, func(s *instance.State) {
			s.BackupJob, s.DataPVC.Finalizers, s.DataPVC.DeletionTimestamp = nil, nil, &metav1.Time{Time: now}
		}), want: steps.Wait},
		"Rest": {reason: "An orphaning deletion leaves them.",
			state: verifiedState(noClaim, func(s *instance.State) { s.Leftovers = []client.Object{&corev1.Service{}} }),
			want:  steps.DeleteObjects},
		"Record": {reason: "An unproven record would keep the next instance from starting.", state: fenced(noClaim, discard),
			want: steps.DeleteUnprovenBackup},
		"XR": {reason: "All is released.", state: verifiedState(noClaim), want: steps.RemoveXRFinalizer},
		"LetGo": {reason: "Only Kubernetes is left to act.",
			state: verifiedState(noClaim, func(s *instance.State) { s.XR.SetFinalizers(nil) }), want: steps.NoOp},
		"Name": {reason: "The name is free when nothing is left.",
			state: verifiedState(noClaim, func(s *instance.State) { s.XR, s.Instance.XR = nil, "" }),
			want:  steps.RemoveClaimFinalizer},
		"NameHeld": {reason: "A volume that nobody backed up keeps the name.", state: verifiedState(func(s *instance.State) {
			s.XR, s.Instance.XR = nil, ""
			s.DataPVC.DeletionTimestamp = &metav1.Time{Time: now}
		}), want: steps.Wait, says: "still contains the data"},
		"NothingThere": {reason: "An event of something long gone.", state: &instance.State{}, want: steps.NoOp},
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
		"Nothing": {reason: "What is over is not kept.", state: running(blocked(v1.ReasonPodFailure, "x"))},
		"Pod": {reason: "The node's or the image's.", state: running(failure),
			want: &v1.Blocker{Reason: v1.ReasonPodFailure, Message: "why"}},
		"Held": {reason: "A person's, who says what becomes of a backup.", state: running(beginning, entryLeft, failure),
			want: &v1.Blocker{Reason: v1.ReasonRecordMissing, Message: "why"}},
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
