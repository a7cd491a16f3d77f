package compose

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A storage contains the volume of an instance and the size that its PVC requests.
type storage struct {
	// volume is the volume that the PVC is or must be bound to, or "" if Kubernetes chooses one.
	volume string
	// size is the requested size of the volume. request is the size of the PVC, which is smaller while it cannot grow.
	size, request resource.Quantity
	// growsWith is the StorageClass that decides whether the volume can be expanded, or "" if no expansion is needed.
	growsWith string
	// cannotGrow is set if the volume cannot be expanded. Other changes are still applied.
	cannotGrow error
}

// resolveStorage refuses changes that would lose the data: a different volume, no volume, a smaller volume, a
// different StorageClass or a different kind of volume. Its result is valid even if it returns an error.
func resolveStorage(r *resolved) (storage, error) {
	if r.ephemeral {
		return storage{}, nil
	}
	s := storage{volume: r.XR.Status.Volume, size: r.size}
	if r.hostPath && s.volume == "" {
		s.volume = r.instance.DataPVName()
	}
	err := checkComposition(r)
	if c := r.Observed.DataPVC; c != nil && err == nil {
		err = checkPVC(r, s.volume)
		if s.volume == "" {
			s.volume = c.Spec.VolumeName
		}
	}
	if err == nil {
		s.size, err = resolveVolumeSize(r)
	}
	if err == nil {
		err = checkVolume(r)
	}
	s.request, s.growsWith, s.cannotGrow = resolveGrowth(r, s.size)
	return s, err
}

// checkComposition refuses a Composition that does not match the volumes of an instance. An instance with a hostPath
// volume needs a Composition with hostPath volumes. A namespaced XR cannot have such a volume, because it owns its
// composed resources, and a namespaced object cannot own a PersistentVolume.
func checkComposition(r *resolved) error {
	if r.hostPath && r.instance.IsNamespaced() {
		return newRefusal(v1.ReasonNotSupported,
			"spec.crossplane.compositionRef: this Composition creates hostPath volumes, which a MySQL without a claim cannot "+
				"have. Choose a Composition with volumes: %s, or create a claim instead", v1.VolumesStorageClass)
	}
	if !r.hostPath && r.Observed.DataPV != nil {
		return newRefusal(v1.ReasonNotSupported,
			"spec.compositionRef: this instance has a hostPath volume, which this Composition would delete. Choose the "+
				"Composition that it was created with")
	}
	return nil
}

// checkPVC refuses an observed PVC that has lost its volume, or that has the wrong volume or StorageClass.
func checkPVC(r *resolved, volume string) error {
	c := r.Observed.DataPVC
	if c.Status.Phase == corev1.ClaimLost {
		return newRefusal(v1.ReasonVolumeLost,
			"PersistentVolumeClaim %s has lost its volume %q. Create that PersistentVolume again for the same storage. Or "+
				"restore the newest backup: delete the claim, skip its backup as its message says, and create it again",
			qualifiedName(c.Namespace, c.Name), c.Spec.VolumeName)
	}
	if v := c.Spec.VolumeName; v != "" && volume != "" && v != volume {
		return newRefusal(v1.ReasonVolumeLost,
			"PersistentVolumeClaim %s is bound to volume %q, but this instance's data is on volume %q. Nothing is changed "+
				"until the PersistentVolumeClaim is bound to that volume",
			qualifiedName(c.Namespace, c.Name), v, volume)
	}
	if class := c.Spec.StorageClassName; r.hostPath && class != nil && *class != "" {
		return newRefusal(v1.ReasonNotSupported,
			"spec.compositionRef: this instance's volume has storage class %q, which this hostPath Composition cannot keep. "+
				"Choose the Composition that the instance was created with", *class)
	}
	if want := r.spec.StorageClassName; !r.hostPath && want != nil && c.Spec.StorageClassName != nil &&
		*want != *c.Spec.StorageClassName {
		return newRefusal(v1.ReasonInvalid,
			"spec.storageClassName: %q cannot replace %q. Restore the previous value, or delete the claim (a backup is "+
				"taken) and create it again", *want, *c.Spec.StorageClassName)
	}
	return nil
}

// resolveVolumeSize refuses to shrink a volume. A hostPath volume cannot be resized and need not be, because it has
// the size of the node's disk. A PVC that is created again is bound first and expanded afterwards.
func resolveVolumeSize(r *resolved) (resource.Quantity, error) {
	if c := r.Observed.DataPVC; c != nil {
		current, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]
		switch {
		case !ok:
			return r.size, nil
		case r.size.Cmp(current) < 0 && r.spec.StorageAutogrow != nil:
			return current, nil // The controller records the size of a volume that has grown.
		case r.size.Cmp(current) < 0:
			_, field := r.spec.Size()
			return r.size, newRefusal(v1.ReasonInvalid,
				"spec.%s: %s is smaller than the volume, which has %s and cannot shrink. Set it to %s or more", field,
				r.size.String(), current.String(), current.String())
		case r.hostPath || c.Status.Phase != corev1.ClaimBound:
			return current, nil // A hostPath volume or an unbound PVC cannot be resized.
		}
		return r.size, nil
	}
	if v := boundVolume(r); v != nil {
		if room, ok := v.Spec.Capacity[corev1.ResourceStorage]; ok && r.size.Cmp(room) > 0 {
			return room, nil
		}
	}
	return r.size, nil
}

// boundVolume returns the volume with the instance's data, or nil if there is none or it has not been read.
func boundVolume(r *resolved) *corev1.PersistentVolume {
	switch {
	case r.XR.Status.Volume == "":
		return nil
	case r.Observed.DataPV != nil:
		return r.Observed.DataPV
	}
	return r.Required.Volume.firstItem()
}

// checkVolume returns an error if the volume with the data is missing.
func checkVolume(r *resolved) error {
	name := r.XR.Status.Volume
	if name == "" {
		return checkUnseenVolume(r)
	}
	v := boundVolume(r)
	if v == nil && !r.Required.Volume.Known {
		return nil
	}
	if v == nil {
		return newRefusal(v1.ReasonVolumeLost,
			"PersistentVolume %q, which contains this instance's data, does not exist. Create it again for the same storage. "+
				"Or restore the newest backup: delete the claim, skip its backup as its message says, and create it again", name)
	}
	if ref := v.Spec.ClaimRef; ref != nil &&
		(ref.Namespace != r.instance.Namespace || ref.Name != r.instance.DataPVCName()) {
		return newRefusal(v1.ReasonVolumeLost,
			"PersistentVolume %q, which contains this instance's data, is bound to PersistentVolumeClaim %s. Nothing is "+
				"changed until the volume is released",
			name, qualifiedName(ref.Namespace, ref.Name))
	}
	return nil
}

// checkUnseenVolume refuses to create a new data PVC for a server that is ready or was restored. The data of that
// server is on a volume whose name was never recorded.
func checkUnseenVolume(r *resolved) error {
	d, restore := r.Observed.Deployment, r.XR.Status.Restore
	ready, restored := d != nil && d.Status.ReadyReplicas > 0, restore != nil && restore.Phase == v1.RestoreSucceeded
	if r.hostPath || r.Observed.DataPVC != nil || !ready && !restored {
		return nil
	}
	return newRefusal(v1.ReasonVolumeLost,
		"the server has data, but PersistentVolumeClaim %s does not exist, and the name of its volume is unknown. Create "+
			"the PersistentVolumeClaim again, with the volume that the server's pod mounts",
		qualifiedName(r.instance.Namespace, r.instance.DataPVCName()))
}

// resolveGrowth returns the size that the data PVC may request, the StorageClass that must allow the expansion, and
// an error if the StorageClass does not. In that case, the PVC keeps its size, because the API server would refuse
// any change.
func resolveGrowth(r *resolved, size resource.Quantity) (request resource.Quantity, class string, cannot error) {
	c := r.Observed.DataPVC
	if c == nil || r.hostPath || c.Spec.StorageClassName == nil || *c.Spec.StorageClassName == "" {
		return size, "", nil
	}
	current, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok || size.Cmp(current) <= 0 {
		return size, "", nil
	}
	class = *c.Spec.StorageClassName
	if k := r.Required.Class.firstItem(); k != nil && k.AllowVolumeExpansion != nil && *k.AllowVolumeExpansion {
		return size, class, nil
	}
	if !r.Required.Class.Known {
		return current, class, nil
	}
	_, field := r.spec.Size()
	return current, class, newRefusal(v1.ReasonInvalid,
		"spec.%s: the volume stays at %s, because storage class %q does not allow volume expansion "+
			"(allowVolumeExpansion)", field,
		current.String(), class)
}
