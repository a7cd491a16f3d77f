package volumes

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotationProvisionedBy is the annotation in which the provisioner library stores the provisioner of a
// PersistentVolume.
const annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"

// plainAnnotation returns the key of an annotation that says why a volume is a plain directory without a size limit.
func plainAnnotation(provisioner string) string { return provisioner + "/plain-folder" }

// A blueprint contains the data from which the PersistentVolume of a new volume is created.
type blueprint struct {
	name  string
	path  string
	node  string
	claim *corev1.PersistentVolumeClaim
	class *storagev1.StorageClass
	// plain is the reason why the volume is a plain directory. It is empty if the volume is a file system of its own.
	plain string
}

// volume returns the PersistentVolume without the fields that the library sets: the reference to the PVC, the
// StorageClass, the annotation provisioned-by and the finalizer.
func (b blueprint) volume() *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: b.name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: *quantity(requested(b.claim))},
			AccessModes:                   b.claim.Spec.AccessModes,
			VolumeMode:                    new(corev1.PersistentVolumeFilesystem),
			MountOptions:                  b.class.MountOptions,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: b.path}},
			NodeAffinity:                  onlyOn(b.node),
		},
	}
	if b.class.ReclaimPolicy != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *b.class.ReclaimPolicy
	}
	if b.plain != "" {
		pv.Annotations = map[string]string{plainAnnotation(b.class.Provisioner): b.plain}
	}
	return pv
}

func onlyOn(node string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key:      corev1.LabelHostname,
				Operator: corev1.NodeSelectorOpIn,
				Values:   []string{node},
			}},
		}},
	}}
}

// onNode reports whether the volume belongs to this node.
func onNode(pv *corev1.PersistentVolume, node string) bool {
	if pv.Spec.Local == nil || pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return false
	}
	for _, t := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range t.MatchExpressions {
			if e.Key == corev1.LabelHostname && len(e.Values) == 1 && e.Values[0] == node {
				return true
			}
		}
	}
	return false
}

// ours reports whether the provisioner of this node created the PersistentVolume.
func ours(pv *corev1.PersistentVolume, name, node string) bool {
	return pv.Annotations[annotationProvisionedBy] == name && onNode(pv, node)
}
