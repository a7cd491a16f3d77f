package instance

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/controller/archive"
)

// A RestoreTestState is what there is of the attempt to start a server from a backup.
type RestoreTestState struct {
	// Home is the life that was backed up while it is being deleted, and once it is
	// gone the empty one of that name. Nil while another life is there, or about to
	// be: it has the volumes now.
	Home *State
	// Job has the name of the one that unpacks the backup and starts the server,
	// whoever made it. Volume is that of the backups, which the copy is unpacked on.
	// Each is nil where there is none.
	Job    *Job
	Volume *corev1.PersistentVolume
	// Reports of the Job's containers, by their names.
	Reports map[string]archive.Report
}

// RestoreTestState of the backup of a life of the instance; of no life where there is
// only what one left.
func (g *Gatherer) RestoreTestState(ctx context.Context, k Key, xr types.UID) (*RestoreTestState, error) {
	lives, err := g.Gather(ctx, k)
	if kerrors.IsNotFound(err) || apimeta.IsNoMatchError(err) {
		// The XRD was uninstalled, and all instances with it: their backups are there.
		lives, err = g.statesWithoutKind(ctx, k)
	}
	if err != nil {
		return nil, err
	}
	out := &RestoreTestState{Home: livingState(lives, xr), Reports: map[string]archive.Report{}}
	life := k.Life("")
	j, err := getObject(ctx, g.Reader, &batchv1.Job{}, life.Namespace, life.RestoreTestJobName())
	if err != nil {
		return nil, err
	}
	if j != nil {
		out.Job = &Job{Job: j}
	}
	if err := g.readRestoreTestJob(ctx, out); err != nil {
		return nil, err
	}
	if out.Home == nil || out.Home.BackupPVC == nil || out.Home.BackupPVC.Spec.VolumeName == "" {
		return out, nil
	}
	v, err := getObject(ctx, g.Reader, &corev1.PersistentVolume{}, "", out.Home.BackupPVC.Spec.VolumeName)
	if err != nil || v == nil || !Bound(v, out.Home.BackupPVC) {
		return out, err
	}
	out.Volume = v
	return out, nil
}

// statesWithoutKind are what is left of an instance whose kind is not installed any more.
func (g *Gatherer) statesWithoutKind(ctx context.Context, k Key) ([]*State, error) {
	ns, err := getObject(ctx, g.Reader, &corev1.Namespace{}, "", k.Namespace)
	if err != nil {
		return nil, err
	}
	return g.statesWithoutXR(ctx, k, ns, nil)
}

// livingState of a life that was backed up: its own as long as it has not ended, and
// then the name's, if no other life has it.
func livingState(lives []*State, xr types.UID) *State {
	for _, s := range lives {
		if s.XR != nil && s.XR.IsDeleting() && s.Life.XR == xr {
			return s
		}
	}
	if s := lives[0]; s.XR == nil && (s.Claim == nil || s.Claim.IsDeleting()) {
		return s
	}
	return nil
}

// readRestoreTestJob reads what the Job's containers report. Only pods that the Job controls
// are heard: labels are anybody's.
func (g *Gatherer) readRestoreTestJob(ctx context.Context, v *RestoreTestState) error {
	j := v.Job
	if j == nil {
		return nil
	}
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(j.Namespace)); err != nil {
		return fmt.Errorf("cannot list pods: %w", err)
	}
	j.Pods = slices.DeleteFunc(l.Items, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, j.Job) })
	for i := range j.Pods {
		p := &j.Pods[i].Status
		j.notePodFailure(p)
		for _, c := range slices.Concat(p.InitContainerStatuses, p.ContainerStatuses) {
			if r := reportOf(&c); r != nil {
				v.Reports[c.Name] = *r
			}
		}
	}
	return nil
}
