package instance

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/nsrules"
)

// readRules of the namespace in which Jobs run, which they are fitted to. While the instance lives, what they refuse is said.
func (g *gathering) readRules(ctx context.Context) (err error) {
	if g.XR == nil && g.Orphan == nil {
		return nil
	}
	at := g.JobLocation().Namespace
	if g.Rules, err = nsrules.Read(ctx, g.Reader, at); err != nil {
		return err
	}
	if at == g.Life.Namespace {
		g.Rules.Namespace = g.Namespace
	}
	if g.IsDeleting() || len(g.Rules.Quotas) == 0 {
		return nil
	}
	d, err := getObject(ctx, g.Reader, &appsv1.Deployment{}, g.Life.Namespace, g.Life.DeploymentName())
	if d != nil && g.OwnsObject(d) {
		g.Rules.Server = &d.Spec.Template.Spec
	}
	return err
}
