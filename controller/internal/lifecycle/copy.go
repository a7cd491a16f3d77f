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

// WhyHeldByCopy says why nothing is done about data that was copied or restored from elsewhere, and
// what a person can do. Backups of a cluster's objects bring labels, annotations and finalizers back,
// under new UIDs, and the volume may be one that another cluster uses.
func WhyHeldByCopy(c client.Object) (why, todo string) {
	what, it := "PersistentVolume", "pv "+c.GetName()
	if c.GetNamespace() != "" {
		what, it = "PersistentVolumeClaim", fmt.Sprintf("pvc --namespace %s %s", c.GetNamespace(), c.GetName())
	}
	why = fmt.Sprintf("%s %s has data of an earlier instance of this name (composite resource %s) and was copied or restored from elsewhere: nothing happens to it on the word of its labels", what, c.GetName(), instance.XROf(c))
	todo = fmt.Sprintf("To have that data backed up, the volume released and this name restored from it: kubectl annotate %s %s=%s. To leave it where it is and go without: kubectl annotate %s %s=%s",
		it, v1.AnnotationTakeOver, c.GetUID(), it, v1.AnnotationLeaveAlone, c.GetUID())
	return why, todo
}

// heldByCopy is that in one text; empty where there is none.
func heldByCopy(c client.Object) string {
	if c == nil {
		return ""
	}
	why, todo := WhyHeldByCopy(c)
	return why + ". " + todo
}

// letCopyGo takes off what makes it ours. The volume keeps its reclaim policy, which is Retain.
func letCopyGo(_ *instance.State, step steps.Step) []change.Change {
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
