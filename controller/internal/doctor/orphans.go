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
)

// examineOrphans: lives whose XR is gone and whose data is not. The controller
// takes the backup that was not taken.
func (x *instanceCheck) examineOrphans() []Finding {
	var out []Finding
	var seen []types.UID
	for _, v := range x.dataPVs {
		if uid := instance.XROf(v); x.orphaned[uid] && !slices.Contains(seen, uid) {
			seen = append(seen, uid)
			out = append(out, x.explainRescue("PersistentVolume "+v.Name, v))
			if r := x.recordOf(uid); r == nil || !r.IsProven() {
				out = append(out, examineRetained(v, "the data")...)
			}
		}
	}
	for _, c := range x.dataPVCs {
		if uid := instance.XROf(c); x.orphaned[uid] && !slices.Contains(seen, uid) {
			seen = append(seen, uid)
			out = append(out, x.explainRescue(fmt.Sprintf("PersistentVolumeClaim %s/%s", c.Namespace, c.Name), c))
		}
	}
	return out
}

// explainRescue of the data that a volume or PVC holds.
func (x *instanceCheck) explainRescue(holder string, of client.Object) Finding {
	uid := instance.XROf(of)
	if instance.IsHeldCopy(of) {
		why, todo := lifecycle.WhyHeldByCopy(of)
		return wrongFinding(todo, "%s", why)
	}
	r := x.recordOf(uid)
	if r == nil {
		return wrongFinding(x.askController("announces a backup of it"),
			"%s has data of a composite resource that is gone (%s), and no backup of it is announced", holder, uid)
	}
	if r.IsProven() {
		return noteFinding("", "%s lost its composite resource; its backup %s is proven, and it is being released", holder, r.Name)
	}
	f := x.unfinishedRecord(r)
	f.Text = fmt.Sprintf("%s lost its composite resource and is being rescued; %s", holder, f.Text)
	return f
}

func (p *subject) recordOf(uid types.UID) *v1.MySQLBackup {
	for _, r := range p.records {
		if r.Spec.Instance.XR == uid {
			return r
		}
	}
	return nil
}

// strayVolumes say that they are a living instance's, which has another one.
func (x *instanceCheck) strayVolumes() []Finding {
	var out []Finding
	for _, v := range x.dataPVs {
		for _, xr := range x.xrs {
			if xr.GetUID() != instance.XROf(v) {
				continue
			}
			used := x.stateOfLife(x.subject, xr).DataPV
			if used == nil && xr.Status.Volume == v.Name || used != nil && used.Name == v.Name { // It has been looked at.
				continue
			}
			out = append(out, wrongFinding("see what is on it before you touch it: kubectl describe pv "+v.Name,
				"PersistentVolume %s says that it has the data of %s, which uses %s", v.Name, nameOf(xr), volumeName(used)))
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
