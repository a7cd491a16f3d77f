package volumes

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// growth returns the size in bytes to which the volume of a PVC must grow, or 0 if it is large enough.
func growth(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) int64 {
	if !bound(claim, pv) || claim.DeletionTimestamp != nil {
		return 0
	}
	want, current := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if current.IsZero() || want.Cmp(current) <= 0 {
		return 0
	}
	// After a failed expansion, a user can reduce the request again, but never below the capacity.
	capacity := pv.Spec.Capacity[corev1.ResourceStorage]
	return max(requested(claim), capacity.Value())
}

// sizes returns the fields of a PVC on which growth depends, as a string that can be compared.
func sizes(c *corev1.PersistentVolumeClaim) string {
	return fmt.Sprint(c.Status.Phase, c.Spec.Resources.Requests.Storage(), c.Status.Capacity.Storage())
}

// bound reports whether the PVC is bound to the volume. It compares UIDs, because the volume may be bound to an
// earlier PVC of the same name.
func bound(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == pv.Name &&
		pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID
}

// tooLarge returns an error if the size can never be provisioned, so that a retry is useless.
func tooLarge(size int64) error {
	if size > largest {
		return fmt.Errorf("%s is more than %s, the largest there is", quantity(size), quantity(largest))
	}
	return nil
}

// growing updates the status of a PVC before its volume is expanded to the given size.
func growing(s *corev1.PersistentVolumeClaimStatus, size int64, now metav1.Time) {
	s.AllocatedResources = with(s.AllocatedResources, size)
	allocation(s, corev1.PersistentVolumeClaimControllerResizeInProgress)
	condition(s, corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, LastTransitionTime: now,
	})
}

// grown updates the status of a PVC whose volume and file system were expanded, so that the kubelet has nothing left
// to do.
func grown(s *corev1.PersistentVolumeClaimStatus, size int64) {
	s.Capacity = with(s.Capacity, size)
	s.AllocatedResources = with(s.AllocatedResources, size)
	delete(s.AllocatedResourceStatuses, corev1.ResourceStorage)
	drop(s, corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
		corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError)
}

// stuck updates the status of a PVC whose volume could not be expanded.
func stuck(s *corev1.PersistentVolumeClaimStatus, size int64, cause error, now metav1.Time) {
	if tooLarge(size) != nil {
		allocation(s, corev1.PersistentVolumeClaimControllerResizeInfeasible)
	}
	condition(s, corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, LastTransitionTime: now,
		Message: cause.Error(),
	})
}

func with(l corev1.ResourceList, size int64) corev1.ResourceList {
	l = l.DeepCopy()
	if l == nil {
		l = corev1.ResourceList{}
	}
	l[corev1.ResourceStorage] = *quantity(size)
	return l
}

func allocation(s *corev1.PersistentVolumeClaimStatus, a corev1.ClaimResourceStatus) {
	if s.AllocatedResourceStatuses == nil {
		s.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{}
	}
	s.AllocatedResourceStatuses[corev1.ResourceStorage] = a
}

// condition sets a condition in the status of a PVC. It keeps the transition time if the condition's status is
// unchanged.
func condition(s *corev1.PersistentVolumeClaimStatus, c corev1.PersistentVolumeClaimCondition) {
	i := slices.IndexFunc(s.Conditions, func(o corev1.PersistentVolumeClaimCondition) bool { return o.Type == c.Type })
	if i < 0 {
		s.Conditions = append(s.Conditions, c)
		return
	}
	if s.Conditions[i].Status == c.Status {
		c.LastTransitionTime = s.Conditions[i].LastTransitionTime
	}
	s.Conditions[i] = c
}

func drop(s *corev1.PersistentVolumeClaimStatus, types ...corev1.PersistentVolumeClaimConditionType) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return slices.Contains(types, c.Type)
	})
}
