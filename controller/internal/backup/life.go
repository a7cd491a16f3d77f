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

// EndedPod of this life's server that nobody removes, or nil.
func EndedPod(s *instance.State) *corev1.Pod {
	for i := range s.Pods {
		if p := &s.Pods[i]; p.DeletionTimestamp == nil && instance.HasEnded(p) && p.Labels[v1.LabelXR] == string(s.Life.XR) {
			return p
		}
	}
	return nil
}

// WhoUsesVolume says which pod uses the data volume of an XR, and what a person does about it.
func WhoUsesVolume(p *corev1.Pod, xr string) string {
	if p.Labels[v1.LabelXR] == xr {
		return "Waiting for the server to stop"
	}
	if owner := metav1.GetControllerOf(p); owner != nil {
		return fmt.Sprintf("Pod %q of %s %q uses the data volume: the backup is taken when it is gone. Stop it", p.Name, owner.Kind, owner.Name)
	}
	return fmt.Sprintf("Pod %q uses the data volume: the backup is taken when it is gone. Delete it", p.Name)
}

// Stopped is what there is to do until the backup is proven of an instance that goes on, and whose server the function
// stops; and its Job is gone.
func Stopped(s *instance.State, announcement string) (step steps.Step, open bool) {
	return backUpInLife(s, announcement, awaitStop)
}

// backUpResumed is the same of a server that runs again after its copy: nothing is stopped for what is left to do.
func backUpResumed(s *instance.State, announcement string) (step steps.Step, open bool) {
	return backUpInLife(s, announcement, func(*instance.State) (steps.Step, bool) { return steps.Step{}, false })
}

// backUpInLife is what there is to do until a backup of an instance that goes on is proven, and its Job gone, once nothing has to
// be done first.
func backUpInLife(s *instance.State, announcement string, first func(*instance.State) (steps.Step, bool)) (step steps.Step, open bool) {
	if n := s.ForeignNote(); n != nil && !HasProvenBackup(s) {
		step := PutAside(s, steps.SkipNumber)
		step.Attempt, step.Message = steps.AttemptAnnounced, announcement
		return step, true
	}
	if s.Record() == nil && s.OwnNote() == nil {
		if s.StoreFailure != "" { // Whether that number is free is not known.
			return steps.Step{Action: steps.Wait, After: steps.RequeueLater, Attempt: steps.AttemptAnnounced, Message: announcement + ": " + s.StoreFailure}, true
		}
		return steps.Step{Action: steps.CreateBackup, Attempt: steps.AttemptAnnounced, Message: announcement}, true
	}
	if step, open := first(s); open {
		return step, true
	}
	switch {
	case !HasProvenBackup(s) && s.OwnNote() != nil:
		return WriteIndex(s), true
	case !HasProvenBackup(s):
		return DecideBackup(s), true
	case s.Backup != nil:
		step, _ := steps.DeleteAndWait([]client.Object{s.Backup.Job})
		return step, true
	}
	return steps.Step{}, false
}

// awaitStop of a server that the function stops.
func awaitStop(s *instance.State) (step steps.Step, open bool) {
	if !isScaledDown(s.Deployment) {
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Attempt: steps.AttemptStopping, Message: "Waiting for the server to stop"}, true
	}
	if p := EndedPod(s); p != nil {
		return steps.Step{Action: steps.DeleteObjects, Attempt: steps.AttemptStopping, Message: "Stopping the server", Targets: []client.Object{p}}, true
	}
	if len(s.Pods) > 0 {
		return steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Attempt: steps.AttemptStopping, Message: WhoUsesVolume(&s.Pods[0], string(s.Life.XR))}, true
	}
	return steps.Step{}, false
}

// isScaledDown is true of a Deployment that makes no pods any more.
func isScaledDown(d *appsv1.Deployment) bool {
	return d == nil || d.Spec.Replicas != nil && *d.Spec.Replicas == 0 && d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas == 0
}

// PutAside what was made for a backup that is over, or is not wanted any more, and end that. What is proven is kept.
func PutAside(s *instance.State, end steps.Action) steps.Step {
	switch r := s.Record(); {
	case s.Backup != nil:
		step, _ := steps.DeleteAndWait([]client.Object{s.Backup.Job})
		return step
	case !HasProvenBackup(s) && s.OwnNote() != nil:
		return WriteIndex(s)
	case r != nil && !r.IsProven():
		return steps.Step{Action: steps.DeleteUnprovenBackup, Targets: []client.Object{r}}
	}
	return steps.Step{Action: end}
}
