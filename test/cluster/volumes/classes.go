package volumes

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of the StorageClasses.
const (
	// ClassLocal is the default StorageClass of the cluster.
	ClassLocal = "local"
	// ClassRetain retains the volume when its PVC is deleted.
	ClassRetain = "local-retain"
	// ClassFixed does not allow volume expansion.
	ClassFixed = "local-fixed"
	// ClassImmediate binds a PVC immediately, before a pod uses it.
	ClassImmediate = "local-immediate"
)

const annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

// StorageClasses returns the StorageClasses for the named provisioner.
func StorageClasses(name string) []*storagev1.StorageClass {
	local := class(ClassLocal, name)
	local.Annotations = map[string]string{annotationDefaultClass: "true"}

	retain := class(ClassRetain, name)
	retain.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRetain)

	fixed := class(ClassFixed, name)
	fixed.AllowVolumeExpansion = new(false)

	immediate := class(ClassImmediate, name)
	immediate.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)

	return []*storagev1.StorageClass{local, retain, fixed, immediate}
}

func class(name, provisioner string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		TypeMeta:             metav1.TypeMeta{APIVersion: storagev1.SchemeGroupVersion.String(), Kind: "StorageClass"},
		ObjectMeta:           metav1.ObjectMeta{Name: name},
		Provisioner:          provisioner,
		ReclaimPolicy:        new(corev1.PersistentVolumeReclaimDelete),
		AllowVolumeExpansion: new(true),
		VolumeBindingMode:    new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}
