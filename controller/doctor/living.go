package doctor

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/finalize"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// examineInstance with all its findings.
func (x *checker) examineInstance(p *subject) Instance {
	out := Instance{Kind: p.key.Kind, Namespace: p.key.Namespace, Name: p.key.Name, State: x.stateText(p), Backups: x.backupsOf(p)}
	out.Findings = x.examineClaim(p)
	for _, xr := range p.xrs {
		s := x.stateOfLife(p, xr)
		out.Findings = append(out.Findings, x.examineXR(s)...)
		if v := s.DataPV; v != nil && (out.Data == nil || !xr.IsDeleting()) {
			out.Data = dataOf(v)
		}
	}
	for _, check := range []func(*subject) []Finding{x.lostLives, x.strayVolumes, x.recordsOf, x.missingRecords, x.backupPVs} {
		out.Findings = append(out.Findings, check(p)...)
	}
	if out.Data == nil && len(p.data) > 0 {
		out.Data = dataOf(p.data[0])
	}
	out.Severity = worstOf(out.Findings)
	return out
}

func dataOf(v *corev1.PersistentVolume) *Data {
	return &Data{Volume: v.Name, ReclaimPolicy: string(v.Spec.PersistentVolumeReclaimPolicy), Finalizer: instance.HasFinalizer(v)}
}

// stateText of the life that goes on, in a word or two.
func (x *checker) stateText(p *subject) string {
	state := "deleted"
	switch {
	case p.claim != nil && p.claim.IsDeleting():
		state = deletionText(p.claim)
	case p.claim != nil:
		state = "no XR yet"
	case len(p.data)+len(p.handles) > 0:
		state = "being rescued"
	}
	for _, xr := range p.xrs {
		switch {
		case xr.IsDeleting():
			state = deletionText(xr)
		case xr.IsServing():
			return "running"
		default:
			return "not running"
		}
	}
	return state
}

func deletionText(c *instance.Composite) string {
	if d := c.Status.Deletion; d != nil && d.Step != "" {
		return fmt.Sprintf("deleting: %s, %d%%", d.Step, d.Percent)
	}
	return "deleting"
}

// examineClaim of an instance, apart from its XR.
func (x *checker) examineClaim(p *subject) []Finding {
	c := p.claim
	switch {
	case c == nil || !x.isOlder(c.GetCreationTimestamp(), soon):
		return nil
	case c.IsDeleting() && len(p.xrs) == 0:
		return []Finding{wrongFinding(x.askController("removes its finalizer"), "%s is being deleted, and its composite resource is gone", nameOf(c))}
	case len(p.xrs) == 0:
		return []Finding{wrongFinding(fmt.Sprintf("see why Crossplane makes none: kubectl describe %s --namespace %s %s", resourceOf(c), c.GetNamespace(), c.GetName()),
			"%s has no composite resource, %s after it was created", nameOf(c), x.ageOf(c.GetCreationTimestamp()))}
	}
	return nil
}

// examineXR of a life, with its claim and its volume.
func (x *checker) examineXR(s *instance.State) []Finding {
	if s.Ephemeral() {
		return x.examineServing(s)
	}
	out := x.missingFinalizer(s.XR, s)
	switch {
	case s.Claim != nil && !s.Claim.IsDeleting():
		out = append(out, x.missingFinalizer(s.Claim, s)...)
	case s.Claim == nil && !s.XR.IsDeleting() && x.isOlder(s.XR.GetCreationTimestamp(), soon):
		out = append(out, wrongFinding(fmt.Sprintf("create the claim again, or have it backed up and removed: kubectl delete %s %s", resourceOf(s.XR), s.XR.GetName()),
			"%s runs on, and its claim is gone", nameOf(s.XR)))
	}
	out = append(out, x.skippedBackup(s)...)
	if s.XR.IsDeleting() {
		return append(append(out, x.examineDeletion(s)...), x.endangeredData(s)...)
	}
	return append(append(append(out, x.examineServing(s)...), x.examinePVC(s)...), x.examineDataPV(s)...)
}

// missingFinalizer of a claim or XR: it is wrong as long as there is something to lose.
func (x *checker) missingFinalizer(c *instance.Composite, s *instance.State) []Finding {
	if c.HasFinalizer() || c.IsDeleting() && !atStake(s) {
		return nil
	}
	text := fmt.Sprintf("%s has no finalizer %s, %s after it was created: it can go without a backup", nameOf(c), v1.Finalizer, x.ageOf(c.GetCreationTimestamp()))
	return []Finding{x.expectSoon(c, Finding{Severity: Wrong, Text: text, Advice: x.askController("puts it on")})}
}

// expectSoon is a finding that is none yet: the controller may not have had the time.
func (x *checker) expectSoon(c *instance.Composite, f Finding) Finding {
	if !x.isOlder(c.GetCreationTimestamp(), soon) {
		f.Severity, f.Advice = Note, "look again in a minute"
	}
	return f
}

// askController why it does not do what it does by itself.
func (x *checker) askController(does string) string {
	return fmt.Sprintf("the controller %s within seconds; see why it does not: kubectl logs --namespace %s deployment/crossplane-mysql", does, x.SystemNamespace)
}

// skippedBackup is only a note: somebody wanted it so.
func (x *checker) skippedBackup(s *instance.State) []Finding {
	switch {
	case s.Policy() == v1.DeletionDiscard:
		return []Finding{noteFinding("set it to Backup to change that", "deletionPolicy is Discard: no backup is taken, and a deletion loses the data")}
	case s.Skipped():
		return []Finding{noteFinding(fmt.Sprintf("take it off claim and XR to change that: kubectl annotate %s %s %s-", resourceOf(s.XR), s.XR.GetName(), v1.AnnotationSkipBackup),
			"the annotation %s says that no backup is taken: a deletion loses the data", v1.AnnotationSkipBackup)}
	}
	return nil
}

// atStake is true if the controller would not let the life's data go. Notes on volumes
// are not looked at here, so that what it is releasing already is not at stake either.
func atStake(s *instance.State) bool {
	d := s.XR.Status.Deletion
	return finalize.NeedsBackup(s) && (d == nil || d.Step != string(finalize.PhaseReleasing))
}

// examineDeletion that waits for somebody.
func (x *checker) examineDeletion(s *instance.State) []Finding {
	d := s.XR.Status.Deletion
	if d == nil || d.Step != string(finalize.PhaseHeld) && d.Step != string(finalize.PhaseFailed) {
		return nil
	}
	return []Finding{wrongFinding("do as it says; the deletion goes on by itself then", "the deletion waits (%s): %s", d.Step, d.Message)}
}

// examineServing of an instance whose server takes no clients. One that serves has nothing to
// say.
func (x *checker) examineServing(s *instance.State) []Finding {
	if s.XR.IsServing() || s.XR.IsDeleting() {
		return nil
	}
	since := s.XR.GetCreationTimestamp()
	for _, c := range s.XR.Conditions {
		if c.Type == v1.ConditionServing {
			since = c.LastTransitionTime
		}
	}
	f := noteFinding("", "the server takes no clients for %s: %s", x.ageOf(since), orElse(s.XR.Status.Message, "nothing says why"))
	if x.isOlder(since, long) {
		f.Severity, f.Advice = Wrong, fmt.Sprintf("see what it waits for: kubectl describe %s %s", resourceOf(s.XR), s.XR.GetName())
	}
	return []Finding{f}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// examinePVC of the data of an instance that lives.
func (x *checker) examinePVC(s *instance.State) []Finding {
	name := fmt.Sprintf("PersistentVolumeClaim %s/%s", s.Life.Namespace, s.Life.DataPVCName())
	switch c := s.DataPVC; {
	case c == nil && (s.XR.Status.Started || s.XR.Status.Volume != ""):
		return []Finding{wrongFinding(fmt.Sprintf("Crossplane makes it again within a minute; see why it does not: kubectl describe %s %s", resourceOf(s.XR), s.XR.GetName()),
			"%s of the data is gone; its volume is %s", name, orElse(s.XR.Status.Volume, "not known"))}
	case c != nil && c.DeletionTimestamp != nil:
		return []Finding{wrongFinding(x.askController("stops the server and brings the PersistentVolumeClaim back on its volume"),
			"%s of the data is being deleted since %s", name, x.ageOf(*c.DeletionTimestamp))}
	}
	return nil
}

// examineDataPV of an instance that lives: it has to stay whatever becomes of its PVC.
func (x *checker) examineDataPV(s *instance.State) []Finding {
	v := s.DataPV
	switch {
	case v == nil && s.XR.Status.Volume != "":
		return []Finding{wrongFinding("bring it back, from the storage's own snapshots for example: until then nothing is started and nothing is released",
			"PersistentVolume %s, which holds the data, is gone", s.XR.Status.Volume)}
	case v == nil || v.Status.Phase != corev1.VolumeBound && (s.DataPVC == nil || s.DataPVC.Status.Phase != corev1.ClaimBound):
		return nil // It is retained when it is bound.
	}
	out := x.examineRetained(v, "the data")
	if uid := xrOf(v); uid != s.XR.GetUID() {
		f := wrongFinding(x.askController("labels it"), "PersistentVolume %s does not say that its data is this life's: its label %s is %q, not %q", v.Name, v1.LabelXR, uid, s.XR.GetUID())
		out = append(out, f)
	}
	for i := range out {
		out[i] = x.expectSoon(s.XR, out[i])
	}
	return out
}

// endangeredData is the volume of a deletion that has no proven backup.
func (x *checker) endangeredData(s *instance.State) []Finding {
	if s.DataPV == nil || !atStake(s) {
		return nil
	}
	return x.examineRetained(s.DataPV, "the data")
}

// examineRetained of a volume that has to stay: it needs Retain and our finalizer.
func (x *checker) examineRetained(v *corev1.PersistentVolume, what string) []Finding {
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

// nameOf is an object as people call it.
func nameOf(c *instance.Composite) string {
	if c.GetNamespace() == "" {
		return c.GetKind() + " " + c.GetName()
	}
	return c.GetKind() + " " + c.GetNamespace() + "/" + c.GetName()
}

// resourceOf of a claim or XR, as kubectl has it.
func resourceOf(c *instance.Composite) string { return strings.ToLower(c.GetKind()) }
