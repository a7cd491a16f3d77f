package volumes

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The names of the storage classes.
const (
	// ClassLocal is the default.
	ClassLocal = "local"
	// ClassRetain keeps the volume when its claim goes.
	ClassRetain = "local-retain"
	// ClassFixed does not let volumes grow.
	ClassFixed = "local-fixed"
	// ClassImmediate binds claims before there is a pod that wants them.
	ClassImmediate = "local-immediate"
)

const annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

// StorageClasses returns the classes of the provisioner with this name.
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
