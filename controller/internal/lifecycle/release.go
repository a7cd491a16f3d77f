package lifecycle

import (
	"encoding/json"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// decideRelease of what the instance held, its XR last; the name is free after that. The data
// volume's finalizer goes right after the wipe, and so says that it was done. The Job that did
// it goes after that, or the wipe would begin anew.
func decideRelease(s *instance.State, why string) steps.Step {
	for _, next := range releases(s) {
		if step, more := next(s); more {
			step.Phase, step.Percent = v1.DeletionReleasing, 100
			if step.Message == "" {
				step.Message = why + "; releasing the volume"
			}
			return step
		}
	}
	return steps.Step{Action: steps.RemoveXRFinalizer, Phase: v1.DeletionReleasing, Percent: 100, Message: why}
}

// releases in their order. What a life without an XR is found by goes last: its PVC or, where there is none, its volume.
func releases(s *instance.State) []func(*instance.State) (steps.Step, bool) {
	type list = []func(*instance.State) (steps.Step, bool)
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
func decideOvertaken(s *instance.State) (steps.Step, bool) {
	return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}, len(overtakenBackups(s)) > 0 && len(s.MisplacedJobs) > 0
}

// canMountData is true if a Job can still run beside the data.
func canMountData(s *instance.State) bool {
	return s.DataPV != nil && instance.HasFinalizer(s.DataPV)
}

// decidePrune removes backups that are too many. One that cannot be removed is no reason to
// keep the instance: it is tried again with the next one.
func decidePrune(s *instance.State) (steps.Step, bool) {
	if !backup.HasProvenBackup(s) || !canMountData(s) {
		return steps.Step{}, false
	}
	if s.Store() != "" {
		return catalog.CondemnExpired(s)
	}
	j := s.Prune
	unmounted := s.BackupPVC == nil || steps.IsGoing(s.BackupPVC)
	if j == nil {
		old := catalog.ExpiredBackups(s)
		return steps.Step{Action: steps.CreatePruneJob, Targets: old}, len(old) > 0 && !unmounted
	}
	at, succeeded := j.Finished()
	switch {
	case at == nil && unmounted && !steps.IsRunning(j):
		return steps.DeleteAndWait([]client.Object{j.Job}) // It waits for the volume in vain.
	case at == nil && slices.ContainsFunc(backupsToPrune(s), func(r client.Object) bool { return s.Restoring[r.GetName()] != "" }):
		return steps.DeleteAndWait([]client.Object{j.Job}) // Another one is made without what has been chosen since.
	case at == nil:
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Message: "Removing older backups"}, true
	}
	pruned := backupsToPrune(s)
	return steps.Step{Action: steps.DeleteOldBackups, Targets: pruned, Message: "Older backups are removed"}, succeeded && len(pruned) > 0 && !backup.HasMoved(s, j)
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
	for _, r := range catalog.ProvenBackupsHere(s) {
		if slices.Contains(names, r.Name) && r.Spec.Instance.XR != s.Life.XR && catalog.IsRemovable(s.Life, r) {
			out = append(out, r)
		}
	}
	return out
}

// decideWipe has the folder of a hostPath volume emptied: nobody else does it.
func decideWipe(s *instance.State) (steps.Step, bool) {
	if !canMountData(s) || !s.HostPath() {
		return steps.Step{}, false
	}
	if step, open := backup.MakeDataReachable(s); open {
		return step, true
	}
	if s.DataPVC == nil || s.DataPVC.DeletionTimestamp != nil {
		return steps.Step{}, false
	}
	if s.Wipe == nil {
		return steps.Step{Action: steps.CreateWipeJob}, true
	}
	at, succeeded := s.Wipe.Finished()
	switch {
	case at == nil:
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}, true
	case succeeded && backup.HasMoved(s, s.Wipe):
		return steps.Step{Action: steps.DeleteObjects, Targets: []client.Object{s.Wipe.Job}}, true
	case succeeded:
		return steps.Step{}, false
	}
	pause := max(at.Add(steps.Soonest).Sub(s.Now), steps.RequeueSoon)
	if at.Add(steps.Soonest).Before(s.Now) {
		return steps.Step{Action: steps.DeleteObjects, Targets: []client.Object{s.Wipe.Job}}, true
	}
	return steps.Step{Action: steps.Wait, After: pause, Message: "The volume's folder could not be emptied, which is tried again: " + steps.FailureOf(s.Wipe)}, true
}

// decideDataPV gives the data volume up. A prune that failed is told, and holds nothing up.
func decideDataPV(s *instance.State) (steps.Step, bool) {
	step := steps.Step{Action: steps.ReleaseDataPV}
	if j := s.Prune; j != nil {
		if at, succeeded := j.Finished(); at != nil && !succeeded {
			step.Message = "Older backups could not be removed, which is tried again with the next one: " + steps.FailureOf(j)
		}
	}
	return step, s.DataPV != nil && instance.HasFinalizer(s.DataPV)
}

// decideJobs deletes this life's Jobs with their pods: even a completed pod holds its PVCs.
func decideJobs(s *instance.State) (steps.Step, bool) {
	return steps.DeleteAndWait(backup.JobsOnData(s))
}

// decideDataPVC lets the data PVC go, and before it the one that the data had earlier.
func decideDataPVC(s *instance.State) (steps.Step, bool) {
	if s.OriginalPVC != nil {
		return backup.DeletePVCStep(s.OriginalPVC, steps.Step{}), true
	}
	switch c := s.DataPVC; {
	case c == nil:
		return steps.Step{}, false
	case c.DeletionTimestamp == nil || instance.HasFinalizer(c):
		return steps.Step{Action: steps.ReleaseDataPVC}, true
	}
	return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}, true
}

// decideRescueBackupPVC deletes the PVC that a rescue had on the backup volume, which the
// next life binds again.
func decideRescueBackupPVC(s *instance.State) (steps.Step, bool) {
	c := s.BackupPVC
	if c == nil || c.Namespace == s.Life.Namespace {
		return steps.Step{}, false
	}
	return steps.DeleteAndWait([]client.Object{c})
}

// decideLeftovers deletes what else was made for the instance: the finalizer keeps the XR,
// without whose end the garbage collector takes nothing, and after an orphaning deletion
// it would take nothing at all.
func decideLeftovers(s *instance.State) (steps.Step, bool) { return steps.DeleteAndWait(s.Leftovers) }

// decideUnprovenBackup deletes a record that was announced and will never be proven: it would
// keep the next instance of this name from starting.
func decideUnprovenBackup(s *instance.State) (steps.Step, bool) {
	r := s.Record()
	if r == nil || backup.HasProvenBackup(s) {
		return steps.Step{}, false
	}
	return steps.Step{Action: steps.DeleteUnprovenBackup, Targets: []client.Object{r}}, true
}
