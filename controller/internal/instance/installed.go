package instance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GatherInstalled returns all instances with this name, like Gather. If the kind is not installed, it returns one
// State without an instance, because backups can still exist.
func (g *Gatherer) GatherInstalled(ctx context.Context, k Key) ([]*State, error) {
	instances, err := g.Gather(ctx, k)
	if IsNotInstalled(err) {
		return g.statesWithoutKind(ctx, k)
	}
	return instances, err
}

// explainUnlisted explains why XRs cannot be listed. A kind that is not served may still exist. It may have just been
// created, or its CustomResourceDefinition may be temporarily invalid. If the CustomResourceDefinition does not
// exist, there are certainly no XRs. Only in this case, IsNotInstalled returns true for the error.
func explainUnlisted(ctx context.Context, r client.Reader, kind Kind, err error) error {
	unlisted := fmt.Errorf("cannot list composite resources: %w", err)
	if !IsNotInstalled(unlisted) {
		return unlisted
	}
	crd, err := getObject(ctx, r, metadataOf(crdKind), "", crdName(kind.XR))
	switch {
	case err != nil:
		return fmt.Errorf("cannot determine whether kind %s is installed: %w", kind.XR.Kind, err)
	case crd != nil:
		return fmt.Errorf("CustomResourceDefinition %s exists but is not served: %v", crd.GetName(), unlisted) //nolint:errorlint // With %w, IsNotInstalled would be true.
	}
	return fmt.Errorf("kind %s is not installed: %w", kind.XR.Kind, unlisted)
}

// IsNotInstalled reports whether an error means that a kind does not exist.
func IsNotInstalled(err error) bool { return kerrors.IsNotFound(err) || apimeta.IsNoMatchError(err) }

// statesWithoutKind returns the states of instances that have no XR because their kind is no longer installed.
func (g *Gatherer) statesWithoutKind(ctx context.Context, k Key) ([]*State, error) {
	ns, err := getObject(ctx, g.Reader, &corev1.Namespace{}, "", k.Namespace)
	if err != nil {
		return nil, err
	}
	return g.statesWithoutXR(ctx, k, ns, nil)
}
