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

// whatItErases is the value of AnnotationErases.
func whatItErases(c *corev1.PersistentVolumeClaim) string {
	if c == nil {
		return ""
	}
	return string(c.UID) + "/" + c.Spec.VolumeName
}

// EraseJob removes the folder of one record, and nothing else.
func EraseJob(a *instance.Archives, r *v1.MySQLBackup, v *corev1.PersistentVolume) *batchv1.Job {
	life := a.Life
	life.XR = r.Spec.Instance.XR
	j := agent.VolumeJob{
		Of: life, Namespace: life.Namespace, Name: v1.EraseJobName(r.Name), Component: v1.ComponentErase, Image: a.Settings.AgentImage,
		Resources: a.Settings.JobResources, Nodes: r.Spec.Nodes, OnNode: v.Spec.HostPath != nil, Command: agent.Prune(steps.BackupPath, r.Name),
		Volumes: []corev1.Volume{agent.PVCVolume(steps.VolumeBackup, a.PVC.Name)},
	}.Job()
	a.Rules.Fit(&j.Spec.Template.Spec)
	j.Annotations[v1.AnnotationErases] = whatItErases(a.PVC)
	return j
}

// changesOnArchive is all that is written for a step.
func changesOnArchive(a *instance.Archives, step ArchiveStep) []change.Change {
	r := step.Record
	switch step.Action { //nolint:exhaustive // The others are those of lives.
	case NoteRecord:
		return []change.Change{WriteNote(step.Volume, r)}
	case HoldRecord:
		return []change.Change{change.PatchObject(client.Object(r), steps.AddFinalizer)}
	case LabelRecord:
		return []change.Change{change.PatchObject(r, func(r *v1.MySQLBackup) {
			key := a.Life.OlderKey()
			if isListedAsOlder(a, r) {
				key = a.Life.Key()
			}
			steps.SetLabelsAndAnnotations(r, map[string]string{v1.LabelInstance: key}, nil)
		})}
	case LetRecordGo:
		return []change.Change{steps.RemoveFinalizer(r)}
	case RemakeRecord:
		return []change.Change{MakeRecordAgain(step.Note)}
	case ProveRecord:
		return ProveAsNoted(r, step.Note, a.Now)
	case AnswerAsked:
		return []change.Change{change.PatchObject(step.Volume, func(v *corev1.PersistentVolume) { delete(v.Annotations, v1.AnnotationMakeRecord) })}
	case StartErase:
		return []change.Change{change.NewObject(EraseJob(a, r, step.Volume))}
	case RetryErase:
		return []change.Change{deleteEraseJob(a, r)}
	case Erased:
		return eraseRecord(a, r)
	case EraseFromStore:
		return []change.Change{removeFromStore(r), steps.RemoveFinalizer(r)}
	case TellRecord, TellLost:
		return []change.Change{PatchRecordStatus(r, func(st *v1.MySQLBackupStatus) { st.Message = step.Message }).OrGone()}
	}
	return nil
}

func deleteEraseJob(a *instance.Archives, r *v1.MySQLBackup) change.Change {
	return change.DeleteObject(a.Erasing[r.Name].Job, metav1.DeletePropagationForeground)
}

// eraseRecord lets all go that was kept for an archive that is gone, and the record last: the
// rest is found by it after a crash.
func eraseRecord(a *instance.Archives, r *v1.MySQLBackup) []change.Change {
	return append(RemoveNotes(a.Volumes, r.Name), deleteEraseJob(a, r), steps.RemoveFinalizer(r))
}

// objectMeta of the record that a note was made from.
func objectMeta(n *instance.Note) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: n.Name, UID: n.Record, CreationTimestamp: n.AnnouncedAt}
}

// removeFromStore the backup of a record.
func removeFromStore(r *v1.MySQLBackup) change.Change {
	return change.InStore(change.Remove, r, change.Remote{Store: r.Spec.Archive.Store, Instance: r.Spec.Instance, Record: r.Name, Sum: r.Spec.Archive.SHA256})
}

// DiscardAttempts at a backup in the store that will never be proven. A store that does not answer keeps them, and nobody waiting.
func DiscardAttempts(s *instance.State, record client.Object) change.Change {
	return change.InStore(change.Discard, record, change.Remote{Store: s.Store(), Instance: s.BackedUp(), Record: record.GetName()}).OrNot()
}

// isInOwnFolder is true of an archive in a store where a Job was let put it: what goes with its record goes by the note there. That of
// an adopted one lies where another cluster has put it.
func isInOwnFolder(r *v1.MySQLBackup) bool {
	parts := strings.Split(r.Spec.Archive.Path, "/")
	return len(parts) == 5 && parts[0] == v1.StoreLayout && parts[3] == r.Name
}
