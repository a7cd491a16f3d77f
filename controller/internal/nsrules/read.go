package nsrules

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read the LimitRanges and ResourceQuotas of a namespace. What may not be read is left out: the API server says then what it refuses, when it does.
func Read(ctx context.Context, from client.Reader, namespace string) (*Rules, error) {
	ranges, quotas := &corev1.LimitRangeList{}, &corev1.ResourceQuotaList{}
	for _, l := range []client.ObjectList{ranges, quotas} {
		if err := from.List(ctx, l, client.InNamespace(namespace)); err != nil && !kerrors.IsForbidden(err) {
			return nil, fmt.Errorf("cannot list %T of namespace %q: %w", l, namespace, err)
		}
	}
	return &Rules{Ranges: ranges.Items, Quotas: quotas.Items}, nil
}
