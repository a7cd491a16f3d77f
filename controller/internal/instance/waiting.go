package instance

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// waitTimeout is the time in which Kubernetes usually creates a Job's pod, starts a pod's containers, or terminates a
// pod after its grace period. After that, the controller searches for the reason for the delay.
const waitTimeout = 10 * time.Second

// A podReader determines why an object waits. It ignores read errors, because the result is only shown to users and no
// decision depends on it.
type podReader struct {
	client.Reader

	now  time.Time
	logs Logs
}

// whyPodWaits returns why a pod of an instance does not run or does not terminate. The reason comes from the pod's
// status or from related objects.
func (l podReader) whyPodWaits(ctx context.Context, basis *Basis, backupPVC *corev1.PersistentVolumeClaim,
	p *corev1.Pod) string {
	if why := l.whyNodeIsSilent(ctx, p); why != "" {
		return why
	}
	if why := podFailureOf(p); why != "" {
		return why + volumeInDoubt(basis.DataPV, p) + whereBackupsAre(basis.XR, p) + l.whyPVCWaits(ctx, p, basis.DataPVC,
			backupPVC) + l.whyScratchWaits(ctx, p)
	}
	if reason := l.crashOf(ctx, p); reason != "" {
		return reason
	}
	if reason := l.whyNotStarted(ctx, p); reason != "" {
		return fmt.Sprintf("pod %s on node %s: %s", p.Name, p.Spec.NodeName, reason)
	}
	return ""
}

// whyNotStarted returns why a scheduled pod does not start.
func (l podReader) whyNotStarted(ctx context.Context, p *corev1.Pod) string {
	if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || HasEnded(p) || hasStarted(p) ||
		l.now.Before(p.CreationTimestamp.Add(waitTimeout)) {
		return ""
	}
	return l.lastWarning(ctx, p)
}

// whyNoPod reports that a Job should have a pod but has none. A quota or a policy may refuse the pod, and only an
// event of the Job contains the reason. It returns "" if the Job has a pod or needs none yet.
func (l podReader) whyNoPod(ctx context.Context, j *Job) string {
	if finished, _ := j.Finished(); finished != nil || len(j.Pods) > 0 ||
		l.now.Before(j.CreationTimestamp.Add(waitTimeout)) {
		return ""
	}
	if reason := l.lastWarning(ctx, j.Job); reason != "" {
		return fmt.Sprintf("Job %s has no pod: %s", j.Name, reason)
	}
	return fmt.Sprintf("Job %s has no pod. A quota or a policy may refuse it. For the reason: kubectl describe job "+
		"--namespace %s %s", j.Name, j.Namespace, j.Name)
}

// whyPVCWaits returns why a pod's volume is not provisioned while the pod cannot be scheduled.
func (l podReader) whyPVCWaits(ctx context.Context, p *corev1.Pod, pvcs ...*corev1.PersistentVolumeClaim) string {
	for _, c := range pvcs {
		if c == nil || c.Status.Phase != corev1.ClaimPending || !mountsPVC(p, c.Name) {
			continue
		}
		if reason := l.whyPending(ctx, c); reason != "" {
			return reason
		}
	}
	return ""
}

// whyBackupPVCWaits reports that the backup volume of a new instance is not provisioned in time.
func (l podReader) whyBackupPVCWaits(ctx context.Context, volumes *BackupVolumes) string {
	c := volumes.BackupPVC
	if !volumes.BackupPVCAwaited || !l.now.After(c.CreationTimestamp.Add(waitTimeout)) {
		return ""
	}
	late := fmt.Sprintf("PersistentVolumeClaim %s for the backups has no volume yet", c.Name)
	if why := l.lastWarning(ctx, c); why != "" {
		return late + ": " + why
	}
	return late
}

// whyPending returns the last warning about an unbound PVC.
func (l podReader) whyPending(ctx context.Context, c *corev1.PersistentVolumeClaim) string {
	if reason := l.lastWarning(ctx, c); reason != "" {
		return fmt.Sprintf(". PersistentVolumeClaim %s: %s", c.Name, reason)
	}
	return ""
}

// whyScratchWaits returns why an ephemeral volume of an unscheduled pod is not provisioned. A quota may refuse its
// PVC, or its StorageClass may have no capacity. Kubernetes names the PVC after the pod and the volume
// (pkg/controller/volume/ephemeral/controller.go).
func (l podReader) whyScratchWaits(ctx context.Context, p *corev1.Pod) string {
	for _, v := range p.Spec.Volumes {
		if v.Ephemeral == nil || p.Spec.NodeName != "" {
			continue
		}
		c, err := getObject(ctx, l.Reader, &corev1.PersistentVolumeClaim{}, p.Namespace, p.Name+"-"+v.Name)
		switch {
		case err != nil:
		case c == nil:
			if reason := l.lastWarning(ctx, p, failedBinding); reason != "" {
				return ". " + reason
			}
		case c.Status.Phase == corev1.ClaimPending:
			if reason := l.whyPending(ctx, c); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// failedBinding is the reason of an event that reports that a pod's volume cannot be provisioned.
const failedBinding = "FailedBinding"

// whyNodeIsSilent returns a message if a pod should be ready or should have terminated, but its node is not ready or
// does not exist.
func (l podReader) whyNodeIsSilent(ctx context.Context, p *corev1.Pod) string {
	since := p.CreationTimestamp
	if p.DeletionTimestamp != nil {
		since = *p.DeletionTimestamp // The grace period of the pod ends at this time.
	}
	if p.Spec.NodeName == "" || p.DeletionTimestamp == nil && isReady(p) || HasEnded(p) ||
		l.now.Before(since.Add(waitTimeout)) {
		return ""
	}
	node, err := getObject(ctx, l.Reader, &corev1.Node{}, "", p.Spec.NodeName)
	if err != nil {
		return ""
	}
	if node == nil {
		return fmt.Sprintf("pod %s is on node %s, which no longer exists", p.Name, p.Spec.NodeName)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Sprintf("pod %s is on node %s, which is not ready (%s). Repair the node. If it is shut down "+
				"permanently: kubectl taint node %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
				p.Name, p.Spec.NodeName, foreignText(c.Message), p.Spec.NodeName)
		}
	}
	return ""
}

// isReady reports whether a pod accepts clients.
func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// HasEnded reports whether a pod has terminated, so that none of its containers will run again.
func HasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// hasStarted reports whether the sandbox of a pod exists and its volumes are mounted. This is the condition
// PodReadyToStartContainers, or the fact that a container has run if the kubelet does not report the condition. After
// a restart of the node, the condition is false until the volumes are mounted again.
func hasStarted(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers {
			return c.Status == corev1.ConditionTrue
		}
	}
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses),
		func(c corev1.ContainerStatus) bool {
			return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
		})
}

// maxEvents is the maximum number of events that are read for an object.
const maxEvents = 50

// lastWarning returns the last warning event of an object. If a volume cannot be mounted or a pod is refused, only
// events contain the reason. It returns "" if the last event is a normal one, which means that the problem is solved.
// If reasons are given, it ignores events with other reasons.
func (l podReader) lastWarning(ctx context.Context, o client.Object, reasons ...string) string {
	last := l.lastEvent(ctx, o, func(e *corev1.Event) bool {
		return len(reasons) == 0 || slices.Contains(reasons, e.Reason)
	})
	if last == nil || last.Type != corev1.EventTypeWarning {
		return ""
	}
	return foreignText(last.Reason + ": " + generatedName.ReplaceAllString(last.Message, `pods "$1"`))
}

// reasonCompose is the reason of the events that Crossplane emits when it applies the objects of a composite
// resource. Crossplane uses it for warnings and for normal events.
const reasonCompose = "ComposeResources"

// whyUncomposed returns Crossplane's last warning about an object that it could not apply.
func (l podReader) whyUncomposed(ctx context.Context, xr client.Object) string {
	last := l.lastEvent(ctx, xr, func(e *corev1.Event) bool {
		return e.Reason == reasonCompose && e.Type == corev1.EventTypeWarning
	})
	if last == nil {
		return ""
	}
	return foreignText(last.Message)
}

// lastEvent returns the last event of an object that satisfies the condition, or nil.
func (l podReader) lastEvent(ctx context.Context, o client.Object, counts func(*corev1.Event) bool) *corev1.Event {
	events := &corev1.EventList{}
	selector := client.MatchingFieldsSelector{
		Selector: fields.OneTermEqualSelector("involvedObject.uid", string(o.GetUID()))}
	if err := l.List(ctx, events, client.InNamespace(o.GetNamespace()), selector, client.Limit(maxEvents)); err != nil {
		return nil
	}
	var last *corev1.Event
	for i := range events.Items {
		if e := &events.Items[i]; counts(e) && !isPassing(e) && (last == nil || eventTime(e).After(eventTime(last))) {
			last = e
		}
	}
	return last
}

// generatedName matches the name of a refused pod, which is different for each attempt.
var generatedName = regexp.MustCompile(`pods "([^"]+)-[a-z0-9]{5}"`)

// stillUnmounted is the beginning of an event in which the kubelet occasionally repeats an earlier problem
// (kubernetes, pkg/kubelet/volumemanager/volume_manager.go).
const stillUnmounted = "Unable to attach or mount volumes: "

// isPassing reports whether an event is emitted between two attempts and does not show their result.
func isPassing(e *corev1.Event) bool {
	return strings.HasPrefix(e.Message, stillUnmounted) || e.Reason == "Provisioning" || e.Reason == "ExternalProvisioning"
}

// eventTime returns when an event was last seen. The two event APIs use different fields for this time.
func eventTime(e *corev1.Event) time.Time {
	timestamp := e.CreationTimestamp.Time
	for _, other := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time} {
		if other.After(timestamp) {
			timestamp = other
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(timestamp) {
		timestamp = e.Series.LastObservedTime.Time
	}
	return timestamp
}

// recordEnd records how the product's own container terminated, before the status of the Job shows it. The container
// has the name of the Job's component. A success is recorded immediately. If an injected container keeps the Job's
// only pod running, the result is recorded after waitTimeout.
func (j *Job) recordEnd(now time.Time) {
	going := slices.DeleteFunc(slices.Clone(j.Pods), func(p corev1.Pod) bool { return HasEnded(&p) })
	if finished, _ := j.Finished(); finished != nil || len(going) > 1 {
		return
	}
	if len(going) == 0 {
		n := slices.IndexFunc(j.Pods, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
		if n >= 0 {
			j.Succeeded, _ = j.ownEnd(&j.Pods[n])
		}
		return
	}
	end, others := j.ownEnd(&going[0])
	switch {
	case end == nil:
	case others && now.After(end.FinishedAt.Add(waitTimeout)):
		j.Outlived, j.Going = end, &going[0]
	case end.ExitCode == 0:
		j.Succeeded = end
	}
}

// ownEnd returns how the product's own container in a pod terminated, or nil. It also reports whether other
// containers are running.
func (j *Job) ownEnd(p *corev1.Pod) (end *corev1.ContainerStateTerminated, others bool) {
	for _, c := range p.Status.ContainerStatuses {
		switch t := c.State.Terminated; {
		case c.Name == j.Spec.Template.Labels[v1.LabelComponent]:
			end = t
		case t == nil:
			others = true
		}
	}
	return end, others
}
