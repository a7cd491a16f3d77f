package instance

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// readSettings returns the verdict on new settings that are not in use yet. The controller determines it, because a
// composition function can read neither pods nor logs.
func readSettings(ctx context.Context, l podReader, basis *Basis,
	backupPVC *corev1.PersistentVolumeClaim) (*v1.SettingsVerdict, error) {
	if basis.XR == nil || basis.IsDeleting() {
		return nil, nil //nolint:nilnil // No verdict is needed.
	}
	settings, last := basis.XR.Status.Settings, basis.XR.Status.SettingsVerdict
	switch {
	case settings == nil:
		return nil, nil //nolint:nilnil // All settings are in use.
	case settings.Phase == v1.SettingsTakenBack || last.IsOf(settings.ID) && last.TakenBack:
		return last, nil // The verdict stays the same until the claim changes its settings.
	case settings.Phase == v1.SettingsOnTrial:
		return readTrial(ctx, l, basis.Instance, settings)
	}
	return readSettingsCheck(ctx, l, basis, backupPVC, settings)
}

// readSettingsCheck reads the result of the Job that validates new settings.
func readSettingsCheck(ctx context.Context, l podReader, basis *Basis, backupPVC *corev1.PersistentVolumeClaim,
	settings *v1.SettingsStatus) (*v1.SettingsVerdict, error) {
	instanceID := basis.Instance
	j, err := readJob(ctx, l, instanceID, instanceID.Namespace, instanceID.Jobs().SettingsCheck())
	if err != nil || j == nil || j.Annotations[v1.AnnotationSettings] != settings.ID {
		return nil, err
	}
	pods, err := podsOfInstance(ctx, l, instanceID, v1.ComponentSettings)
	if err != nil {
		return nil, err
	}
	j.Pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, j.Job) })
	waits := l.whyNoPod(ctx, j)
	for i := range j.Pods {
		if why := l.whyPodWaits(ctx, basis, backupPVC, &j.Pods[i]); why != "" && !HasEnded(&j.Pods[i]) {
			waits = why
		}
	}
	return judgeValidation(settings, j, waits), nil
}

// judgeValidation returns the result of the validation, or why the validation is delayed. It returns nil if there is
// nothing to report.
func judgeValidation(status *v1.SettingsStatus, j *Job, waits string) *v1.SettingsVerdict {
	failed := slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue
	})
	message := waits
	if failed {
		message = whyValidationFailed(j)
	}
	if message == "" {
		return nil
	}
	return &v1.SettingsVerdict{ID: status.ID, Message: message}
}

// whyValidationFailed returns the error of mysqld, or the error of the kubelet if there is none.
func whyValidationFailed(j *Job) string {
	out := ""
	for i := range j.Pods {
		for _, c := range slices.Concat(j.Pods[i].Status.InitContainerStatuses, j.Pods[i].Status.ContainerStatuses) {
			if r := ReportOf(&j.Pods[i], &c); r != nil && r.Error != "" {
				return r.Error
			}
			if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
				out = howEnded(&j.Pods[i], c.Name, t)
			}
		}
	}
	return out
}

func howEnded(p *corev1.Pod, container string, t *corev1.ContainerStateTerminated) string {
	if t.Reason == reasonOOMKilled {
		return whyOOMKilled(p, container, t.ExitCode) + ", or choose settings that need less memory"
	}
	return fmt.Sprintf("container %s exited with code %d", container, t.ExitCode)
}

// readTrial returns a verdict with the server's errors if the server keeps exiting with new settings. It returns nil
// if there is no verdict yet.
func readTrial(ctx context.Context, l podReader, instanceID v1.Instance,
	settings *v1.SettingsStatus) (*v1.SettingsVerdict, error) {
	pods, err := podsOfInstance(ctx, l, instanceID, "")
	if err != nil {
		return nil, err
	}
	for i := range pods {
		p := &pods[i]
		c := failsTrial(settings, p)
		if c == nil {
			continue
		}
		message := howEnded(p, c.Name, c.LastTerminationState.Terminated)
		if complaints := l.complaintsOf(ctx, p, c); complaints != "" {
			message += ": " + complaints
		}
		return &v1.SettingsVerdict{ID: settings.ID, TakenBack: true, Message: foreignText(message)}, nil
	}
	return nil, nil //nolint:nilnil // There is no verdict yet.
}

// trialRestarts is the number of exits after which new settings are reverted. The kubelet restarts the container
// immediately, then after 10 and after 20 seconds (kubernetes, pkg/kubelet/kubelet.go).
const trialRestarts = 2

// failsTrial returns the container of a pod that keeps exiting with new settings, or nil. A server that only starts
// slowly does not exit.
func failsTrial(status *v1.SettingsStatus, p *corev1.Pod) *corev1.ContainerStatus {
	if p.DeletionTimestamp != nil || p.Annotations[v1.AnnotationConfigHash] != status.ConfigHash || isReady(p) {
		return nil
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			last := list[i].LastTerminationState.Terminated
			if list[i].RestartCount >= trialRestarts && last != nil && last.ExitCode != 0 && !list[i].Ready {
				return &list[i]
			}
		}
	}
	return nil
}
