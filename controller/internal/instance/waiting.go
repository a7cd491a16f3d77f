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

// waitTimeout is how long Kubernetes may take to make a Job's pod, to start the containers
// of a pod, or to end one after its grace period, before anybody asks why.
const waitTimeout = 10 * time.Second

// A looker finds out why something waits. What cannot be read is not said: it is for people,
// and nothing is decided by it.
type looker struct {
	client.Reader

	now  time.Time
	logs Logs
}

func (g *gathering) looker() looker { return looker{g.Reader, g.Now, g.Logs} }

// whyPodWaits says why a pod of an instance does not run, or does not end: in its own status or,
// where that says nothing, elsewhere.
func (l looker) whyPodWaits(ctx context.Context, s *State, p *corev1.Pod) string {
	if why := l.whyNodeIsSilent(ctx, p); why != "" {
		return why
	}
	if why := podFailureOf(p); why != "" {
		return why + volumeInDoubt(s, p) + whereBackupsAre(s, p) + l.whyPVCWaits(ctx, s, p) + l.whyScratchWaits(ctx, p)
	}
	if why := l.crashOf(ctx, p); why != "" {
		return why
	}
	if why := l.whyNotStarted(ctx, p); why != "" {
		return fmt.Sprintf("pod %s on node %s: %s", p.Name, p.Spec.NodeName, why)
	}
	return ""
}

// whyNotStarted says what keeps a pod that has a node from starting.
func (l looker) whyNotStarted(ctx context.Context, p *corev1.Pod) string {
	if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || HasEnded(p) || hasStarted(p) || l.now.Before(p.CreationTimestamp.Add(waitTimeout)) {
		return ""
	}
	return l.lastWarning(ctx, p)
}

// whyNoPod says that a Job has had time to get a pod and has none: somebody may
// refuse it, and only an event of the Job says who. Empty where that is not so.
func (l looker) whyNoPod(ctx context.Context, j *Job) string {
	if at, _ := j.Finished(); at != nil || len(j.Pods) > 0 || l.now.Before(j.CreationTimestamp.Add(waitTimeout)) {
		return ""
	}
	if why := l.lastWarning(ctx, j.Job); why != "" {
		return fmt.Sprintf("Job %s has no pod: %s", j.Name, why)
	}
	return fmt.Sprintf("Job %s has no pod: a quota or a policy may refuse it; kubectl describe job --namespace %s %s says why", j.Name, j.Namespace, j.Name)
}

// whyPVCWaits says why a volume is not there that a pod without a node waits for.
func (l looker) whyPVCWaits(ctx context.Context, s *State, p *corev1.Pod) string {
	for _, c := range []*corev1.PersistentVolumeClaim{s.DataPVC, s.BackupPVC} {
		if c == nil || c.Status.Phase != corev1.ClaimPending || !mountsPVC(p, c.Name) {
			continue
		}
		if why := l.whyPending(ctx, c); why != "" {
			return why
		}
	}
	return ""
}

// whyPending is the last warning of a PVC that has no volume.
func (l looker) whyPending(ctx context.Context, c *corev1.PersistentVolumeClaim) string {
	if why := l.lastWarning(ctx, c); why != "" {
		return fmt.Sprintf(". PersistentVolumeClaim %s: %s", c.Name, why)
	}
	return ""
}

// whyScratchWaits says why a volume is not there that is to go with a pod without a node: a quota may refuse it, or its class may be
// full. Kubernetes makes its PVC under the name of both (pkg/controller/volume/ephemeral/controller.go).
func (l looker) whyScratchWaits(ctx context.Context, p *corev1.Pod) string {
	for _, v := range p.Spec.Volumes {
		if v.Ephemeral == nil || p.Spec.NodeName != "" {
			continue
		}
		c, err := getObject(ctx, l.Reader, &corev1.PersistentVolumeClaim{}, p.Namespace, p.Name+"-"+v.Name)
		switch {
		case err != nil:
		case c == nil:
			if why := l.lastWarning(ctx, p, failedBinding); why != "" {
				return ". " + why
			}
		case c.Status.Phase == corev1.ClaimPending:
			if why := l.whyPending(ctx, c); why != "" {
				return why
			}
		}
	}
	return ""
}

// failedBinding is the reason of an event about a volume that cannot be made for a pod.
const failedBinding = "FailedBinding"

// whyNodeIsSilent says that nobody hears of the node any more on which a pod should be
// ready, or should have ended.
func (l looker) whyNodeIsSilent(ctx context.Context, p *corev1.Pod) string {
	since := p.CreationTimestamp
	if p.DeletionTimestamp != nil {
		since = *p.DeletionTimestamp // That is when its grace period ends.
	}
	if p.Spec.NodeName == "" || p.DeletionTimestamp == nil && isReady(p) || HasEnded(p) || l.now.Before(since.Add(waitTimeout)) {
		return ""
	}
	node, err := getObject(ctx, l.Reader, &corev1.Node{}, "", p.Spec.NodeName)
	if err != nil {
		return ""
	}
	if node == nil {
		return fmt.Sprintf("pod %s is on node %s, which is gone", p.Name, p.Spec.NodeName)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Sprintf("pod %s is on node %s, which is not ready (%s): bring the node back or, if it is off for good, kubectl taint node %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
				p.Name, p.Spec.NodeName, foreignText(c.Message), p.Spec.NodeName)
		}
	}
	return ""
}

// isReady is true while a pod takes clients.
func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// HasEnded is true once no container of a pod runs or will.
func HasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// hasStarted is true while the volumes of a pod are mounted: its sandbox is there or, where the kubelet
// does not say that, a container has run. After a node's restart they are mounted anew.
func hasStarted(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers {
			return c.Status == corev1.ConditionTrue
		}
	}
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	})
}

// maxEvents of an object that are read.
const maxEvents = 50

// lastWarning of an object in the words of Kubernetes: of a volume that is not mounted, and of
// a pod that is refused, only events say why. Empty where the last event is not a warning: it
// has got over that. With reasons, others do not count.
func (l looker) lastWarning(ctx context.Context, o client.Object, reasons ...string) string {
	last := l.lastEvent(ctx, o, func(e *corev1.Event) bool { return len(reasons) == 0 || slices.Contains(reasons, e.Reason) })
	if last == nil || last.Type != corev1.EventTypeWarning {
		return ""
	}
	return foreignText(last.Reason + ": " + generatedName.ReplaceAllString(last.Message, `pods "$1"`))
}

// reasonCompose is the reason of Crossplane's events of a composite resource whose resources it applies. It sends warnings and others with it.
const reasonCompose = "ComposeResources"

// whyUncomposed returns Crossplane's last warning of a resource that it could not apply.
func (l looker) whyUncomposed(ctx context.Context, xr client.Object) string {
	last := l.lastEvent(ctx, xr, func(e *corev1.Event) bool { return e.Reason == reasonCompose && e.Type == corev1.EventTypeWarning })
	if last == nil {
		return ""
	}
	return foreignText(last.Message)
}

// lastEvent of an object among those that count, or nil.
func (l looker) lastEvent(ctx context.Context, o client.Object, counts func(*corev1.Event) bool) *corev1.Event {
	events := &corev1.EventList{}
	of := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("involvedObject.uid", string(o.GetUID()))}
	if err := l.List(ctx, events, client.InNamespace(o.GetNamespace()), of, client.Limit(maxEvents)); err != nil {
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

// generatedName of a pod that was refused: it is another one at each try.
var generatedName = regexp.MustCompile(`pods "([^"]+)-[a-z0-9]{5}"`)

// stillUnmounted is how the kubelet says, now and then, that what it says otherwise still holds
// (kubernetes, pkg/kubelet/volumemanager/volume_manager.go).
const stillUnmounted = "Unable to attach or mount volumes: "

// isPassing is true of an event between two tries that says nothing of how they end.
func isPassing(e *corev1.Event) bool {
	return strings.HasPrefix(e.Message, stillUnmounted) || e.Reason == "Provisioning" || e.Reason == "ExternalProvisioning"
}

// eventTime is when an event was last seen. Each of the two APIs of events has a field of its
// own for that.
func eventTime(e *corev1.Event) time.Time {
	at := e.CreationTimestamp.Time
	for _, other := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time} {
		if other.After(at) {
			at = other
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}

// noteEnd of the product's own container, which has the name of what the Job is for, before the Job says that it is over: where it has ended
// well, and where it has for a while, in the only pod of the Job that goes on.
func (j *Job) noteEnd(now time.Time) {
	going := slices.DeleteFunc(slices.Clone(j.Pods), func(p corev1.Pod) bool { return HasEnded(&p) })
	if at, _ := j.Finished(); at != nil || len(going) > 1 {
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

// ownEnd of the product's own container in a pod, or nil, and whether others go on.
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
