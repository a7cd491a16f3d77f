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
	// pollInterval is the interval at which the status of the Job is polled.
	pollInterval = time.Second
	// logTries is the number of attempts to read the log of the Job's pod.
	logTries = 10
	// cleanup is the timeout for deleting the Job, even after Ctrl-C.
	cleanup = 30 * time.Second
	// maxLine is the maximum length in bytes of a line in the Job's log.
	maxLine = 128 << 10
)

// An Adoption imports the backups on the volume of a PersistentVolumeClaim into the backup catalog of this cluster.
type Adoption struct {
	Kube client.Client
	// Log reads the log of a container from its beginning.
	Log func(ctx context.Context, namespace, pod, container string) (io.ReadCloser, error)
	// Of identifies the instance whose backups are imported. Its XR is empty, because the backups belong to all
	// instances with this kind, namespace and name.
	Of v1.Instance
	// AgentImage is the image of the Job that reads the volume. It is the controller's image unless --image is set.
	AgentImage string
	// Resources are the resources of the Job, or nil for the default.
	Resources *corev1.ResourceRequirements
	// DryRun is true if the backups are only listed and not imported.
	DryRun bool
	// Output receives the table of findings, and Progress receives the progress messages.
	Output, Progress io.Writer
}

// A place contains the backup PVC, its volume, and the namespace of the PVC.
type place struct {
	pvc       *corev1.PersistentVolumeClaim
	pv        *corev1.PersistentVolume
	namespace *corev1.Namespace
}

// Run runs the import. It returns the findings even if no backup can be imported.
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
	adopted := backups(findings, instance.EntriesOf([]corev1.PersistentVolume{*p.pv}, a.Of), p.pvc)
	if a.DryRun || len(adopted) == 0 {
		return findings, nil
	}
	w := change.Writer{Client: a.Kube}
	if err := w.Apply(ctx, catalog.AdoptBackups(p.pvc, p.pv, a.Of, p.namespace.UID, adopted)); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(a.Output,
		"\nThe backups are recorded on PersistentVolume %s, and the controller creates their BackupRecords. To list "+
			"them: kubectl get backuprecords\n", p.pv.Name)
	return findings, err
}

// findPlace reads the backup PVC, its volume and its namespace. It returns an error unless the volume also refers to
// the PVC, because a user can name any volume in a PVC.
func (a *Adoption) findPlace(ctx context.Context) (*place, error) {
	p := &place{pvc: &corev1.PersistentVolumeClaim{}, pv: &corev1.PersistentVolume{}, namespace: &corev1.Namespace{}}
	name := client.ObjectKey{Namespace: a.Of.Namespace, Name: a.Of.BackupPVCName()}
	if err := a.Kube.Get(ctx, name, p.pvc); err != nil {
		return nil, fmt.Errorf("cannot get PersistentVolumeClaim %s, which is needed to read the backups of %s %s: %w", name,
			a.Of.Kind, a.Of.Name, err)
	}
	if p.pvc.Status.Phase != corev1.ClaimBound || p.pvc.DeletionTimestamp != nil {
		return nil, fmt.Errorf("PersistentVolumeClaim %s is not bound to a volume (%s)", name, p.pvc.Status.Phase)
	}
	if err := a.Kube.Get(ctx, client.ObjectKey{Name: p.pvc.Spec.VolumeName}, p.pv); err != nil {
		return nil, fmt.Errorf("cannot get PersistentVolume %s: %w", p.pvc.Spec.VolumeName, err)
	}
	if !instance.Bound(p.pv, p.pvc) {
		return nil, fmt.Errorf("PersistentVolume %s is not bound to PersistentVolumeClaim %s, although the "+
			"PersistentVolumeClaim refers to it", p.pv.Name,
			name)
	}
	if l := p.pv.Labels[v1.LabelInstance]; l != "" && l != a.Of.Key() {
		return nil, fmt.Errorf("PersistentVolume %s belongs to another instance (label %s)", p.pv.Name,
			v1.LabelInstance)
	}
	if err := a.Kube.Get(ctx, client.ObjectKey{Name: a.Of.Namespace}, p.namespace); err != nil {
		return nil, fmt.Errorf("cannot get namespace %s: %w", a.Of.Namespace, err)
	}
	return p, nil
}

// living returns, for the XR UID of each existing instance, the object that proves its existence. This object is the
// XR, or a volume with the instance's data.
func (a *Adoption) living(ctx context.Context) (map[types.UID]string, error) {
	out := map[types.UID]string{}
	for _, kind := range instance.Kinds() {
		xrs, err := instance.AllXRs(ctx, a.Kube, kind)
		if err != nil && !meta.IsNoMatchError(err) { // The kind need not be installed.
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

// surveyJob returns the Job that reads the volume and cannot write to it.
func (a *Adoption) surveyJob(p *place) *batchv1.Job {
	volume := agent.PVCVolume("backup", p.pvc.Name)
	volume.PersistentVolumeClaim.ReadOnly = true
	j := agent.VolumeJob{
		Of: a.Of, Namespace: a.Of.Namespace, Component: v1.ComponentSurvey, Image: a.AgentImage, Resources: a.Resources,
		OnNode: p.pv.Spec.HostPath != nil, Command: agent.Survey("/" + volume.Name), Volumes: []corev1.Volume{volume},
	}.Job()
	j.GenerateName = v1.ComponentSurvey + "-"
	j.Spec.TTLSecondsAfterFinished = new(int32(600)) // Kubernetes deletes the Job if this process is killed.
	return j
}

// survey reads the volume with a Job and deletes the Job afterwards.
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
		if derr := client.IgnoreNotFound(
			a.Kube.Delete(ctx, j, client.PropagationPolicy(metav1.DeletePropagationBackground))); derr != nil {
			err = errors.Join(err, fmt.Errorf("cannot delete Job %s/%s: %w", j.Namespace, j.Name, derr))
		}
	}()
	pod, err := a.waitForEnd(ctx, j)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ { // The read is retried, because the Job may have run for hours.
		found, err := a.readLog(ctx, pod)
		if err == nil || try == logTries || ctx.Err() != nil || !instance.IsPassing(err) {
			return found, err
		}
		fmt.Fprintln(a.Progress, err) //nolint:errcheck // A lost line is not an error.
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}

// readLog reads the log of the terminated pod of the import Job, which contains what the Job found on the volume.
func (a *Adoption) readLog(ctx context.Context, pod *corev1.Pod) ([]agent.Found, error) {
	log, err := a.Log(ctx, pod.Namespace, pod.Name, v1.ComponentSurvey)
	if err != nil {
		return nil, fmt.Errorf("cannot read the log of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	defer log.Close() //nolint:errcheck // Nothing was written.
	return readFound(log)
}

// readFound parses the log of the import Job, and returns what the Job found in each directory of the volume.
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
		return nil, fmt.Errorf("cannot read the results of the Job: %w", err)
	}
	return out, nil
}

// waitForEnd waits until the import Job has read the whole volume, and returns the pod of that Job.
func (a *Adoption) waitForEnd(ctx context.Context, j *batchv1.Job) (*corev1.Pod, error) {
	reported := ""
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		pod, waits, err := a.lookAt(ctx, j)
		if err != nil || pod != nil {
			return pod, err
		}
		if waits != reported && waits != "" {
			fmt.Fprintf(a.Progress, "%s\n", waits) //nolint:errcheck // A lost line is not an error.
		}
		reported = waits
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// lookAt reads the import Job and its pod. It returns the pod once the pod has read the whole volume. Until then, waits
// describes what the Job is doing or waiting for.
func (a *Adoption) lookAt(ctx context.Context, j *batchv1.Job) (ended *corev1.Pod, waits string, err error) {
	l := &corev1.PodList{}
	if err = a.Kube.Get(ctx, client.ObjectKeyFromObject(j), j); err != nil {
		err = fmt.Errorf("cannot get Job %s/%s: %w", j.Namespace, j.Name, err)
	} else if err = a.Kube.List(ctx, l, client.InNamespace(j.Namespace),
		client.MatchingLabels{batchv1.JobNameLabel: j.Name}); err != nil {
		err = fmt.Errorf("cannot list pods: %w", err)
	}
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case err != nil && instance.IsPassing(err): // The Job is still running.
		return nil, err.Error(), nil
	case err != nil:
		return nil, "", err
	}
	job := instance.NewJob(j)
	n := slices.IndexFunc(l.Items, func(p corev1.Pod) bool { return metav1.IsControlledBy(&p, j) })
	if n < 0 {
		if finished, _ := job.Finished(); finished != nil {
			return nil, "", fmt.Errorf("the pod of Job %s/%s was deleted: try again", j.Namespace, j.Name)
		}
		return nil, fmt.Sprintf("waiting for a pod of Job %s/%s. If none is created, a quota or a policy may "+
			"refuse it: kubectl describe job --namespace %s %s", j.Namespace, j.Name, j.Namespace, j.Name), nil
	}
	pod := &l.Items[n]
	job.RecordPodFailure(&pod.Status)
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
		return nil, "", fmt.Errorf("pod %s/%s has failed: kubectl logs -n %s %s", pod.Namespace, pod.Name, pod.Namespace,
			pod.Name)
	case job.PodFailure != "":
		return nil, "waiting: " + job.PodFailure, nil
	case pod.Status.Phase == corev1.PodRunning:
		return nil, "reading all archives on the volume", nil
	}
	return nil, fmt.Sprintf("waiting for pod %s/%s to start", pod.Namespace, pod.Name), nil
}

// print prints the findings as a table.
func (a *Adoption) print(findings []Finding) error {
	if len(findings) == 0 {
		_, err := fmt.Fprintln(a.Output, "The volume contains no archives.")
		return err
	}
	w := tabwriter.NewWriter(a.Output, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "FOLDER\tTAKEN\tVERSION\tSIZE\tWHAT") //nolint:errcheck // Flush reports it.
	for i := range findings {
		f := &findings[i]
		size := ""
		if f.Spec.Archive != nil {
			size = v1.PrintableText(v1.RoundedSize(f.Spec.Archive.Size), v1.MaxForeignText)
		}
		taken := ""
		if !f.FinishedAt.IsZero() {
			taken = f.FinishedAt.UTC().Format(time.DateTime)
		}
		cells := []string{v1.PrintableText(f.Dir, v1.MaxForeignText), taken,
			v1.PrintableText(f.Spec.Version, v1.MaxForeignText), size, a.whatBecomes(f)}
		fmt.Fprintln(w, strings.Join(cells, "\t")) //nolint:errcheck // Flush reports it.
	}
	return w.Flush()
}

// whatBecomes returns the last column of the table: what happens to a backup, or why it is refused.
func (a *Adoption) whatBecomes(f *Finding) string {
	switch f.Verdict {
	case Known:
		return "already has a BackupRecord"
	case Refused:
		return "refused: " + f.Why
	case Adopt:
	}
	if a.DryRun {
		return "would be adopted"
	}
	return "is adopted"
}
