package compose

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// dataPV returns a hostPath volume. Its name and its directory contain the UID of this XR, and its claimRef reserves
// it for the data PVC.
func dataPV(r *resolved, s storage) *corev1.PersistentVolume {
	name := r.instance.DataPVName()
	v := &corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: r.instance.Labels(), Annotations: volumeAnnotations(r),
			Finalizers: []string{v1.Finalizer}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: s.size},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: r.instance.Namespace, Name: r.instance.DataPVCName(),
			},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		},
	}
	v.Spec.HostPath = &corev1.HostPathVolumeSource{
		Path: path.Join(r.Settings.HostPathRoot, name),
		Type: new(corev1.HostPathDirectoryOrCreate),
	}
	if o := r.Observed.DataPV; o != nil && o.Spec.HostPath != nil {
		// The directory of a volume cannot change, even if the platform's root directory changes.
		v.Spec.HostPath = o.Spec.HostPath
	}
	if n := r.Settings.HostPathNode; n != "" {
		v.Spec.NodeAffinity = agent.OnNode(n)
	}
	return v
}
