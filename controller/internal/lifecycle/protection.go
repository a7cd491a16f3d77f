package lifecycle

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// The functions in this file find out whether an instance is protected. Next uses them to add one missing protection
// at a time. The doctor uses them to list all missing protections, even if no controller runs.

// Unprotected returns the composite resource and the claim if they lack the finalizer, and could therefore be removed
// before the data is backed up. Kubernetes accepts no new finalizer on an object that is being deleted.
func Unprotected(s *instance.State) []*instance.Composite {
	return slices.DeleteFunc([]*instance.Composite{s.XR, s.Claim}, func(c *instance.Composite) bool {
		return c == nil || c.HasFinalizer() || c.IsDeleting() && (c == s.Claim || !hasDataAtStake(s))
	})
}

// DataRisks lists how the data volume of an instance can be lost. It returns nothing for a volume that is not bound
// yet or contains no data.
func DataRisks(s *instance.State) []instance.Risk {
	v := s.DataPV
	switch {
	case v == nil:
		return nil
	case s.IsDeleting() && hasDataAtStake(s):
		return instance.RisksOf(v, "the data")
	case s.IsDeleting() || !isDataBound(s):
		return nil
	}
	out := instance.RisksOf(v, "the data")
	if uid := instance.XROf(v); uid != s.Instance.XR {
		out = append(out, instance.Risk{
			Text: fmt.Sprintf("PersistentVolume %s is not labeled as the data of this instance: its label %s is "+
				"%q, not %q",
				v.Name, v1.LabelXR, uid, s.Instance.XR)})
	}
	return out
}

// isDataBound reports whether the data volume is bound. Kubernetes updates the volume and its PVC at different times.
func isDataBound(s *instance.State) bool {
	return s.DataPV.Status.Phase == corev1.VolumeBound || s.DataPVC != nil && s.DataPVC.Status.Phase == corev1.ClaimBound
}
