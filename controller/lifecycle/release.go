package lifecycle

import (
	"encoding/json"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// decideRelease of what the instance held, its XR last; the name is free after that. The data
// volume's finalizer goes right after the wipe, and so says that it was done. The Job that did
// it goes after that, or the wipe would begin anew.
func decideRelease(s *instance.State, why string) Step {
	for _, next := range releases(s) {
		if step, more := next(s); more {
			step.Phase, step.Percent = v1.DeletionReleasing, 100
			if step.Message == "" {
				step.Message = why + "; releasing the volume"
			}
			return step
		}
	}
	return Step{Action: RemoveXRFinalizer, Phase: v1.DeletionReleasing, Percent: 100, Message: why}
}

// releases in their order. What a life without an XR is found by goes last: its PVC or, where there is none, its volume.
func releases(s *instance.State) []func(*instance.State) (Step, bool) {
	type list = []func(*instance.State) (Step, bool)
	first, rest := list{decidePrune, decideWipe}, list{decideRescueBackupPVC, decideLeftovers, decideUnprovenBackup}
	switch {
	case s.Orphan == nil:
		return slices.Concat(first, list{decideDataPV, decideJobs, decideDataPVC}, rest, list{decideOvertaken})
	case s.DataPVC != nil || s.OriginalPVC != nil:
		return slices.Concat(first, list{decideDataPV, decideJobs}, rest, list{decideDataPVC, decideOvertaken})
	}
	return slices.Concat(first, list{decideJobs}, rest, list{decideDataPV, decideOvertaken})
}

// decideOvertaken waits for the Jobs of backups that were begun before the deletion: their records go after them.
func decideOvertaken(s *instance.State) (Step, bool) {
	return Step{Action: Wait, After: requeueSoon}, len(overtakenBackups(s)) > 0 && len(s.MisplacedJobs) > 0
}

// canMountData is true if a Job can still run beside the data.
func canMountData(s *instance.State) bool {
	return s.DataPV != nil && instance.HasFinalizer(s.DataPV)
}

// decidePrune removes backups that are too many. One that cannot be removed is no reason to
// keep the instance: it is tried again with the next one.
func decidePrune(s *instance.State) (Step, bool) {
	if !hasProvenBackup(s) || !canMountData(s) {
		return Step{}, false
	}
	if s.Store() != "" {
		return condemnExpired(s)
	}
	j := s.Prune
	unmounted := s.BackupPVC == nil || isGoing(s.BackupPVC)
	if j == nil {
		old := expiredBackups(s)
		return Step{Action: CreatePruneJob, Targets: old}, len(old) > 0 && !unmounted
	}
	at, succeeded := j.Finished()
	switch {
	case at == nil && unmounted && !isRunning(j):
		return deleteAndWait([]client.Object{j.Job}) // It waits for the volume in vain.
	case at == nil && slices.ContainsFunc(backupsToPrune(s), func(r client.Object) bool { return s.Restoring[r.GetName()] != "" }):
		return deleteAndWait([]client.Object{j.Job}) // Another one is made without what has been chosen since.
	case at == nil:
		return Step{Action: Wait, After: requeueSoon, Message: "Removing older backups"}, true
	}
	pruned := backupsToPrune(s)
	return Step{Action: DeleteOldBackups, Targets: pruned, Message: "Older backups are removed"}, succeeded && len(pruned) > 0 && !hasMoved(s, j)
}

// expiredBackups are the proven ones on this volume beyond those to keep, without
// this life's and its rivals, those that another instance is being restored from, and the newest that a server has started from.
func expiredBackups(s *instance.State) []client.Object {
	return expired(s, provenBackupsHere(s), func(r *v1.MySQLBackup) bool {
		return r.Spec.Instance.XR != s.Life.XR && !r.IsRivalOf(s.Record()) && s.Restoring[r.Name] == ""
	})
}

// expired are those beyond the ones to keep, of the newest first, that may go: without the newest that a server has started from. Where
// the XR is gone nobody knows how many are to be kept, or for how long: all stay until the end of a later life.
func expired(s *instance.State, of []*v1.MySQLBackup, mayGo func(*v1.MySQLBackup) bool) []client.Object {
	if s.XR == nil {
		return nil
	}
	keep, restorable := backupsToKeep(s), false
	var out []client.Object
	for i, r := range of {
		if !restorable && meta.IsStatusConditionTrue(r.Status.Conditions, v1.ConditionRestorable) {
			restorable = true
			continue
		}
		if i >= keep && !isKeptByAge(s, r) && !r.IsInDoubt() && mayGo(r) && isRemovable(s.Life, r) {
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

func backupsToKeep(s *instance.State) int {
	if s.XR != nil {
		if k := s.XR.Spec.Backup.Keep; k != nil && *k > 0 {
			return int(*k)
		}
	}
	return v1.DefaultKeep
}

// provenBackupsHere are the proven records whose archives lie on this life's backup
// volume, or in its store, newest first: those of this namespace, and of those that it
// inherited from.
func provenBackupsHere(s *instance.State) []*v1.MySQLBackup {
	var out []*v1.MySQLBackup
	for i := range s.Records {
		if r := &s.Records[i]; r.IsProven() && isBeside(s, r) {
			out = append(out, r)
		}
	}
	return out
}

// isRemovable is true for an archive in the folder that we gave it.
func isRemovable(life v1.Instance, r *v1.MySQLBackup) bool {
	a := r.Spec.Archive
	if r.InStore() {
		return isInOwnFolder(r)
	}
	return a != nil && a.PVCName == life.BackupPVCName() && a.Path == path.Join(r.Name, ArchiveName)
}

// backupsToPrune are those that the prune Job was made for and that are still there.
// Who may make Jobs in the namespace can write any names into one, so it takes none along
// that the controller could not have given it: those of another volume, such as an earlier
// namespace's, which may have been another owner's.
func backupsToPrune(s *instance.State) []client.Object {
	var names []string
	if err := json.Unmarshal([]byte(s.Prune.Annotations[v1.AnnotationPruned]), &names); err != nil {
		return nil
	}
	var out []client.Object
	for _, r := range provenBackupsHere(s) {
		if slices.Contains(names, r.Name) && r.Spec.Instance.XR != s.Life.XR && isRemovable(s.Life, r) {
			out = append(out, r)
		}
	}
	return out
}

// decideWipe has the folder of a hostPath volume emptied: nobody else does it.
func decideWipe(s *instance.State) (Step, bool) {
	if !canMountData(s) || !s.HostPath() {
		return Step{}, false
	}
	if step, open := makeDataReachable(s); open {
		return step, true
	}
	if s.DataPVC == nil || s.DataPVC.DeletionTimestamp != nil {
		return Step{}, false
	}
	if s.Wipe == nil {
		return Step{Action: CreateWipeJob}, true
	}
	at, succeeded := s.Wipe.Finished()
	switch {
	case at == nil:
		return Step{Action: Wait, After: requeueSoon}, true
	case succeeded && hasMoved(s, s.Wipe):
		return Step{Action: DeleteObjects, Targets: []client.Object{s.Wipe.Job}}, true
	case succeeded:
		return Step{}, false
	}
	pause := max(at.Add(soonest).Sub(s.Now), requeueSoon)
	if at.Add(soonest).Before(s.Now) {
		return Step{Action: DeleteObjects, Targets: []client.Object{s.Wipe.Job}}, true
	}
	return Step{Action: Wait, After: pause, Message: "The volume's folder could not be emptied, which is tried again: " + failureOf(s.Wipe)}, true
}

// decideDataPV gives the data volume up. A prune that failed is told, and holds nothing up.
func decideDataPV(s *instance.State) (Step, bool) {
	step := Step{Action: ReleaseDataPV}
	if j := s.Prune; j != nil {
		if at, succeeded := j.Finished(); at != nil && !succeeded {
			step.Message = "Older backups could not be removed, which is tried again with the next one: " + failureOf(j)
		}
	}
	return step, s.DataPV != nil && instance.HasFinalizer(s.DataPV)
}

// decideJobs deletes this life's Jobs with their pods: even a completed pod holds its PVCs.
func decideJobs(s *instance.State) (Step, bool) { return deleteAndWait(jobsOnData(s)) }

// decideDataPVC lets the data PVC go, and before it the one that the data had earlier.
func decideDataPVC(s *instance.State) (Step, bool) {
	if s.OriginalPVC != nil {
		return deletePVCStep(s.OriginalPVC, Step{}), true
	}
	switch c := s.DataPVC; {
	case c == nil:
		return Step{}, false
	case c.DeletionTimestamp == nil || instance.HasFinalizer(c):
		return Step{Action: ReleaseDataPVC}, true
	}
	return Step{Action: Wait, After: requeueSoon}, true
}

// decideRescueBackupPVC deletes the PVC that a rescue had on the backup volume, which the
// next life binds again.
func decideRescueBackupPVC(s *instance.State) (Step, bool) {
	c := s.BackupPVC
	if c == nil || c.Namespace == s.Life.Namespace {
		return Step{}, false
	}
	return deleteAndWait([]client.Object{c})
}

// decideLeftovers deletes what else was made for the instance: the finalizer keeps the XR,
// without whose end the garbage collector takes nothing, and after an orphaning deletion
// it would take nothing at all.
func decideLeftovers(s *instance.State) (Step, bool) { return deleteAndWait(s.Leftovers) }

// deleteAndWait deletes what is not being deleted yet, and waits for all of it.
func deleteAndWait(objects []client.Object) (Step, bool) {
	if targets := withoutDeleted(objects); len(targets) > 0 {
		return Step{Action: DeleteObjects, Targets: targets}, true
	}
	return Step{Action: Wait, After: requeueSoon}, len(objects) > 0
}

// decideUnprovenBackup deletes a record that was announced and will never be proven: it would
// keep the next instance of this name from starting.
func decideUnprovenBackup(s *instance.State) (Step, bool) {
	r := s.Record()
	if r == nil || hasProvenBackup(s) {
		return Step{}, false
	}
	return Step{Action: DeleteUnprovenBackup, Targets: []client.Object{r}}, true
}
