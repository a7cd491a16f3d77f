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

// AddFinalizer adds the controller's finalizer to an object that is about to be written.
func AddFinalizer(o client.Object) { controllerutil.AddFinalizer(o, v1.Finalizer) }

// RemoveFinalizer removes the controller's finalizer from an object. The API server then deletes the object, if it is
// being deleted and has no other finalizer.
func RemoveFinalizer(o client.Object) change.Change {
	return change.PatchObject(o, func(o client.Object) { controllerutil.RemoveFinalizer(o, v1.Finalizer) }).OrGone()
}

// OrNil returns nil for an empty string, so that a merge patch removes the field.
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

// PatchXRInternal writes fields of status.internal of the composite resource.
func PatchXRInternal(s *instance.State, fields map[string]any) []change.Change {
	return PatchXRStatus(s, Internal(fields))
}

// Internal returns the status fields that contain the given fields of status.internal.
func Internal(fields map[string]any) map[string]any { return map[string]any{v1.StatusInternal: fields} }

// WithoutDeleted returns the objects that are not being deleted yet.
func WithoutDeleted(objects []client.Object) []client.Object {
	var out []client.Object
	for _, o := range objects {
		if o.GetDeletionTimestamp() == nil {
			out = append(out, o)
		}
	}
	return out
}

// IsGoing reports whether a PersistentVolumeClaim is being deleted. No new pod can mount such a PVC. The PVC exists as
// long as a scheduled pod uses it, even if that pod has terminated.
func IsGoing(pvc *corev1.PersistentVolumeClaim) bool {
	return pvc != nil && pvc.DeletionTimestamp != nil
}

// DeleteOrRelease deletes an object, or removes the finalizer if the object is already being deleted.
func DeleteOrRelease(o client.Object) change.Change {
	if o.GetDeletionTimestamp() == nil {
		return change.DeleteObject(o, metav1.DeletePropagationBackground)
	}
	return RemoveFinalizer(o)
}

// ReservedFor returns the reference that reserves a volume for a PVC that does not exist yet.
func ReservedFor(namespace, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name}
}

// DeleteAndWait returns the step that deletes the objects which are not being deleted yet. It then waits for all of
// them.
func DeleteAndWait(objects []client.Object) (Step, bool) {
	if targets := WithoutDeleted(objects); len(targets) > 0 {
		return Step{Action: DeleteObjects, Targets: targets}, true
	}
	return Step{Action: Wait, After: RequeueSoon}, len(objects) > 0
}

// MarkUID stores the UID of an object in its annotations, so that a copy of the object can be recognized.
func MarkUID(o client.Object) { SetAnnotation(o, v1.AnnotationMarkedUID, string(o.GetUID())) }

// IsMarkedUID reports whether the stored UID of an object is its own. A copy has a different UID.
func IsMarkedUID(o client.Object) bool {
	return o.GetAnnotations()[v1.AnnotationMarkedUID] == string(o.GetUID())
}

// RetainPV makes a volume survive the deletion of its PVC. It stores the original reclaim policy only the first time,
// because the policy is Retain after that.
func RetainPV(v *corev1.PersistentVolume) {
	if v.Annotations[v1.AnnotationReclaimPolicy] == "" {
		SetAnnotation(v, v1.AnnotationReclaimPolicy, string(v.Spec.PersistentVolumeReclaimPolicy))
	}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	controllerutil.AddFinalizer(v, v1.Finalizer)
}

// UnretainPV restores the original reclaim policy of a volume.
func UnretainPV(v *corev1.PersistentVolume) {
	if policy := v.Annotations[v1.AnnotationReclaimPolicy]; policy != "" {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(policy)
		delete(v.Annotations, v1.AnnotationReclaimPolicy)
	}
	controllerutil.RemoveFinalizer(v, v1.Finalizer)
}

// SetAnnotation sets an annotation of an object that is about to be written.
func SetAnnotation(o client.Object, key, value string) {
	SetLabelsAndAnnotations(o, nil, map[string]string{key: value})
}

// SetLabelsAndAnnotations adds labels and annotations to an object.
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

// BackupLabels returns the labels of a backup volume. They do not contain the XR, because a backup volume belongs to
// all instances with this name.
func BackupLabels(i v1.Instance) map[string]string {
	i.XR = ""
	l := i.Labels()
	l[v1.LabelComponent] = v1.ComponentBackup
	return l
}
