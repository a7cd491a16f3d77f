package adopt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/nsrules"
)

const (
	// look is how often the Job is looked at.
	look = time.Second
	// logTries of its pod's log.
	logTries = 10
	// cleanup is how long its deletion may take, also after Ctrl-C.
	cleanup = 30 * time.Second
	// maxLine in bytes of the Job's log.
	maxLine = 128 << 10
)

// An Adoption of what lies on the volume of a PersistentVolumeClaim.
type Adoption struct {
	Kube client.Client
	// Log of a container, from its beginning.
	Log func(ctx context.Context, namespace, pod, container string) (io.ReadCloser, error)
	// Of is the instance whose backups are looked for, without an XR.
	Of v1.Instance
	// AgentImage is what the Job runs.
	AgentImage string
	// Resources of it; nil is the usual.
	Resources *corev1.ResourceRequirements
	// DryRun looks, and writes nothing.
	DryRun bool
	// Output takes what is found, and Progress what is waited for.
	Output, Progress io.Writer
}

// A place is where the backups are.
type place struct {
	pvc       *corev1.PersistentVolumeClaim
	pv        *corev1.PersistentVolume
	namespace *corev1.Namespace
}

// Run it. What is found is returned also where nothing of it is to be adopted.
func (a *Adoption) Run(ctx context.Context) ([]Finding, error) {
	p, err := a.findPlace(ctx)
	if err != nil {
		return nil, err
	}
	found, err := a.survey(ctx, p)
	if err != nil {
		return nil, err
	}
	records, err := instance.Records(ctx, a.Kube, a.Of)
	if err != nil {
		return nil, err
	}
	living, err := a.living(ctx)
	if err != nil {
		return nil, err
	}
	findings := judge(found, a.Of, records, living)
	if err := a.print(findings); err != nil {
		return nil, err
	}
	adopted := backups(findings, instance.NotesOf([]corev1.PersistentVolume{*p.pv}, a.Of), p.pvc)
	if a.DryRun || len(adopted) == 0 {
		return findings, nil
	}
	w := change.Writer{Client: a.Kube}
	if err := w.Apply(ctx, catalog.AdoptBackups(p.pvc, p.pv, a.Of, p.namespace.UID, adopted)); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(a.Output, "\nPersistentVolume %s knows them now, and the controller makes their records: kubectl get mysqlbackups\n", p.pv.Name)
	return findings, err
}

// findPlace of the backups. A PVC may name any volume, and only one that names the PVC, too, is
// its own.
func (a *Adoption) findPlace(ctx context.Context) (*place, error) {
	p := &place{pvc: &corev1.PersistentVolumeClaim{}, pv: &corev1.PersistentVolume{}, namespace: &corev1.Namespace{}}
	name := client.ObjectKey{Namespace: a.Of.Namespace, Name: a.Of.BackupPVCName()}
	if err := a.Kube.Get(ctx, name, p.pvc); err != nil {
		return nil, fmt.Errorf("cannot get PersistentVolumeClaim %s, by which the backups of %s %s are reached: %w", name, a.Of.Kind, a.Of.Name, err)
	}
	if p.pvc.Status.Phase != corev1.ClaimBound || p.pvc.DeletionTimestamp != nil {
		return nil, fmt.Errorf("PersistentVolumeClaim %s is not bound to a volume (%s)", name, p.pvc.Status.Phase)
	}
	if err := a.Kube.Get(ctx, client.ObjectKey{Name: p.pvc.Spec.VolumeName}, p.pv); err != nil {
		return nil, fmt.Errorf("cannot get PersistentVolume %s: %w", p.pvc.Spec.VolumeName, err)
	}
	if !instance.Bound(p.pv, p.pvc) {
		return nil, fmt.Errorf("PersistentVolume %s is not bound to PersistentVolumeClaim %s, which names it", p.pv.Name, name)
	}
	if l := p.pv.Labels[v1.LabelInstance]; l != "" && l != a.Of.Key() {
		return nil, fmt.Errorf("PersistentVolume %s says that it is of another instance (label %s)", p.pv.Name, v1.LabelInstance)
	}
	if err := a.Kube.Get(ctx, client.ObjectKey{Name: a.Of.Namespace}, p.namespace); err != nil {
		return nil, fmt.Errorf("cannot get namespace %s: %w", a.Of.Namespace, err)
	}
	return p, nil
}

// living are the lives that have not ended, each with what shows it: its XR, or a volume that holds its data.
func (a *Adoption) living(ctx context.Context) (map[types.UID]string, error) {
	out := map[types.UID]string{}
	for _, kind := range instance.Kinds() {
		xrs, err := instance.AllXRs(ctx, a.Kube, kind)
		if err != nil && !meta.IsNoMatchError(err) { // It need not be installed.
			return nil, fmt.Errorf("cannot list %s: %w", kind.XR.Kind, err)
		}
		for i := range xrs {
			out[xrs[i].UID] = kind.XR.Kind + " " + xrs[i].Name
		}
	}
	volumes := &corev1.PersistentVolumeList{}
	if err := a.Kube.List(ctx, volumes); err != nil {
		return nil, fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	for i := range volumes.Items {
		if v := &volumes.Items[i]; instance.HoldsData(v) && out[instance.XROf(v)] == "" {
			out[instance.XROf(v)] = "PersistentVolume " + v.Name + " with its data"
		}
	}
	return out, nil
}

// surveyJob reads the volume, and cannot write to it.
func (a *Adoption) surveyJob(p *place) *batchv1.Job {
	volume := agent.PVCVolume("backup", p.pvc.Name)
	volume.PersistentVolumeClaim.ReadOnly = true
	j := agent.VolumeJob{
		Of: a.Of, Namespace: a.Of.Namespace, Component: v1.ComponentSurvey, Image: a.AgentImage, Resources: a.Resources,
		OnNode: p.pv.Spec.HostPath != nil, Command: agent.Survey("/" + volume.Name), Volumes: []corev1.Volume{volume},
	}.Job()
	j.GenerateName = v1.ComponentSurvey + "-"
	j.Spec.TTLSecondsAfterFinished = new(int32(600)) // Should nobody live to delete it.
	return j
}

// survey of the volume, by a Job that is gone afterwards.
func (a *Adoption) survey(ctx context.Context, p *place) (found []agent.Found, err error) {
	j := a.surveyJob(p)
	rules, err := nsrules.Read(ctx, a.Kube, j.Namespace)
	if err != nil {
		return nil, err
	}
	rules.Fit(&j.Spec.Template.Spec)
	if err := a.Kube.Create(ctx, j); err != nil {
		return nil, fmt.Errorf("cannot create a Job: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
		defer cancel()
		if derr := client.IgnoreNotFound(a.Kube.Delete(ctx, j, client.PropagationPolicy(metav1.DeletePropagationBackground))); derr != nil {
			err = errors.Join(err, fmt.Errorf("cannot delete Job %s/%s: %w", j.Namespace, j.Name, derr))
		}
	}()
	pod, err := a.waitForEnd(ctx, j)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ { // The Job may have read for hours.
		found, err := a.readLog(ctx, pod)
		if err == nil || try == logTries || ctx.Err() != nil || !instance.IsPassing(err) {
			return found, err
		}
		fmt.Fprintln(a.Progress, err) //nolint:errcheck // A lost line is no reason to fail.
		select {
		case <-ctx.Done():
		case <-time.After(look):
		}
	}
}

// readLog of the pod that has ended.
func (a *Adoption) readLog(ctx context.Context, pod *corev1.Pod) ([]agent.Found, error) {
	log, err := a.Log(ctx, pod.Namespace, pod.Name, v1.ComponentSurvey)
	if err != nil {
		return nil, fmt.Errorf("cannot read the log of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	defer log.Close() //nolint:errcheck // Nothing was written.
	return readFound(log)
}

// readFound of a log.
func readFound(log io.Reader) ([]agent.Found, error) {
	var out []agent.Found
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if f, ok := agent.ParseFound(lines.Text()); ok {
			out = append(out, f)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot read what the Job has found: %w", err)
	}
	return out, nil
}

// waitForEnd of the Job, which reads all there is, and return its pod.
func (a *Adoption) waitForEnd(ctx context.Context, j *batchv1.Job) (*corev1.Pod, error) {
	said := ""
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		pod, waits, err := a.lookAt(ctx, j)
		if err != nil || pod != nil {
			return pod, err
		}
		if waits != said && waits != "" {
			fmt.Fprintf(a.Progress, "%s\n", waits) //nolint:errcheck // A lost line is no reason to fail.
		}
		said = waits
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// lookAt the Job: its pod where that has ended well, and else what there is to say.
func (a *Adoption) lookAt(ctx context.Context, j *batchv1.Job) (ended *corev1.Pod, waits string, err error) {
	l := &corev1.PodList{}
	if err = a.Kube.Get(ctx, client.ObjectKeyFromObject(j), j); err != nil {
		err = fmt.Errorf("cannot get Job %s/%s: %w", j.Namespace, j.Name, err)
	} else if err = a.Kube.List(ctx, l, client.InNamespace(j.Namespace), client.MatchingLabels{batchv1.JobNameLabel: j.Name}); err != nil {
		err = fmt.Errorf("cannot list pods: %w", err)
	}
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case err != nil && instance.IsPassing(err): // The Job goes on.
		return nil, err.Error(), nil
	case err != nil:
		return nil, "", err
	}
	job := instance.NewJob(j)
	n := slices.IndexFunc(l.Items, func(p corev1.Pod) bool { return metav1.IsControlledBy(&p, j) })
	if n < 0 {
		if at, _ := job.Finished(); at != nil {
			return nil, "", fmt.Errorf("the pod of Job %s/%s is gone: try again", j.Namespace, j.Name)
		}
		return nil, fmt.Sprintf("waiting for a pod of Job %s/%s; where there comes none, a quota or a policy may refuse it: kubectl describe job --namespace %s %s", j.Namespace, j.Name, j.Namespace, j.Name), nil
	}
	pod := &l.Items[n]
	job.NotePodFailure(&pod.Status)
	for i := range pod.Status.ContainerStatuses {
		r := instance.ReportOf(pod, &pod.Status.ContainerStatuses[i])
		switch {
		case r == nil || r.Command != v1.ComponentSurvey:
		case r.OK:
			return pod, "", nil
		default:
			return nil, "", errors.New(r.Error)
		}
	}
	switch {
	case pod.Status.Phase == corev1.PodFailed:
		return nil, "", fmt.Errorf("pod %s/%s has failed: kubectl logs -n %s %s", pod.Namespace, pod.Name, pod.Namespace, pod.Name)
	case job.PodFailure != "":
		return nil, "waiting: " + job.PodFailure, nil
	case pod.Status.Phase == corev1.PodRunning:
		return nil, "reading all archives of the volume", nil
	}
	return nil, fmt.Sprintf("waiting for pod %s/%s to start", pod.Namespace, pod.Name), nil
}

// print the findings as a table.
func (a *Adoption) print(findings []Finding) error {
	if len(findings) == 0 {
		_, err := fmt.Fprintln(a.Output, "There is nothing on the volume.")
		return err
	}
	w := tabwriter.NewWriter(a.Output, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "FOLDER\tTAKEN\tVERSION\tSIZE\tWHAT") //nolint:errcheck // Flush tells.
	for i := range findings {
		f := &findings[i]
		size := ""
		if f.Spec.Archive != nil {
			size = f.Spec.Archive.Size
		}
		taken := ""
		if !f.FinishedAt.IsZero() {
			taken = f.FinishedAt.UTC().Format(time.DateTime)
		}
		cells := []string{v1.PrintableText(f.Folder, v1.MaxForeignText), taken, v1.PrintableText(f.Spec.Version, v1.MaxForeignText), size, a.whatBecomes(f)}
		fmt.Fprintln(w, strings.Join(cells, "\t")) //nolint:errcheck // Flush tells.
	}
	return w.Flush()
}

// whatBecomes of a finding, in words.
func (a *Adoption) whatBecomes(f *Finding) string {
	switch f.Verdict {
	case Known:
		return "has its record"
	case Refused:
		return "refused: " + f.Why
	case Adopt:
	}
	if a.DryRun {
		return "would be adopted"
	}
	return "is adopted"
}
