package instance

import (
	"cmp"
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

// whyBlocked returns why an instance must not start, for reasons that do not depend on its pods. An example is a missing
// BackupRecord. It returns "" if there is no such reason.
func whyBlocked(s *State) string {
	if s.XR == nil || s.IsDeleting() {
		return ""
	}
	switch {
	case s.StoreFailure != "" && s.XR.Status.Restore != nil:
		return "the backup to restore cannot be read: " + s.StoreFailure
	case s.StoreFailure != "":
		return "it is unknown whether there are backups of a previous instance with this name: " + s.StoreFailure
	}
	if n := s.Missing(); n != nil && s.XR.Status.Restore == nil {
		return blockedMessage(n)
	}
	if s.Source != nil {
		if n := s.Source.Missing(); n != nil {
			return blockedMessage(n)
		}
	}
	if isStarting(s.XR) && EarlierBackupPVMissing(s) {
		return fmt.Sprintf("the PersistentVolume with the backups of the previous namespace, for "+
			"PersistentVolumeClaim %s, does not exist. Restore the volume, or create the claim again with "+
			"spec.restore.backup set to a backup whose volume exists", s.Instance.BackupPVCName())
	}
	return ""
}

// isStarting reports whether an instance is starting, or waits for a condition before it can start.
func isStarting(xr *Composite) bool {
	return xr.IsBeginning() || xr.HasFailedRestore() || xr.Status.RestoredBy != ""
}

// readStart returns the restore Job of an instance, and the reason why the pods of the instance do not start. The
// controller reads the pods, because a composition function cannot. If a read fails, readStart returns its arguments
// restore and previous unchanged.
func readStart(ctx context.Context, l podReader, basis *Basis, backupPVC *corev1.PersistentVolumeClaim, restore *Job,
	previous string) (*Job, string, error) {
	pods, err := podsOfInstance(ctx, l, basis.Instance, "")
	if err != nil {
		return restore, previous, err
	}
	running, err := readRestore(ctx, l, &basis.Subject, pods)
	if err != nil {
		return restore, previous, err
	}
	restore = cmp.Or(running, restore)
	// A restore test pod does not affect the start.
	own := slices.DeleteFunc(pods,
		func(p corev1.Pod) bool { return p.Labels[v1.LabelComponent] == v1.ComponentRestoreTest })
	tries := withoutEarlierTries(own, basis.XR.Status.Restore)
	for i := range tries {
		if why := l.whyPodWaits(ctx, basis, backupPVC, &tries[i]); why != "" {
			return restore, steadyText(basis.XR.Status.BlockedBy, why), nil
		}
	}
	if restore != nil {
		return restore, l.whyNoPod(ctx, restore), nil
	}
	return nil, previous, nil
}

// podsOfInstance returns the pods of an instance with a component label. If the component is empty, it returns all pods
// of the instance.
func podsOfInstance(ctx context.Context, r client.Reader, instanceID v1.Instance, component string) ([]corev1.Pod, error) {
	labels := client.MatchingLabels{v1.LabelXR: string(instanceID.XR)}
	if component != "" {
		labels[v1.LabelComponent] = component
	}
	l := &corev1.PodList{}
	if err := r.List(ctx, l, client.InNamespace(instanceID.Namespace), labels); err != nil {
		return nil, fmt.Errorf("cannot list pods: %w", err)
	}
	return l.Items, nil
}

// steadyText returns the previous message if the new one differs only in numbers. A server that exits repeatedly prints
// different numbers each time, and the status must not change because of them.
func steadyText(before *v1.Blocker, reason string) string {
	if before != nil && strings.Contains(reason, isRestarted) && IsSameMessage(before.Message, reason) {
		return before.Message
	}
	return reason
}

// timestamp matches the timestamp at the beginning of a line in a server's log.
var timestamp = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\s?\d{1,2}:\d\d:\d\d\S*(?: UTC| Z)?(?: -| \d+)?\s*`)

// withoutEarlierTries removes the terminated pods of earlier restore attempts. It keeps the newest terminated pod,
// because its error is reported, unless there is no restore or the restore has succeeded.
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

// volumeInDoubt returns a sentence that names the data volume. It returns "" unless a container has reported that the
// volume contains no data, or the data of another instance.
func volumeInDoubt(v *corev1.PersistentVolume, p *corev1.Pod) string {
	inDoubt := func(c corev1.ContainerStatus) bool {
		r := lastReport(p, c)
		return r != nil && (r.ExitCode == agent.ExitNoData || r.ExitCode == agent.ExitForeign)
	}
	switch {
	case v == nil || !slices.ContainsFunc(p.Status.InitContainerStatuses, inDoubt):
		return ""
	case v.Spec.HostPath != nil:
		return fmt.Sprintf(". The data is in directory %s of node %s, PersistentVolume %s", v.Spec.HostPath.Path, p.Spec.NodeName, v.Name)
	}
	return ". The data is on PersistentVolume " + v.Name
}

// whereBackupsAre returns advice for a pod that cannot be scheduled. It returns "" unless the pod must run on a node
// that can use the existing backup volume.
func whereBackupsAre(xr *Composite, p *corev1.Pod) string {
	if xr == nil || xr.Status.BackupNodes == nil || p.Spec.NodeName != "" {
		return ""
	}
	return fmt.Sprintf(". The pod must run on nodes that can use the existing backup volume for this name (%s), "+
		"because otherwise its data could not be backed up. Free resources there, or create the claim again under "+
		"another name. If a StorageClass placed the data volume and the backup volume in different zones, use one with "+
		"volumeBindingMode WaitForFirstConsumer",
		nodesText(xr.Status.BackupNodes))
}

// nodesText formats a node selector for users.
func nodesText(selector *corev1.NodeSelector) string {
	terms := make([]string, 0, len(selector.NodeSelectorTerms))
	for _, t := range selector.NodeSelectorTerms {
		requirements := slices.Concat(t.MatchExpressions, t.MatchFields)
		all := make([]string, 0, len(requirements))
		for _, r := range requirements {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ", "))))
		}
		terms = append(terms, strings.Join(all, " and "))
	}
	return foreignText(strings.Join(terms, ", or "))
}

// readRestore returns the restore Job with its pods if the restore is running. It also does so if the restore has
// succeeded but its pod does not terminate. Otherwise it returns nil.
func readRestore(ctx context.Context, l podReader, s *Subject, pods []corev1.Pod) (*Job, error) {
	if r := s.XR.Status.Restore; r == nil || r.Phase != v1.RestoreRunning && s.XR.Status.RestoredBy == "" {
		return nil, nil //nolint:nilnil // No restore is in progress.
	}
	j, err := readJob(ctx, l, s.Instance, s.Instance.Namespace, s.Instance.Jobs().Restore())
	if j == nil || err != nil {
		return nil, err
	}
	j.Pods = slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, j.Job) })
	j.recordEnd(l.now)
	return j, nil
}

// crashLoop is the kubelet's reason for waiting if a container exits repeatedly.
const crashLoop = "CrashLoopBackOff"

// passing lists reasons for waiting that usually disappear without a change by a user.
var passing = []string{"", "ContainerCreating", "PodInitializing"}

// podFailureOf returns why a pod is not running, as reported by the scheduler, the kubelet or the product's program.
// It returns "" if there is no failure or the pod is being deleted.
func podFailureOf(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return ""
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %s cannot be scheduled: %s", p.Name, foreignText(c.Message))
		}
	}
	for _, c := range p.Status.InitContainerStatuses {
		// Between two attempts, State contains the last termination. During an attempt, LastTerminationState contains it.
		if r := lastReport(p, c); r != nil && r.Error != "" &&
			(c.State.Terminated == nil || c.State.Terminated.ExitCode != 0) {
			return reportText(p, c.Name, r)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		// The function only reports that the Job has failed permanently. The reason is in the pod.
		if r := lastReport(p, c); !c.Ready && r != nil && r.Error != "" {
			return reportText(p, c.Name, r)
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := c.State.Waiting
		switch {
		case exitsAgain(p, &c) != nil: // crashOf reports it with the container's output.
		case w == nil || slices.Contains(passing, w.Reason):
		default:
			return fmt.Sprintf("pod %s: %s", p.Name, waitsBecause(w))
		}
	}
	return ""
}

// reportText returns the error of a report with the name of its container.
func reportText(p *corev1.Pod, container string, r *agent.Report) string {
	subject := fmt.Sprintf("container %s of pod %s", container, p.Name)
	if strings.HasPrefix(r.Error, subject) { // The container was OOMKilled, which its program did not report.
		return r.Error
	}
	return subject + ": " + r.Error
}

// The kubelet's reasons for an image that it cannot pull. It reports errImagePull after an attempt, and
// imagePullBackOff while it waits for the next attempt. The message of imagePullBackOff contains the error of the
// last attempt (kubernetes, pkg/kubelet/images/image_manager.go).
const (
	errImagePull     = "ErrImagePull"
	imagePullBackOff = "ImagePullBackOff"
)

// backOff matches the beginning of an imagePullBackOff message, up to the error of the last attempt.
var backOff = regexp.MustCompile(`^Back-off pulling image "[^"]*": ` + errImagePull + `: `)

// connection matches the local address in a Go network error, such as 10.0.0.7:53122->. The port differs in each
// attempt.
var connection = regexp.MustCompile(`\S+->`)

// waitsBecause returns why a container is waiting. The message is the same during an attempt and between attempts.
func waitsBecause(w *corev1.ContainerStateWaiting) string {
	reason, message := w.Reason, w.Message
	if reason == imagePullBackOff {
		if last := backOff.FindString(message); last != "" {
			reason, message = errImagePull, message[len(last):]
		}
	}
	return foreignText(reason + ": " + message)
}

// foreignText makes a message of another component printable, and removes the parts that change with each attempt.
func foreignText(text string) string {
	return v1.PrintableText(connection.ReplaceAllString(text, ""), maxPodFailure)
}

// lastReport returns the last report of the product's program in a container, or nil.
func lastReport(p *corev1.Pod, c corev1.ContainerStatus) *agent.Report {
	if r := ReportOf(p, &c); r != nil {
		return r
	}
	return ReportOf(p, &corev1.ContainerStatus{Name: c.Name, State: c.LastTerminationState})
}
