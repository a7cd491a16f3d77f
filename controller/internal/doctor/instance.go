package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/lifecycle"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// An instanceCheck checks all instances with one name, including deleted ones.
type instanceCheck struct {
	*index
	*subject
}

// examineInstance returns the line of an instance in the report, with all findings about it.
func (x *instanceCheck) examineInstance() Instance {
	out := Instance{Kind: x.key.Kind, Namespace: x.key.Namespace, Name: x.key.Name, State: x.stateText(),
		Backups: x.summarizeBackups()}
	out.Findings = append(x.examineClaim(), x.unreadable()...)
	for _, xr := range x.xrs {
		instanceID := &xrCheck{index: x.index, State: x.stateOfXR(x.subject, xr)}
		out.Findings = append(out.Findings, instanceID.examineXR()...)
		if v := instanceID.DataPV; v != nil && (out.Data == nil || !xr.IsDeleting()) {
			out.Data = dataOf(v)
		}
	}
	for _, check := range []func() []Finding{x.examineOrphans, x.strayVolumes, x.examineRecords, x.missingRecords,
		x.examineBackupPVs} {
		out.Findings = append(out.Findings, check()...)
	}
	if out.Data == nil && len(x.dataPVs) > 0 {
		out.Data = dataOf(x.dataPVs[0])
	}
	out.Severity = worstOf(out.Findings)
	return out
}

func dataOf(v *corev1.PersistentVolume) *Data {
	return &Data{Volume: v.Name, ReclaimPolicy: string(v.Spec.PersistentVolumeReclaimPolicy),
		Finalizer: instance.HasFinalizer(v)}
}

// stateText returns the state of the existing instance in a word or two.
func (x *instanceCheck) stateText() string {
	state := "deleted"
	switch {
	case x.claim != nil && x.claim.IsDeleting():
		state = deletionText(x.claim)
	case x.claim != nil:
		state = "no XR yet"
	case len(x.holders) > 0:
		state = "being recovered"
	}
	for _, xr := range x.xrs {
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
	if d := c.Status.Deletion; d != nil && d.Phase != "" {
		return fmt.Sprintf("deleting: %s, %d%%", d.Phase, d.Percent)
	}
	return "deleting"
}

// examineClaim reports a claim without a composite resource. If the claim is being deleted, the finding depends on
// the step that the controller has to perform next.
func (x *instanceCheck) examineClaim() []Finding {
	c := x.claim
	if c == nil || len(x.xrs) > 0 || !x.isOlder(c.GetCreationTimestamp(), shortDelay) {
		return nil
	}
	if !c.IsDeleting() {
		return []Finding{wrongFinding("find out why Crossplane has not created one: kubectl describe "+c.InKubectl(),
			"%s has no composite resource, %s after it was created", nameOf(c), x.ageOf(c.GetCreationTimestamp()))}
	}
	unreported := *c // Next does not repeat a message that is in the status, so the copy has none.
	unreported.Status.Message = ""
	s := instance.NewState(instance.Subject{Instance: x.key.Instance(""), Now: x.Now, Claim: &unreported})
	s.CrossplaneAwaited = x.Now.Sub(c.GetDeletionTimestamp().Time)
	s.Undefined = slices.Contains(x.Absent, "X"+x.key.Kind)
	switch step := lifecycle.Next(s); {
	case step.Action == steps.RemoveClaimFinalizer:
		return []Finding{wrongFinding(x.askController("removes its finalizer"),
			"%s is being deleted, and its composite resource is already deleted", nameOf(c))}
	case step.Message != "":
		return []Finding{wrongFinding("", "%s is being deleted. %s", nameOf(c), step.Message)}
	case step.Action == steps.NoOp:
		return []Finding{wrongFinding("", "%s is being deleted and its other objects are already deleted, but it still "+
			"has the finalizers %s",
			nameOf(c), strings.Join(c.GetFinalizers(), ", "))}
	}
	return nil // Crossplane has a minute to create the composite resource.
}

// unreadable reports fields that cannot be read in the claim, its composite resources and the BackupRecords. The
// advice is the command that repairs the object.
func (x *instanceCheck) unreadable() []Finding {
	var out []Finding
	for _, c := range append([]*instance.Composite{x.claim}, x.xrs...) {
		if c != nil && len(c.Unreadable) > 0 {
			out = append(out, wrongFinding(c.Unreadable.Repair(c.InKubectl()), "%s: %s. Its other fields are still "+
				"used",
				nameOf(c), c.Unreadable))
		}
	}
	for i := range x.records {
		if r := x.records[i]; len(r.Unreadable) > 0 {
			out = append(out, wrongFinding(r.Unreadable.Edit("backuprecord "+r.Name),
				"BackupRecord %s: %s. Until it is repaired, the controller deletes and restores nothing", r.Name, r.Unreadable))
		}
	}
	return out
}
