package backup

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// MakeDataReachable where the data's PVC is not fit for a Job, or is where no Job can run: the
// volume gets another PVC. One that is not retained would go with the PVC that it has.
func MakeDataReachable(s *instance.State) (step steps.Step, open bool) {
	step = steps.Step{Attempt: steps.AttemptRunning, Message: fmt.Sprintf("Volume %q gets PersistentVolumeClaim %s/%s, to be backed up", volumeName(s), s.JobLocation().Namespace, s.JobLocation().Data)}
	switch c := s.DataPVC; {
	case !s.IsDataPVRetained() || s.PVCNameConflict:
		return steps.Step{}, false
	case c != nil && c.DeletionTimestamp != nil && len(JobsOnData(s)) > 0:
		// Their pods hold the PVC, or wait for it in vain.
		step, _ = steps.DeleteAndWait(JobsOnData(s))
		step.Attempt, step.Message = steps.AttemptRunning, "Backing up the data: trying again"
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

// JobsOnData are the Jobs of this life, which mount the data PVC, the backup PVC or both.
func JobsOnData(s *instance.State) []client.Object {
	var out []client.Object
	for _, j := range []*instance.Job{s.Backup, s.Wipe, s.Prune} {
		if j != nil {
			out = append(out, j.Job)
		}
	}
	return out
}

// DeletePVCStep deletes a PVC, drops its finalizer, and waits until it is gone.
func DeletePVCStep(c *corev1.PersistentVolumeClaim, step steps.Step) steps.Step {
	step.Action, step.Targets = steps.DeletePVC, []client.Object{c}
	if c.DeletionTimestamp != nil && !instance.HasFinalizer(c) {
		step.Action, step.After = steps.Wait, steps.RequeueSoon
	}
	return step
}

// volumeName of the data, as far as anybody knows.
func volumeName(s *instance.State) string {
	switch {
	case s.DataPV != nil:
		return s.DataPV.Name
	case s.DataPVC != nil && s.DataPVC.Spec.VolumeName != "":
		return s.DataPVC.Spec.VolumeName
	}
	return s.Identity().Volume
}
