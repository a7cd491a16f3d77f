package backup

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// EndedPod returns a terminated pod of this instance's server that is not being deleted, or nil.
func EndedPod(s *instance.State) *corev1.Pod {
	for i := range s.Pods {
		if p := &s.Pods[i]; p.DeletionTimestamp == nil && instance.HasEnded(p) && p.Labels[v1.LabelXR] == string(s.Instance.XR) {
			return p
		}
	}
	return nil
}

// WhoUsesVolume returns a message that names the pod that uses the data volume of an XR, and what the user can do.
func WhoUsesVolume(p *corev1.Pod, xr string) string {
	if p.Labels[v1.LabelXR] == xr {
		return "Waiting for the server to stop"
	}
	if owner := metav1.GetControllerOf(p); owner != nil {
		return fmt.Sprintf("Pod %q of %s %q uses the data volume. The backup waits until the pod is deleted: stop "+
			"its owner", p.Name,
			owner.Kind, owner.Name)
	}
	return fmt.Sprintf("Pod %q uses the data volume. The backup waits until the pod is deleted: delete it", p.Name)
}

// Stopped returns the next step of a backup for which the function stops the server of a running instance. It returns
// no step once the backup is verified and its Job is deleted.
func Stopped(s *instance.State, announcement string) (step steps.Step, open bool) {
	return backUpInstance(s, announcement, awaitStop)
}

// backUpResumed is like Stopped for a server that runs again after the copy, so it does not stop the server.
func backUpResumed(s *instance.State, announcement string) (step steps.Step, open bool) {
	return backUpInstance(s, announcement, func(*instance.State) (steps.Step, bool) { return steps.Step{}, false })
}

// backUpInstance returns the next step of a running instance's backup until the backup is verified and its Job is
// deleted. first returns the steps that must be done before the Job is created.
func backUpInstance(s *instance.State, announcement string, first func(*instance.State) (steps.Step, bool)) (
	step steps.Step, open bool) {
	if n := s.ForeignEntry(); n != nil && !HasVerifiedBackup(s) {
		step := DiscardAttempt(s, steps.SkipNumber)
		step.Attempt, step.Message = steps.AttemptAnnounced, announcement
		return step, true
	}
	if s.Record() == nil && s.OwnEntry() == nil {
		if s.StoreFailure != "" { // The store may contain a backup with this number.
			return steps.Step{Action: steps.Wait, After: steps.RequeueLater, Attempt: steps.AttemptAnnounced,
				Message: announcement + ": " + s.StoreFailure}, true
		}
		return steps.Step{Action: steps.CreateBackup, Attempt: steps.AttemptAnnounced, Message: announcement}, true
	}
	if step, open := first(s); open {
		return step, true
	}
	switch {
	case !HasVerifiedBackup(s) && s.OwnEntry() != nil:
		return WriteIndex(s), true
	case !HasVerifiedBackup(s):
		return DecideBackup(s), true
	case s.BackupJob != nil:
		step, _ := steps.DeleteAndWait([]client.Object{s.BackupJob.Job})
		return step, true
	}
	return steps.Step{}, false
}

// awaitStop waits until the function has stopped the server.
func awaitStop(s *instance.State) (step steps.Step, open bool) {
	if !isScaledDown(s.Deployment) {
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Attempt: steps.AttemptStopping,
			Message: "Waiting for the server to stop"}, true
	}
	if p := EndedPod(s); p != nil {
		return steps.Step{Action: steps.DeleteObjects, Attempt: steps.AttemptStopping, Message: "Stopping the server",
			Targets: []client.Object{p}}, true
	}
	if len(s.Pods) > 0 {
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Attempt: steps.AttemptStopping,
			Message: WhoUsesVolume(&s.Pods[0], string(s.Instance.XR))}, true
	}
	return steps.Step{}, false
}

// isScaledDown reports whether a Deployment has no pods and creates no more.
func isScaledDown(d *appsv1.Deployment) bool {
	return d == nil || d.Spec.Replicas != nil && *d.Spec.Replicas == 0 && d.Status.ObservedGeneration >= d.Generation &&
		d.Status.Replicas == 0
}

// DiscardAttempt deletes the objects of a backup that has finished or is no longer needed, and then takes the given
// action. A verified backup is kept.
func DiscardAttempt(s *instance.State, end steps.Action) steps.Step {
	switch r := s.Record(); {
	case s.BackupJob != nil:
		step, _ := steps.DeleteAndWait([]client.Object{s.BackupJob.Job})
		return step
	case !HasVerifiedBackup(s) && s.OwnEntry() != nil:
		return WriteIndex(s)
	case r != nil && !r.IsVerified():
		return steps.Step{Action: steps.DeleteUnprovenBackup, Targets: []client.Object{r}}
	}
	return steps.Step{Action: end}
}
