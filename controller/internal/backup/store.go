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

// A backup in a store needs no volume: a Job uploads it and reads it back. Its catalog entry is stored next to it and
// serves the same purpose as an entry on a volume.

// archivePattern matches the name that a Job gives an archive in a store.
var archivePattern = regexp.MustCompile(`^[a-z0-9]{10}\.tar\.zst(\.age)?$`)

// StorePrefix returns the prefix of this instance's backup in the store.
func StorePrefix(s *instance.State) string { return v1.StorePrefix(s.BackedUp(), s.Attempt().Record) }

// decideBackupToStore returns the next step that backs up the data of an instance to a store with a Job.
func decideBackupToStore(s *instance.State) steps.Step {
	j := s.BackupJob
	if s.StoreFailure != "" && (j == nil || !steps.IsRunning(j)) {
		return steps.Step{Action: steps.Wait, After: steps.RequeueLater, Attempt: steps.AttemptRunning,
			Message: "Backing up the data: " + s.StoreFailure, Hint: skipHint(s)}
	}
	if finished, ok := backupSucceeded(j); ok {
		return judgeBackupJob(s, finished, true) // The copy is complete, so it does not matter if the data PVC has changed.
	}
	if step, held := freeUnmountablePVC(s); held {
		return step
	}
	switch {
	case j == nil:
		return steps.Step{Action: steps.CreateBackupJob, Attempt: steps.AttemptRunning,
			Message: "Backing up the data to BackupStore " + s.Store()}
	case j.DeletionTimestamp != nil:
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Attempt: steps.AttemptRunning,
			Message: "Backing up the data: retrying"}
	}
	return followBackupJob(s)
}

// namesArchive reports whether a report contains the expected location of the archive and, for a store, a valid
// manifest.
func namesArchive(s *instance.State, r *agent.Report) bool {
	if s.Store() == "" {
		return r.Archive == catalog.ArchiveName
	}
	return archivePattern.MatchString(r.Archive) && len(r.Manifest) <= agent.MaxManifest && json.Valid(r.Manifest)
}

// BlockedByForeign waits for a user, because the store contains a backup with this name that may contain different data.
func BlockedByForeign(s *instance.State, n *instance.Entry) steps.Step {
	if !instance.IsEarlier(&s.Basis, n) {
		return waitForPerson(s, fmt.Sprintf(
			"BackupStore %s already has a backup %q of %s that this deletion did not write. Another cluster with "+
				"the same objects may use the same bucket and prefix. The backup there is neither used nor "+
				"deleted, and the data stays on its volume. Give each cluster a bucket or prefix of its own, then "+
				"move the directory %s of the bucket away. After that, the backup is taken again",
			n.Store, n.Name, n.AnnouncedAt.UTC().Format(time.RFC3339), StorePrefix(s)))
	}
	return waitForPerson(s, fmt.Sprintf(
		"BackupStore %s already has a backup %q of %s. It is older than this deletion, so the cluster was restored "+
			"from an earlier state. It does not contain later writes. Move the directory %s of its bucket away, "+
			"and a new backup is taken. If the data was deleted after that backup, it is the only copy: keep it, "+
			"and skip the new backup",
		n.Store, n.Name, n.AnnouncedAt.UTC().Format(time.RFC3339), StorePrefix(s)))
}

// writePublished stores on the XR, the data volume and its PVC which archive is about to be published. After a crash,
// or if the BackupRecord was deleted, only this annotation distinguishes this cluster's entry from the entry of a
// copy of this cluster.
func writePublished(s *instance.State, n v1.BackupEntry) []change.Change {
	var out []change.Change
	write := func(o client.Object) {
		if o.GetAnnotations()[v1.AnnotationPublished] != n.PublishedArchive() {
			out = append(out, change.PatchObject(o, func(o client.Object) {
				steps.SetAnnotation(o, v1.AnnotationPublished, n.PublishedArchive())
			}))
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

// publishEntry publishes the catalog entry of a backup from the Job's report.
func publishEntry(s *instance.State, r *v1.BackupRecord) change.Change {
	n := &v1.StoreEntry{BackupEntry: r.Entry(), Name: r.Name, Manifest: s.BackupJob.Report.Manifest}
	return change.InStore(change.Publish, r, change.Remote{Store: s.Store(), Entry: n})
}

// removeLeftovers deletes the other files in the backup's prefix after its catalog entry is published.
func removeLeftovers(s *instance.State, n *instance.Entry) change.Change {
	return change.InStore(change.RemoveLeftovers, s.Record(),
		change.Remote{Store: n.Store, Entry: &v1.StoreEntry{BackupEntry: n.BackupEntry, Name: n.Name}})
}

// GiveBackupAccess creates the Secret that gives the next Job access to the store.
func GiveBackupAccess(s *instance.State) change.Change {
	secret := agent.AccessSecret(s.Instance, s.JobLocation().Namespace, s.Attempt().Access)
	secret.Annotations = map[string]string{v1.AnnotationAccessUntil: s.Now.Add(agent.BackupAccessLifetime).UTC().
		Format(time.RFC3339)}
	return change.InStore(change.GiveAccess, secret, change.Remote{Store: s.Store(), Prefix: StorePrefix(s)})
}

// isAccessEnding reports whether the access of a running backup Job must be renewed. It is renewed after half of its
// lifetime.
func isAccessEnding(s *instance.State) bool {
	return !s.AccessUntil.IsZero() && s.AccessUntil.Sub(s.Now) < agent.BackupAccessLifetime/2
}

func renewAccess(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{GiveBackupAccess(s)}
}

// GiveRestoreAccess creates the Secret that gives the function's restore Job access to the store. The Secret contains
// the manifest of the archive, which the Job trusts. The Job owns the Secret.
func GiveRestoreAccess(s *instance.State, _ steps.Step) []change.Change {
	from := s.RestoreFrom.Spec.Archive
	secret := agent.AccessSecret(s.Instance, s.Instance.Namespace, s.Instance.Accesses().Restore())
	secret.Annotations = map[string]string{v1.AnnotationAccessTo: from.Path}
	secret.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: s.RestoreTo.Name, UID: s.RestoreTo.UID}}
	return []change.Change{change.InStore(change.GiveAccess, secret,
		change.Remote{Store: from.Store, Archive: from.Path, Manifest: s.RestoreFrom.Manifest, Log: restoreLog(s)})}
}

// restoreLog returns the prefix of the binary log that the restore Job applies, or "" if it applies none.
func restoreLog(s *instance.State) string {
	if r := s.XR.Status.Restore; r != nil && r.Import == nil && r.Recovery != nil {
		return r.Recovery.Timeline
	}
	return ""
}
