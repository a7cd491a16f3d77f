package instance

import (
	"context"
	"fmt"

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

// explainUnlisted is what it means that XRs cannot be listed. That their kind is not served is a hint: it may have just been made, or its
// CustomResourceDefinition may be refused for a while. Only where that is not there either no XR is, and the error IsNotInstalled.
func (g *Gatherer) explainUnlisted(ctx context.Context, kind Kind, err error) error {
	unlisted := fmt.Errorf("cannot list composite resources: %w", err)
	if !IsNotInstalled(unlisted) {
		return unlisted
	}
	crd, err := getObject(ctx, g.Reader, metadataOf(crdKind), "", crdName(kind.XR))
	switch {
	case err != nil:
		return fmt.Errorf("cannot tell whether kind %s is installed: %w", kind.XR.Kind, err)
	case crd != nil:
		return fmt.Errorf("CustomResourceDefinition %s is there and not served: %v", crd.GetName(), unlisted) //nolint:errorlint // Else it would say that the kind is not installed.
	}
	return fmt.Errorf("kind %s is not installed: %w", kind.XR.Kind, unlisted)
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
