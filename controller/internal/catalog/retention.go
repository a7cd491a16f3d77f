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

// Builders are those of actions that remove older backups.
var Builders = map[steps.Action]steps.Builder{
	steps.DeleteOldBackups: deleteOldBackups,
	steps.CondemnBackups:   condemnBackups,
}

// deleteOldBackups deletes records whose archives were removed, with their notes. Each
// says first that its archive may go, so that whoever comes after a crash knows.
func deleteOldBackups(s *instance.State, step steps.Step) []change.Change {
	var out []change.Change
	for _, r := range step.Targets {
		if r.GetDeletionTimestamp() == nil {
			out = append(out, condemnRecord(r))
		} else {
			out = append(out, RemoveNotes(s.BackupPVs, r.GetName())...)
		}
		out = append(out, steps.DeleteOrRelease(r))
	}
	return out
}

// condemnRecord says that its archive may go. Records of earlier releases have no finalizer.
func condemnRecord(r client.Object) change.Change {
	return change.PatchObject(r, func(r client.Object) {
		steps.SetAnnotation(r, v1.AnnotationDeleteArchive, string(r.GetUID()))
		steps.AddFinalizer(r)
	})
}

// ExpiredBackups are the proven ones on this volume beyond those to keep, without
// this life's and its rivals, those that another instance is being restored from, and the newest that a server has started from.
func ExpiredBackups(s *instance.State) []client.Object {
	return Expired(s, ProvenBackupsHere(s), func(r *v1.MySQLBackup) bool {
		return r.Spec.Instance.XR != s.Life.XR && !r.IsRivalOf(s.Record()) && s.Restoring[r.Name] == ""
	})
}

// Expired are those beyond the ones to keep, of the newest first, that may go: without the newest that a server has started from. Where
// the XR is gone nobody knows how many are to be kept, or for how long: all stay until the end of a later life.
func Expired(s *instance.State, of []*v1.MySQLBackup, mayGo func(*v1.MySQLBackup) bool) []client.Object {
	if s.XR == nil {
		return nil
	}
	keep, restorable := BackupsToKeep(s), false
	var out []client.Object
	for i, r := range of {
		if !restorable && meta.IsStatusConditionTrue(r.Status.Conditions, v1.ConditionRestorable) {
			restorable = true
			continue
		}
		if i >= keep && !isKeptByAge(s, r) && !r.IsInDoubt() && mayGo(r) && IsRemovable(s.Life, r) {
			out = append(out, r)
		}
	}
	return out
}

// isKeptByAge reports whether a backup is younger than those that may be deleted, or may be: by a clock that is wrong no backup is too old. Its age
// counts from the later of two times, as one of them may have been written by a clock that was behind.
func isKeptByAge(s *instance.State, r *v1.MySQLBackup) bool {
	keepFor := v1.ParseKeepFor(s.XR.Spec.Backup.KeepFor)
	if keepFor == 0 {
		return false
	}
	since := r.Announced().Time
	if at := r.Status.ProvenAt; at != nil && at.After(since) {
		since = at.Time
	}
	return !s.Skew.IsTrusted() || s.Now.Sub(since) < keepFor
}

// BackupsToKeep is how many proven backups of an instance stay.
func BackupsToKeep(s *instance.State) int {
	if s.XR != nil {
		if k := s.XR.Spec.Backup.Keep; k != nil && *k > 0 {
			return int(*k)
		}
	}
	return v1.DefaultKeep
}

// ProvenBackupsHere are the proven records whose archives lie on this life's backup
// volume, or in its store, newest first: those of this namespace, and of those that it
// inherited from.
func ProvenBackupsHere(s *instance.State) []*v1.MySQLBackup {
	var out []*v1.MySQLBackup
	for i := range s.Records {
		if r := &s.Records[i]; r.IsProven() && isBeside(s, r) {
			out = append(out, r)
		}
	}
	return out
}

// IsRemovable is true for an archive in the folder that we gave it.
func IsRemovable(life v1.Instance, r *v1.MySQLBackup) bool {
	a := r.Spec.Archive
	if r.InStore() {
		return isInOwnFolder(r)
	}
	return a != nil && a.PVCName == life.BackupPVCName() && a.Path == path.Join(r.Name, ArchiveName)
}

// isBeside is true of a backup that lies where this life's does.
func isBeside(s *instance.State, r *v1.MySQLBackup) bool {
	if store := s.Store(); store != "" {
		return r.InStore() && r.Spec.Archive.Store == store
	}
	return s.Here(r)
}

// CondemnExpired backups in a store, which are removed when their records go: that is no part of this deletion, and holds nothing
// up.
func CondemnExpired(s *instance.State) (steps.Step, bool) { return Condemn(ExpiredBackups(s)) }

// Condemn backups, but for those that are going.
func Condemn(old []client.Object) (steps.Step, bool) {
	old = steps.WithoutDeleted(old)
	return steps.Step{Action: steps.CondemnBackups, Targets: old, Message: "Older backups are removed"}, len(old) > 0
}

func condemnBackups(_ *instance.State, step steps.Step) []change.Change {
	out := make([]change.Change, 0, 2*len(step.Targets))
	for _, r := range step.Targets {
		out = append(out, condemnRecord(r), change.DeleteObject(r, ""))
	}
	return out
}
