package instance

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/nsrules"
)

// readRules reads the quotas and limits of the namespace in which Jobs run. Jobs are adapted to these rules. For an
// existing instance, the controller reports Jobs that the rules would refuse.
func readRules(ctx context.Context, r client.Reader, basis *Basis) (*nsrules.Rules, error) {
	if basis.XR == nil && basis.Orphan == nil {
		return nil, nil //nolint:nilnil // There is no instance that needs Jobs.
	}
	namespace := basis.JobLocation().Namespace
	rules, err := nsrules.Read(ctx, r, namespace)
	if err != nil {
		return nil, err
	}
	if namespace == basis.Instance.Namespace {
		rules.Namespace = basis.Namespace
	}
	if basis.IsDeleting() || len(rules.Quotas) == 0 {
		return rules, nil
	}
	d, err := readDeployment(ctx, r, basis.Instance)
	if d != nil {
		rules.Server = &d.Spec.Template.Spec
	}
	return rules, err
}
