package instance

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
)

// GatherInstalled gathers all lives. Where the XRD was uninstalled, and all instances with it,
// their backups are there all the same.
func (g *Gatherer) GatherInstalled(ctx context.Context, k Key) ([]*State, error) {
	lives, err := g.Gather(ctx, k)
	if IsNotInstalled(err) {
		return g.statesWithoutKind(ctx, k)
	}
	return lives, err
}

// IsNotInstalled is true of an error that says that a kind is not there.
func IsNotInstalled(err error) bool { return kerrors.IsNotFound(err) || apimeta.IsNoMatchError(err) }

// statesWithoutKind are what is left of an instance whose kind is not installed any more.
func (g *Gatherer) statesWithoutKind(ctx context.Context, k Key) ([]*State, error) {
	ns, err := getObject(ctx, g.Reader, &corev1.Namespace{}, "", k.Namespace)
	if err != nil {
		return nil, err
	}
	return g.statesWithoutXR(ctx, k, ns, nil)
}
