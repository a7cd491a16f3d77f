package volumes

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What others write on a claim.
const (
	// annotationSelectedNode is from the scheduler, if the claim waits for its first consumer.
	annotationSelectedNode = "volume.kubernetes.io/selected-node"
	// annotationProvisioner is from kube-controller-manager, when it is the turn of the provisioner named there.
	annotationProvisioner = "volume.kubernetes.io/storage-provisioner"
)

// Bounds of a volume. Images are sparse, so that the machine's disk bounds what is written and not what is asked for;
// a request above the largest is a mistake in a unit. Below the smallest XFS has no room for its log.
const (
	mebibyte = int64(1) << 20
	smallest = 64 * mebibyte
	largest  = int64(1) << 40
)

// A verdict is what this node does about a claim.
type verdict string

const (
	// leave it: it is not for this node, or not yet.
	leave verdict = "leave"
	// take it: no scheduler chooses a node for it, so this node writes its own name where the scheduler would. The API
	// server lets only one node do so.
	take verdict = "take"
	// provision a volume for it.
	provision verdict = "provision"
)

// A request is what the decision about a claim depends on.
type request struct {
	claim *corev1.PersistentVolumeClaim
	// class is nil if there is none.
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
	// Earlier our change to the claim would be a conflict for kube-controller-manager, which calls that
	// ProvisioningFailed.
	if r.claim.Annotations[annotationProvisioner] == name && firstReady(r.nodes) == node {
		return take
	}
	return leave
}

// firstReady returns the lowest name, which all nodes agree on, or "".
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

// refusal says why no volume can be what the claim asks for. The library itself refuses block volumes.
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

// requested is the size in bytes that a volume for the claim gets, in whole mebibytes.
func requested(claim *corev1.PersistentVolumeClaim) int64 {
	q := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	size := q.Value()
	if size > largest {
		return size // Rounding up could go over the end of the numbers.
	}
	return max(smallest, (size+mebibyte-1)/mebibyte*mebibyte)
}

func quantity(bytes int64) *resource.Quantity { return resource.NewQuantity(bytes, resource.BinarySI) }
