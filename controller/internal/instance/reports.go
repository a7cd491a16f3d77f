package instance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Logs reads the logs of pods.
type Logs interface {
	// Tail returns the last bytes of a container's log.
	Tail(ctx context.Context, namespace, pod, container string) (io.ReadCloser, error)
	// OfEnded returns the last lines of the log of a terminated container, or of its previous run.
	OfEnded(ctx context.Context, namespace, pod, container string, previous bool) (io.ReadCloser, error)
}

// readReports reads from the pods of a Job what its program has reported: the result and the progress.
func readReports(ctx context.Context, l podReader, basis *Basis, backupPVC *corev1.PersistentVolumeClaim, j *Job) {
	j.recordEnd(l.now)
	j.recordEviction()
	for i := range j.Pods {
		p := &j.Pods[i]
		if why := l.whyPodWaits(ctx, basis, backupPVC, p); why != "" {
			j.PodFailure = why
		}
		for _, c := range p.Status.InitContainerStatuses {
			// The result of an init container is the result of the Job only if it fails.
			if r := ReportOf(p, &c); r != nil && !r.OK && j.Report == nil {
				j.Report = r
			}
			j.recordClone(&c)
			if c.State.Running != nil && c.Name == agent.CloneContainerName {
				j.Progress = l.readProgress(ctx, p, c.Name)
			}
		}
		for k := range p.Status.ContainerStatuses {
			c := &p.Status.ContainerStatuses[k]
			// A success has priority over the reports of other pods.
			if r := ReportOf(p, c); r != nil && (j.Report == nil || r.OK) {
				j.Report = r
			}
			if c.State.Running != nil {
				j.Progress = l.readProgress(ctx, p, c.Name)
			}
		}
	}
	if r := j.Report; r != nil {
		log.FromContext(ctx).V(1).Info("Read the report of a Job", "namespace", j.Namespace, "name", j.Name, "command",
			r.Command, "exitCode", r.ExitCode, "seconds", r.Seconds)
	}
}

// recordEviction records why the kubelet evicted the newest pod, for example because its node ran out of disk space.
// The container statuses do not show the reason.
func (j *Job) recordEviction() {
	var newest *corev1.Pod
	for i := range j.Pods {
		if p := &j.Pods[i]; newest == nil || p.CreationTimestamp.After(newest.CreationTimestamp.Time) {
			newest = p
		}
	}
	if newest != nil && newest.Status.Phase == corev1.PodFailed && newest.Status.Message != "" {
		j.PodFailure = foreignText(fmt.Sprintf("pod %s: %s: %s", newest.Name, newest.Status.Reason, newest.Status.Message))
	}
}

// recordClone records that the clone has finished, successfully or not.
func (j *Job) recordClone(c *corev1.ContainerStatus) {
	j.Cloned = j.Cloned || c.Name == agent.CloneContainerName && c.State.Terminated != nil
}

// maxPodFailure is the maximum length in bytes of a message from the kubelet or scheduler. Such a message can contain
// text from registries and servers.
const maxPodFailure = 2 * v1.MaxForeignText

// RecordPodFailure records why a pod is not running.
func (j *Job) RecordPodFailure(p *corev1.PodStatus) {
	for _, c := range slices.Concat(p.InitContainerStatuses, p.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Message != "" {
			j.PodFailure = waitsBecause(w)
		}
	}
	for _, c := range p.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			j.PodFailure = foreignText(c.Message)
		}
	}
}

// ReportOf returns the report of a terminated container. It returns nil if the container is not terminated or wrote
// no report. If the kernel killed a process because it ran out of memory, ReportOf returns this error even without a
// report.
func ReportOf(p *corev1.Pod, c *corev1.ContainerStatus) *agent.Report {
	t := c.State.Terminated
	if t == nil {
		return nil
	}
	r := &agent.Report{}
	if json.Unmarshal([]byte(t.Message), r) != nil || r.Command == "" {
		r = nil
	}
	return withoutMemory(p, c.Name, t, r)
}

// withoutMemory adds to a report that the kernel killed a process because it ran out of memory, and which setting
// must be raised. If the container wrote no report, withoutMemory creates one. An OOM kill is no evidence of the
// state of the data.
func withoutMemory(p *corev1.Pod, container string, t *corev1.ContainerStateTerminated, r *agent.Report) *agent.Report {
	switch {
	case r == nil && (t.Reason != reasonOOMKilled || t.ExitCode == 0):
		return nil
	case r == nil:
		return (&agent.Report{Command: container, ExitCode: int(t.ExitCode), Error: whyOOMKilled(p, container, t.ExitCode)}).
			Printable()
	case r.OK || t.Reason != reasonOOMKilled && !strings.Contains(r.Error, reasonOOMKilled):
		return r.Printable()
	}
	if r.ExitCode == agent.ExitBroken {
		r.ExitCode = agent.ExitFailed
	}
	r.Error = whyOOMKilled(p, container, t.ExitCode) + ". " + r.Error
	return r.Printable()
}

// readProgress returns the progress from a log, or nil. An error is ignored, because the progress is only shown to
// users.
func (l podReader) readProgress(ctx context.Context, p *corev1.Pod, container string) *agent.Progress {
	if l.logs == nil {
		return nil
	}
	r, err := l.logs.Tail(ctx, p.Namespace, p.Name, container)
	if err != nil {
		return nil
	}
	defer r.Close() //nolint:errcheck // Nothing was written.
	var last *agent.Progress
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if p, ok := agent.ParseProgress(lines.Text()); ok {
			last = &p
		}
	}
	return last
}
