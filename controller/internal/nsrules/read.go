package nsrules

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read reads the LimitRanges and ResourceQuotas of a namespace. It omits kinds that the controller may not read. If
// these refuse a Job's pod, the API server reports this when the pod is created.
func Read(ctx context.Context, from client.Reader, namespace string) (*Rules, error) {
	ranges, quotas := &corev1.LimitRangeList{}, &corev1.ResourceQuotaList{}
	for _, l := range []client.ObjectList{ranges, quotas} {
		if err := from.List(ctx, l, client.InNamespace(namespace)); err != nil && !kerrors.IsForbidden(err) {
			return nil, fmt.Errorf("cannot list %T of namespace %q: %w", l, namespace, err)
		}
	}
	return &Rules{Ranges: ranges.Items, Quotas: quotas.Items}, nil
}
