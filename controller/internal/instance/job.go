package instance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Job is a Kubernetes Job with the report of its newest pod.
type Job struct {
	*batchv1.Job

	// Pods are the Job's pods in all phases.
	Pods []corev1.Pod
	// Report is the report of the product's container, or nil.
	Report *agent.Report
	// Progress is the last progress that the Job's program has written to its log, or nil.
	Progress *agent.Progress
	// PodFailure is the reason why the pod is not running, as reported by the kubelet or the scheduler.
	PodFailure string
	// Cloned is true once the clone of a server has finished.
	Cloned bool
	// Outlived is the final state of the product's own container, if a container that another component injected
	// keeps the pod running. Otherwise it is nil.
	Outlived *corev1.ContainerStateTerminated
	// Going is the pod that the injected container keeps running.
	Going *corev1.Pod
	// Succeeded is the final state of the product's own container if it succeeded, but the status of the Job does not
	// show this yet. The kubelet and the Job controller take a second or two. Otherwise it is nil.
	Succeeded *corev1.ContainerStateTerminated
}

// Jobs contains the Jobs of an instance that restore, back up, wipe or prune its data.
type Jobs struct {
	// RestoreJob runs in the instance's own namespace. The other Jobs run at its JobLocation.
	RestoreJob, BackupJob, WipeJob, PruneJob *Job
	// MisplacedJobs are Jobs of this instance with names or in namespaces that its Jobs no longer use.
	MisplacedJobs []client.Object
	// AccessUntil is the time at which the running backup Job loses its access to a store. It is zero if the time is
	// unknown.
	AccessUntil time.Time
}

// jobsOnVolumes returns the Jobs that use the volumes of an instance during a deletion or a backup.
func jobsOnVolumes(j *Jobs) []*Job {
	return slices.DeleteFunc([]*Job{j.BackupJob, j.WipeJob, j.PruneJob}, func(j *Job) bool { return j == nil })
}

// readJobs reads the Jobs of this instance without their pods.
func readJobs(ctx context.Context, r client.Reader, basis *Basis) (Jobs, error) {
	var out Jobs
	var err error
	instanceID, location := basis.Instance, basis.JobLocation()
	if out.RestoreJob, err = readJob(ctx, r, instanceID, instanceID.Namespace, instanceID.Jobs().Restore()); err != nil {
		return out, err
	}
	for name, target := range map[string]**Job{basis.Attempt().Job: &out.BackupJob, location.WipeJob: &out.WipeJob,
		location.PruneJob: &out.PruneJob} {
		if *target, err = readJob(ctx, r, instanceID, location.Namespace, name); err != nil {
			return out, err
		}
	}
	if out.AccessUntil, err = readAccessUntil(ctx, r, basis, out.BackupJob); err != nil {
		return out, err
	}
	if !isRelocated(basis) {
		out.MisplacedJobs, err = readOvertakenJobs(ctx, r, &basis.Subject)
		return out, err
	}
	for _, namespace := range []string{instanceID.Namespace, v1.RecoveryNamespace} {
		misplaced, err := readMisplacedJobs(ctx, r, basis, out.RestoreJob, namespace)
		if err != nil {
			return out, err
		}
		out.MisplacedJobs = append(out.MisplacedJobs, misplaced...)
	}
	return out, nil
}

// readAccessUntil returns when the backup Job loses its access to a store. If the controller is not allowed to read
// the Secret, it does not renew the access.
func readAccessUntil(ctx context.Context, r client.Reader, basis *Basis, backup *Job) (time.Time, error) {
	if backup == nil || basis.Store() == "" {
		return time.Time{}, nil
	}
	secret, err := getObject(ctx, r, metadataOf(corev1.SchemeGroupVersion.WithKind("Secret")),
		basis.JobLocation().Namespace, basis.Attempt().Access)
	if kerrors.IsForbidden(err) {
		return time.Time{}, nil
	}
	if err != nil || secret == nil || !Owns(basis.Instance, secret) {
		return time.Time{}, err
	}
	until, err := time.Parse(time.RFC3339, secret.Annotations[v1.AnnotationAccessUntil])
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // The time is unknown.
	}
	return until, nil
}

// readOvertakenJobs reads the Jobs of backups that started before the deletion and are no longer needed.
func readOvertakenJobs(ctx context.Context, r client.Reader, s *Subject) ([]client.Object, error) {
	if !s.IsDeleting() {
		return nil, nil
	}
	var out []client.Object
	for _, name := range []string{s.Instance.Jobs().ImageChange(), s.Instance.Jobs().Request()} {
		j, err := readJob(ctx, r, s.Instance, s.Instance.Namespace, name)
		if err != nil {
			return nil, err
		}
		if j != nil {
			out = append(out, j.Job)
		}
	}
	return out, nil
}

// readMisplacedJobs reads the Jobs of this instance in a namespace, except for the Jobs that it uses now.
func readMisplacedJobs(ctx context.Context, r client.Reader, basis *Basis, restore *Job,
	namespace string) ([]client.Object, error) {
	l := &batchv1.JobList{}
	if err := r.List(ctx, l, client.InNamespace(namespace),
		client.MatchingLabels{v1.LabelXR: string(basis.Instance.XR)}); err != nil {
		return nil, fmt.Errorf("cannot list Jobs: %w", err)
	}
	location := basis.JobLocation()
	var out []client.Object
	for i := range l.Items {
		j := &l.Items[i]
		here := namespace == location.Namespace &&
			slices.Contains([]string{basis.Attempt().Job, location.WipeJob, location.PruneJob}, j.Name)
		if !here && (restore == nil || j.UID != restore.UID) {
			out = append(out, j)
		}
	}
	return out, nil
}

// readJob reads a Job that was created for an instance. It returns nil if there is none.
func readJob(ctx context.Context, r client.Reader, instanceID v1.Instance, namespace, name string) (*Job, error) {
	j, err := getObject(ctx, r, &batchv1.Job{}, namespace, name)
	if j == nil || err != nil || !Owns(instanceID, j) {
		return nil, err
	}
	log.FromContext(ctx).V(1).Info("Read a Job", "namespace", namespace, "name", name, "active", j.Status.Active,
		"succeeded", j.Status.Succeeded, "failed", j.Status.Failed)
	return NewJob(j), nil
}

// NewJob returns a Job, and makes the messages of its conditions printable.
func NewJob(j *batchv1.Job) *Job {
	for i := range j.Status.Conditions {
		c := &j.Status.Conditions[i]
		c.Message = foreignText(c.Message)
	}
	return &Job{Job: j}
}

// Finished returns when the Job finished, and whether it succeeded. It returns nil while the Job is running.
// Containers that another component injected into the pod are ignored.
func (j *Job) Finished() (finished *metav1.Time, succeeded bool) {
	if finished, succeeded = j.finishedTime(); finished != nil {
		return finished, succeeded
	}
	if end := cmp.Or(j.Outlived, j.Succeeded); end != nil {
		return &end.FinishedAt, end.ExitCode == 0
	}
	return nil, false
}

// IsComplete reports whether the Job has succeeded according to its status.
func (j *Job) IsComplete() bool {
	_, succeeded := j.finishedTime()
	return succeeded
}

// finishedTime returns when the Job finished according to its status, and whether it succeeded.
func (j *Job) finishedTime() (finished *metav1.Time, succeeded bool) {
	for i := range j.Status.Conditions {
		c := &j.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue {
			continue
		}
		if c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed {
			return &c.LastTransitionTime, c.Type == batchv1.JobComplete
		}
	}
	return nil, false
}
