package compose

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// dataPVC returns the PVC of the data volume. It has the finalizer from its creation, so that every deletion waits
// for a backup of the data.
func dataPVC(r *resolved, s storage) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: r.meta(r.instance.DataPVCName(), map[string]string{v1.LabelApp: r.instance.AppLabel()}),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: s.request}},
			StorageClassName: storageClass(r),
			VolumeName:       s.volume,
		},
	}
	c.Finalizers = []string{v1.Finalizer}
	c.Annotations = volumeAnnotations(r)
	return c
}

// storageClass returns the StorageClass of the data PVC. It is immutable, so an observed PVC keeps its class even if
// the platform's default changes.
func storageClass(r *resolved) *string {
	if r.hostPath {
		return new("")
	}
	if r.spec.StorageClassName != nil {
		return r.spec.StorageClassName
	}
	if c := r.Observed.DataPVC; c != nil {
		return c.Spec.StorageClassName
	}
	if r.XR.Status.Volume != "" {
		// The PVC was deleted. Its replacement for the same volume needs the StorageClass of the volume.
		if v := r.Required.Volume.firstItem(); v != nil {
			return &v.Spec.StorageClassName
		}
	}
	return r.Settings.DefaultStorageClassName
}

// volumeAnnotations returns the annotations that the controller needs when the claim and the XR are deleted.
func volumeAnnotations(r *resolved) map[string]string {
	a := agent.Annotations(r.instance)
	a[v1.AnnotationImage] = r.templateInput.Image
	a[v1.AnnotationDeletionPolicy] = string(r.spec.DeletionPolicy)
	if r.store != "" {
		a[v1.AnnotationBackupStore] = r.store
	}
	return a
}
