package catalog

import (
	"path"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// Builders maps the actions that delete older backups to the functions that build their changes.
var Builders = map[steps.Action]steps.Builder{
	steps.DeleteOldBackups: deleteOldBackups,
	steps.MarkForRemoval:   markBackupsForRemoval,
}

// deleteOldBackups deletes the BackupRecords and catalog entries of deleted archives. It first marks each
// BackupRecord for the deletion of its archive, so that the controller continues after a crash.
func deleteOldBackups(s *instance.State, step steps.Step) []change.Change {
	var out []change.Change
	for _, r := range step.Targets {
		if r.GetDeletionTimestamp() == nil {
			out = append(out, markForRemoval(r))
		} else {
			out = append(out, RemoveEntries(s.BackupPVs, r.GetName())...)
		}
		out = append(out, steps.DeleteOrRelease(r))
	}
	return out
}

// markForRemoval annotates a BackupRecord so that its archive may be deleted. It also adds the finalizer, which
// BackupRecords of earlier releases do not have.
func markForRemoval(r client.Object) change.Change {
	return change.PatchObject(r, func(r client.Object) {
		steps.SetAnnotation(r, v1.AnnotationDeleteArchive, string(r.GetUID()))
		steps.AddFinalizer(r)
	})
}

// ExpiredBackups returns the expired verified backups that are stored on the same volume, or in the same store, as
// the backups of this instance. It excludes backups of this instance, backups that conflict with them, and backups
// that another instance is being restored from. It also keeps the newest restore-tested backup.
func ExpiredBackups(s *instance.State) []client.Object {
	return Expired(s, VerifiedBackupsHere(s), func(r *v1.BackupRecord) bool {
		return r.Spec.Instance.XR != s.Instance.XR && !r.IsRivalOf(s.Record()) && s.Restoring[r.Name] == ""
	})
}

// Expired returns the backups that retention does not keep and that mayGo accepts, from a list that is sorted newest
// first. It keeps the newest restore-tested backup. If the XR is deleted, the retention settings are unknown, and all
// backups are kept until a later instance is deleted.
func Expired(s *instance.State, records []*v1.BackupRecord, mayGo func(*v1.BackupRecord) bool) []client.Object {
	if s.XR == nil {
		return nil
	}
	keep, restorable := BackupsToKeep(s), false
	var out []client.Object
	for i, r := range records {
		if !restorable && meta.IsStatusConditionTrue(r.Status.Conditions, v1.ConditionRestorable) {
			restorable = true
			continue
		}
		if i >= keep && !isKeptByAge(s, r) && !r.IsInDoubt() && mayGo(r) && IsRemovable(s.Instance, r) {
			out = append(out, r)
		}
	}
	return out
}

// isKeptByAge reports whether a backup is too young to be deleted. If the clock is wrong, all backups are too young.
// The age counts from the later of two times, because a clock that was behind may have written one of them.
func isKeptByAge(s *instance.State, r *v1.BackupRecord) bool {
	minAge := v1.ParseMinAge(s.XR.Spec.Backup.Retention.MinAge)
	if minAge == 0 {
		return false
	}
	since := r.Announced().Time
	if verifiedAt := r.Status.CompletionTime; verifiedAt != nil && verifiedAt.After(since) {
		since = verifiedAt.Time
	}
	return !s.Skew.IsTrusted() || s.Now.Sub(since) < minAge
}

// BackupsToKeep returns how many verified backups of an instance are kept.
func BackupsToKeep(s *instance.State) int {
	if s.XR != nil {
		if k := s.XR.Spec.Backup.Retention.Count; k != nil && *k > 0 {
			return int(*k)
		}
	}
	return v1.DefaultKeep
}

// VerifiedBackupsHere returns the verified BackupRecords whose archives are stored on this instance's backup volume or
// in its store, newest first. It includes the backups of this namespace, and of the previous namespaces whose volume
// this namespace adopted.
func VerifiedBackupsHere(s *instance.State) []*v1.BackupRecord {
	var out []*v1.BackupRecord
	for i := range s.Records {
		if r := &s.Records[i]; r.IsVerified() && isStoredHere(s, r) {
			out = append(out, r)
		}
	}
	return out
}

// IsRemovable reports whether an archive is stored in the directory that the controller chose for it.
func IsRemovable(instanceID v1.Instance, r *v1.BackupRecord) bool {
	a := r.Spec.Archive
	if r.InStore() {
		return isInOwnDir(r)
	}
	return a != nil && a.PVCName == instanceID.BackupPVCName() && a.Path == path.Join(r.Name, ArchiveName)
}

// isStoredHere reports whether a backup is stored on the same volume, or in the same store, as the backups of this
// instance.
func isStoredHere(s *instance.State, r *v1.BackupRecord) bool {
	if store := s.Store(); store != "" {
		return r.InStore() && r.Spec.Archive.Store == store
	}
	return s.Here(r)
}

// MarkExpired marks expired backups in a store for deletion. Their archives are deleted with the BackupRecords, and
// the deletion of the instance does not wait for that.
func MarkExpired(s *instance.State) (steps.Step, bool) { return MarkForRemoval(ExpiredBackups(s)) }

// MarkForRemoval marks backups for deletion, except those that are already being deleted.
func MarkForRemoval(old []client.Object) (steps.Step, bool) {
	old = steps.WithoutDeleted(old)
	return steps.Step{Action: steps.MarkForRemoval, Targets: old, Message: "Deleting older backups"}, len(old) > 0
}

func markBackupsForRemoval(_ *instance.State, step steps.Step) []change.Change {
	out := make([]change.Change, 0, 2*len(step.Targets))
	for _, r := range step.Targets {
		out = append(out, markForRemoval(r), change.DeleteObject(r, ""))
	}
	return out
}
