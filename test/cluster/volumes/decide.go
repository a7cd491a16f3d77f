package volumes

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Annotations that other components set on a PVC.
const (
	// annotationSelectedNode is set by the scheduler if the PVC waits for its first consumer.
	annotationSelectedNode = "volume.kubernetes.io/selected-node"
	// annotationProvisioner is set by kube-controller-manager when the provisioner that it names must act.
	annotationProvisioner = "volume.kubernetes.io/storage-provisioner"
)

// Minimum and maximum size of a volume. Image files are sparse, so the space on the machine's disk limits only the
// data that is written. A larger request is probably a mistake in the unit. A smaller volume has no room for the log
// of XFS.
const (
	mebibyte = int64(1) << 20
	smallest = 64 * mebibyte
	largest  = int64(1) << 40
)

// A verdict is what the provisioner on this node must do about a PVC without a volume.
type verdict string

const (
	// leave means that this node must do nothing, at least for now.
	leave verdict = "leave"
	// take means that this node must write its own name into the PVC. The scheduler does not select a node for a PVC
	// with immediate binding, so the nodes do. The API server accepts the name of only one node.
	take verdict = "take"
	// provision means that this node provisions a volume for the PVC.
	provision verdict = "provision"
)

// A request contains a PVC and the objects on which the provisioner's decision about it depends.
type request struct {
	claim *corev1.PersistentVolumeClaim
	// class is the StorageClass of the PVC, or nil if it does not exist.
	class *storagev1.StorageClass
	nodes []*corev1.Node
}

func (r request) decide(name, node string) verdict {
	if r.claim.Spec.VolumeName != "" || r.class == nil || r.class.Provisioner != name {
		return leave
	}
	if selected := r.claim.Annotations[annotationSelectedNode]; selected != "" {
		if selected == node {
			return provision
		}
		return leave
	}
	if mode := r.class.VolumeBindingMode; mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer {
		return leave
	}
	// Wait until kube-controller-manager has set the annotation. If this node changed the PVC earlier,
	// kube-controller-manager would get a conflict and report it as ProvisioningFailed.
	if r.claim.Annotations[annotationProvisioner] == name && firstReady(r.nodes) == node {
		return take
	}
	return leave
}

// firstReady returns the first ready node in alphabetical order, so that all nodes agree on it, or "".
func firstReady(nodes []*corev1.Node) string {
	var names []string
	for _, n := range nodes {
		if ready(n) {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// refusal returns an error if the provisioner does not support the PVC's request. The library itself refuses block
// volumes.
func refusal(claim *corev1.PersistentVolumeClaim) error {
	if size := requested(claim); size > largest {
		return fmt.Errorf("a volume of %s is larger than %s, the largest there is", quantity(size), quantity(largest))
	}
	if claim.Spec.Selector != nil {
		return errors.New("claim Selector is not supported")
	}
	if claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil {
		return errors.New("a volume cannot be made from a data source: there are no snapshots and no clones")
	}
	for _, m := range claim.Spec.AccessModes {
		if m != corev1.ReadWriteOnce && m != corev1.ReadWriteOncePod {
			return fmt.Errorf("access mode %s is not supported: a volume is a disk of one node", m)
		}
	}
	return nil
}

// requested returns the size in bytes of the volume for a PVC, rounded up to whole mebibytes.
func requested(claim *corev1.PersistentVolumeClaim) int64 {
	q := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	size := q.Value()
	if size > largest {
		return size // Rounding up could overflow.
	}
	return max(smallest, (size+mebibyte-1)/mebibyte*mebibyte)
}

func quantity(bytes int64) *resource.Quantity { return resource.NewQuantity(bytes, resource.BinarySI) }
