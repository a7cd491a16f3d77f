package compose

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

func pvReady(v *corev1.PersistentVolume) bool {
	return v != nil && v.Status.Phase == corev1.VolumeBound
}

func pvcReady(c *corev1.PersistentVolumeClaim) bool {
	return c != nil && c.Status.Phase == corev1.ClaimBound
}

// deploymentReady reports whether a pod with the newest template accepts clients.
func deploymentReady(d *appsv1.Deployment) bool {
	return d != nil && d.Status.ObservedGeneration >= d.Generation &&
		d.Status.UpdatedReplicas > 0 && d.Status.ReadyReplicas > 0
}

// minReadySeconds is the time in seconds that a pod must be ready before the Deployment reports it as available.
// mysqld listens on its port before it rejects unknown settings. With unknown settings, a pod is therefore ready for
// one or two seconds after each restart.
const minReadySeconds = 10

// deploymentAvailable reports whether a pod with the newest template has been ready for minReadySeconds.
func deploymentAvailable(d *appsv1.Deployment) bool {
	return deploymentReady(d) && d.Status.AvailableReplicas > 0
}

// serviceReady reports whether the Service exists. It ignores the address of a load balancer, which clients in the
// cluster do not need. Crossplane copies connection details to the claim's Secret only while the XR is Ready.
func serviceReady(s *corev1.Service) bool { return s != nil }

func jobComplete(j *batchv1.Job) bool { return jobCondition(j, batchv1.JobComplete) != nil }

// jobCondition returns a condition of a Job if its status is True, or nil.
func jobCondition(j *batchv1.Job, t batchv1.JobConditionType) *batchv1.JobCondition {
	if j == nil {
		return nil
	}
	for i := range j.Status.Conditions {
		if c := &j.Status.Conditions[i]; c.Type == t && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
