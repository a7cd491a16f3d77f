package lifecycle

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// createBackupPVC makes the backup PVC, or another one for a volume that has lost its own. The
// volume is made or reserved first: after a crash in between the PVC is still to be made. The
// other way round it would wait for its volume for ever.
func createBackupPVC(s *instance.State, _ Step) []change.Change {
	var out []change.Change
	switch v := s.BackupPV; {
	case v != nil:
		out = append(out, change.PatchObject(v, func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = reservedFor(s.JobLocation().Namespace, s.JobLocation().Backup)
		}))
	case s.HostPath():
		out = append(out, change.NewObject(backupPV(s)))
	}
	return append(out, change.NewObject(backupPVC(s)))
}

// retainBackupPV makes the volume outlive its PVC, and say whose it is. The PVC's annotation,
// which says that this is done, is written last.
func retainBackupPV(s *instance.State, _ Step) []change.Change {
	return []change.Change{
		change.PatchObject(s.BackupPV, func(v *corev1.PersistentVolume) {
			retainPV(v)
			setLabelsAndAnnotations(v, backupLabels(s.Life), backupAnnotations(s))
			markUID(v)
		}),
		change.PatchObject(s.BackupPVC, func(c *corev1.PersistentVolumeClaim) {
			markUID(c)
			setAnnotation(c, v1.AnnotationRetainedPV, s.BackupPV.Name)
		}),
	}
}

// expandBackupPVC where its class lets it. Where it does not, the size is noted,
// and not asked for again.
func expandBackupPVC(s *instance.State, _ Step) []change.Change {
	size, _ := wantedSize(s)
	return []change.Change{askForSize(s.BackupPVC, size)}
}

// deleteBackupPVC as it was read: as soon as it has a volume, there may be
// something on that.
func deleteBackupPVC(s *instance.State, _ Step) []change.Change {
	c := change.DeleteObject(s.BackupPVC, "")
	c.If = change.AsRead
	return []change.Change{c}
}

// setNodeAffinity to the node that the data is on, the data's last: once that is pinned nobody looks
// for the node any more.
func setNodeAffinity(s *instance.State, _ Step) []change.Change {
	pin := func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = agent.OnNode(s.Node) }
	var out []change.Change
	if v := s.BackupPV; s.BackupPVC != nil && v != nil && v.Spec.HostPath != nil && v.Spec.NodeAffinity == nil && v.Labels[v1.LabelInstance] == s.Life.Key() {
		out = append(out, change.PatchObject(v, pin))
	}
	return append(out, change.PatchObject(s.DataPV, pin))
}

// retainDataPV makes the data volume stay whatever becomes of its PVC, and say whose it is.
func retainDataPV(s *instance.State, _ Step) []change.Change {
	out := []change.Change{change.PatchObject(s.DataPV, func(v *corev1.PersistentVolume) {
		retainPV(v)
		setLabelsAndAnnotations(v, s.Life.Labels(), identityAnnotations(s))
		markUID(v)
	})}
	if c := s.DataPVC; c != nil && !isMarkedUID(c) {
		out = append(out, change.PatchObject(c, func(c *corev1.PersistentVolumeClaim) { markUID(c) }).OrGone())
	}
	return out
}

// markUID of an object on itself, so that a copy of it says that it is one.
func markUID(o client.Object) { setAnnotation(o, v1.AnnotationMarkedUID, string(o.GetUID())) }

func isMarkedUID(o client.Object) bool {
	return o.GetAnnotations()[v1.AnnotationMarkedUID] == string(o.GetUID())
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
func releaseDataPV(s *instance.State, _ Step) []change.Change {
	return []change.Change{change.PatchObject(s.DataPV, func(v *corev1.PersistentVolume) {
		unretainPV(v)
		if s.HostPath() && v.Name == s.Life.DataPVName() {
			addOwnerXR(v, s.Identity().XR)
		}
	})}
}

// addOwnerXR makes an XR the owner of a volume, so that the garbage collector takes it along,
// also if the XR is gone already. An orphaning deletion has taken the reference that was there.
func addOwnerXR(v *corev1.PersistentVolume, xr metav1.OwnerReference) {
	if slices.ContainsFunc(v.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == xr.UID }) {
		return
	}
	xr.Name = cmp.Or(xr.Name, "gone") // A reference without a name is refused.
	v.OwnerReferences = append(v.OwnerReferences, xr)
}

func releaseDataPVC(s *instance.State, _ Step) []change.Change {
	return []change.Change{deleteOrRelease(s.DataPVC)}
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
