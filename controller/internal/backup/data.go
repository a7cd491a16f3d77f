package backup

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// MakeDataReachable creates another PVC for the data volume if a Job cannot use the current PVC or cannot run in its
// namespace. It does nothing if the volume is not retained, because such a volume would be deleted with its PVC.
func MakeDataReachable(s *instance.State) (step steps.Step, open bool) {
	step = steps.Step{Attempt: steps.AttemptRunning,
		Message: fmt.Sprintf("Binding volume %q to PersistentVolumeClaim %s/%s for the backup", volumeName(s),
			s.JobLocation().Namespace, s.JobLocation().Data)}
	switch c := s.DataPVC; {
	case !s.IsDataPVRetained() || s.PVCNameConflict:
		return steps.Step{}, false
	case c != nil && c.DeletionTimestamp != nil && len(JobsOnData(s)) > 0:
		// The pods of the Jobs block the deletion of the PVC, or are pending because of it.
		step, _ = steps.DeleteAndWait(JobsOnData(s))
		step.Attempt, step.Message = steps.AttemptRunning, "Backing up the data: retrying"
	case s.OriginalPVC != nil:
		return DeletePVCStep(s.OriginalPVC, step), true
	case c != nil && c.DeletionTimestamp != nil:
		return DeletePVCStep(c, step), true
	case s.IsDataPVReservedElsewhere():
		step.Action = steps.ReserveDataPV
	case c == nil:
		step.Action = steps.CreatePVC
	default:
		return steps.Step{}, false
	}
	return step, true
}

// JobsOnData returns the Jobs of this instance that mount the data PVC, the backup PVC or both.
func JobsOnData(s *instance.State) []client.Object {
	var out []client.Object
	for _, j := range []*instance.Job{s.BackupJob, s.WipeJob, s.PruneJob} {
		if j != nil {
			out = append(out, j.Job)
		}
	}
	return out
}

// DeletePVCStep deletes a PVC, removes its finalizer, and waits until it is deleted.
func DeletePVCStep(c *corev1.PersistentVolumeClaim, step steps.Step) steps.Step {
	step.Action, step.Targets = steps.DeletePVC, []client.Object{c}
	if c.DeletionTimestamp != nil && !instance.HasFinalizer(c) {
		step.Action, step.After = steps.Wait, steps.RequeueSoon
	}
	return step
}

// volumeName returns the name of the data volume, or "" if it is unknown.
func volumeName(s *instance.State) string {
	switch {
	case s.DataPV != nil:
		return s.DataPV.Name
	case s.DataPVC != nil && s.DataPVC.Spec.VolumeName != "":
		return s.DataPVC.Spec.VolumeName
	}
	return s.Identity().Volume
}
