package instance

import (
	"context"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/process"
)

// exitsAgain returns the last termination of a container that the kubelet restarts repeatedly, or nil. A restarted
// container is included until it is ready. Otherwise the message about a server that exits after some seconds would
// change with each restart.
func exitsAgain(p *corev1.Pod, c *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if p.Spec.RestartPolicy == corev1.RestartPolicyNever || c.Ready {
		return nil
	}
	end := c.State.Terminated
	if end == nil {
		end = c.LastTerminationState.Terminated
	}
	switch w := c.State.Waiting; {
	case w != nil && w.Reason == crashLoop && end == nil:
		return &corev1.ContainerStateTerminated{}
	case end == nil || end.ExitCode == 0 && end.Reason != reasonOOMKilled && (w == nil || w.Reason != crashLoop):
		return nil
	case w != nil && w.Reason != crashLoop && !slices.Contains(passing, w.Reason):
		return nil // The reason for waiting is more recent.
	}
	return end
}

// reasonOOMKilled is the reason of a container in which the kernel killed a process because it ran out of memory.
const reasonOOMKilled = process.OOMKilled

// crashOf returns which container of a pod exits repeatedly, the cause from its last output, and how to fix it. It
// returns "" if no container exits repeatedly.
func (l podReader) crashOf(ctx context.Context, p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return ""
	}
	for i, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		isInit := i < len(p.Status.InitContainerStatuses)
		end := exitsAgain(p, &c)
		switch {
		case end == nil || isInit && lastReport(p, c) != nil: // The report contains more details.
		case isInit && c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
		case end.Reason == reasonOOMKilled:
			return whyOOMKilled(p, c.Name, end.ExitCode)
		default:
			return fmt.Sprintf("container %s of pod %s has exited%s", c.Name, p.Name, exitText(end)) + isRestarted +
				l.lastWords(ctx, p, &c, end)
		}
	}
	return ""
}

// isRestarted ends the message about a container that the kubelet restarts.
const isRestarted = " and is restarted"

func exitText(end *corev1.ContainerStateTerminated) string {
	if end.ExitCode == 0 && end.Reason == "" {
		return ""
	}
	return fmt.Sprintf(" (exit code %d)", end.ExitCode)
}

// lastWords returns the last output of a container before it terminated, or the command that shows it.
func (l podReader) lastWords(ctx context.Context, p *corev1.Pod, c *corev1.ContainerStatus,
	end *corev1.ContainerStateTerminated) string {
	see := fmt.Sprintf("kubectl logs -n %s %s --container %s", p.Namespace, p.Name, c.Name)
	if c.State.Terminated == nil {
		see += " --previous"
	}
	complaints := l.complaintsOf(ctx, p, c)
	if complaints == "" { // A program that cannot start prints nothing, and the runtime reports the reason.
		complaints = foreignText(v1.WithoutSecrets(end.Message))
	}
	if complaints != "" {
		return ": " + complaints + ". The whole log: " + see
	}
	return ". See its log: " + see
}

// maxCrashLog is the number of bytes of a log that are searched for errors.
const maxCrashLog = 64 << 10

// complaintsOf returns the errors in a container's log, or its last lines if no line is marked as an error. Possible
// passwords are removed.
func (l podReader) complaintsOf(ctx context.Context, p *corev1.Pod, c *corev1.ContainerStatus) string {
	if l.logs == nil {
		return ""
	}
	r, err := l.logs.OfEnded(ctx, p.Namespace, p.Name, c.Name, c.State.Terminated == nil)
	if err != nil {
		return ""
	}
	defer r.Close() //nolint:errcheck // Nothing was written.
	log := &process.Log{Out: io.Discard}
	n, _ := io.Copy(log, io.LimitReader(r, maxCrashLog)) // The part before a read error is useful, too.
	if n == 0 {
		return ""
	}
	return foreignText(timestamp.ReplaceAllString(log.Complaints(), ""))
}

// whyOOMKilled returns which setting a user must raise so that the kernel does not kill the container again.
func whyOOMKilled(p *corev1.Pod, container string, code int32) string {
	limit, isLimited := memoryLimit(p, container)
	reason := fmt.Sprintf("container %s of pod %s was OOMKilled (exit code %d)", container, p.Name, code)
	if !isLimited {
		return reason + ": it has no memory limit, so the memory of its node ran out. To fix it, " + requestField(p)
	}
	return fmt.Sprintf("%s: its memory limit of %s is too low. Raise %s", reason, limit, limitField(p))
}

func memoryLimit(p *corev1.Pod, container string) (string, bool) {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if limit, ok := c.Resources.Limits[corev1.ResourceMemory]; ok && c.Name == container {
			return limit.String(), true
		}
	}
	return "", false
}

// isServerPod reports whether a pod belongs to an instance's Deployment, whose containers have the resources of the
// claim. All other pods belong to Jobs.
func isServerPod(p *corev1.Pod) bool {
	return slices.Contains([]string{v1.ComponentServer, v1.ComponentDatabase}, p.Labels[v1.LabelComponent])
}

// limitField returns the setting for the memory limit of a pod's containers.
func limitField(p *corev1.Pod) string {
	switch {
	case isServerPod(p), p.Labels[v1.LabelComponent] == v1.ComponentSettings: // A validation may use as much memory as the server.
		return "spec.resources.limits.memory of the claim"
	case p.Labels[v1.LabelComponent] == v1.ComponentRestore:
		return "jobResources.limits.memory in the Composition's input, which the platform team sets"
	}
	return "limits.memory in JOB_RESOURCES of the controller, which the platform team sets"
}

// requestField returns advice for a pod without a memory limit that was OOMKilled because its node ran out of memory.
func requestField(p *corev1.Pod) string {
	if isServerPod(p) {
		return "set spec.resources.requests.memory of the claim to what the server needs"
	}
	return "use a node with more memory"
}
