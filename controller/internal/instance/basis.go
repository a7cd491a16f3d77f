package instance

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Basis is the part of an instance that is read first. It determines the names and the namespace of the Jobs, and
// where the backups are written. What is read next depends on it.
type Basis struct {
	Subject
	DataVolumes

	// Records are the BackupRecords of all instances with this name, newest first. They are read before the first start
	// and during a deletion, always before the DataVolumes.
	Records []v1.BackupRecord
	// StoreForbidden is true if the store is named only on the data PVC, and the platform does not offer it.
	StoreForbidden bool
}

// Record returns the BackupRecord of the current backup, or of the next one if no backup is in progress. It returns
// nil if the BackupRecord does not exist yet.
func (b *Basis) Record() *v1.BackupRecord {
	name := b.Attempt().Record
	for i := range b.Records {
		if r := &b.Records[i]; b.IsOwn(r) && r.Name == name {
			return r
		}
	}
	return nil
}

// UnreadableRecord returns the BackupRecord of this instance's current backup if its field spec.instance is
// unreadable, or nil.
func UnreadableRecord(b *Basis) *v1.BackupRecord {
	name := b.Attempt().Record
	for i := range b.Records {
		if r := &b.Records[i]; r.Name == name && r.Unreadable.Has("spec.instance") {
			return r
		}
	}
	return nil
}

// WhyUnreadable returns which fields of the claim and the XR are unreadable, and how to repair them. It returns "" if
// all fields are readable. Crossplane copies the claim's spec to the XR, so the user must repair the claim unless it
// is being deleted.
func (s *Subject) WhyUnreadable() string {
	if why := s.Claim.WhyUnreadable(); why != "" {
		return why
	}
	return s.XR.WhyUnreadable()
}

// IsOwn reports whether a BackupRecord belongs to this instance.
func (s *Subject) IsOwn(r *v1.BackupRecord) bool {
	return s.Instance.XR != "" && r.Spec.Instance.XR == s.Instance.XR
}

// A DeletionIntent tells how users want an instance to be deleted, for example whether a backup is skipped.
type DeletionIntent struct{ basis *Basis }

// DeletionIntent returns how users want this instance to be deleted. The claim has priority over the XR, because
// Crossplane stops copying its fields to the XR once the claim is being deleted.
func (b *Basis) DeletionIntent() DeletionIntent { return DeletionIntent{b} }

// Policy returns the deletionPolicy of the claim, or of the XR if there is no claim.
func (w DeletionIntent) Policy() v1.DeletionPolicy {
	if w.basis.Claim != nil {
		return w.basis.Claim.Spec.DeletionPolicy
	}
	return w.basis.Identity().DeletionPolicy
}

// Skips reports whether a user has allowed the deletion of this instance without a backup.
func (w DeletionIntent) Skips() bool {
	uid, c := string(w.basis.Instance.XR), w.basis.Claim
	return w.basis.Identity().Annotations[v1.AnnotationSkipBackup] == uid ||
		c != nil && c.GetAnnotations()[v1.AnnotationSkipBackup] == uid
}

// LeavesOutside reports whether a user has allowed the final backup of this instance to omit files outside of the
// data directory.
func (w DeletionIntent) LeavesOutside() bool {
	uid, c := string(w.basis.Instance.XR), w.basis.Claim
	return w.basis.Identity().Annotations[v1.AnnotationWithoutOutside] == uid ||
		c != nil && c.GetAnnotations()[v1.AnnotationWithoutOutside] == uid
}

// RequiresRestorable reports whether the backup must pass a restore test before the data is deleted.
func (w DeletionIntent) RequiresRestorable() bool {
	c := w.basis.Claim
	if c == nil {
		c = w.basis.XR
	}
	return c != nil && c.Spec.Backup.RequiresRestoreTest()
}

// Ephemeral reports whether the data of an instance is deleted with its pod. This is true for a Database without
// storageSize that never had a volume.
func (b *Basis) Ephemeral() bool {
	if b.Instance.Kind != v1.KindDatabase || b.DataPVC != nil || b.DataPV != nil || b.Orphan != nil {
		return false
	}
	for _, c := range []*Composite{b.XR, b.Claim} {
		if c == nil {
			continue
		}
		if size, _ := c.Spec.Size(); size != "" || c.Status.Volume != "" ||
			c.Unreadable.HasAny("spec.storageSize", "status.volume") {
			return false
		}
	}
	return true
}

// HostPath reports whether the data is stored in a directory of a node.
func (v *DataVolumes) HostPath() bool { return v.DataPV != nil && v.DataPV.Spec.HostPath != nil }

// NamespaceUID returns the UID of the namespace in which the data was written. A later namespace with the same name
// has a different UID. The data volume has the UID from the start, and the BackupRecord keeps it after the volume is
// deleted.
func (b *Basis) NamespaceUID() types.UID {
	if v := b.DataPV; v != nil && v.Annotations[v1.AnnotationNamespaceUID] != "" {
		return types.UID(v.Annotations[v1.AnnotationNamespaceUID])
	}
	for i := range b.Records {
		if r := &b.Records[i]; b.IsOwn(r) && r.Spec.Instance.NamespaceUID != "" {
			return r.Spec.Instance.NamespaceUID
		}
	}
	if b.Namespace == nil {
		return ""
	}
	return b.Namespace.UID
}

// IsDataPVReservedElsewhere reports whether the data volume is reserved for a deleted PVC, or for a PVC in another
// place. The current data PVC cannot bind it in this case.
func (b *Basis) IsDataPVReservedElsewhere() bool {
	if b.DataPV == nil || b.DataPV.Spec.ClaimRef == nil {
		return false
	}
	ref, p := b.DataPV.Spec.ClaimRef, b.JobLocation()
	if ref.Namespace != p.Namespace || ref.Name != p.Data {
		return true
	}
	return ref.UID != "" && (b.DataPVC == nil || b.DataPVC.UID != ref.UID)
}

// IsDataPVRetained reports whether the data volume survives the deletion of its PVC.
func (v *DataVolumes) IsDataPVRetained() bool {
	return v.DataPV != nil && len(RisksOf(v.DataPV, "the data")) == 0
}

// A Risk describes how a volume can be lost.
type Risk struct {
	Text string
	// Command removes the risk. It is empty if only the controller can remove it.
	Command string
}

// RisksOf lists why a volume may be lost when its PVC is deleted: it lacks the reclaim policy Retain, or the
// finalizer. Content describes the data on the volume.
func RisksOf(v *corev1.PersistentVolume, content string) []Risk {
	var out []Risk
	if p := v.Spec.PersistentVolumeReclaimPolicy; p != corev1.PersistentVolumeReclaimRetain {
		out = append(out, Risk{
			Text: fmt.Sprintf("PersistentVolume %s with %s has the reclaim policy %s, so it is deleted together "+
				"with its PersistentVolumeClaim", v.Name, content, p),
			Command: fmt.Sprintf(`kubectl patch pv %s --patch '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`, v.Name),
		})
	}
	if !HasFinalizer(v) {
		out = append(out, Risk{
			Text: fmt.Sprintf("PersistentVolume %s with %s has no finalizer %s, so nothing prevents its deletion",
				v.Name, content,
				v1.Finalizer),
			Command: fmt.Sprintf(
				`kubectl patch pv %s --type=json --patch '[{"op":"add","path":"/metadata/finalizers/-","value":"%s"}]'`, v.Name,
				v1.Finalizer),
		})
	}
	return out
}

// HasFinalizer reports whether an object has the product's finalizer.
func HasFinalizer(o client.Object) bool { return controllerutil.ContainsFinalizer(o, v1.Finalizer) }
