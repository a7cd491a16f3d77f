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

// decideRelease releases all objects of the instance. It releases the XR last, and the name can be used again after
// that. The finalizer of the data volume is removed directly after the wipe, so its absence marks the wipe as done.
// The wipe Job is deleted after that, because the wipe would otherwise start again.
func decideRelease(s *instance.State, reason string) steps.Step {
	for _, next := range releases(s) {
		if step, hasMore := next(s); hasMore {
			step.Phase, step.Percent = v1.DeletionReleasing, 100
			if step.Message == "" {
				step.Message = reason + "; releasing the volume"
			}
			return step
		}
	}
	return steps.Step{Action: steps.RemoveXRFinalizer, Phase: v1.DeletionReleasing, Percent: 100, Message: reason}
}

// releases returns the release steps in order. For an instance without an XR, the controller releases last the object
// through which it finds the instance. This is the PVC, or the volume if there is no PVC.
func releases(s *instance.State) []func(*instance.State) (steps.Step, bool) {
	type list = []func(*instance.State) (steps.Step, bool)
	first, rest := list{decidePrune, decideWipe}, list{decideRecoveryPVC, decideLeftovers, decideUnprovenBackup}
	switch {
	case s.Orphan == nil:
		return slices.Concat(first, list{decideDataPV, decideJobs, decideDataPVC}, rest, list{decideOvertaken})
	case s.DataPVC != nil || s.OriginalPVC != nil:
		return slices.Concat(first, list{decideDataPV, decideJobs}, rest, list{decideDataPVC, decideOvertaken})
	}
	return slices.Concat(first, list{decideJobs}, rest, list{decideDataPV, decideOvertaken})
}

// decideOvertaken waits for the Jobs of backups that started before the deletion. Their BackupRecords are deleted
// after the Jobs.
func decideOvertaken(s *instance.State) (steps.Step, bool) {
	return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}, len(overtakenBackups(s)) > 0 &&
		len(s.MisplacedJobs) > 0
}

// canMountData reports whether a Job can still mount the data volume.
func canMountData(s *instance.State) bool {
	return s.DataPV != nil && instance.HasFinalizer(s.DataPV)
}

// decidePrune deletes expired backups. If a backup cannot be deleted, the deletion of the instance continues, and the
// next instance tries again.
func decidePrune(s *instance.State) (steps.Step, bool) {
	if !backup.HasVerifiedBackup(s) || !canMountData(s) {
		return steps.Step{}, false
	}
	if s.Store() != "" {
		return catalog.MarkExpired(s)
	}
	j := s.PruneJob
	unmounted := s.BackupPVC == nil || steps.IsGoing(s.BackupPVC)
	if j == nil {
		old := catalog.ExpiredBackups(s)
		return steps.Step{Action: steps.CreatePruneJob, Targets: old}, len(old) > 0 && !unmounted
	}
	finished, succeeded := j.Finished()
	switch {
	case finished == nil && unmounted && !steps.IsRunning(j):
		return steps.DeleteAndWait([]client.Object{j.Job}) // The Job's pod waits for a volume that it cannot get.
	case finished == nil && slices.ContainsFunc(backupsToPrune(s),
		func(r client.Object) bool { return s.Restoring[r.GetName()] != "" }):
		return steps.DeleteAndWait([]client.Object{j.Job}) // The next Job skips the backups that are in use now.
	case finished == nil:
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Message: "Deleting older backups"}, true
	}
	pruned := backupsToPrune(s)
	return steps.Step{Action: steps.DeleteOldBackups, Targets: pruned, Message: "Older backups are deleted"}, succeeded &&
		len(pruned) > 0 && !backup.HasMoved(s, j)
}

// backupsToPrune returns the existing backups that the prune Job was created for. A user who can create Jobs in the
// namespace can write any names into a Job. The function therefore returns only backups that the controller could
// have selected. It excludes backups on another volume, such as the volume of a previous namespace, which may have
// had another owner.
func backupsToPrune(s *instance.State) []client.Object {
	var names []string
	if err := json.Unmarshal([]byte(s.PruneJob.Annotations[v1.AnnotationPruned]), &names); err != nil {
		return nil
	}
	var out []client.Object
	for _, r := range catalog.VerifiedBackupsHere(s) {
		if slices.Contains(names, r.Name) && r.Spec.Instance.XR != s.Instance.XR && catalog.IsRemovable(s.Instance, r) {
			out = append(out, r)
		}
	}
	return out
}

// decideWipe empties the directory of a hostPath volume, because Kubernetes does not.
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
	if s.WipeJob == nil {
		return steps.Step{Action: steps.CreateWipeJob}, true
	}
	finished, succeeded := s.WipeJob.Finished()
	switch {
	case finished == nil:
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon}, true
	case succeeded && backup.HasMoved(s, s.WipeJob):
		return steps.Step{Action: steps.DeleteObjects, Targets: []client.Object{s.WipeJob.Job}}, true
	case succeeded:
		return steps.Step{}, false
	}
	pause := max(finished.Add(steps.Soonest).Sub(s.Now), steps.RequeueSoon)
	if finished.Add(steps.Soonest).Before(s.Now) {
		return steps.Step{Action: steps.DeleteObjects, Targets: []client.Object{s.WipeJob.Job}}, true
	}
	return steps.Step{Action: steps.Wait, After: pause,
		Message: "The volume's directory could not be emptied. This is retried: " + steps.FailureOf(s.WipeJob)}, true
}

// decideDataPV releases the data volume. A failed prune is reported and does not block the release.
func decideDataPV(s *instance.State) (steps.Step, bool) {
	step := steps.Step{Action: steps.ReleaseDataPV}
	if j := s.PruneJob; j != nil {
		if finished, succeeded := j.Finished(); finished != nil && !succeeded {
			step.Message = "Older backups could not be deleted. This is retried with the next backup: " + steps.FailureOf(j)
		}
	}
	return step, s.DataPV != nil && instance.HasFinalizer(s.DataPV)
}

// decideJobs deletes the Jobs of this instance with their pods, because even a completed pod holds its PVCs.
func decideJobs(s *instance.State) (steps.Step, bool) {
	return steps.DeleteAndWait(backup.JobsOnData(s))
}

// decideDataPVC releases the data PVC. The original PVC of the data is released first.
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

// decideRecoveryPVC deletes the PVC of the backup volume in the recovery namespace. The next instance binds the
// volume again.
func decideRecoveryPVC(s *instance.State) (steps.Step, bool) {
	c := s.BackupPVC
	if c == nil || c.Namespace == s.Instance.Namespace {
		return steps.Step{}, false
	}
	return steps.DeleteAndWait([]client.Object{c})
}

// decideLeftovers deletes the other objects of the instance. The garbage collector does not delete them while the
// finalizer keeps the XR, and never deletes them after an orphaning deletion.
func decideLeftovers(s *instance.State) (steps.Step, bool) { return steps.DeleteAndWait(s.Leftovers) }

// decideUnprovenBackup deletes a BackupRecord whose backup will never be verified, because it would block the next
// instance with the same name.
func decideUnprovenBackup(s *instance.State) (steps.Step, bool) {
	r := s.Record()
	if r == nil || backup.HasVerifiedBackup(s) {
		return steps.Step{}, false
	}
	return steps.Step{Action: steps.DeleteUnprovenBackup, Targets: []client.Object{r}}, true
}
