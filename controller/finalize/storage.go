package finalize

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// makeBackupPV, or the claim of one that lost its own.
func (p *Performer) makeBackupPV(ctx context.Context, s *instance.State, _ Step) error {
	switch v := s.BackupPV; {
	case v != nil:
		if err := p.change(ctx, v, func() { v.Spec.ClaimRef = reserved(s.Place().Namespace, s.Place().Backup) }); err != nil {
			return err
		}
	case v == nil && s.HostPath():
		if err := p.create(ctx, backupPV(s)); err != nil {
			return err
		}
	}
	return p.create(ctx, backupPVC(s, p.BackupClass))
}

// latchBackupPV makes the volume outlive its claim, and say whose it is.
func (p *Performer) latchBackupPV(ctx context.Context, s *instance.State, _ Step) error {
	v, c := &corev1.PersistentVolume{}, s.BackupPVC
	if err := p.Reader.Get(ctx, client.ObjectKey{Name: c.Spec.VolumeName}, v); err != nil {
		return err
	}
	if !instance.Bound(v, c) {
		return fmt.Errorf("volume %q is not bound to PersistentVolumeClaim %s/%s, which names it", v.Name, c.Namespace, c.Name)
	}
	err := p.change(ctx, v, func() {
		retain(v)
		mark(v, backupLabels(s.Life), backupAnnotations(s))
	})
	if err != nil {
		return err
	}
	return p.change(ctx, c, func() { annotate(c, annotationLatched, v.Name) })
}

// growBackupPV where its class lets it. Where it does not, the size is noted,
// and not asked for again.
func (p *Performer) growBackupPV(ctx context.Context, s *instance.State, _ Step) error {
	c := s.BackupPVC
	size, _ := wantedSize(s)
	before := c.DeepCopy()
	err := p.change(ctx, c, func() { c.Spec.Resources.Requests[corev1.ResourceStorage] = size })
	if kerrors.IsForbidden(err) || kerrors.IsInvalid(err) {
		return p.change(ctx, before, func() { annotate(before, annotationTried, size.String()) })
	}
	return err
}

// dropBackupPVC as it was read: as soon as it has a volume, there may be
// something on that.
func (p *Performer) dropBackupPVC(ctx context.Context, s *instance.State, _ Step) error {
	c := s.BackupPVC
	asRead := client.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion}
	return client.IgnoreNotFound(p.Client.Delete(ctx, c.DeepCopy(), asRead))
}

// pin the volumes to the node that the data is on, the data's last: then both
// are.
func (p *Performer) pin(ctx context.Context, s *instance.State, _ Step) error {
	if c := s.BackupPVC; c != nil && c.Spec.VolumeName != "" {
		v := &corev1.PersistentVolume{}
		if err := p.Reader.Get(ctx, client.ObjectKey{Name: c.Spec.VolumeName}, v); err != nil {
			return err
		}
		if v.Spec.HostPath != nil && v.Spec.NodeAffinity == nil && v.Labels[v1.LabelInstance] == s.Life.Key() && instance.Bound(v, c) {
			if err := p.change(ctx, v, func() { v.Spec.NodeAffinity = onNode(s.Node) }); err != nil {
				return err
			}
		}
	}
	return p.change(ctx, s.DataPV, func() { s.DataPV.Spec.NodeAffinity = onNode(s.Node) })
}

// latch the data volume: it stays whatever becomes of its claim.
func (p *Performer) latch(ctx context.Context, s *instance.State, _ Step) error {
	v := s.DataPV
	return p.change(ctx, v, func() {
		retain(v)
		mark(v, s.Life.Labels(), identity(s))
	})
}

// retain a volume whatever becomes of its claim. It remembers the policy that it
// had.
func retain(v *corev1.PersistentVolume) {
	if v.Annotations[v1.AnnotationReclaimPolicy] == "" {
		annotate(v, v1.AnnotationReclaimPolicy, string(v.Spec.PersistentVolumeReclaimPolicy))
	}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	controllerutil.AddFinalizer(v, v1.Finalizer)
}

// unretain a volume: what its class says becomes of it.
func unretain(v *corev1.PersistentVolume) {
	if was := v.Annotations[v1.AnnotationReclaimPolicy]; was != "" {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(was)
		delete(v.Annotations, v1.AnnotationReclaimPolicy)
	}
	controllerutil.RemoveFinalizer(v, v1.Finalizer)
}

// releaseVolume to what its class says becomes of it. One in a folder has none,
// and goes with the XR.
func (p *Performer) releaseVolume(ctx context.Context, s *instance.State, _ Step) error {
	v := s.DataPV
	return p.change(ctx, v, func() {
		unretain(v)
		if s.HostPath() && v.Name == s.Life.DataPVName() {
			goesWith(v, s.XR)
		}
	})
}

// goesWith an XR, by the garbage collector, also if that is gone already. An
// orphaning deletion has taken what said so.
func goesWith(v *corev1.PersistentVolume, xr *instance.Composite) {
	if slices.ContainsFunc(v.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == xr.GetUID() }) {
		return
	}
	v.OwnerReferences = append(v.OwnerReferences, metav1.OwnerReference{
		APIVersion: xr.GetAPIVersion(), Kind: xr.GetKind(), Name: cmp.Or(xr.GetName(), "gone"), UID: xr.GetUID(),
	})
}

// releaseClaim of the data.
func (p *Performer) releaseClaim(ctx context.Context, s *instance.State, _ Step) error {
	return p.releaseHandle(ctx, s, Step{Targets: []client.Object{s.DataPVC}})
}

func annotate(o client.Object, key, value string) { mark(o, nil, map[string]string{key: value}) }

// mark an object with labels and annotations.
func mark(o client.Object, labels, annotations map[string]string) {
	l, a := maps.Clone(o.GetLabels()), maps.Clone(o.GetAnnotations())
	if l == nil {
		l = map[string]string{}
	}
	if a == nil {
		a = map[string]string{}
	}
	maps.Copy(l, labels)
	maps.Copy(a, annotations)
	o.SetLabels(l)
	o.SetAnnotations(a)
}
