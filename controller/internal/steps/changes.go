package steps

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// AddFinalizer puts our finalizer on an object that is about to be written.
func AddFinalizer(o client.Object) { controllerutil.AddFinalizer(o, v1.Finalizer) }

// RemoveFinalizer of an object: what nothing else holds is gone then.
func RemoveFinalizer(o client.Object) change.Change {
	return change.PatchObject(o, func(o client.Object) { controllerutil.RemoveFinalizer(o, v1.Finalizer) }).OrGone()
}

// OrNil is the value of a field that goes where there is no text.
func OrNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// PatchXRStatus writes fields of the status of the composite resource.
func PatchXRStatus(s *instance.State, fields map[string]any) []change.Change {
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured, fields)}
}

// WithoutDeleted are the objects that are not being deleted yet.
func WithoutDeleted(objects []client.Object) []client.Object {
	var out []client.Object
	for _, o := range objects {
		if o.GetDeletionTimestamp() == nil {
			out = append(out, o)
		}
	}
	return out
}

// IsGoing is true for a PersistentVolumeClaim that is being deleted. No new pod
// can mount it, and it stays as long as a pod that a node was found for has it, even
// one that has ended.
func IsGoing(pvc *corev1.PersistentVolumeClaim) bool {
	return pvc != nil && pvc.DeletionTimestamp != nil
}

// DeleteOrRelease deletes an object or, where that is done, drops our finalizer.
func DeleteOrRelease(o client.Object) change.Change {
	if o.GetDeletionTimestamp() == nil {
		return change.DeleteObject(o, metav1.DeletePropagationBackground)
	}
	return RemoveFinalizer(o)
}

// ReservedFor a PVC that is not there yet.
func ReservedFor(namespace, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name}
}

// DeleteAndWait deletes what is not being deleted yet, and waits for all of it.
func DeleteAndWait(objects []client.Object) (Step, bool) {
	if targets := WithoutDeleted(objects); len(targets) > 0 {
		return Step{Action: DeleteObjects, Targets: targets}, true
	}
	return Step{Action: Wait, After: RequeueSoon}, len(objects) > 0
}

// MarkUID of an object on itself, so that a copy of it says that it is one.
func MarkUID(o client.Object) { SetAnnotation(o, v1.AnnotationMarkedUID, string(o.GetUID())) }

// IsMarkedUID reports whether an object has the UID with which it was marked: a copy of it has another.
func IsMarkedUID(o client.Object) bool {
	return o.GetAnnotations()[v1.AnnotationMarkedUID] == string(o.GetUID())
}

// RetainPV keeps a volume whatever becomes of its PVC. It remembers the reclaim policy that it
// had, and only once: the second time that would be Retain.
func RetainPV(v *corev1.PersistentVolume) {
	if v.Annotations[v1.AnnotationReclaimPolicy] == "" {
		SetAnnotation(v, v1.AnnotationReclaimPolicy, string(v.Spec.PersistentVolumeReclaimPolicy))
	}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	controllerutil.AddFinalizer(v, v1.Finalizer)
}

// UnretainPV leaves a volume to the reclaim policy that it had.
func UnretainPV(v *corev1.PersistentVolume) {
	if was := v.Annotations[v1.AnnotationReclaimPolicy]; was != "" {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(was)
		delete(v.Annotations, v1.AnnotationReclaimPolicy)
	}
	controllerutil.RemoveFinalizer(v, v1.Finalizer)
}

// SetAnnotation of an object that is about to be written.
func SetAnnotation(o client.Object, key, value string) {
	SetLabelsAndAnnotations(o, nil, map[string]string{key: value})
}

// SetLabelsAndAnnotations adds labels and annotations to those of an object.
func SetLabelsAndAnnotations(o client.Object, labels, annotations map[string]string) {
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

// BackupLabels lack the XR's: backups are of all lives.
func BackupLabels(i v1.Instance) map[string]string {
	i.XR = ""
	l := i.Labels()
	l[v1.LabelComponent] = v1.ComponentBackup
	return l
}
