package catalog

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// whatItRemoves returns the value of AnnotationRemoves. It identifies the PVC and the volume that a removal Job was
// created for.
func whatItRemoves(c *corev1.PersistentVolumeClaim) string {
	if c == nil {
		return ""
	}
	return string(c.UID) + "/" + c.Spec.VolumeName
}

// RemovalJob returns the Job that deletes the directory of one backup and nothing else.
func RemovalJob(a *instance.Archives, r *v1.BackupRecord, v *corev1.PersistentVolume) *batchv1.Job {
	instanceID := a.Instance
	instanceID.XR = r.Spec.Instance.XR
	j := agent.VolumeJob{
		Of: instanceID, Namespace: instanceID.Namespace, Name: v1.RemovalJobName(r.Name), Component: v1.ComponentRemoval,
		Image:     a.Settings.AgentImage,
		Resources: a.Settings.JobResources, Nodes: r.Spec.Nodes, PullSecrets: r.Spec.ImagePullSecrets,
		OnNode: v.Spec.HostPath != nil, Command: agent.Prune(steps.BackupPath, r.Name),
		Volumes: []corev1.Volume{agent.PVCVolume(steps.VolumeBackup, a.PVC.Name)},
	}.Job()
	a.Rules.Fit(&j.Spec.Template.Spec)
	j.Annotations[v1.AnnotationRemoves] = whatItRemoves(a.PVC)
	return j
}

// changesOnArchive returns the writes to the API server or a store that carry out an ArchiveStep.
func changesOnArchive(a *instance.Archives, step ArchiveStep) []change.Change {
	r := step.Record
	switch step.Action { //nolint:exhaustive // The other actions are for existing instances.
	case StoreEntryOfRecord:
		return []change.Change{WriteEntry(step.Volume, r)}
	case ProtectRecord:
		return []change.Change{change.PatchObject(client.Object(r), steps.AddFinalizer)}
	case LabelRecord:
		return []change.Change{change.PatchObject(r, func(r *v1.BackupRecord) {
			key := a.Instance.OlderKey()
			if isListedAsOlder(a, r) {
				key = a.Instance.Key()
			}
			steps.SetLabelsAndAnnotations(r, map[string]string{v1.LabelInstance: key}, nil)
		})}
	case LetRecordGo:
		return []change.Change{steps.RemoveFinalizer(r)}
	case RemakeRecord:
		return []change.Change{MakeRecordAgain(step.Entry)}
	case VerifyRecord:
		return VerifyAsRecorded(r, step.Entry, a.Now)
	case RemoveRequest:
		return []change.Change{change.PatchObject(step.Volume, func(v *corev1.PersistentVolume) {
			delete(v.Annotations, v1.AnnotationMakeRecord)
		})}
	case StartRemoval:
		return []change.Change{change.NewObject(RemovalJob(a, r, step.Volume))}
	case RetryRemoval:
		return []change.Change{deleteRemovalJob(a, r)}
	case ArchiveRemoved:
		return releaseRecord(a, r)
	case RemoveFromStore:
		return []change.Change{removeFromStore(r), steps.RemoveFinalizer(r)}
	case ReportDelay, ReportLost:
		return []change.Change{PatchRecordStatus(r, func(st *v1.BackupRecordStatus) { st.Message = step.Message }).OrGone()}
	}
	return nil
}

func deleteRemovalJob(a *instance.Archives, r *v1.BackupRecord) change.Change {
	return change.DeleteObject(a.Erasing[r.Name].Job, metav1.DeletePropagationForeground)
}

// releaseRecord releases all objects of a deleted archive. The BackupRecord is last, because after a crash the
// controller finds the other objects through it.
func releaseRecord(a *instance.Archives, r *v1.BackupRecord) []change.Change {
	return append(RemoveEntries(a.Volumes, r.Name), deleteRemovalJob(a, r), steps.RemoveFinalizer(r))
}

// objectMeta returns the metadata of a BackupRecord that its catalog entry contains.
func objectMeta(n *instance.Entry) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: n.Name, UID: n.Record, CreationTimestamp: n.AnnouncedAt}
}

// removeFromStore returns the change that deletes a backup from its store.
func removeFromStore(r *v1.BackupRecord) change.Change {
	return change.InStore(change.Remove, r,
		change.Remote{Store: r.Spec.Archive.Store, Instance: r.Spec.Instance, Record: r.Name, Sum: r.Spec.Archive.SHA256})
}

// RemoveAttempts returns the change that deletes from the store the files of a backup that will never be verified. If
// the store does not respond, the files stay and the deletion continues.
func RemoveAttempts(s *instance.State, record client.Object) change.Change {
	return change.InStore(change.RemoveAttempts, record,
		change.Remote{Store: s.Store(), Instance: s.BackedUp(), Record: record.GetName()}).OrNot()
}

// isInOwnDir reports whether an archive is stored in the prefix that its Job had access to. Such an archive is
// deleted together with its catalog entry. An imported archive is stored where another cluster wrote it.
func isInOwnDir(r *v1.BackupRecord) bool {
	parts := strings.Split(r.Spec.Archive.Path, "/")
	return len(parts) == 5 && parts[0] == v1.StoreLayout && parts[3] == r.Name
}
