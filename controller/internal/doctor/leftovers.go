package doctor

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// examineLeftovers is what belongs to no instance.
func (x *clusterCheck) examineLeftovers() []Finding {
	out := x.xrsWithoutClaim()
	for i := range x.Volumes {
		if v := &x.Volumes[i]; instance.HasFinalizer(v) && !x.isKnownVolume(v) {
			out = append(out, wrongFinding("see what it is: kubectl get pv "+v.Name+" --output yaml",
				"PersistentVolume %s has our finalizer and does not say whose it is: nobody looks after it", v.Name))
		}
	}
	for i := range x.PVCs {
		if c := &x.PVCs[i]; instance.HasFinalizer(c) && !x.isKnownPVC(c) {
			out = append(out, wrongFinding(fmt.Sprintf("see what it is: kubectl get pvc --namespace %s %s --output yaml", c.Namespace, c.Name),
				"PersistentVolumeClaim %s/%s has our finalizer and does not say whose it is: nobody looks after it", c.Namespace, c.Name))
		}
	}
	return append(out, x.examineJobs()...)
}

// xrsWithoutClaim: an XR that was made without a claim is looked after by nobody.
func (x *clusterCheck) xrsWithoutClaim() []Finding {
	var out []Finding
	for _, xr := range x.XRs {
		if _, ok := xr.ClaimKey(); !ok {
			out = append(out, wrongFinding(fmt.Sprintf("create a claim in a namespace instead; see this one: kubectl describe %s %s", resourceOf(xr), xr.GetName()),
				"%s was made without a claim: the controller does not look after it, and no backup is taken of it", nameOf(xr)))
		}
	}
	return out
}

// isKnownVolume is true for volumes that are some instance's, by what they say or by who uses them.
func (x *clusterCheck) isKnownVolume(v *corev1.PersistentVolume) bool {
	_, ok := keyOf(v)
	return ok && (instance.IsForBackups(v) || instance.XROf(v) != "") || x.isUsed(v.Name)
}

func (x *clusterCheck) isKnownPVC(c *corev1.PersistentVolumeClaim) bool {
	_, ok := keyOf(c)
	return ok && (instance.IsForBackups(c) || instance.XROf(c) != "")
}

// isUsed is true for volumes that have the data of an instance that is there.
func (x *index) isUsed(volume string) bool {
	for _, p := range x.subjects {
		for _, xr := range p.xrs {
			if v := x.stateOfLife(p, xr).DataPV; v != nil && v.Name == volume {
				return true
			}
		}
	}
	return false
}

// isAlive is true if there is something left of a life that its Jobs are for.
func (x *index) isAlive(uid types.UID) bool { return x.living[uid] || x.orphaned[uid] }

// adoptCommand looks at what lies on the backup volume of an instance, and changes nothing.
func adoptCommand(k instance.Key) string {
	return fmt.Sprintf("kubectl mysql adopt --namespace %s --volume %s --kind %s --name %s --dry-run", k.Namespace, k.Life("").BackupPVCName(), k.Kind, k.Name)
}

// examineJobs of lives that have ended.
func (x *clusterCheck) examineJobs() []Finding {
	var out []Finding
	for i := range x.Jobs {
		j := &x.Jobs[i]
		if uid := instance.XROf(j); uid != "" && !x.isAlive(uid) && !x.isEraseJob(j) && !x.isRestoreTest(j) {
			out = append(out, noteFinding(fmt.Sprintf("kubectl delete job --namespace %s %s", j.Namespace, j.Name),
				"Job %s/%s was made for a composite resource that is gone (%s)", j.Namespace, j.Name, uid))
		}
	}
	return out
}

// isRestoreTest is true if a Job tries a backup whose record waits for its word.
func (x *clusterCheck) isRestoreTest(j *metav1.PartialObjectMetadata) bool {
	return j.Labels[v1.LabelComponent] == v1.ComponentRestoreTest && slices.ContainsFunc(x.Records, func(r v1.MySQLBackup) bool {
		return r.Status.RestoreTest != nil && r.Status.RestoreTest.Job == j.UID
	})
}

// isEraseJob is true if a Job removes an archive whose record waits for that.
func (x *clusterCheck) isEraseJob(j *metav1.PartialObjectMetadata) bool {
	return j.Labels[v1.LabelComponent] == v1.ComponentErase && slices.ContainsFunc(x.Records, func(r v1.MySQLBackup) bool {
		return r.DeletionTimestamp != nil && r.Spec.Instance.XR == instance.XROf(j)
	})
}
