package compose

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// dataPVC mounts the data volume. It carries our finalizer from birth: whatever way
// it is deleted, the data waits for its backup.
func dataPVC(r *resolved, s storage) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: r.meta(r.instance.DataPVCName(), map[string]string{v1.LabelApp: r.instance.AppLabel()}),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: s.request}},
			StorageClassName: storageClass(r),
			VolumeName:       s.volume,
		},
	}
	c.Finalizers = []string{v1.Finalizer}
	c.Annotations = volumeAnnotations(r)
	return c
}

// storageClass of the data PVC. It cannot change, so what is observed stays
// whatever becomes of the platform's default.
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
		// The PVC is gone, and is made again on its volume.
		if v := r.Required.Volume.firstItem(); v != nil {
			return &v.Spec.StorageClassName
		}
	}
	return r.Settings.DefaultStorageClassName
}

// volumeAnnotations say what the controller must know of a volume when claim
// and XR are gone.
func volumeAnnotations(r *resolved) map[string]string {
	a := agent.Annotations(r.instance)
	a[v1.AnnotationImage] = r.wish.Image
	a[v1.AnnotationDeletionPolicy] = string(r.spec.DeletionPolicy)
	if r.store != "" {
		a[v1.AnnotationBackupStore] = r.store
	}
	return a
}
