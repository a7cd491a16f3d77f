package lifecycle

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// setNodeAffinity pins the volumes to the node of the data. The data volume is last: after it is pinned, the
// controller does not look up the node again.
func setNodeAffinity(s *instance.State, _ steps.Step) []change.Change {
	pin := func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = agent.OnNode(s.Node) }
	var out []change.Change
	if v := s.BackupPV; s.BackupPVC != nil && v != nil && v.Spec.HostPath != nil && v.Spec.NodeAffinity == nil &&
		v.Labels[v1.LabelInstance] == s.Instance.Key() {
		out = append(out, change.PatchObject(v, pin))
	}
	return append(out, change.PatchObject(s.DataPV, pin))
}

// retainDataPV makes the data volume survive the deletion of its PVC, and labels it with its instance.
func retainDataPV(s *instance.State, _ steps.Step) []change.Change {
	out := []change.Change{change.PatchObject(s.DataPV, func(v *corev1.PersistentVolume) {
		steps.RetainPV(v)
		steps.SetLabelsAndAnnotations(v, s.Instance.Labels(), backup.IdentityAnnotations(s))
		steps.MarkUID(v)
	})}
	if c := s.DataPVC; c != nil && !steps.IsMarkedUID(c) {
		out = append(out, change.PatchObject(c, func(c *corev1.PersistentVolumeClaim) { steps.MarkUID(c) }).OrGone())
	}
	return out
}

// releaseDataPV restores the original reclaim policy of the data volume. A hostPath volume has no provisioner that
// would delete it, so the garbage collector deletes it with the XR.
func releaseDataPV(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{change.PatchObject(s.DataPV, func(v *corev1.PersistentVolume) {
		steps.UnretainPV(v)
		if s.HostPath() && v.Name == s.Instance.DataPVName() {
			addOwnerXR(v, s.Identity().XR)
		}
	})}
}

// addOwnerXR makes an XR the owner of a volume, so that the garbage collector deletes the volume, even if the XR is
// already deleted. An orphaning deletion has removed the original owner reference.
func addOwnerXR(v *corev1.PersistentVolume, xr metav1.OwnerReference) {
	if slices.ContainsFunc(v.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == xr.UID }) {
		return
	}
	xr.Name = cmp.Or(xr.Name, "gone") // The API server refuses an owner reference without a name.
	v.OwnerReferences = append(v.OwnerReferences, xr)
}

func releaseDataPVC(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{steps.DeleteOrRelease(s.DataPVC)}
}
