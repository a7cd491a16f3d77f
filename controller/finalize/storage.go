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

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// createBackupPVC makes the backup PVC, or another one for a volume that has lost its own. The
// volume is made or reserved first: after a crash in between the PVC is still to be made. The
// other way round it would wait for its volume for ever.
func (p *Performer) createBackupPVC(ctx context.Context, s *instance.State, _ Step) error {
	switch v := s.BackupPV; {
	case v != nil:
		if err := p.updateObject(ctx, v, func() { v.Spec.ClaimRef = reservedFor(s.JobLocation().Namespace, s.JobLocation().Backup) }); err != nil {
			return err
		}
	case v == nil && s.HostPath():
		if err := p.createObject(ctx, backupPV(s)); err != nil {
			return err
		}
	}
	return p.createObject(ctx, backupPVC(s, p.BackupClass))
}

// retainBackupPV makes the volume outlive its PVC, and say whose it is. The PVC's annotation,
// which says that this is done, is written last.
func (p *Performer) retainBackupPV(ctx context.Context, s *instance.State, _ Step) error {
	v, c := &corev1.PersistentVolume{}, s.BackupPVC
	if err := p.Reader.Get(ctx, client.ObjectKey{Name: c.Spec.VolumeName}, v); err != nil {
		return err
	}
	if !instance.Bound(v, c) {
		return fmt.Errorf("volume %q is not bound to PersistentVolumeClaim %s/%s, which names it", v.Name, c.Namespace, c.Name)
	}
	err := p.updateObject(ctx, v, func() {
		retainPV(v)
		setLabelsAndAnnotations(v, backupLabels(s.Life), backupAnnotations(s))
	})
	if err != nil {
		return err
	}
	return p.updateObject(ctx, c, func() { setAnnotation(c, annotationLatched, v.Name) })
}

// expandBackupPVC where its class lets it. Where it does not, the size is noted,
// and not asked for again.
func (p *Performer) expandBackupPVC(ctx context.Context, s *instance.State, _ Step) error {
	c := s.BackupPVC
	size, _ := wantedSize(s)
	before := c.DeepCopy()
	err := p.updateObject(ctx, c, func() { c.Spec.Resources.Requests[corev1.ResourceStorage] = size })
	if kerrors.IsForbidden(err) || kerrors.IsInvalid(err) {
		return p.updateObject(ctx, before, func() { setAnnotation(before, annotationTried, size.String()) })
	}
	return err
}

// deleteBackupPVC as it was read: as soon as it has a volume, there may be
// something on that.
func (p *Performer) deleteBackupPVC(ctx context.Context, s *instance.State, _ Step) error {
	c := s.BackupPVC
	asRead := client.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion}
	return client.IgnoreNotFound(p.Client.Delete(ctx, c.DeepCopy(), asRead))
}

// setNodeAffinity pins the volumes to the node that the data is on, the data's last: once that
// is pinned nobody looks for the node any more.
func (p *Performer) setNodeAffinity(ctx context.Context, s *instance.State, _ Step) error {
	if c := s.BackupPVC; c != nil && c.Spec.VolumeName != "" {
		v := &corev1.PersistentVolume{}
		if err := p.Reader.Get(ctx, client.ObjectKey{Name: c.Spec.VolumeName}, v); err != nil {
			return err
		}
		if v.Spec.HostPath != nil && v.Spec.NodeAffinity == nil && v.Labels[v1.LabelInstance] == s.Life.Key() && instance.Bound(v, c) {
			if err := p.updateObject(ctx, v, func() { v.Spec.NodeAffinity = agent.OnNode(s.Node) }); err != nil {
				return err
			}
		}
	}
	return p.updateObject(ctx, s.DataPV, func() { s.DataPV.Spec.NodeAffinity = agent.OnNode(s.Node) })
}

// retainDataPV makes the data volume stay whatever becomes of its PVC, and say whose it is.
func (p *Performer) retainDataPV(ctx context.Context, s *instance.State, _ Step) error {
	v := s.DataPV
	return p.updateObject(ctx, v, func() {
		retainPV(v)
		setLabelsAndAnnotations(v, s.Life.Labels(), identityAnnotations(s))
	})
}

// retainPV keeps a volume whatever becomes of its PVC. It remembers the reclaim policy that it
// had, and only once: the second time that would be Retain.
func retainPV(v *corev1.PersistentVolume) {
	if v.Annotations[v1.AnnotationReclaimPolicy] == "" {
		setAnnotation(v, v1.AnnotationReclaimPolicy, string(v.Spec.PersistentVolumeReclaimPolicy))
	}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	controllerutil.AddFinalizer(v, v1.Finalizer)
}

// unretainPV leaves a volume to the reclaim policy that it had.
func unretainPV(v *corev1.PersistentVolume) {
	if was := v.Annotations[v1.AnnotationReclaimPolicy]; was != "" {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(was)
		delete(v.Annotations, v1.AnnotationReclaimPolicy)
	}
	controllerutil.RemoveFinalizer(v, v1.Finalizer)
}

// releaseDataPV leaves the data volume to the reclaim policy that it had. One in a folder has
// no class that would remove it, and goes with the XR.
func (p *Performer) releaseDataPV(ctx context.Context, s *instance.State, _ Step) error {
	v := s.DataPV
	return p.updateObject(ctx, v, func() {
		unretainPV(v)
		if s.HostPath() && v.Name == s.Life.DataPVName() {
			addOwnerXR(v, s.XR)
		}
	})
}

// addOwnerXR makes an XR the owner of a volume, so that the garbage collector takes it along,
// also if the XR is gone already. An orphaning deletion has taken the reference that was there.
func addOwnerXR(v *corev1.PersistentVolume, xr *instance.Composite) {
	if slices.ContainsFunc(v.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == xr.GetUID() }) {
		return
	}
	v.OwnerReferences = append(v.OwnerReferences, metav1.OwnerReference{
		APIVersion: xr.GetAPIVersion(), Kind: xr.GetKind(), Name: cmp.Or(xr.GetName(), "gone"), UID: xr.GetUID(),
	})
}

// releaseDataPVC lets the data PVC go, as deletePVC does.
func (p *Performer) releaseDataPVC(ctx context.Context, s *instance.State, _ Step) error {
	return p.deletePVC(ctx, s, Step{Targets: []client.Object{s.DataPVC}})
}

func setAnnotation(o client.Object, key, value string) {
	setLabelsAndAnnotations(o, nil, map[string]string{key: value})
}

// setLabelsAndAnnotations adds labels and annotations to those of an object.
func setLabelsAndAnnotations(o client.Object, labels, annotations map[string]string) {
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
