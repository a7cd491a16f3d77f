package lifecycle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A Job that backs up mounts two volumes, and there may be no node that can use both: volumes are
// of a zone, or of a node. That must not come out when the instance is deleted. Backups of earlier
// lives pull the server to where they are; a volume that has none gives way at the start of a life,
// and the new one is made where the data is, by the first pod that mounts both. Where a class binds
// at once, nobody chooses: then the server finds no node, and says so, before it has any data.

// backupNodes are those that can use the volume of the backups; nil where all can, or where it is
// not made yet.
func backupNodes(s *instance.State) *corev1.NodeSelector {
	if s.BackupPV == nil || s.BackupPV.Spec.NodeAffinity == nil {
		return nil
	}
	return s.BackupPV.Spec.NodeAffinity.Required
}

// giveWay to a new volume beside the data, which is not there yet: that of the backups has none,
// and was made for an earlier life. One that may have been copied, or has been used by somebody
// else, stays. A folder is where its node is, and is made there again.
func giveWay(s *instance.State) (step steps.Step, open bool) {
	c, v := s.BackupPVC, s.BackupPV
	switch {
	case s.XR.Status.Started || s.XR.Status.Restore != nil || c == nil || v == nil || backupNodes(s) == nil || v.Spec.HostPath != nil:
		return steps.Step{}, false
	case c.Annotations[v1.AnnotationMadeFor] == "" || c.Annotations[v1.AnnotationMadeFor] == string(s.Life.XR):
		return steps.Step{}, false
	case !steps.IsMarkedUID(c) || !steps.IsMarkedUID(v) || hasBackups(s):
		return steps.Step{}, false
	case instance.HasFinalizer(v):
		return steps.Step{Action: steps.ReleaseBackupPV, Message: setAsideMessage(v, "not all nodes can use it: it gives way to one beside the data")}, true
	case c.DeletionTimestamp == nil:
		return steps.Step{Action: steps.DeleteBackupPVC, Message: fmt.Sprintf("PersistentVolumeClaim %s of the backups is made again, beside the data", c.Name)}, true
	}
	return steps.Step{}, false // It goes as any other that is being deleted.
}
