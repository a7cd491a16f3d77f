package instance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// FinalizerCrossplane is set on an XR as long as Crossplane may apply objects that the function composed.
const FinalizerCrossplane = "composite.apiextensions.crossplane.io"

// FinalizerCrossplaneClaim is set on a claim until Crossplane has deleted its XR
// (internal/controller/apiextensions/claim/reconciler.go in v2.4.0).
const FinalizerCrossplaneClaim = "finalizer.apiextensions.crossplane.io"

// AnnotationPaused pauses Crossplane for a claim or XR if its value is "true".
const AnnotationPaused = "crossplane.io/paused"

// CrossplaneMayTake is the maximum time in which Crossplane starts a deletion. Usually it starts within a second. A
// composition takes at most two minutes (internal/controller/apiextensions/composite/reconciler.go in v2.4.0). A
// composition that started before the deletion has therefore finished by then.
const CrossplaneMayTake = 5 * time.Minute

// xrdKind is the GroupVersionKind of CompositeResourceDefinitions.
var xrdKind = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1",
	Kind: "CompositeResourceDefinition"}

// IsPaused reports whether a user has paused Crossplane for this object.
func (c *Composite) IsPaused() bool { return c.GetAnnotations()[AnnotationPaused] == "true" }

// AwaitsCrossplane returns the XR if it is being deleted and still has Crossplane's finalizer. If there is no XR, the
// same applies to the claim. It returns nil if there is no such object or it is paused.
func (s *Subject) AwaitsCrossplane() (c *Composite, finalizer string) {
	c, finalizer = s.XR, FinalizerCrossplane
	if c == nil {
		c, finalizer = s.Claim, FinalizerCrossplaneClaim
	}
	if c == nil || !c.IsDeleting() || c.IsPaused() || !controllerutil.ContainsFinalizer(c, finalizer) {
		return nil, ""
	}
	return c, finalizer
}

// CommandToRemove returns the kubectl command that removes one finalizer and leaves all others. The API server rejects
// the command if the finalizers have changed since they were read.
func (c *Composite) CommandToRemove(finalizer string) string {
	path := fmt.Sprintf("/metadata/finalizers/%d", slices.Index(c.GetFinalizers(), finalizer))
	return fmt.Sprintf(
		`kubectl patch %s --type json --patch '[{"op":"test","path":%[2]q,"value":%[3]q},{"op":"remove","path":%[2]q}]'`,
		c.InKubectl(), path, finalizer)
}

// readXRD reports, for an object that waits for Crossplane, whether the XRD is being deleted or does not exist. If
// Crossplane is restarted after that, it never removes its finalizers from claims and XRs
// (docs/upstream/crossplane-xrd-deletion.md). If the kind CompositeResourceDefinition does not exist, Crossplane
// itself is uninstalled.
func readXRD(ctx context.Context, r client.Reader, s *Subject) (undefined bool, err error) {
	kind, ok := kindOf(s.Instance.Kind)
	if c, _ := s.AwaitsCrossplane(); c == nil || !ok {
		return false, nil
	}
	xrd, err := getObject(ctx, r, metadataOf(xrdKind), "", crdName(kind.XR))
	if err != nil && !IsNotInstalled(err) {
		return false, fmt.Errorf("cannot determine whether kind %s is being uninstalled: %w", kind.XR.Kind, err)
	}
	return xrd == nil || xrd.DeletionTimestamp != nil, nil
}

// crdName returns the name of a kind's CRD, which is also the name of its XRD.
func crdName(kind schema.GroupVersionKind) string {
	resource := v1.ResourceOf(kind)
	return resource.GroupResource().String()
}
