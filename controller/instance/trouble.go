package instance

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// trouble of the pods of an instance that begins, or of one that may not. A
// composition cannot see it.
func (g *Gatherer) trouble(ctx context.Context, s *State) error {
	if n := s.Missing(); n != nil && s.XR.Status.Restore == nil {
		s.Trouble = heldBack(n)
		return nil
	}
	if !s.XR.Beginning() {
		return nil
	}
	if s.Disinherited() {
		s.Trouble = fmt.Sprintf("no PersistentVolume with the backups of the earlier namespace is there for PersistentVolumeClaim %s: bring it back, or create the claim again with spec.restore.backup set to a backup whose volume is there", s.Life.BackupClaimName())
		return nil
	}
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(s.Life.Namespace), client.MatchingLabels{v1.LabelXR: string(s.Life.XR)}); err != nil {
		return fmt.Errorf("cannot list pods: %w", err)
	}
	for i := range l.Items {
		if s.Trouble = troubleOf(&l.Items[i]); s.Trouble != "" {
			return nil
		}
	}
	return g.restoreTrouble(ctx, s, l.Items)
}

// restoreTrouble is that of a restore whose Job gets no pod.
func (g *Gatherer) restoreTrouble(ctx context.Context, s *State, pods []corev1.Pod) error {
	if r := s.XR.Status.Restore; r == nil || r.Phase != v1.RestoreRunning {
		return nil
	}
	j, err := g.job(ctx, s, s.Life.Namespace, s.Life.RestoreJobName())
	if j == nil || err != nil {
		return err
	}
	j.Pods = slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, j.Job) })
	s.Trouble = j.withoutPod(s.Now)
	return nil
}

// crashLoop is the kubelet's word for a container that does not stay.
const crashLoop = "CrashLoopBackOff"

// passing reasons of a container that waits say nothing that a person could
// mend.
var passing = []string{"", "ContainerCreating", "PodInitializing"}

// troubleOf a pod in the words of the scheduler or the kubelet; empty where there
// is none, or where it goes.
func troubleOf(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return ""
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %s finds no node: %s", p.Name, c.Message)
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := c.State.Waiting
		switch {
		case w == nil || slices.Contains(passing, w.Reason):
		case w.Reason == crashLoop && agentError(c) != "":
			return fmt.Sprintf("container %s of pod %s: %s", c.Name, p.Name, agentError(c))
		case w.Reason == crashLoop:
			return fmt.Sprintf("container %s of pod %s ends as soon as it starts%s; its log says why: kubectl logs -n %s %s --previous",
				c.Name, p.Name, lastExit(c), p.Namespace, p.Name)
		default:
			return fmt.Sprintf("pod %s: %s: %s", p.Name, w.Reason, w.Message)
		}
	}
	return ""
}

// agentError is what our own program said in a container before it ended; empty
// where another one did.
func agentError(c corev1.ContainerStatus) string {
	if r := reportOf(&corev1.ContainerStatus{State: c.LastTerminationState}); r != nil {
		return r.Error
	}
	return ""
}

func lastExit(c corev1.ContainerStatus) string {
	if t := c.LastTerminationState.Terminated; t != nil {
		return fmt.Sprintf(" (exit code %d)", t.ExitCode)
	}
	return ""
}
