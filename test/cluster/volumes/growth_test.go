package volumes

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// boundClaim returns a PVC that is bound to a volume of 1Gi.
func boundClaim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	return testClaim(append([]func(*corev1.PersistentVolumeClaim){func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = "pvc-u1"
		c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: storage("1Gi")}
	}}, change...)...)
}

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func TestGrowth(t *testing.T) {
	pvOf := func(size string) *corev1.PersistentVolume {
		pv := testVolume()
		pv.Spec.Capacity = storage(size)
		return pv
	}
	cases := map[string]struct {
		reason string
		claim  *corev1.PersistentVolumeClaim
		pv     *corev1.PersistentVolume
		want   int64
	}{
		"Enough": {"The volume has the requested size.", boundClaim(), pvOf("1Gi"), 0},
		"More":   {"The requested size is larger than the volume.", boundClaim(asking("2Gi")), pvOf("1Gi"), 2048 * mebibyte},
		"Odd": {"The size of a volume must be a whole number of mebibytes.",
			boundClaim(asking("1073741825")), pvOf("1Gi"), 1025 * mebibyte},
		"HalfDone": {"After a crash, the volume has already grown, but the status of the PVC has not changed.",
			boundClaim(asking("2Gi")), pvOf("2Gi"),
			2048 * mebibyte},
		"Recovered": {"The requested size is less than that of an earlier growth, which failed halfway.",
			boundClaim(asking("2Gi")), pvOf("3Gi"),
			3072 * mebibyte},
		"NotBound": {"The PVC is not bound to a volume yet.", testClaim(asking("2Gi")), pvOf("1Gi"), 0},
		"OtherClaim": {"The volume was bound to an earlier PVC with this name.",
			boundClaim(asking("2Gi"), func(c *corev1.PersistentVolumeClaim) { c.UID = "u2" }), pvOf("1Gi"), 0},
		"Going": {"The PVC is being deleted.",
			boundClaim(asking("2Gi"), func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }),
			pvOf("1Gi"), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, growth(tc.claim, tc.pv)); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestGrowthStatus(t *testing.T) {
	now, errBoom := metav1.NewTime(time.Unix(1, 0)), errors.New("boom")
	failed := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimControllerResizeError,
		Status: corev1.ConditionTrue, LastTransitionTime: now, Message: "boom"}
	resizing := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimResizing,
		Status: corev1.ConditionTrue, LastTransitionTime: now}
	doing := func(s corev1.ClaimResourceStatus) map[corev1.ResourceName]corev1.ClaimResourceStatus {
		return map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: s}
	}
	cases := map[string]struct {
		reason string
		change func(*corev1.PersistentVolumeClaimStatus)
		want   corev1.PersistentVolumeClaimStatus
	}{
		"Growing": {
			reason: "The status must report the resize before the volume grows.",
			change: func(s *corev1.PersistentVolumeClaimStatus) { growing(s, 2048*mebibyte, now) },
			want: corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, Capacity: storage("1Gi"), AllocatedResources: storage("2Gi"),
				AllocatedResourceStatuses: doing(corev1.PersistentVolumeClaimControllerResizeInProgress),
				Conditions:                []corev1.PersistentVolumeClaimCondition{resizing},
			},
		},
		"Grown": {
			reason: "The conditions of earlier attempts must be removed.",
			change: func(s *corev1.PersistentVolumeClaimStatus) {
				growing(s, 2048*mebibyte, now)
				stuck(s, 2048*mebibyte, errBoom, now)
				grown(s, 2048*mebibyte)
			},
			want: corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, Capacity: storage("2Gi"), AllocatedResources: storage("2Gi"),
				AllocatedResourceStatuses: map[corev1.ResourceName]corev1.ClaimResourceStatus{},
				Conditions:                []corev1.PersistentVolumeClaimCondition{},
			},
		},
		"Stuck": {
			reason: "A resize that is retried must stay in progress, with the time of the first failure.",
			change: func(s *corev1.PersistentVolumeClaimStatus) {
				growing(s, 2048*mebibyte, now)
				stuck(s, 2048*mebibyte, errBoom, now)
				stuck(s, 2048*mebibyte, errBoom, metav1.NewTime(time.Unix(2, 0)))
			},
			want: corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, Capacity: storage("1Gi"), AllocatedResources: storage("2Gi"),
				AllocatedResourceStatuses: doing(corev1.PersistentVolumeClaimControllerResizeInProgress),
				Conditions:                []corev1.PersistentVolumeClaimCondition{resizing, failed},
			},
		},
		"Infeasible": {
			reason: "A size that exceeds the maximum must be reported as infeasible.",
			change: func(s *corev1.PersistentVolumeClaimStatus) { stuck(s, largest+1, errBoom, now) },
			want: corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, Capacity: storage("1Gi"),
				AllocatedResourceStatuses: doing(corev1.PersistentVolumeClaimControllerResizeInfeasible),
				Conditions:                []corev1.PersistentVolumeClaimCondition{failed},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := boundClaim().Status
			tc.change(&got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
