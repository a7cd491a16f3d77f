package backup

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A backup that goes to a store has no volume: a Job sends it there, and reads it back. The note of it lies beside it, and
// counts as one on a volume does.

// archivePattern is what a Job calls an archive in a store.
var archivePattern = regexp.MustCompile(`^[a-z0-9]{10}\.tar\.zst(\.age)?$`)

// StoreFolder of this life's backup.
func StoreFolder(s *instance.State) string { return v1.StoreFolder(s.BackedUp(), s.Attempt().Record) }

// decideBackupToStore of the data of a fenced instance, with a Job.
func decideBackupToStore(s *instance.State) steps.Step {
	j := s.Backup
	if s.StoreFailure != "" && (j == nil || !steps.IsRunning(j)) {
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater, Attempt: steps.AttemptRunning, Message: "Backing up the data: " + s.StoreFailure, Hint: skipHint(s)}
	}
	if at, ok := backupSucceeded(j); ok {
		return judgeBackupJob(s, at, true) // Whatever has become of the data PVC since.
	}
	if step, held := freeUnmountablePVC(s); held {
		return step
	}
	switch {
	case j == nil:
		return steps.Step{Action: steps.CreateBackupJob, Attempt: steps.AttemptRunning, Message: "Backing up the data to BackupStore " + s.Store()}
	case j.DeletionTimestamp != nil:
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Attempt: steps.AttemptRunning, Message: "Backing up the data: trying again"}
	}
	return followBackupJob(s)
}

// namesArchive is true of a report that names an archive where it is to be, with its manifest in a store.
func namesArchive(s *instance.State, r *agent.Report) bool {
	if s.Store() == "" {
		return r.Archive == catalog.ArchiveName
	}
	return archivePattern.MatchString(r.Archive) && len(r.Manifest) <= agent.MaxManifest && json.Valid(r.Manifest)
}

// HeldByForeign waits for a person, because what a store has under the name of this backup may be of other data.
func HeldByForeign(s *instance.State, n *instance.Note) steps.Step {
	if !s.IsEarlier(n) {
		return waitForPerson(s, fmt.Sprintf("BackupStore %s already has a backup %q of %s that this deletion did not write. Another cluster with the same objects may use the same bucket and prefix. The backup there is neither used nor deleted, and the data stays on its volume. Give each cluster a bucket or prefix of its own, then move the directory %s of the bucket away: the backup is taken again",
			n.Store, n.Name, n.AnnouncedAt.UTC().Format(time.RFC3339), StoreFolder(s)))
	}
	return waitForPerson(s, fmt.Sprintf("BackupStore %s has a backup %q of %s already, from before this one began: the cluster was set back since. What was written after that is not in it: move the folder %s of its bucket away, and the backup is taken. Where the data went with that backup, there is no other: go without one",
		n.Store, n.Name, n.AnnouncedAt.UTC().Format(time.RFC3339), StoreFolder(s)))
}

// writePublished writes down, on the XR, the data volume and its PVC, which archive is about to be published. After a crash, and when the
// record was deleted, nothing else tells this cluster's note from that of a copy of this cluster.
func writePublished(s *instance.State, n v1.BackupNote) []change.Change {
	var out []change.Change
	write := func(o client.Object) {
		if o.GetAnnotations()[v1.AnnotationPublished] != n.PublishedArchive() {
			out = append(out, change.PatchObject(o, func(o client.Object) { steps.SetAnnotation(o, v1.AnnotationPublished, n.PublishedArchive()) }))
		}
	}
	if s.XR != nil {
		write(s.XR.Unstructured)
	}
	if s.DataPV != nil {
		write(s.DataPV)
	}
	if s.DataPVC != nil { // The PVC can outlive its volume.
		write(s.DataPVC)
	}
	return out
}

// publishNote of a record, as its Job has reported.
func publishNote(s *instance.State, r *v1.MySQLBackup) change.Change {
	n := &v1.StoreNote{BackupNote: r.Note(), Name: r.Name, Manifest: s.Backup.Report.Manifest}
	return change.InStore(change.Publish, r, change.Remote{Store: s.Store(), Note: n})
}

// tidyStore beside a note that is published.
func tidyStore(s *instance.State, n *instance.Note) change.Change {
	return change.InStore(change.Tidy, s.Record(), change.Remote{Store: n.Store, Note: &v1.StoreNote{BackupNote: n.BackupNote, Name: n.Name}})
}

// GiveBackupAccess to the Job that is about to be made.
func GiveBackupAccess(s *instance.State) change.Change {
	to := agent.AccessSecret(s.Life, s.JobLocation().Namespace, s.Attempt().Access)
	to.Annotations = map[string]string{v1.AnnotationAccessUntil: s.Now.Add(agent.BackupAccessLife).UTC().Format(time.RFC3339)}
	return change.InStore(change.GiveAccess, to, change.Remote{Store: s.Store(), Folder: StoreFolder(s)})
}

// isAccessEnding reports whether the access of a running backup Job is to be renewed: half of its time is over.
func isAccessEnding(s *instance.State) bool {
	return !s.AccessUntil.IsZero() && s.AccessUntil.Sub(s.Now) < agent.BackupAccessLife/2
}

func renewAccess(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{GiveBackupAccess(s)}
}

// GiveRestoreAccess to the Job that the function has made, with the manifest of the archive, which that believes. It goes with that Job.
func GiveRestoreAccess(s *instance.State, _ steps.Step) []change.Change {
	from := s.RestoreFrom.Spec.Archive
	to := agent.AccessSecret(s.Life, s.Life.Namespace, s.Life.Accesses().Restore())
	to.Annotations = map[string]string{v1.AnnotationAccessTo: from.Path}
	to.OwnerReferences = []metav1.OwnerReference{{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: s.RestoreTo.Name, UID: s.RestoreTo.UID}}
	return []change.Change{change.InStore(change.GiveAccess, to, change.Remote{Store: from.Store, Archive: from.Path, Manifest: s.RestoreFrom.Manifest})}
}
