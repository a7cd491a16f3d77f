package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/lifecycle"
)

// An xrCheck checks one instance with its claim and its volume.
type xrCheck struct {
	*index
	*instance.State
}

// examineXR checks an instance with its claim and its volume.
func (x *xrCheck) examineXR() []Finding {
	if x.Ephemeral() {
		return slices.Concat(x.examineServing(), x.examineCertificate(), x.examineDeletion())
	}
	var out []Finding
	for _, c := range lifecycle.Unprotected(x.State) {
		text := fmt.Sprintf("%s has no finalizer %s, %s after it was created: it can be deleted without a backup", nameOf(c),
			v1.Finalizer, x.ageOf(c.GetCreationTimestamp()))
		out = append(out, x.expectSoon(c, Finding{Severity: Wrong, Text: text, Advice: x.askController("adds it")}))
	}
	if x.Claim == nil && !x.Instance.IsNamespaced() && !x.XR.IsDeleting() &&
		x.isOlder(x.XR.GetCreationTimestamp(), shortDelay) {
		out = append(out, x.claimGone())
	}
	out = append(out, x.skippedBackup()...)
	if x.XR.IsDeleting() {
		return slices.Concat(out, x.examineDeletion(), x.endangeredData())
	}
	return slices.Concat(out, x.examineServing(), x.examineCertificate(), x.examinePVC(), x.lostVolume(),
		x.endangeredData())
}

// claimGone reports an XR that still runs although its claim is missing. It advises to delete the XR only if the
// deletion takes a backup, because the reader may be in a hurry.
func (x *xrCheck) claimGone() Finding {
	advice := "create the claim again"
	if lifecycle.NeedsBackup(x.State) {
		advice += ", or back up its data and delete it: kubectl delete " + x.XR.InKubectl()
	}
	return wrongFinding(advice, "%s is still running, but its claim no longer exists", nameOf(x.XR))
}

// expectSoon makes the finding a note if the object is so new that the controller may not have handled it yet.
func (x *xrCheck) expectSoon(c *instance.Composite, f Finding) Finding {
	if !x.isOlder(c.GetCreationTimestamp(), shortDelay) {
		f.Severity, f.Advice = Entry, "check again in a minute"
	}
	return f
}

// skippedBackup reports that a deletion takes no backup. It is only a note, because a user has requested this.
func (x *xrCheck) skippedBackup() []Finding {
	switch {
	case x.DeletionIntent().Policy() == v1.DeletionDiscard:
		return []Finding{newFinding("to take a backup, set it to Backup",
			"deletionPolicy is Discard: a deletion takes no backup and loses the data")}
	case x.DeletionIntent().Skips():
		off := fmt.Sprintf("kubectl annotate %s %s-", x.XR.InKubectl(), v1.AnnotationSkipBackup)
		// If the claim has the annotation too, Crossplane would copy it to the XR again. The command removes both.
		if c := x.Claim; c != nil && c.GetAnnotations()[v1.AnnotationSkipBackup] != "" {
			off = fmt.Sprintf("kubectl annotate %s %s- && %s", c.InKubectl(), v1.AnnotationSkipBackup, off)
		}
		return []Finding{newFinding("to take a backup: "+off,
			"the annotation %s is set: a deletion takes no backup and loses the data", v1.AnnotationSkipBackup)}
	}
	return nil
}

// examineDeletion reports a deletion that waits for manual action. The command that gives up the data is only in the
// message of the claim.
func (x *xrCheck) examineDeletion() []Finding {
	d := x.XR.Status.Deletion
	if d == nil || d.Phase != v1.DeletionBlocked && d.Phase != v1.DeletionFailed {
		return nil
	}
	return []Finding{wrongFinding("fix the cause; the deletion then continues", "the deletion waits (%s): %s", d.Phase,
		d.Message)}
}

// examineCertificate checks the certificate of the server. If it has expired, the controller and all clients that
// verify it can no longer connect.
func (x *xrCheck) examineCertificate() []Finding {
	t := x.XR.Status.TLS
	switch end := t.End(); {
	case end == nil:
		return nil
	case x.isOlder(*end, 0):
		advice := cmp.Or(t.Warning(), fmt.Sprintf(
			"the controller should have renewed it; find out why it did not: kubectl logs --namespace %s "+
				"deployment/crossplane-mysql",
			x.SystemNamespace))
		return []Finding{wrongFinding(advice,
			"the server's certificate expired %s ago: clients that verify it cannot connect", x.ageOf(*end))}
	case t.Warning() != "":
		return []Finding{newFinding("",
			"the server's certificate expires at %s, and the server has not received the new one: %s",
			end.UTC().Format(time.RFC3339), t.Warning())}
	}
	return nil
}

// examineServing reports an instance whose server accepts no clients.
func (x *xrCheck) examineServing() []Finding {
	if x.XR.IsServing() || x.XR.IsDeleting() {
		return nil
	}
	if x.XR.IsSuspended() {
		return []Finding{newFinding("", "the server is stopped, because spec.suspend is true")}
	}
	since := x.XR.GetCreationTimestamp()
	if c := meta.FindStatusCondition(x.XR.Conditions, v1.ConditionServing); c != nil {
		since = c.LastTransitionTime
	}
	f := newFinding("", "the server has not accepted clients for %s: %s", x.ageOf(since),
		cmp.Or(x.XR.Status.Message, "its status contains no reason"))
	if x.isOlder(since, long) {
		f.Severity, f.Advice = Wrong, "find out what it waits for: kubectl describe "+x.XR.InKubectl()
	}
	return []Finding{f}
}

// examinePVC checks the data PVC of an existing instance.
func (x *xrCheck) examinePVC() []Finding {
	name := fmt.Sprintf("PersistentVolumeClaim %s/%s", x.Instance.Namespace, x.Instance.DataPVCName())
	switch c := x.DataPVC; {
	case c == nil && (x.XR.Status.Started || x.XR.Status.Volume != ""):
		return []Finding{wrongFinding(
			"Crossplane normally creates it again within a minute; find out why it does not: kubectl describe "+x.XR.InKubectl(),
			"%s for the data does not exist; its volume is %s", name, cmp.Or(x.XR.Status.Volume, "unknown"))}
	case c != nil && c.DeletionTimestamp != nil:
		return []Finding{wrongFinding(
			x.askController("stops the server and creates the PersistentVolumeClaim again on its volume"),
			"%s for the data has been in deletion for %s", name, x.ageOf(*c.DeletionTimestamp))}
	}
	return nil
}

// lostVolume reports a running instance whose volume no longer exists or belongs to another instance.
func (x *xrCheck) lostVolume() []Finding {
	name := x.XR.Status.Volume
	switch v := x.volumes[name]; {
	case x.DataPV != nil || name == "":
		return nil
	case v == nil:
		return []Finding{wrongFinding(
			"restore it, for example from a snapshot of the storage; until then, the controller neither starts the server "+
				"nor releases its volumes",
			"PersistentVolume %s, which contains the data, does not exist", name)}
	default:
		owner := "no PersistentVolumeClaim and is labeled as the data of another instance"
		if ref := v.Spec.ClaimRef; ref != nil {
			owner = fmt.Sprintf("PersistentVolumeClaim %s/%s", ref.Namespace, ref.Name)
		}
		return []Finding{wrongFinding("inspect it before you change it: kubectl describe pv "+name,
			"PersistentVolume %s, which contains the data, is bound to %s", name, owner)}
	}
}

// endangeredData reports how the data volume could be lost, by the same rules as the controller.
func (x *xrCheck) endangeredData() []Finding {
	out := findingsOf(lifecycle.DataRisks(x.State), x.askController("labels it"))
	for i := range out {
		if !x.XR.IsDeleting() {
			out[i] = x.expectSoon(x.XR, out[i])
		}
	}
	return out
}

// findingsOf returns a finding for each risk. The given advice is used for risks without a command.
func findingsOf(risks []instance.Risk, advice string) []Finding {
	out := make([]Finding, 0, len(risks))
	for _, r := range risks {
		out = append(out, Finding{Severity: Wrong, Text: r.Text, Advice: cmp.Or(r.Command, advice)})
	}
	return out
}
