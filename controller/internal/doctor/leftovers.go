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

// examineLeftovers reports objects that belong to no instance.
func (x *clusterCheck) examineLeftovers() []Finding {
	out := x.xrsWithoutClaim()
	for i := range x.Volumes {
		if v := &x.Volumes[i]; instance.HasFinalizer(v) && !x.isKnownVolume(v) {
			out = append(out, wrongFinding("inspect it: kubectl get pv "+v.Name+" --output yaml",
				"PersistentVolume %s has the controller's finalizer but no labels of an instance, so the "+
					"controller ignores it", v.Name))
		}
	}
	for i := range x.PVCs {
		if c := &x.PVCs[i]; instance.HasFinalizer(c) && !x.isKnownPVC(c) {
			out = append(out, wrongFinding(fmt.Sprintf("inspect it: kubectl get pvc --namespace %s %s --output yaml",
				c.Namespace, c.Name),
				"PersistentVolumeClaim %s/%s has the controller's finalizer but no labels of an instance, so the "+
					"controller ignores it", c.Namespace,
				c.Name))
		}
	}
	return append(out, x.examineJobs()...)
}

// xrsWithoutClaim reports XRs that were created without a claim. The controller ignores them.
func (x *clusterCheck) xrsWithoutClaim() []Finding {
	var out []Finding
	for _, xr := range x.XRs {
		if _, ok := xr.Key(); !ok {
			out = append(out, wrongFinding(
				"create a claim in a namespace instead; to inspect this one: kubectl describe "+xr.InKubectl(),
				"%s was created without a claim: the controller ignores it and takes no backup of it", nameOf(xr)))
		}
	}
	return out
}

// isKnownVolume reports whether a volume belongs to an instance, either by its labels or because an instance uses it.
func (x *clusterCheck) isKnownVolume(v *corev1.PersistentVolume) bool {
	_, ok := keyOf(v)
	return ok && (instance.IsForBackups(v) || instance.XROf(v) != "") || x.isUsed(v.Name)
}

func (x *clusterCheck) isKnownPVC(c *corev1.PersistentVolumeClaim) bool {
	_, ok := keyOf(c)
	return ok && (instance.IsForBackups(c) || instance.XROf(c) != "")
}

// isUsed reports whether a volume contains the data of an existing instance.
func (x *index) isUsed(volume string) bool {
	for _, p := range x.subjects {
		for _, xr := range p.xrs {
			if v := x.stateOfXR(p, xr).DataPV; v != nil && v.Name == volume {
				return true
			}
		}
	}
	return false
}

// isAlive reports whether an instance or its data still exists. In both cases, its Jobs may still be needed.
func (x *index) isAlive(uid types.UID) bool { return x.living[uid] || x.orphaned[uid] }

// adoptCommand returns a command that lists the backups on the backup volume of an instance. The command changes
// nothing.
func adoptCommand(k instance.Key) string {
	return fmt.Sprintf("kubectl mysql adopt --namespace %s --volume %s --kind %s --name %s --dry-run", k.Namespace,
		k.Instance("").BackupPVCName(), k.Kind, k.Name)
}

// examineJobs reports Jobs of instances that no longer exist.
func (x *clusterCheck) examineJobs() []Finding {
	var out []Finding
	for i := range x.Jobs {
		j := &x.Jobs[i]
		if uid := instance.XROf(j); uid != "" && !x.isAlive(uid) && !x.isRemovalJob(j) && !x.isRestoreTest(j) {
			out = append(out, newFinding(fmt.Sprintf("kubectl delete job --namespace %s %s", j.Namespace, j.Name),
				"Job %s/%s was created for a composite resource that no longer exists (%s)", j.Namespace, j.Name, uid))
		}
	}
	return out
}

// isRestoreTest reports whether a Job runs a restore test for a BackupRecord that waits for it.
func (x *clusterCheck) isRestoreTest(j *metav1.PartialObjectMetadata) bool {
	return j.Labels[v1.LabelComponent] == v1.ComponentRestoreTest &&
		slices.ContainsFunc(x.Records, func(r v1.BackupRecord) bool {
			return r.Status.RestoreTest != nil && r.Status.RestoreTest.Job == j.UID
		})
}

// isRemovalJob reports whether a Job deletes the archive of a BackupRecord that waits for it.
func (x *clusterCheck) isRemovalJob(j *metav1.PartialObjectMetadata) bool {
	return j.Labels[v1.LabelComponent] == v1.ComponentRemoval &&
		slices.ContainsFunc(x.Records, func(r v1.BackupRecord) bool {
			return r.DeletionTimestamp != nil && r.Spec.Instance.XR == instance.XROf(j)
		})
}
