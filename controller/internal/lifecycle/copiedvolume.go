package lifecycle

import (
	"fmt"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// WhyBlockedByCopy explains why the controller does not touch data that was copied or restored from elsewhere, and what
// the user can do. Tools that back up Kubernetes objects restore labels, annotations and finalizers under new UIDs,
// and another cluster may use the same volume.
func WhyBlockedByCopy(c client.Object) (reason, todo string) {
	subject, it := "PersistentVolume", "pv "+c.GetName()
	if c.GetNamespace() != "" {
		subject, it = "PersistentVolumeClaim", fmt.Sprintf("pvc --namespace %s %s", c.GetNamespace(), c.GetName())
	}
	reason = fmt.Sprintf("%s %s is labeled as data of a previous instance with this name (composite resource %s), but "+
		"it was copied or restored from elsewhere. The controller does not change it until you decide",
		subject, c.GetName(), instance.XROf(c))
	todo = fmt.Sprintf("To back up that data, release the volume and restore this name from the backup: kubectl "+
		"annotate %s %s=%s. To ignore the volume and start without its data: kubectl annotate %s %s=%s",
		it, v1.AnnotationTakeOver, c.GetUID(), it, v1.AnnotationLeaveAlone, c.GetUID())
	return reason, todo
}

// blockedByCopy returns the reason and the next step as one message, or "" if c is nil.
func blockedByCopy(c client.Object) string {
	if c == nil {
		return ""
	}
	reason, todo := WhyBlockedByCopy(c)
	return reason + ". " + todo
}

// releaseCopy removes the product's marks from the volume. The volume keeps its reclaim policy, which is Retain.
func releaseCopy(_ *instance.State, step steps.Step) []change.Change {
	out := make([]change.Change, 0, len(step.Targets))
	for _, o := range step.Targets {
		out = append(out, change.PatchObject(o, func(o client.Object) {
			labels := maps.Clone(o.GetLabels())
			delete(labels, v1.LabelXR)
			o.SetLabels(labels)
			controllerutil.RemoveFinalizer(o, v1.Finalizer)
		}).OrGone())
	}
	return out
}
