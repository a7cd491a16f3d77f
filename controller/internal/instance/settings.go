package instance

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// readSettings finds out what became of new settings that are not in force yet. A composition sees neither pods nor logs.
func (g *gathering) readSettings(ctx context.Context) error {
	if g.XR == nil || g.IsDeleting() {
		return nil
	}
	is := g.XR.Status.Settings
	switch {
	case is == nil:
		return nil
	case is.Phase == v1.SettingsTakenBack || g.XR.Status.SettingsVerdict.IsOf(is.ID) && g.XR.Status.SettingsVerdict.TakenBack:
		g.SettingsVerdict = g.XR.Status.SettingsVerdict // Until the claim asks for others.
		return nil
	case is.Phase == v1.SettingsOnTrial:
		return g.readTrial(ctx, is)
	}
	return g.readSettingsCheck(ctx, is)
}

// readSettingsCheck reads what the Job says that validates new settings.
func (g *gathering) readSettingsCheck(ctx context.Context, is *v1.SettingsStatus) error {
	j, err := g.readJob(ctx, g.Life.Namespace, g.Life.Jobs().SettingsCheck())
	if err != nil || j == nil || j.Annotations[v1.AnnotationSettings] != is.ID {
		return err
	}
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(g.Life.Namespace), client.MatchingLabels{v1.LabelXR: string(g.Life.XR), v1.LabelComponent: v1.ComponentSettings}); err != nil {
		return fmt.Errorf("cannot list pods: %w", err)
	}
	j.Pods = slices.DeleteFunc(l.Items, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, j.Job) })
	waits := g.looker().whyNoPod(ctx, j)
	for i := range j.Pods {
		if why := g.looker().whyPodWaits(ctx, g.State, &j.Pods[i]); why != "" && !HasEnded(&j.Pods[i]) {
			waits = why
		}
	}
	g.SettingsVerdict = judgeValidation(is, j, waits)
	return nil
}

// judgeValidation returns what a Job says of new settings, or what it waits for; nil if there is nothing to say.
func judgeValidation(is *v1.SettingsStatus, j *Job, waits string) *v1.SettingsVerdict {
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
	return &v1.SettingsVerdict{ID: is.ID, Message: message}
}

// whyValidationFailed says it in words of mysqld, or else of the kubelet.
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
		return whyOOMKilled(p, container, t.ExitCode) + ", or choose settings that take less"
	}
	return fmt.Sprintf("container %s ended with exit code %d", container, t.ExitCode)
}

// readTrial of new settings: whether the server keeps exiting with them, and what it prints.
func (g *gathering) readTrial(ctx context.Context, is *v1.SettingsStatus) error {
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(g.Life.Namespace), client.MatchingLabels{v1.LabelXR: string(g.Life.XR)}); err != nil {
		return fmt.Errorf("cannot list pods: %w", err)
	}
	for i := range l.Items {
		p := &l.Items[i]
		c := failsTrial(is, p)
		if c == nil {
			continue
		}
		message := howEnded(p, c.Name, c.LastTerminationState.Terminated)
		if said := g.looker().complaintsOf(ctx, p, c); said != "" {
			message += ": " + said
		}
		g.SettingsVerdict = &v1.SettingsVerdict{ID: is.ID, TakenBack: true, Message: foreignText(message)}
		return nil
	}
	return nil
}

// trialRestarts is how often a container exits before its settings are taken back. The kubelet restarts it at once, after 10 and after 20
// seconds (kubernetes, pkg/kubelet/kubelet.go).
const trialRestarts = 2

// failsTrial returns the container of a pod that keeps exiting with the settings on trial, or nil. A server that
// takes long to start does not exit.
func failsTrial(is *v1.SettingsStatus, p *corev1.Pod) *corev1.ContainerStatus {
	if p.DeletionTimestamp != nil || p.Annotations[v1.AnnotationConfigHash] != is.ConfigHash || isReady(p) {
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
