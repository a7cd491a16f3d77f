package lifecycle

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// A backup that goes to a store has no volume: a Job sends it there, and reads it back. The note of it lies beside it, and
// counts as one on a volume does.

// archivePattern is what a Job calls an archive in a store.
var archivePattern = regexp.MustCompile(`^[a-z0-9]{10}\.tar\.zst(\.age)?$`)

// storeFolder of this life's backup.
func storeFolder(s *instance.State) string { return v1.StoreFolder(s.BackedUp(), s.Attempt().Record) }

// waitForStore that does not say what it has: it may be the only copy of the rows. Nothing tells when it does.
func waitForStore(s *instance.State) Step {
	if step := decideBeforeStart(s); step.Action != NoOp {
		return step
	}
	return Step{Action: Wait, After: requeueLater}
}

// decideBackupToStore of the data of a fenced instance, with a Job.
func decideBackupToStore(s *instance.State) Step {
	j := s.Backup
	if s.StoreFailure != "" && (j == nil || !isRunning(j)) {
		return Step{Action: Wait, After: requeueLater, Attempt: AttemptRunning, Message: "Backing up the data: " + s.StoreFailure, Hint: skipHint(s)}
	}
	if at, ok := backupSucceeded(j); ok {
		return judgeBackupJob(s, at, true) // Whatever has become of the data PVC since.
	}
	if step, held := freeUnmountablePVC(s); held {
		return step
	}
	switch {
	case j == nil:
		return Step{Action: CreateBackupJob, Attempt: AttemptRunning, Message: "Backing up the data to BackupStore " + s.Store()}
	case j.DeletionTimestamp != nil:
		return Step{Action: Wait, After: requeueSoon, Attempt: AttemptRunning, Message: "Backing up the data: trying again"}
	}
	return followBackupJob(s)
}

// namesArchive is true of a report that names an archive where it is to be, with its manifest in a store.
func namesArchive(s *instance.State, r *agent.Report) bool {
	if s.Store() == "" {
		return r.Archive == ArchiveName
	}
	return archivePattern.MatchString(r.Archive) && len(r.Manifest) <= agent.MaxManifest && json.Valid(r.Manifest)
}

// heldByForeign waits for a person, because what a store has under the name of this backup may be of other data.
func heldByForeign(s *instance.State, n *instance.Note) Step {
	if !s.IsEarlier(n) {
		return waitForPerson(s, fmt.Sprintf("BackupStore %s already has a backup %q of %s that this deletion did not write. Another cluster with the same objects may use the same bucket and prefix. The backup there is neither used nor deleted, and the data stays on its volume. Give each cluster a bucket or prefix of its own, then move the directory %s of the bucket away: the backup is taken again",
			n.Store, n.Name, n.AnnouncedAt.UTC().Format(time.RFC3339), storeFolder(s)))
	}
	return waitForPerson(s, fmt.Sprintf("BackupStore %s has a backup %q of %s already, from before this one began: the cluster was set back since. What was written after that is not in it: move the folder %s of its bucket away, and the backup is taken. Where the data went with that backup, there is no other: go without one",
		n.Store, n.Name, n.AnnouncedAt.UTC().Format(time.RFC3339), storeFolder(s)))
}

// writePublished writes down, on the XR, the data volume and its PVC, which archive is about to be published. After a crash, and when the
// record was deleted, nothing else tells this cluster's note from that of a copy of this cluster.
func writePublished(s *instance.State, n v1.BackupNote) []change.Change {
	var out []change.Change
	write := func(o client.Object) {
		if o.GetAnnotations()[v1.AnnotationPublished] != n.PublishedArchive() {
			out = append(out, change.PatchObject(o, func(o client.Object) { setAnnotation(o, v1.AnnotationPublished, n.PublishedArchive()) }))
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

// removeFromStore the backup of a record.
func removeFromStore(r *v1.MySQLBackup) change.Change {
	return change.InStore(change.Remove, r, change.Remote{Store: r.Spec.Archive.Store, Instance: r.Spec.Instance, Record: r.Name, Sum: r.Spec.Archive.SHA256})
}

// discardAttempts at a backup in the store that will never be proven. A store that does not answer keeps them, and nobody waiting.
func discardAttempts(s *instance.State, record client.Object) change.Change {
	return change.InStore(change.Discard, record, change.Remote{Store: s.Store(), Instance: s.BackedUp(), Record: record.GetName()}).OrNot()
}

// giveBackupAccess to the Job that is about to be made.
func giveBackupAccess(s *instance.State) change.Change {
	to := agent.AccessSecret(s.Life, s.JobLocation().Namespace, s.Attempt().Access)
	to.Annotations = map[string]string{v1.AnnotationAccessUntil: s.Now.Add(agent.BackupAccessLife).UTC().Format(time.RFC3339)}
	return change.InStore(change.GiveAccess, to, change.Remote{Store: s.Store(), Folder: storeFolder(s)})
}

// isAccessEnding reports whether the access of a running backup Job is to be renewed: half of its time is over.
func isAccessEnding(s *instance.State) bool {
	return !s.AccessUntil.IsZero() && s.AccessUntil.Sub(s.Now) < agent.BackupAccessLife/2
}

func renewAccess(s *instance.State, _ Step) []change.Change {
	return []change.Change{giveBackupAccess(s)}
}

// giveRestoreAccess to the Job that the function has made, with the manifest of the archive, which that believes. It goes with that Job.
func giveRestoreAccess(s *instance.State, _ Step) []change.Change {
	from := s.RestoreFrom.Spec.Archive
	to := agent.AccessSecret(s.Life, s.Life.Namespace, s.Life.Accesses().Restore())
	to.Annotations = map[string]string{v1.AnnotationAccessTo: from.Path}
	to.OwnerReferences = []metav1.OwnerReference{{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: s.RestoreTo.Name, UID: s.RestoreTo.UID}}
	return []change.Change{change.InStore(change.GiveAccess, to, change.Remote{Store: from.Store, Archive: from.Path, Manifest: s.RestoreFrom.Manifest})}
}

// isInOwnFolder is true of an archive in a store where a Job was let put it: what goes with its record goes by the note there. That of
// an adopted one lies where another cluster has put it.
func isInOwnFolder(r *v1.MySQLBackup) bool {
	parts := strings.Split(r.Spec.Archive.Path, "/")
	return len(parts) == 5 && parts[0] == v1.StoreLayout && parts[3] == r.Name
}

// isBeside is true of a backup that lies where this life's does.
func isBeside(s *instance.State, r *v1.MySQLBackup) bool {
	if store := s.Store(); store != "" {
		return r.InStore() && r.Spec.Archive.Store == store
	}
	return s.Here(r)
}

// condemnExpired backups in a store, which are removed when their records go: that is no part of this deletion, and holds nothing
// up.
func condemnExpired(s *instance.State) (Step, bool) { return condemn(expiredBackups(s)) }

// condemn backups, but for those that are going.
func condemn(old []client.Object) (Step, bool) {
	old = withoutDeleted(old)
	return Step{Action: CondemnBackups, Targets: old, Message: "Older backups are removed"}, len(old) > 0
}

func condemnBackups(_ *instance.State, step Step) []change.Change {
	out := make([]change.Change, 0, 2*len(step.Targets))
	for _, r := range step.Targets {
		out = append(out, condemnRecord(r), change.DeleteObject(r, ""))
	}
	return out
}
