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

// exitsAgain returns how a container ended last that the kubelet starts again and again, or nil. It counts also while the container runs
// and is not ready: a server that exits after some seconds would otherwise be reported in turns.
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
		return nil // What it waits for now is the news.
	}
	return end
}

// reasonOOMKilled is the runtime's word for a container in which the kernel killed a process for memory.
const reasonOOMKilled = process.OOMKilled

// crashOf a pod says which container exits again and again, why as far as its last words tell, and what to do; empty if none does.
func (l looker) crashOf(ctx context.Context, p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return ""
	}
	for i, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		isInit := i < len(p.Status.InitContainerStatuses)
		end := exitsAgain(p, &c)
		switch {
		case end == nil || isInit && lastReport(p, c) != nil: // Its report says more.
		case isInit && c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
		case end.Reason == reasonOOMKilled:
			return whyOOMKilled(p, c.Name, end.ExitCode)
		default:
			return fmt.Sprintf("container %s of pod %s has exited%s", c.Name, p.Name, exitText(end)) + isRestarted + l.lastWords(ctx, p, &c, end)
		}
	}
	return ""
}

// isRestarted ends what is said of a container that the kubelet restarts.
const isRestarted = " and is restarted"

func exitText(end *corev1.ContainerStateTerminated) string {
	if end.ExitCode == 0 && end.Reason == "" {
		return ""
	}
	return fmt.Sprintf(" (exit code %d)", end.ExitCode)
}

// lastWords returns what a container printed before its last end, or how to see that.
func (l looker) lastWords(ctx context.Context, p *corev1.Pod, c *corev1.ContainerStatus, end *corev1.ContainerStateTerminated) string {
	see := fmt.Sprintf("kubectl logs -n %s %s --container %s", p.Namespace, p.Name, c.Name)
	if c.State.Terminated == nil {
		see += " --previous"
	}
	said := l.complaintsOf(ctx, p, c)
	if said == "" { // A program that cannot be started prints nothing, and the runtime says why.
		said = foreignText(v1.WithoutSecrets(end.Message))
	}
	if said != "" {
		return ": " + said + ". The whole log: " + see
	}
	return "; its log says why: " + see
}

// maxCrashLog in bytes of a log that is searched for a server's complaints.
const maxCrashLog = 64 << 10

// complaintsOf a container are the errors in its log, or its last lines if it marked none, without what may be a password.
func (l looker) complaintsOf(ctx context.Context, p *corev1.Pod, c *corev1.ContainerStatus) string {
	if l.logs == nil {
		return ""
	}
	r, err := l.logs.OfEnded(ctx, p.Namespace, p.Name, c.Name, c.State.Terminated == nil)
	if err != nil {
		return ""
	}
	defer r.Close() //nolint:errcheck // Nothing was written.
	log := &process.Log{Out: io.Discard}
	n, _ := io.Copy(log, io.LimitReader(r, maxCrashLog)) // A log that ends early has said something, too.
	if n == 0 {
		return ""
	}
	return foreignText(timestamp.ReplaceAllString(log.Complaints(), ""))
}

// whyOOMKilled says which setting has to be raised so that the kernel does not kill a container again.
func whyOOMKilled(p *corev1.Pod, container string, code int32) string {
	limit, isLimited := memoryLimit(p, container)
	why := fmt.Sprintf("container %s of pod %s was OOMKilled (exit code %d)", container, p.Name, code)
	if !isLimited {
		return why + ": it has no memory limit, so the memory of its node ran out; " + requestField(p)
	}
	return fmt.Sprintf("%s: its memory limit of %s is too low; raise %s", why, limit, limitField(p))
}

func memoryLimit(p *corev1.Pod, container string) (string, bool) {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if limit, ok := c.Resources.Limits[corev1.ResourceMemory]; ok && c.Name == container {
			return limit.String(), true
		}
	}
	return "", false
}

// isServerPod reports whether a pod is of an instance's Deployment: its containers have the resources of the claim. All others are of Jobs.
func isServerPod(p *corev1.Pod) bool {
	return slices.Contains([]string{v1.ComponentServer, v1.ComponentDatabase}, p.Labels[v1.LabelComponent])
}

// limitField names the setting that gives the containers of a pod their memory limit.
func limitField(p *corev1.Pod) string {
	switch {
	case isServerPod(p), p.Labels[v1.LabelComponent] == v1.ComponentSettings: // A validation may take what the server may.
		return "spec.resources.limits.memory of the claim"
	case p.Labels[v1.LabelComponent] == v1.ComponentRestore:
		return "jobResources.limits.memory in the Composition's input, which the platform team sets"
	}
	return "limits.memory in JOB_RESOURCES of the controller, which the platform team sets"
}

// requestField says how the scheduler keeps memory for the containers of a pod.
func requestField(p *corev1.Pod) string {
	if isServerPod(p) {
		return "set spec.resources.requests.memory of the claim to what the server needs"
	}
	return "use a node with more memory"
}
