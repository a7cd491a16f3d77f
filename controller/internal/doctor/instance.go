package doctor

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// An instanceCheck is of one instance, in all its lives.
type instanceCheck struct {
	*index
	*subject
}

// examineInstance with all its findings.
func (x *instanceCheck) examineInstance() Instance {
	out := Instance{Kind: x.key.Kind, Namespace: x.key.Namespace, Name: x.key.Name, State: x.stateText(), Backups: x.summarizeBackups()}
	out.Findings = append(x.examineClaim(), x.unreadable()...)
	for _, xr := range x.xrs {
		life := &xrCheck{index: x.index, State: x.stateOfLife(x.subject, xr)}
		out.Findings = append(out.Findings, life.examineXR()...)
		if v := life.DataPV; v != nil && (out.Data == nil || !xr.IsDeleting()) {
			out.Data = dataOf(v)
		}
	}
	for _, check := range []func() []Finding{x.examineOrphans, x.strayVolumes, x.examineRecords, x.missingRecords, x.examineBackupPVs} {
		out.Findings = append(out.Findings, check()...)
	}
	if out.Data == nil && len(x.dataPVs) > 0 {
		out.Data = dataOf(x.dataPVs[0])
	}
	out.Severity = worstOf(out.Findings)
	return out
}

func dataOf(v *corev1.PersistentVolume) *Data {
	return &Data{Volume: v.Name, ReclaimPolicy: string(v.Spec.PersistentVolumeReclaimPolicy), Finalizer: instance.HasFinalizer(v)}
}

// stateText of the life that goes on, in a word or two.
func (x *instanceCheck) stateText() string {
	state := "deleted"
	switch {
	case x.claim != nil && x.claim.IsDeleting():
		state = deletionText(x.claim)
	case x.claim != nil:
		state = "no XR yet"
	case len(x.dataPVs)+len(x.dataPVCs) > 0:
		state = "being rescued"
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

// examineClaim of an instance, apart from its XR.
func (x *instanceCheck) examineClaim() []Finding {
	c := x.claim
	switch {
	case c == nil || !x.isOlder(c.GetCreationTimestamp(), soon):
		return nil
	case c.IsDeleting() && len(x.xrs) == 0 && !c.HasFinalizer() && controllerutil.ContainsFinalizer(c, instance.FinalizerCrossplaneClaim):
		return []Finding{wrongFinding("see that Crossplane runs. If its XRD is being deleted or no longer exists, or if Crossplane is uninstalled for good: "+c.CommandToRemove(instance.FinalizerCrossplaneClaim),
			"%s is being deleted, nothing else of it is left, and Crossplane has not removed its finalizer", nameOf(c))}
	case c.IsDeleting() && len(x.xrs) == 0:
		return []Finding{wrongFinding(x.askController("removes its finalizer"), "%s is being deleted, and its composite resource is gone", nameOf(c))}
	case len(x.xrs) == 0:
		return []Finding{wrongFinding(fmt.Sprintf("see why Crossplane makes none: kubectl describe %s --namespace %s %s", resourceOf(c), c.GetNamespace(), c.GetName()),
			"%s has no composite resource, %s after it was created", nameOf(c), x.ageOf(c.GetCreationTimestamp()))}
	}
	return nil
}

// unreadable fields of the claim, its composite resources and the records, each object with the command that repairs it.
func (x *instanceCheck) unreadable() []Finding {
	var out []Finding
	for _, c := range append([]*instance.Composite{x.claim}, x.xrs...) {
		if c != nil && len(c.Unreadable) > 0 {
			out = append(out, wrongFinding(c.Unreadable.Repair(c.InKubectl()), "%s: %s. Everything else of it goes on", nameOf(c), c.Unreadable))
		}
	}
	for i := range x.records {
		if r := x.records[i]; len(r.Unreadable) > 0 {
			out = append(out, wrongFinding(r.Unreadable.Edit("mysqlbackup "+r.Name), "MySQLBackup %s: %s. Nothing is removed or restored on its word", r.Name, r.Unreadable))
		}
	}
	return out
}
