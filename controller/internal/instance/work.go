package instance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Logs of pods.
type Logs interface {
	// Tail of a container's log, its last bytes.
	Tail(ctx context.Context, namespace, pod, container string) (io.ReadCloser, error)
	// OfEnded returns the last lines of a container that has ended, or of its previous run.
	OfEnded(ctx context.Context, namespace, pod, container string, previous bool) (io.ReadCloser, error)
}

// A jobGathering gathers Jobs and pods.
type jobGathering struct{ *gathering }

// readJobs of this life, with their pods.
func (g jobGathering) readJobs(ctx context.Context) error {
	place := g.JobLocation()
	var err error
	if g.Restore, err = g.readJob(ctx, g.Life.Namespace, g.Life.Jobs().Restore()); err != nil {
		return err
	}
	for name, to := range map[string]**Job{g.Attempt().Job: &g.Backup, place.WipeJob: &g.Wipe, place.PruneJob: &g.Prune} {
		if *to, err = g.readJob(ctx, place.Namespace, name); err != nil {
			return err
		}
	}
	if err := g.readAccess(ctx); err != nil {
		return err
	}
	if !g.isRelocated() {
		return g.readOvertakenJobs(ctx)
	}
	for _, namespace := range []string{g.Life.Namespace, v1.RescueNamespace} {
		if err := g.readMisplacedJobs(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

// readAccess of the backup Job to a store. Where the controller may not see it, it is not renewed.
func (g jobGathering) readAccess(ctx context.Context) error {
	if g.Backup == nil || g.Store() == "" {
		return nil
	}
	place := g.JobLocation()
	secret, err := getObject(ctx, g.Reader, metadataOf(corev1.SchemeGroupVersion.WithKind("Secret")), place.Namespace, g.Attempt().Access)
	if kerrors.IsForbidden(err) {
		return nil
	}
	if err != nil || secret == nil {
		return err
	}
	if until, err := time.Parse(time.RFC3339, secret.Annotations[v1.AnnotationAccessUntil]); err == nil && g.OwnsObject(secret) {
		g.AccessUntil = until
	}
	return nil
}

// readOvertakenJobs of a life that a deletion has ended: they write backups that nobody waits for.
func (g jobGathering) readOvertakenJobs(ctx context.Context) error {
	if !g.IsDeleting() {
		return nil
	}
	for _, name := range []string{g.Life.Jobs().ImageChange(), g.Life.Jobs().Request()} {
		j, err := g.readJob(ctx, g.Life.Namespace, name)
		if err != nil {
			return err
		}
		if j != nil {
			g.MisplacedJobs = append(g.MisplacedJobs, j.Job)
		}
	}
	return nil
}

func (g *gathering) readJob(ctx context.Context, namespace, name string) (*Job, error) {
	j, err := getObject(ctx, g.Reader, &batchv1.Job{}, namespace, name)
	if j == nil || err != nil || !g.OwnsObject(j) {
		return nil, err
	}
	log.FromContext(ctx).V(1).Info("Read a Job", "namespace", namespace, "name", name, "active", j.Status.Active, "succeeded", j.Status.Succeeded, "failed", j.Status.Failed)
	return NewJob(j), nil
}

// NewJob of one that was read. What others say in its conditions is made printable here.
func NewJob(j *batchv1.Job) *Job {
	for i := range j.Status.Conditions {
		c := &j.Status.Conditions[i]
		c.Message = foreignText(c.Message)
	}
	return &Job{Job: j}
}

// readMisplacedJobs of this life: those that are not where its Jobs are to run now.
func (g jobGathering) readMisplacedJobs(ctx context.Context, namespace string) error {
	l := &batchv1.JobList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(namespace), client.MatchingLabels{v1.LabelXR: string(g.Life.XR)}); err != nil {
		return fmt.Errorf("cannot list Jobs: %w", err)
	}
	place := g.JobLocation()
	for i := range l.Items {
		j := &l.Items[i]
		here := namespace == place.Namespace && slices.Contains([]string{g.Attempt().Job, place.WipeJob, place.PruneJob}, j.Name)
		if !here && (g.Restore == nil || j.UID != g.Restore.UID) {
			g.MisplacedJobs = append(g.MisplacedJobs, j)
		}
	}
	return nil
}

// readPods of our Jobs, and those that mount a PVC of the data.
func (g jobGathering) readPods(ctx context.Context) error {
	place := g.JobLocation()
	jobs := slices.DeleteFunc([]*Job{g.Backup, g.Wipe, g.Prune}, func(j *Job) bool { return j == nil })
	for _, namespace := range slices.Compact([]string{g.Life.Namespace, place.Namespace}) {
		l := &corev1.PodList{}
		if err := g.Reader.List(ctx, l, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("cannot list pods: %w", err)
		}
		for i := range l.Items {
			p := &l.Items[i]
			n := slices.IndexFunc(jobs, func(j *Job) bool { return metav1.IsControlledBy(p, j.Job) })
			switch {
			case n >= 0:
				jobs[n].Pods = append(jobs[n].Pods, *p)
			case namespace == g.Life.Namespace && mountsPVC(p, g.Life.DataPVCName()) && g.ownPod(p), namespace == place.Namespace && mountsPVC(p, place.Data):
				g.Pods = append(g.Pods, *p)
			}
		}
	}
	for i := range g.Pods {
		if g.PodFailure == "" {
			g.PodFailure = g.looker().whyNodeIsSilent(ctx, &g.Pods[i])
		}
	}
	for _, j := range jobs {
		j.PodFailure = g.looker().whyNoPod(ctx, j)
		g.readPodReports(ctx, j)
	}
	return nil
}

// ownPod is true if a pod that mounts the usual PVC mounts this life's data. A
// life that lost its XR may have left that name to a later one.
func (g jobGathering) ownPod(p *corev1.Pod) bool {
	return g.Orphan == nil || g.OriginalPVC != nil && g.OriginalPVC.Name == g.Life.DataPVCName() || p.Labels[v1.LabelXR] == string(g.Life.XR)
}

// mountsPVC is true if a pod mounts a PVC, and so may write to its volume.
func mountsPVC(p *corev1.Pod, pvcName string) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == pvcName
	})
}

// readPodReports of a Job.
func (g jobGathering) readPodReports(ctx context.Context, j *Job) {
	j.noteEnd(g.Now)
	j.noteEviction()
	for i := range j.Pods {
		p := &j.Pods[i]
		if why := g.looker().whyPodWaits(ctx, g.State, p); why != "" {
			j.PodFailure = why
		}
		for _, c := range p.Status.InitContainerStatuses {
			// What comes first is no end, unless it fails.
			if r := ReportOf(p, &c); r != nil && !r.OK && j.Report == nil {
				j.Report = r
			}
			j.noteClone(&c)
			if c.State.Running != nil && c.Name == agent.CloneContainerName {
				j.Progress = g.readProgress(ctx, p, c.Name)
			}
		}
		for k := range p.Status.ContainerStatuses {
			c := &p.Status.ContainerStatuses[k]
			// A success is preferred to what another pod says.
			if r := ReportOf(p, c); r != nil && (j.Report == nil || r.OK) {
				j.Report = r
			}
			if c.State.Running != nil {
				j.Progress = g.readProgress(ctx, p, c.Name)
			}
		}
	}
	if r := j.Report; r != nil {
		log.FromContext(ctx).V(1).Info("Read the report of a Job", "namespace", j.Namespace, "name", j.Name, "command", r.Command, "exitCode", r.ExitCode, "seconds", r.Seconds)
	}
}

// noteEviction says why the kubelet ended the newest pod, such as for a node that ran out of disk. Its containers do not know.
func (j *Job) noteEviction() {
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

// noteClone that has ended, whatever came of it.
func (j *Job) noteClone(c *corev1.ContainerStatus) {
	j.Cloned = j.Cloned || c.Name == agent.CloneContainerName && c.State.Terminated != nil
}

// maxPodFailure in bytes of what a kubelet or scheduler says, which repeats what
// registries and servers say.
const maxPodFailure = 2 * v1.MaxForeignText

// NotePodFailure says what keeps a pod from running.
func (j *Job) NotePodFailure(p *corev1.PodStatus) {
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

// ReportOf a container that ended; nil if it has not, or did not get so far as to
// write one. If the kernel killed a process in it for memory the error says so, also without a report.
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

// withoutMemory adds to a report that the kernel killed a process for memory, and which setting to raise. A container that was killed
// before it wrote a report gets one. That a server was killed says nothing about the data that it ran on.
func withoutMemory(p *corev1.Pod, container string, t *corev1.ContainerStateTerminated, r *agent.Report) *agent.Report {
	switch {
	case r == nil && (t.Reason != reasonOOMKilled || t.ExitCode == 0):
		return nil
	case r == nil:
		return (&agent.Report{Command: container, ExitCode: int(t.ExitCode), Error: whyOOMKilled(p, container, t.ExitCode)}).Printable()
	case r.OK || t.Reason != reasonOOMKilled && !strings.Contains(r.Error, reasonOOMKilled):
		return r.Printable()
	}
	if r.ExitCode == agent.ExitBroken {
		r.ExitCode = agent.ExitFailed
	}
	r.Error = whyOOMKilled(p, container, t.ExitCode) + ". " + r.Error
	return r.Printable()
}

// readProgress as the log shows it, or nil. It is for people; an error is no reason
// to stop.
func (g *Gatherer) readProgress(ctx context.Context, p *corev1.Pod, container string) *agent.Progress {
	if g.Logs == nil {
		return nil
	}
	r, err := g.Logs.Tail(ctx, p.Namespace, p.Name, container)
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

// restKinds are those of the objects that an instance consists of and that may be listed, besides its
// volumes and Jobs.
func restKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
	}
}

// readLeftovers of what was made for this life.
func (g *gathering) readLeftovers(ctx context.Context) error {
	for _, kind := range restKinds() {
		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := g.Reader.List(ctx, l, client.InNamespace(g.Life.Namespace), client.MatchingLabels{v1.LabelXR: string(g.Life.XR)}); err != nil {
			return fmt.Errorf("cannot list what was made for the instance: %w", err)
		}
		for i := range l.Items {
			l.Items[i].SetGroupVersionKind(kind)
			g.Leftovers = append(g.Leftovers, &l.Items[i])
		}
	}
	home, place := g.Life.Namespace, g.JobLocation()
	return errors.Join(
		g.readNamed(ctx, "ConfigMap", home, g.Life.ConfigMapName()),
		g.readNamed(ctx, "Secret", place.Namespace, g.Attempt().Access),
		g.readNamed(ctx, "Secret", home, g.Life.RootSecretName(), g.Life.ConnectionSecretName(), g.Life.PendingSecretName(), g.Life.GeneratedSecretName(), g.Life.TLSSecretName(), g.Life.Accesses().Restore(), g.Life.Accesses().Clone()),
		g.readAuthorities(ctx),
	)
}

// readCloneAccess of a backup for which the server goes on.
func (g *gathering) readCloneAccess(ctx context.Context) error {
	if !g.HasCloneAccount() {
		return nil
	}
	s, err := getObject(ctx, g.Reader, metadataOf(corev1.SchemeGroupVersion.WithKind("Secret")), g.Life.Namespace, g.Life.Accesses().Clone())
	if kerrors.IsForbidden(err) {
		return nil // Who may not see it cannot have made it.
	}
	if s != nil && g.OwnsObject(s) {
		g.CloneAccess = s
	}
	return err
}

// readAuthorities of the server: the first, the one after it, and those of an issuer.
func (g *gathering) readAuthorities(ctx context.Context) error {
	if own := g.Gatherer.Settings.Namespace; own != "" {
		return g.readNamed(ctx, "Secret", own, g.Life.AuthorityName(1), g.Life.AuthorityName(2), g.Life.IssuerCAName(1), g.Life.IssuerCAName(2))
	}
	return nil
}

// readNamed leftovers: to list them would take the right to read all. Those of a namespace that
// does not let the controller in, or not any more because it goes, go with the XR that owns them.
func (g *gathering) readNamed(ctx context.Context, kind, namespace string, names ...string) error {
	for _, name := range names {
		o, err := getObject(ctx, g.Reader, metadataOf(corev1.SchemeGroupVersion.WithKind(kind)), namespace, name)
		if kerrors.IsForbidden(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if o != nil && g.OwnsObject(o) {
			g.Leftovers = append(g.Leftovers, o)
		}
	}
	return nil
}
