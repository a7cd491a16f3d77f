package compose

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Storage of an instance: its volume, and what is asked of the PVC for it.
type storage struct {
	// volume that the PVC is bound to, or is to be bound to; empty where Kubernetes
	// chooses one.
	volume string
	// size of the volume that is wanted, and request what the PVC asks for meanwhile.
	size, request resource.Quantity
	// growsWith is the storage class that says whether the volume may grow; empty
	// where it need not.
	growsWith string
	// cannotGrow says so, and stops nothing else.
	cannotGrow error
}

// resolveStorage refuses what would lose sight of the data: another volume, no
// volume, a smaller one, another class or another kind of volume. What it has found
// out is there with an error, too.
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

// checkComposition refuses one that has no volumes on hostPath for an instance that
// has one.
func checkComposition(r *resolved) error {
	if !r.hostPath && r.Observed.DataPV != nil {
		return newRefusal(v1.ReasonNotSupported, "spec.compositionRef: this instance has a hostPath volume, which this Composition would delete: choose the Composition that it was made with")
	}
	return nil
}

// checkPVC holds the observed PVC against what is wanted.
func checkPVC(r *resolved, volume string) error {
	c := r.Observed.DataPVC
	if c.Status.Phase == corev1.ClaimLost {
		return newRefusal(v1.ReasonVolumeLost, "PersistentVolumeClaim %s has lost its volume %q: bring that PersistentVolume back, or delete the claim and create it again to restore the newest backup",
			qualifiedName(c.Namespace, c.Name), c.Spec.VolumeName)
	}
	if v := c.Spec.VolumeName; v != "" && volume != "" && v != volume {
		return newRefusal(v1.ReasonVolumeLost, "PersistentVolumeClaim %s is bound to volume %q, but this instance's data is on %q: nothing is changed until it is bound to that one",
			qualifiedName(c.Namespace, c.Name), v, volume)
	}
	if class := c.Spec.StorageClassName; r.hostPath && class != nil && *class != "" {
		return newRefusal(v1.ReasonNotSupported, "spec.compositionRef: this instance's volume has storage class %q, which this hostPath Composition cannot keep: choose the Composition that it was made with", *class)
	}
	if want := r.spec.StorageClassName; !r.hostPath && want != nil && c.Spec.StorageClassName != nil && *want != *c.Spec.StorageClassName {
		return newRefusal(v1.ReasonInvalid, "spec.storageClassName: %q cannot replace %q: set it back, or delete the claim (a backup is taken) and create it again", *want, *c.Spec.StorageClassName)
	}
	return nil
}

// resolveVolumeSize refuses to shrink. A hostPath volume cannot be resized, and has
// no need to be: its size is the node's. A PVC that is made again binds its volume
// first, and grows then.
func resolveVolumeSize(r *resolved) (resource.Quantity, error) {
	if c := r.Observed.DataPVC; c != nil {
		have, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]
		switch {
		case !ok:
			return r.size, nil
		case r.size.Cmp(have) < 0:
			_, field := r.spec.Size()
			return r.size, newRefusal(v1.ReasonInvalid, "spec.%s: %s is smaller than the volume, which has %s and cannot shrink: set it to %s or more", field, r.size.String(), have.String(), have.String())
		case r.hostPath || c.Status.Phase != corev1.ClaimBound:
			return have, nil // Neither can be resized.
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

// boundVolume is the one that holds the instance's data, or nil where it has none or
// it is not seen.
func boundVolume(r *resolved) *corev1.PersistentVolume {
	switch {
	case r.XR.Status.Volume == "":
		return nil
	case r.Observed.DataPV != nil:
		return r.Observed.DataPV
	}
	return r.Required.Volume.firstItem()
}

// checkVolume refuses to go on without the volume that holds the data.
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
		return newRefusal(v1.ReasonVolumeLost, "PersistentVolume %q, which holds this instance's data, does not exist: bring it back, or delete the claim and create it again to restore the newest backup", name)
	}
	if ref := v.Spec.ClaimRef; ref != nil && (ref.Namespace != r.instance.Namespace || ref.Name != r.instance.DataPVCName()) {
		return newRefusal(v1.ReasonVolumeLost, "PersistentVolume %q, which holds this instance's data, is bound to PersistentVolumeClaim %s: nothing is changed until it is free again",
			name, qualifiedName(ref.Namespace, ref.Name))
	}
	return nil
}

// checkUnseenVolume refuses to make a new data PVC for a server that is ready or was
// restored: it has data on a volume whose name was never seen.
func checkUnseenVolume(r *resolved) error {
	d, restore := r.Observed.Deployment, r.XR.Status.Restore
	ready, restored := d != nil && d.Status.ReadyReplicas > 0, restore != nil && restore.Phase == v1.RestoreSucceeded
	if r.hostPath || r.Observed.DataPVC != nil || !ready && !restored {
		return nil
	}
	return newRefusal(v1.ReasonVolumeLost, "the server has data but PersistentVolumeClaim %s is not there, and the name of its volume is not known: bring that PersistentVolumeClaim back with the volume that the server's pod mounts",
		qualifiedName(r.instance.Namespace, r.instance.DataPVCName()))
}

// resolveGrowth of the data PVC to a size: what it may ask for, the class on which
// that depends, and why it cannot grow. The API server refuses every change of a PVC
// whose class does not let it grow, so what cannot grow keeps what it has.
func resolveGrowth(r *resolved, size resource.Quantity) (request resource.Quantity, class string, cannot error) {
	c := r.Observed.DataPVC
	if c == nil || r.hostPath || c.Spec.StorageClassName == nil || *c.Spec.StorageClassName == "" {
		return size, "", nil
	}
	have, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok || size.Cmp(have) <= 0 {
		return size, "", nil
	}
	class = *c.Spec.StorageClassName
	if k := r.Required.Class.firstItem(); k != nil && k.AllowVolumeExpansion != nil && *k.AllowVolumeExpansion {
		return size, class, nil
	}
	if !r.Required.Class.Known {
		return have, class, nil
	}
	_, field := r.spec.Size()
	return have, class, newRefusal(v1.ReasonInvalid, "spec.%s: the volume stays at %s: storage class %q does not let volumes grow (allowVolumeExpansion)", field, have.String(), class)
}
