package doctor

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/finalize"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// instance with all its findings.
func (x *exam) instance(p *patient) Instance {
	out := Instance{Kind: p.key.Kind, Namespace: p.key.Namespace, Name: p.key.Name, State: x.state(p), Backups: x.backups(p)}
	out.Findings = x.claim(p)
	for _, xr := range p.xrs {
		s := x.life(p, xr)
		out.Findings = append(out.Findings, x.composite(s)...)
		if v := s.DataPV; v != nil && (out.Data == nil || !xr.IsDeleting()) {
			out.Data = data(v)
		}
	}
	for _, check := range []func(*patient) []Finding{x.lostLives, x.strayVolumes, x.recordsOf, x.missing, x.backupPVs} {
		out.Findings = append(out.Findings, check(p)...)
	}
	if out.Data == nil && len(p.data) > 0 {
		out.Data = data(p.data[0])
	}
	out.Severity = worst(out.Findings)
	return out
}

func data(v *corev1.PersistentVolume) *Data {
	return &Data{Volume: v.Name, ReclaimPolicy: string(v.Spec.PersistentVolumeReclaimPolicy), Finalizer: instance.HasFinalizer(v)}
}

// state of the life that goes on, in a word or two.
func (x *exam) state(p *patient) string {
	state := "deleted"
	switch {
	case p.claim != nil && p.claim.IsDeleting():
		state = deleting(p.claim)
	case p.claim != nil:
		state = "no XR yet"
	case len(p.data)+len(p.handles) > 0:
		state = "being rescued"
	}
	for _, xr := range p.xrs {
		switch {
		case xr.IsDeleting():
			state = deleting(xr)
		case xr.IsServing():
			return "running"
		default:
			return "not running"
		}
	}
	return state
}

func deleting(c *instance.Composite) string {
	if d := c.Status.Deletion; d != nil && d.Step != "" {
		return fmt.Sprintf("deleting: %s, %d%%", d.Step, d.Percent)
	}
	return "deleting"
}

// claim of an instance, apart from its XR.
func (x *exam) claim(p *patient) []Finding {
	c := p.claim
	switch {
	case c == nil || !x.older(c.GetCreationTimestamp(), soon):
		return nil
	case c.IsDeleting() && len(p.xrs) == 0:
		return []Finding{wrong(x.askController("removes its finalizer"), "%s is being deleted, and its composite resource is gone", named(c))}
	case len(p.xrs) == 0:
		return []Finding{wrong(fmt.Sprintf("see why Crossplane makes none: kubectl describe %s --namespace %s %s", resource(c), c.GetNamespace(), c.GetName()),
			"%s has no composite resource, %s after it was created", named(c), x.age(c.GetCreationTimestamp()))}
	}
	return nil
}

// composite is an XR, with its claim and its volume.
func (x *exam) composite(s *instance.State) []Finding {
	if s.Ephemeral() {
		return x.serving(s)
	}
	out := x.protected(s.XR, s)
	switch {
	case s.Claim != nil && !s.Claim.IsDeleting():
		out = append(out, x.protected(s.Claim, s)...)
	case s.Claim == nil && !s.XR.IsDeleting() && x.older(s.XR.GetCreationTimestamp(), soon):
		out = append(out, wrong(fmt.Sprintf("create the claim again, or have it backed up and removed: kubectl delete %s %s", resource(s.XR), s.XR.GetName()),
			"%s runs on, and its claim is gone", named(s.XR)))
	}
	out = append(out, x.forgone(s)...)
	if s.XR.IsDeleting() {
		return append(append(out, x.deletion(s)...), x.endangered(s)...)
	}
	return append(append(append(out, x.serving(s)...), x.handle(s)...), x.latched(s)...)
}

// protected is a claim or XR that has our finalizer, as long as there is
// something to lose.
func (x *exam) protected(c *instance.Composite, s *instance.State) []Finding {
	if c.HasFinalizer() || c.IsDeleting() && !atStake(s) {
		return nil
	}
	text := fmt.Sprintf("%s has no finalizer %s, %s after it was created: it can go without a backup", named(c), v1.Finalizer, x.age(c.GetCreationTimestamp()))
	return []Finding{x.soon(c, Finding{Severity: Wrong, Text: text, Advice: x.askController("puts it on")})}
}

// soon is a finding that is none yet: the controller may not have had the time.
func (x *exam) soon(c *instance.Composite, f Finding) Finding {
	if !x.older(c.GetCreationTimestamp(), soon) {
		f.Severity, f.Advice = Note, "look again in a minute"
	}
	return f
}

// askController why it does not do what it does by itself.
func (x *exam) askController(does string) string {
	return fmt.Sprintf("the controller %s within seconds; see why it does not: kubectl logs --namespace %s deployment/crossplane-mysql", does, x.SystemNamespace)
}

// forgone backups are nobody's mistake.
func (x *exam) forgone(s *instance.State) []Finding {
	switch {
	case s.Policy() == v1.DeletionDiscard:
		return []Finding{note("set it to Backup to change that", "deletionPolicy is Discard: no backup is taken, and a deletion loses the data")}
	case s.Skipped():
		return []Finding{note(fmt.Sprintf("take it off claim and XR to change that: kubectl annotate %s %s %s-", resource(s.XR), s.XR.GetName(), v1.AnnotationSkipBackup),
			"the annotation %s says that no backup is taken: a deletion loses the data", v1.AnnotationSkipBackup)}
	}
	return nil
}

// atStake is true if a life may have data that no proven backup holds.
func atStake(s *instance.State) bool {
	r, d := s.Record(), s.XR.Status.Deletion
	switch {
	case r != nil && r.Status.Phase == v1.BackupProven, s.Policy() == v1.DeletionDiscard, s.Skipped():
		return false
	case s.XR.GetAnnotations()[v1.AnnotationNothingToLose] == string(s.XR.GetUID()):
		return false
	}
	return d == nil || d.Step != string(finalize.PhaseReleasing)
}

// deletion that waits for somebody.
func (x *exam) deletion(s *instance.State) []Finding {
	d := s.XR.Status.Deletion
	if d == nil || d.Step != string(finalize.PhaseHeld) && d.Step != string(finalize.PhaseFailed) {
		return nil
	}
	return []Finding{wrong("do as it says; the deletion goes on by itself then", "the deletion waits (%s): %s", d.Step, d.Message)}
}

// serving instances have no message that is worth a line.
func (x *exam) serving(s *instance.State) []Finding {
	if s.XR.IsServing() || s.XR.IsDeleting() {
		return nil
	}
	since := s.XR.GetCreationTimestamp()
	for _, c := range s.XR.Conditions {
		if c.Type == v1.ConditionServing {
			since = c.LastTransitionTime
		}
	}
	f := note("", "the server takes no clients for %s: %s", x.age(since), orElse(s.XR.Status.Message, "nothing says why"))
	if x.older(since, long) {
		f.Severity, f.Advice = Wrong, fmt.Sprintf("see what it waits for: kubectl describe %s %s", resource(s.XR), s.XR.GetName())
	}
	return []Finding{f}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// handle of the data of an instance that lives.
func (x *exam) handle(s *instance.State) []Finding {
	name := fmt.Sprintf("PersistentVolumeClaim %s/%s", s.Life.Namespace, s.Life.DataPVCName())
	switch c := s.DataPVC; {
	case c == nil && (s.XR.Status.Started || s.XR.Status.Volume != ""):
		return []Finding{wrong(fmt.Sprintf("Crossplane makes it again within a minute; see why it does not: kubectl describe %s %s", resource(s.XR), s.XR.GetName()),
			"%s of the data is gone; its volume is %s", name, orElse(s.XR.Status.Volume, "not known"))}
	case c != nil && c.DeletionTimestamp != nil:
		return []Finding{wrong(x.askController("stops the server and brings the claim back on its volume"),
			"%s of the data is being deleted since %s", name, x.age(*c.DeletionTimestamp))}
	}
	return nil
}

// latched volumes stay whatever becomes of their claim.
func (x *exam) latched(s *instance.State) []Finding {
	v := s.DataPV
	switch {
	case v == nil && s.XR.Status.Volume != "":
		return []Finding{wrong("bring it back, from the storage's own snapshots for example: until then nothing is started and nothing is released",
			"PersistentVolume %s, which holds the data, is gone", s.XR.Status.Volume)}
	case v == nil || v.Status.Phase != corev1.VolumeBound && (s.DataPVC == nil || s.DataPVC.Status.Phase != corev1.ClaimBound):
		return nil // It is latched when it is bound.
	}
	out := x.kept(v, "the data")
	if uid := xrOf(v); uid != s.XR.GetUID() {
		f := wrong(x.askController("labels it"), "PersistentVolume %s does not say that its data is this life's: its label %s is %q, not %q", v.Name, v1.LabelXR, uid, s.XR.GetUID())
		out = append(out, f)
	}
	for i := range out {
		out[i] = x.soon(s.XR, out[i])
	}
	return out
}

// endangered is the volume of a deletion that has no proven backup.
func (x *exam) endangered(s *instance.State) []Finding {
	if s.DataPV == nil || !atStake(s) {
		return nil
	}
	return x.kept(s.DataPV, "the data")
}

// kept volumes have Retain and our finalizer.
func (x *exam) kept(v *corev1.PersistentVolume, what string) []Finding {
	var out []Finding
	if p := v.Spec.PersistentVolumeReclaimPolicy; p != corev1.PersistentVolumeReclaimRetain {
		out = append(out, wrong(fmt.Sprintf(`kubectl patch pv %s --patch '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`, v.Name),
			"PersistentVolume %s with %s has the reclaim policy %s: whoever deletes its claim deletes it", v.Name, what, p))
	}
	if !instance.HasFinalizer(v) {
		out = append(out, wrong(fmt.Sprintf(`kubectl patch pv %s --type=json --patch '[{"op":"add","path":"/metadata/finalizers/-","value":"%s"}]'`, v.Name, v1.Finalizer),
			"PersistentVolume %s with %s has no finalizer %s: whoever deletes it loses it", v.Name, what, v1.Finalizer))
	}
	return out
}

// named is an object as people call it.
func named(c *instance.Composite) string {
	if c.GetNamespace() == "" {
		return c.GetKind() + " " + c.GetName()
	}
	return c.GetKind() + " " + c.GetNamespace() + "/" + c.GetName()
}

// resource of a claim or XR, as kubectl has it.
func resource(c *instance.Composite) string { return strings.ToLower(c.GetKind()) }
