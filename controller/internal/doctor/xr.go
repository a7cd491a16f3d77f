package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/lifecycle"
)

// An xrCheck is of one life, with its claim and its volume.
type xrCheck struct {
	*index
	*instance.State
}

// examineXR of a life, with its claim and its volume.
func (x *xrCheck) examineXR() []Finding {
	if x.Ephemeral() {
		return slices.Concat(x.examineServing(), x.examineCertificate(), x.examineDeletion())
	}
	out := x.missingFinalizer(x.XR)
	switch {
	case x.Claim != nil && !x.Claim.IsDeleting():
		out = append(out, x.missingFinalizer(x.Claim)...)
	case x.Claim == nil && !x.XR.IsDeleting() && x.isOlder(x.XR.GetCreationTimestamp(), soon):
		out = append(out, x.claimGone())
	}
	out = append(out, x.skippedBackup()...)
	if x.XR.IsDeleting() {
		return append(append(out, x.examineDeletion()...), x.endangeredData()...)
	}
	return slices.Concat(out, x.examineServing(), x.examineCertificate(), x.examinePVC(), x.examineDataPV())
}

// claimGone from an XR that runs on. Only one of which a backup is taken may be deleted by
// somebody who has no time to think.
func (x *xrCheck) claimGone() Finding {
	advice := "create the claim again"
	if lifecycle.NeedsBackup(x.State) {
		advice += fmt.Sprintf(", or have it backed up and removed: kubectl delete %s %s", resourceOf(x.XR), x.XR.GetName())
	}
	return wrongFinding(advice, "%s runs on, and its claim is gone", nameOf(x.XR))
}

// missingFinalizer of a claim or XR: it is wrong as long as there is something to lose.
func (x *xrCheck) missingFinalizer(c *instance.Composite) []Finding {
	if c.HasFinalizer() || c.IsDeleting() && !lifecycle.HasDataAtStake(x.State) {
		return nil
	}
	text := fmt.Sprintf("%s has no finalizer %s, %s after it was created: it can go without a backup", nameOf(c), v1.Finalizer, x.ageOf(c.GetCreationTimestamp()))
	return []Finding{x.expectSoon(c, Finding{Severity: Wrong, Text: text, Advice: x.askController("puts it on")})}
}

// expectSoon is a finding that is none yet: the controller may not have had the time.
func (x *xrCheck) expectSoon(c *instance.Composite, f Finding) Finding {
	if !x.isOlder(c.GetCreationTimestamp(), soon) {
		f.Severity, f.Advice = Note, "look again in a minute"
	}
	return f
}

// skippedBackup is only a note: somebody wanted it so.
func (x *xrCheck) skippedBackup() []Finding {
	switch {
	case x.Word().Policy() == v1.DeletionDiscard:
		return []Finding{noteFinding("set it to Backup to change that", "deletionPolicy is Discard: no backup is taken, and a deletion loses the data")}
	case x.Word().Skips():
		off := fmt.Sprintf("kubectl annotate %s %s %s-", resourceOf(x.XR), x.XR.GetName(), v1.AnnotationSkipBackup)
		if c := x.Claim; c != nil && c.GetAnnotations()[v1.AnnotationSkipBackup] != "" { // Crossplane brings it to the XR again.
			off = fmt.Sprintf("kubectl annotate %s --namespace %s %s %s- && %s", resourceOf(c), c.GetNamespace(), c.GetName(), v1.AnnotationSkipBackup, off)
		}
		return []Finding{noteFinding("to change that: "+off, "the annotation %s says that no backup is taken: a deletion loses the data", v1.AnnotationSkipBackup)}
	}
	return nil
}

// examineDeletion that waits for somebody. How the data would be given up instead stands in
// the claim's own message, and not here.
func (x *xrCheck) examineDeletion() []Finding {
	d := x.XR.Status.Deletion
	if d == nil || d.Phase != v1.DeletionHeld && d.Phase != v1.DeletionFailed {
		return nil
	}
	return []Finding{wrongFinding("mend that; the deletion goes on by itself then", "the deletion waits (%s): %s", d.Phase, d.Message)}
}

// examineCertificate by which the server is known: one that ends, or has ended, locks out clients that verify it, and us.
func (x *xrCheck) examineCertificate() []Finding {
	t := x.XR.Status.TLS
	switch end := t.End(); {
	case end == nil:
		return nil
	case x.isOlder(*end, 0):
		advice := cmp.Or(t.Warning(), fmt.Sprintf("the controller renews it long before; see why it did not: kubectl logs --namespace %s deployment/crossplane-mysql", x.SystemNamespace))
		return []Finding{wrongFinding(advice, "the certificate that the server shows has ended, %s ago: clients that verify it are turned away", x.ageOf(*end))}
	case t.Warning() != "":
		return []Finding{noteFinding("", "the certificate that the server shows ends at %s, and another one does not come into it: %s", end.UTC().Format(time.RFC3339), t.Warning())}
	}
	return nil
}

// examineServing of an instance whose server takes no clients. One that serves has nothing to
// say.
func (x *xrCheck) examineServing() []Finding {
	if x.XR.IsServing() || x.XR.IsDeleting() {
		return nil
	}
	if x.XR.IsSuspended() {
		return []Finding{noteFinding("", "the server is off: spec.suspended is true")}
	}
	since := x.XR.GetCreationTimestamp()
	if c := meta.FindStatusCondition(x.XR.Conditions, v1.ConditionServing); c != nil {
		since = c.LastTransitionTime
	}
	f := noteFinding("", "the server takes no clients for %s: %s", x.ageOf(since), cmp.Or(x.XR.Status.Message, "nothing says why"))
	if x.isOlder(since, long) {
		f.Severity, f.Advice = Wrong, fmt.Sprintf("see what it waits for: kubectl describe %s %s", resourceOf(x.XR), x.XR.GetName())
	}
	return []Finding{f}
}

// examinePVC of the data of an instance that lives.
func (x *xrCheck) examinePVC() []Finding {
	name := fmt.Sprintf("PersistentVolumeClaim %s/%s", x.Life.Namespace, x.Life.DataPVCName())
	switch c := x.DataPVC; {
	case c == nil && (x.XR.Status.Started || x.XR.Status.Volume != ""):
		return []Finding{wrongFinding(fmt.Sprintf("Crossplane makes it again within a minute; see why it does not: kubectl describe %s %s", resourceOf(x.XR), x.XR.GetName()),
			"%s of the data is gone; its volume is %s", name, cmp.Or(x.XR.Status.Volume, "not known"))}
	case c != nil && c.DeletionTimestamp != nil:
		return []Finding{wrongFinding(x.askController("stops the server and brings the PersistentVolumeClaim back on its volume"),
			"%s of the data is being deleted since %s", name, x.ageOf(*c.DeletionTimestamp))}
	}
	return nil
}

// examineDataPV of an instance that lives: it has to stay whatever becomes of its PVC.
func (x *xrCheck) examineDataPV() []Finding {
	v := x.DataPV
	switch {
	case v == nil && x.volumes[x.XR.Status.Volume] != nil:
		return []Finding{x.explainTaken(x.volumes[x.XR.Status.Volume])}
	case v == nil && x.XR.Status.Volume != "":
		return []Finding{wrongFinding("bring it back, from the storage's own snapshots for example: until then nothing is started and nothing is released",
			"PersistentVolume %s, which holds the data, is gone", x.XR.Status.Volume)}
	case v == nil || v.Status.Phase != corev1.VolumeBound && (x.DataPVC == nil || x.DataPVC.Status.Phase != corev1.ClaimBound):
		return nil // It is retained when it is bound.
	}
	out := examineRetained(v, "the data")
	if uid := instance.XROf(v); uid != x.XR.GetUID() {
		f := wrongFinding(x.askController("labels it"), "PersistentVolume %s does not say that its data is this life's: its label %s is %q, not %q", v.Name, v1.LabelXR, uid, x.XR.GetUID())
		out = append(out, f)
	}
	for i := range out {
		out[i] = x.expectSoon(x.XR, out[i])
	}
	return out
}

// explainTaken of the life's volume, which is there and not its own any more.
func (x *xrCheck) explainTaken(v *corev1.PersistentVolume) Finding {
	by := "nothing, and says that it is another life's"
	if ref := v.Spec.ClaimRef; ref != nil {
		by = fmt.Sprintf("PersistentVolumeClaim %s/%s", ref.Namespace, ref.Name)
	}
	return wrongFinding("see what is on it before you touch it: kubectl describe pv "+v.Name, "PersistentVolume %s, which holds the data, is bound to %s", v.Name, by)
}

// endangeredData is the volume of a deletion that has no proven backup.
func (x *xrCheck) endangeredData() []Finding {
	if x.DataPV == nil || !lifecycle.HasDataAtStake(x.State) {
		return nil
	}
	return examineRetained(x.DataPV, "the data")
}

// examineRetained of a volume that has to stay: it needs Retain and our finalizer.
func examineRetained(v *corev1.PersistentVolume, what string) []Finding {
	var out []Finding
	if p := v.Spec.PersistentVolumeReclaimPolicy; p != corev1.PersistentVolumeReclaimRetain {
		out = append(out, wrongFinding(fmt.Sprintf(`kubectl patch pv %s --patch '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`, v.Name),
			"PersistentVolume %s with %s has the reclaim policy %s: whoever deletes its PersistentVolumeClaim deletes it", v.Name, what, p))
	}
	if !instance.HasFinalizer(v) {
		out = append(out, wrongFinding(fmt.Sprintf(`kubectl patch pv %s --type=json --patch '[{"op":"add","path":"/metadata/finalizers/-","value":"%s"}]'`, v.Name, v1.Finalizer),
			"PersistentVolume %s with %s has no finalizer %s: whoever deletes it loses it", v.Name, what, v1.Finalizer))
	}
	return out
}
