package doctor

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/lifecycle"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// examineOrphans reports instances whose composite resource was deleted while their data still exists. The controller
// backs up such data if there is no backup of it.
func (x *instanceCheck) examineOrphans() []Finding {
	var out []Finding
	seen := map[types.UID]bool{}
	for _, h := range x.holders {
		uid := instance.XROf(h)
		if !x.orphaned[uid] || seen[uid] {
			continue
		}
		seen[uid] = true
		out = append(out, x.explainRecovery(uid,
			slices.DeleteFunc(slices.Clone(x.holders), func(o client.Object) bool { return instance.XROf(o) != uid })))
		v, isVolume := h.(*corev1.PersistentVolume)
		if r := x.recordOf(uid); isVolume && (r == nil || !r.IsVerified()) {
			out = append(out, findingsOf(instance.RisksOf(v, "the data"), "")...)
		}
	}
	return out
}

// explainRecovery explains how the controller recovers the data of an instance whose composite resource was deleted.
// holders are the volumes and PVCs with that data.
func (x *instanceCheck) explainRecovery(uid types.UID, holders []client.Object) Finding {
	s := x.stateOfInstance(x.subject, uid)
	s.Orphan = new(instance.IdentityOfHolders(s.Instance, holders, x.Now))
	s.DataPV, _ = instance.FindDataPV(x.readVolumes(), &s.Subject, s.DataPVC) // The volumes are already read.
	name := "PersistentVolume " + holders[0].GetName()
	if namespace := holders[0].GetNamespace(); namespace != "" {
		name = "PersistentVolumeClaim " + namespace + "/" + holders[0].GetName()
	}
	switch r := x.recordOf(uid); {
	case s.Orphan.Copy != nil:
		reason, todo := lifecycle.WhyBlockedByCopy(s.Orphan.Copy)
		return wrongFinding(todo, "%s", reason)
	case r == nil:
		return x.explainUnannounced(name, uid, lifecycle.Next(s))
	case r.IsVerified():
		return newFinding("", "%s lost its composite resource. Its backup %s is verified, and the data is being "+
			"released", name,
			r.Name)
	default:
		f := x.unfinishedRecord(r)
		f.Text = fmt.Sprintf("%s lost its composite resource, and its data is being recovered: %s", name, f.Text)
		return f
	}
}

// explainUnannounced returns the finding for data of a deleted instance if its backup has no BackupRecord yet. The
// finding depends on the step that the controller has to perform next.
func (x *instanceCheck) explainUnannounced(name string, uid types.UID, next steps.Step) Finding {
	if next.Action == steps.CreateBackup {
		return wrongFinding(x.askController("starts a backup of it"),
			"%s has data of a composite resource that no longer exists (%s), and no backup of it has started", name, uid)
	}
	return wrongFinding(x.askController("continues, unless it waits for manual action,"),
		"%s has data of a composite resource that no longer exists (%s). %s", name, uid, next.Message)
}

func (p *subject) recordOf(uid types.UID) *v1.BackupRecord {
	for _, r := range p.records {
		if r.Spec.Instance.XR == uid {
			return r
		}
	}
	return nil
}

// strayVolumes reports volumes with the labels of an existing instance that uses a different volume.
func (x *instanceCheck) strayVolumes() []Finding {
	var out []Finding
	for _, v := range x.dataPVs {
		for _, xr := range x.xrs {
			if xr.GetUID() != instance.XROf(v) {
				continue
			}
			used := x.stateOfXR(x.subject, xr).DataPV
			if used == nil && xr.Status.Volume == v.Name || used != nil && used.Name == v.Name { // This volume has already been checked.
				continue
			}
			out = append(out, wrongFinding("inspect it before you change it: kubectl describe pv "+v.Name,
				"PersistentVolume %s is labeled as the data of %s, which uses %s", v.Name, nameOf(xr), volumeName(used)))
		}
	}
	return out
}

func volumeName(v *corev1.PersistentVolume) string {
	if v == nil {
		return "none"
	}
	return v.Name
}
