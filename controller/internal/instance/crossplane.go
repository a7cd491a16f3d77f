package instance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// FinalizerCrossplane is on an XR for as long as Crossplane may still apply what
// the function composed.
const FinalizerCrossplane = "composite.apiextensions.crossplane.io"

// FinalizerCrossplaneClaim is on a claim until Crossplane has deleted its XR
// (internal/controller/apiextensions/claim/reconciler.go in v2.4.0).
const FinalizerCrossplaneClaim = "finalizer.apiextensions.crossplane.io"

// AnnotationPaused keeps Crossplane from doing anything for a claim or XR, where it is "true".
const AnnotationPaused = "crossplane.io/paused"

// CrossplaneMayTake so long to begin with a deletion, which it does within a second. What it composes takes it two minutes at most
// (internal/controller/apiextensions/composite/reconciler.go in v2.4.0): nothing that it began before the deletion goes on then.
const CrossplaneMayTake = 5 * time.Minute

// xrdKind is of what tells Crossplane of a kind.
var xrdKind = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}

// IsPaused is true where a person does not want Crossplane to go on.
func (c *Composite) IsPaused() bool { return c.GetAnnotations()[AnnotationPaused] == "true" }

// AwaitsCrossplane is the XR that is being deleted and that Crossplane has not let go or, where there is none, the claim; nil where it is
// neither, or paused.
func (s *State) AwaitsCrossplane() (c *Composite, finalizer string) {
	c, finalizer = s.XR, FinalizerCrossplane
	if c == nil {
		c, finalizer = s.Claim, FinalizerCrossplaneClaim
	}
	if c == nil || !c.IsDeleting() || c.IsPaused() || !controllerutil.ContainsFinalizer(c, finalizer) {
		return nil, ""
	}
	return c, finalizer
}

// CommandToRemove returns the kubectl command that removes one finalizer and leaves all others. The API server rejects the command if the
// finalizers have changed since they were read.
func (c *Composite) CommandToRemove(finalizer string) string {
	path := fmt.Sprintf("/metadata/finalizers/%d", slices.Index(c.GetFinalizers(), finalizer))
	return fmt.Sprintf(`kubectl patch %s --type json --patch '[{"op":"test","path":%[2]q,"value":%[3]q},{"op":"remove","path":%[2]q}]'`, c.InKubectl(), path, finalizer)
}

// readXRD of what Crossplane has not let go. A Crossplane that is started while that XRD is being deleted, or after it is gone, never removes
// its finalizers from claims and XRs (docs/upstream/crossplane-xrd-deletion.md). Where the kind of XRDs is not there, Crossplane itself is gone.
func (g *gathering) readXRD(ctx context.Context) error {
	kind, ok := kindOf(g.Life.Kind)
	if c, _ := g.AwaitsCrossplane(); c == nil || !ok {
		return nil
	}
	xrd, err := getObject(ctx, g.Reader, metadataOf(xrdKind), "", crdName(kind.XR))
	if err != nil && !IsNotInstalled(err) {
		return fmt.Errorf("cannot tell whether kind %s is being uninstalled: %w", kind.XR.Kind, err)
	}
	g.Undefined = xrd == nil || xrd.DeletionTimestamp != nil
	return nil
}

// crdName of a kind, which its XRD has, too.
func crdName(kind schema.GroupVersionKind) string {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource.GroupResource().String()
}
