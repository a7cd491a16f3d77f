package instance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/archive"
)

// A Verification is what there is of the attempt to start a server from a backup.
type Verification struct {
	// Home is the life that was backed up while it is being deleted, and once it is
	// gone the empty one of that name. Nil while another life is there, or about to
	// be: it has the volumes now.
	Home *State
	// Job that unpacks the backup and starts the server, and the volume that it does
	// this on; nil where there is none.
	Job    *Job
	Volume *corev1.PersistentVolume
	// Reports of the Job's containers, by their names.
	Reports map[string]archive.Report
}

// Verification of a backup of the instance.
func (g *Gatherer) Verification(ctx context.Context, k Key, record *v1.MySQLBackup) (*Verification, error) {
	lives, err := g.Gather(ctx, k)
	if kerrors.IsNotFound(err) || apimeta.IsNoMatchError(err) {
		// The XRD was uninstalled, and all instances with it: their backups are there.
		lives, err = g.uninstalled(ctx, k)
	}
	if err != nil {
		return nil, err
	}
	xr := record.Spec.Instance.XR
	out := &Verification{Home: home(lives, xr), Reports: map[string]archive.Report{}}
	life := k.Life(xr)
	j, err := g.job(ctx, &State{Life: k.Life("")}, life.Namespace, life.VerifyJobName())
	if err != nil {
		return nil, err
	}
	if j != nil {
		if err := g.hearings(ctx, out, j); err != nil {
			return nil, err
		}
	}
	if out.Home == nil || out.Home.BackupClaim == nil || out.Home.BackupClaim.Spec.VolumeName == "" {
		return out, nil
	}
	v, err := get(ctx, g.Reader, &corev1.PersistentVolume{}, "", out.Home.BackupClaim.Spec.VolumeName)
	if err != nil || v == nil || !Bound(v, out.Home.BackupClaim) {
		return out, err
	}
	out.Volume = v
	return out, nil
}

// uninstalled is the name of an instance whose kind is not there any more.
func (g *Gatherer) uninstalled(ctx context.Context, k Key) ([]*State, error) {
	ns, err := get(ctx, g.Reader, &corev1.Namespace{}, "", k.Namespace)
	if err != nil {
		return nil, err
	}
	return g.nobody(ctx, k, ns, nil)
}

// home of a life that was backed up: its own as long as it has not ended, and
// then the name's, if no other life has it.
func home(lives []*State, xr types.UID) *State {
	for _, s := range lives {
		if s.XR != nil && s.XR.Dying() && s.Life.XR == xr {
			return s
		}
	}
	if s := lives[0]; s.XR == nil && (s.Claim == nil || s.Claim.Dying()) {
		return s
	}
	return nil
}

// hearings of a Job's containers.
func (g *Gatherer) hearings(ctx context.Context, out *Verification, j *Job) error {
	out.Job = j
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(j.Namespace), client.MatchingLabels{v1.LabelXR: j.Labels[v1.LabelXR], v1.LabelComponent: v1.ComponentVerify}); err != nil {
		return fmt.Errorf("cannot list pods: %w", err)
	}
	for i := range l.Items {
		p := &l.Items[i]
		j.Pods = append(j.Pods, *p)
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			r := archive.Report{}
			switch t, w := c.State.Terminated, c.State.Waiting; {
			case t != nil && json.Unmarshal([]byte(t.Message), &r) == nil && r.Command != "":
				out.Reports[c.Name] = r
			case w != nil && w.Message != "":
				j.Trouble = w.Reason + ": " + w.Message
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				j.Trouble = c.Message
			}
		}
	}
	return nil
}
