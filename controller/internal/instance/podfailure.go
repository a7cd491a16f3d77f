package instance

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// readPodFailure of the pods of an instance that begins, or of one that may not. A
// composition cannot see it.
func (g *gathering) readPodFailure(ctx context.Context) error {
	switch {
	case g.StoreFailure != "" && g.XR.Status.Restore != nil:
		g.PodFailure = "what to start from cannot be read: " + g.StoreFailure
		return nil
	case g.StoreFailure != "":
		g.PodFailure = "it is not known whether there are backups of an earlier instance of this name: " + g.StoreFailure
		return nil
	}
	if n := g.Missing(); n != nil && g.XR.Status.Restore == nil {
		g.PodFailure = heldBack(n)
		return nil
	}
	if g.Source != nil {
		if n := g.Source.Missing(); n != nil {
			g.PodFailure = heldBack(n)
			return nil
		}
	}
	if !g.XR.IsBeginning() && !g.XR.HasFailedRestore() && g.XR.Status.RestoredBy == "" {
		return nil
	}
	if EarlierBackupPVMissing(g.State) {
		g.PodFailure = fmt.Sprintf("no PersistentVolume with the backups of the earlier namespace is there for PersistentVolumeClaim %s: bring it back, or create the claim again with spec.restore.backup set to a backup whose volume is there", g.Life.BackupPVCName())
		return nil
	}
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(g.Life.Namespace), client.MatchingLabels{v1.LabelXR: string(g.Life.XR)}); err != nil {
		return fmt.Errorf("cannot list pods: %w", err)
	}
	if err := g.readRestore(ctx, l.Items); err != nil {
		return err
	}
	own := slices.DeleteFunc(l.Items, func(p corev1.Pod) bool { return p.Labels[v1.LabelComponent] == v1.ComponentRestoreTest }) // It holds nobody back.
	pods := withoutEarlierTries(own, g.XR.Status.Restore)
	for i := range pods {
		if why := g.looker().whyPodWaits(ctx, g.State, &pods[i]); why != "" {
			g.PodFailure = steadyText(g.XR.Status.BlockedBy, why)
			return nil
		}
	}
	if g.Restore != nil {
		g.PodFailure = g.looker().whyNoPod(ctx, g.Restore)
	}
	return nil
}

// steadyText returns the previous text if the new one differs in numbers only: a server that exits again and again prints other numbers each
// time, and the status must not change for them.
func steadyText(before *v1.Blocker, why string) string {
	if before != nil && strings.Contains(why, isRestarted) && SaysSame(before.Message, why) {
		return before.Message
	}
	return why
}

// timestamp begins a line of a server's log.
var timestamp = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\s?\d{1,2}:\d\d:\d\d\S*(?: UTC| Z)?(?: -| \d+)?\s*`)

// withoutEarlierTries of a restore: of its pods the newest failure counts, and none once all is restored.
func withoutEarlierTries(pods []corev1.Pod, restore *v1.RestoreStatus) []corev1.Pod {
	out := slices.Clone(pods)
	slices.SortStableFunc(out, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	failed := 0
	return slices.DeleteFunc(out, func(p corev1.Pod) bool {
		if p.Labels[v1.LabelComponent] != v1.ComponentRestore || !HasEnded(&p) {
			return false
		}
		failed++
		return restore == nil || restore.Phase == v1.RestoreSucceeded || failed > 1
	})
}

// volumeInDoubt says which volume it is whose data is not what it should be; empty where
// that is not what a pod waits for.
func volumeInDoubt(s *State, p *corev1.Pod) string {
	inDoubt := func(c corev1.ContainerStatus) bool {
		r := lastReport(p, c)
		return r != nil && (r.ExitCode == agent.ExitNoData || r.ExitCode == agent.ExitForeign)
	}
	v := s.DataPV
	switch {
	case v == nil || !slices.ContainsFunc(p.Status.InitContainerStatuses, inDoubt):
		return ""
	case v.Spec.HostPath != nil:
		return fmt.Sprintf(". It is folder %s of node %s, PersistentVolume %s", v.Spec.HostPath.Path, p.Spec.NodeName, v.Name)
	}
	return ". It is PersistentVolume " + v.Name
}

// whereBackupsAre is what to do where a pod finds no node because it must run where the backups
// are; empty where that is not so.
func whereBackupsAre(s *State, p *corev1.Pod) string {
	if s.XR == nil || s.XR.Status.BackupNodes == nil || p.Spec.NodeName != "" {
		return ""
	}
	return fmt.Sprintf(". It has to run where the backups of this name are (%s), or it could not be backed up: make room there, or create the claim again under another name. Where a StorageClass has put the two volumes apart, use one with volumeBindingMode WaitForFirstConsumer",
		nodesText(s.XR.Status.BackupNodes))
}

// nodesText is a node selector for people.
func nodesText(of *corev1.NodeSelector) string {
	terms := make([]string, 0, len(of.NodeSelectorTerms))
	for _, t := range of.NodeSelectorTerms {
		requirements := slices.Concat(t.MatchExpressions, t.MatchFields)
		all := make([]string, 0, len(requirements))
		for _, r := range requirements {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ", "))))
		}
		terms = append(terms, strings.Join(all, " and "))
	}
	return foreignText(strings.Join(terms, ", or "))
}

// readRestore that is under way, or has restored all and never ends, with its pods.
func (g *gathering) readRestore(ctx context.Context, pods []corev1.Pod) error {
	if r := g.XR.Status.Restore; r == nil || r.Phase != v1.RestoreRunning && g.XR.Status.RestoredBy == "" {
		return nil
	}
	j, err := g.readJob(ctx, g.Life.Namespace, g.Life.Jobs().Restore())
	if j == nil || err != nil {
		return err
	}
	j.Pods = slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, j.Job) })
	j.noteEnd(g.Now)
	g.Restore = j
	return nil
}

// crashLoop is the kubelet's word for a container that does not stay.
const crashLoop = "CrashLoopBackOff"

// passing reasons of a container that waits say nothing that a person could
// mend.
var passing = []string{"", "ContainerCreating", "PodInitializing"}

// podFailureOf a pod in the words of the scheduler or the kubelet; empty where there
// is none, or where the pod is being deleted.
func podFailureOf(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return ""
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %s finds no node: %s", p.Name, foreignText(c.Message))
		}
	}
	for _, c := range p.Status.InitContainerStatuses {
		// Between two tries the kubelet leaves it as it ended. While it tries again, that is what
		// is known.
		if r := lastReport(p, c); r != nil && r.Error != "" && (c.State.Terminated == nil || c.State.Terminated.ExitCode != 0) {
			return reportText(p, c.Name, r)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		// The function says that the Job has failed for good; only its pod says why.
		if r := lastReport(p, c); !c.Ready && r != nil && r.Error != "" {
			return reportText(p, c.Name, r)
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := c.State.Waiting
		switch {
		case exitsAgain(p, &c) != nil: // crashOf says it, with what the container printed.
		case w == nil || slices.Contains(passing, w.Reason):
		default:
			return fmt.Sprintf("pod %s: %s", p.Name, waitsBecause(w))
		}
	}
	return ""
}

// reportText says of which container of a pod a report's error is.
func reportText(p *corev1.Pod, container string, r *agent.Report) string {
	of := fmt.Sprintf("container %s of pod %s", container, p.Name)
	if strings.HasPrefix(r.Error, of) { // It was OOMKilled, which is not what its program reported.
		return r.Error
	}
	return of + ": " + r.Error
}

// Words of the kubelet for an image that cannot be pulled. Between two tries it
// says the first, and after the first try the second with the first in it
// (kubernetes, pkg/kubelet/images/image_manager.go).
const (
	errImagePull     = "ErrImagePull"
	imagePullBackOff = "ImagePullBackOff"
)

// backOff is what the kubelet puts before the words of the last try.
var backOff = regexp.MustCompile(`^Back-off pulling image "[^"]*": ` + errImagePull + `: `)

// connection is how Go names the two ends of one, of which the first has another
// port each time.
var connection = regexp.MustCompile(`\S+->`)

// waitsBecause is why a container waits, in the same words at each look.
func waitsBecause(w *corev1.ContainerStateWaiting) string {
	reason, message := w.Reason, w.Message
	if reason == imagePullBackOff {
		if last := backOff.FindString(message); last != "" {
			reason, message = errImagePull, message[len(last):]
		}
	}
	return foreignText(reason + ": " + message)
}

// foreignText is text as it may stand in a status: printable, and without what changes
// from one try to the next.
func foreignText(text string) string {
	return v1.PrintableText(connection.ReplaceAllString(text, ""), maxPodFailure)
}

// lastReport of our own program in a container, or nil.
func lastReport(p *corev1.Pod, c corev1.ContainerStatus) *agent.Report {
	if r := ReportOf(p, &c); r != nil {
		return r
	}
	return ReportOf(p, &corev1.ContainerStatus{Name: c.Name, State: c.LastTerminationState})
}
