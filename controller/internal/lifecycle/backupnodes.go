package lifecycle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A backup Job mounts the data volume and the backup volume. If the volumes belong to different zones or nodes, no
// node can run the Job. This must become apparent when an instance starts, not when it is deleted:
//
// - If previous instances have backups on the backup volume, the server is scheduled to the nodes that can use it.
// - If the backup volume is empty, it is replaced. The first pod that mounts both volumes binds the new one.
// - If the StorageClass binds immediately, the volumes may not match. The server is then unschedulable, and the status
// reports this before there is any data.

// backupNodes returns the nodes that can use the backup volume. It returns nil if all nodes can, or if the volume
// does not exist yet.
func backupNodes(s *instance.State) *corev1.NodeSelector {
	if s.BackupPV == nil || s.BackupPV.Spec.NodeAffinity == nil {
		return nil
	}
	return s.BackupPV.Spec.NodeAffinity.Required
}

// deleteUnusedBackupPVC deletes an empty backup volume and its PVC if they were created for a previous instance. A
// new backup volume is then created next to the new data volume. It skips a volume that may be a copy or that another
// client has used. It also skips a hostPath volume, which is created on the node of the data.
func deleteUnusedBackupPVC(s *instance.State) (step steps.Step, open bool) {
	c, v := s.BackupPVC, s.BackupPV
	switch {
	case s.XR.Status.Started || s.XR.Status.Restore != nil || c == nil || v == nil || backupNodes(s) == nil ||
		v.Spec.HostPath != nil:
		return steps.Step{}, false
	case c.Annotations[v1.AnnotationMadeFor] == "" || c.Annotations[v1.AnnotationMadeFor] == string(s.Instance.XR):
		return steps.Step{}, false
	case !steps.IsMarkedUID(c) || !steps.IsMarkedUID(v) || hasBackups(s):
		return steps.Step{}, false
	case instance.HasFinalizer(v):
		return steps.Step{Action: steps.ReleaseBackupPV,
			Message: setAsideMessage(v, "not all nodes can use it, so it is replaced by a new volume near the data")}, true
	case c.DeletionTimestamp == nil:
		return steps.Step{Action: steps.DeleteBackupPVC,
			Message: fmt.Sprintf("PersistentVolumeClaim %s for the backups is created again, near the data", c.Name)}, true
	}
	return steps.Step{}, false // A PVC that is being deleted is handled like any other.
}
