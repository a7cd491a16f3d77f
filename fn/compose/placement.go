package compose

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/placement"
)

// schedulingOf returns the scheduling of the claim, or the platform's default if the claim has none. It is never nil.
func schedulingOf(s *serverInput) *v1.Scheduling {
	return cmp.Or(s.templateInput.Scheduling, s.defaultScheduling, &v1.Scheduling{})
}

// schedule sets the scheduling of the server's pod or of the restore Job's pod. The first of these pods determines
// where the data volume is provisioned. The backup Job mounts both the data volume and the backup volume, so the pod
// must run on a node that can use the backup volume.
func schedule(s *serverInput, pod *corev1.PodSpec) {
	w := placement.Preference{Scheduling: schedulingOf(s), Component: s.instance.ServerSelector()[v1.LabelComponent],
		Nodes: s.backupNodes}
	if s.ephemeral {
		w.Nodes = nil
	}
	w.Apply(pod)
}

// nodesOfJobs returns the nodes for the controller's Jobs, or nil if the scheduler may choose. These are the nodes on
// which the server last ran. A backup can then run even if a user requests nodes that cannot use the data volume, and
// the server cannot be scheduled.
func nodesOfJobs(r *resolved, rev revision) *v1.NodePlacement {
	d := r.Observed.Deployment
	switch {
	case r.ephemeral:
		return nil
	case !r.started || r.XR.Status.UID == "": // The server is the first to run there, or the status was lost.
	case rev.observed || rev.seen == "" || !deploymentReady(d) || d.Spec.Replicas == nil || *d.Spec.Replicas == 0:
		return r.XR.Status.Nodes
	}
	return schedulingOf(r.serverInput).NodePlacement().OfJobs()
}
