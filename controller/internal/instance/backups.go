package instance

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// BackupVolumes are the volumes with the backups of an instance, if its backups are not written to a store.
type BackupVolumes struct {
	// BackupPVC mounts the backup volume, and BackupPV is the volume that it is bound to. If there is no PVC, BackupPV
	// is the volume that a previous PVC was bound to. BackupPV is read if Records is read, or if it must be retained or
	// pinned.
	BackupPVC *corev1.PersistentVolumeClaim
	BackupPV  *corev1.PersistentVolume
	// BackupPVCAwaited is true if the instance has not started, its backup PVC has no volume, and the volume binding
	// mode of the StorageClass is Immediate.
	BackupPVCAwaited bool
	// EarlierBackupPV is the backup volume of a previous namespace with the same name, if it contains the backup that
	// the function chose. It is nil after this namespace has adopted the volume.
	EarlierBackupPV *corev1.PersistentVolume
	// BackupBusy is true while EarlierBackupPV is still bound to an existing PVC. If EarlierBackupPV is nil and there
	// is no BackupPVC, it is true while BackupPV is still bound to an existing PVC.
	BackupBusy bool
}

// readBackupVolumes reads the backup PVC and its volume. Without a PVC, it reads the volume that a previous PVC was
// bound to. It also reads the volume of a previous namespace if this namespace must adopt it.
func readBackupVolumes(ctx context.Context, r client.Reader, basis *Basis, entries []Entry) (BackupVolumes, error) {
	var out BackupVolumes
	var err error
	location := basis.JobLocation()
	if out.BackupPVC, err = readPVC(ctx, r, location.Namespace, location.Backup); err != nil {
		return out, err
	}
	if out.BackupPV, err = readBackupPV(ctx, r, basis, out.BackupPVC); err != nil {
		return out, err
	}
	if out.EarlierBackupPV, err = findEarlierBackupPV(ctx, r, basis, entries, out.BackupPVC); err != nil {
		return out, err
	}
	if out.BackupPVCAwaited, err = isVolumeAwaited(ctx, r, &basis.Subject, out.BackupPVC); err != nil {
		return out, err
	}
	next := out.EarlierBackupPV
	if next == nil && out.BackupPVC == nil {
		next = out.BackupPV
	}
	out.BackupBusy, err = isStillBound(ctx, r, next)
	return out, err
}

// isVolumeAwaited reports whether the controller should wait until the backup PVC of a new instance is bound. This is
// the case if the StorageClass provisions the volume immediately, and not only when a pod uses the PVC.
func isVolumeAwaited(ctx context.Context, r client.Reader, s *Subject, c *corev1.PersistentVolumeClaim) (bool, error) {
	if s.XR == nil || s.IsDeleting() || s.XR.Status.Started || c == nil || c.Spec.VolumeName != "" ||
		c.DeletionTimestamp != nil || c.Spec.StorageClassName == nil || *c.Spec.StorageClassName == "" {
		return false, nil
	}
	class, err := getObject(ctx, r, &storagev1.StorageClass{}, "", *c.Spec.StorageClassName)
	if class == nil || err != nil {
		return false, err
	}
	mode := class.VolumeBindingMode
	return mode == nil || *mode == storagev1.VolumeBindingImmediate, nil
}

// isStillBound reports whether the PVC that a volume names still exists.
func isStillBound(ctx context.Context, r client.Reader, v *corev1.PersistentVolume) (bool, error) {
	if v == nil || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "" {
		return false, nil
	}
	ref := v.Spec.ClaimRef
	c, err := readPVC(ctx, r, ref.Namespace, ref.Name)
	return c != nil && c.UID == ref.UID, err
}

// readBackupPV reads the volume that the backup PVC is bound to. Without a PVC, it reads the instance's backup volume
// that is annotated with the UID of the current namespace.
func readBackupPV(ctx context.Context, r client.Reader, basis *Basis,
	c *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	switch {
	case c == nil:
		return findBackups(ctx, r, basis.Instance, func(v *corev1.PersistentVolume) bool {
			return NamespaceOf(v) != "" && NamespaceOf(v) == basis.NamespaceUID()
		})
	case c.Spec.VolumeName == "" || !needsRecords(&basis.Subject) && basis.Node == "" && isVolumeRetained(c):
		return nil, nil //nolint:nilnil // There is no volume, or it is not needed.
	}
	v, err := readVolume(ctx, r, c.Spec.VolumeName)
	if err != nil || v == nil || !Bound(v, c) {
		return nil, err
	}
	return v, nil
}

// IsBackupPVRetained reports whether the backup volume survives the deletion of its PVC.
func (v *BackupVolumes) IsBackupPVRetained() bool { return isVolumeRetained(v.BackupPVC) }

func isVolumeRetained(c *corev1.PersistentVolumeClaim) bool {
	return c.Spec.VolumeName != "" && c.Annotations[v1.AnnotationRetainedPV] == c.Spec.VolumeName
}

// Bound reports whether a volume is bound to this PVC. The volume name in the PVC is not enough, because a user can
// create a PVC that names the volume of another user.
func Bound(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Namespace == c.Namespace && ref.Name == c.Name && ref.UID == c.UID
}

// findBackups returns a backup volume of the instance that satisfies the condition, or nil.
func findBackups(ctx context.Context, r client.Reader, instanceID v1.Instance,
	wanted func(*corev1.PersistentVolume) bool) (*corev1.PersistentVolume, error) {
	all, err := backupPVs(ctx, r, instanceID)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if v := &all[i]; mayHoldBackups(instanceID, v) && wanted(v) {
			return v, nil
		}
	}
	return nil, nil //nolint:nilnil // A missing volume is not an error.
}

// mayHoldBackups reports whether a volume is, or was, bound to a backup PVC of this instance in its namespace or in
// the recovery namespace.
func mayHoldBackups(instanceID v1.Instance, v *corev1.PersistentVolume) bool {
	ref := v.Spec.ClaimRef
	return ref == nil || ref.Namespace == v1.RecoveryNamespace ||
		ref.Namespace == instanceID.Namespace && ref.Name == instanceID.BackupPVCName()
}

// findEarlierBackupPV returns the volume of a previous namespace that contains the backup that the function chose.
func findEarlierBackupPV(ctx context.Context, r client.Reader, basis *Basis, entries []Entry,
	c *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	chosen := chosenEarlierBackup(basis, entries)
	if chosen == nil {
		return nil, nil //nolint:nilnil // There is no volume to adopt.
	}
	return findBackups(ctx, r, basis.Instance, func(v *corev1.PersistentVolume) bool {
		here := NamespaceOf(v) == basis.NamespaceUID() || c != nil && Bound(v, c)
		return !here && HasFinalizer(v) && HasBackupsOf(v, chosen.Spec.Instance.NamespaceUID)
	})
}

// chosenEarlierBackup returns the backup of a previous namespace that this instance will be restored from, or nil.
// Only the function writes status.restore, and it chooses such a backup only if the platform allows it.
func chosenEarlierBackup(basis *Basis, entries []Entry) *v1.BackupRecord {
	if basis.XR == nil || basis.XR.IsDeleting() || basis.XR.Status.Started || !inOwnNamespace(basis) {
		return nil
	}
	chosen := basis.XR.Status.Restore
	if chosen == nil || chosen.Phase == v1.RestoreSucceeded {
		return nil
	}
	r := backupNamed(basis.Records, entries, chosen.Backup)
	if r == nil || !basis.Foreign(r) || r.InStore() {
		return nil
	}
	return r
}

// backupNamed returns a BackupRecord by its name. If a user has deleted the BackupRecord, it is built from the catalog,
// because the function has chosen the backup before and the choice remains valid.
func backupNamed(records []v1.BackupRecord, entries []Entry, name string) *v1.BackupRecord {
	if n := slices.IndexFunc(records, func(r v1.BackupRecord) bool { return r.Name == name }); n >= 0 {
		return &records[n]
	}
	n := slices.IndexFunc(entries, func(n Entry) bool { return n.Name == name && !n.Unreadable })
	if n < 0 {
		return nil
	}
	r := entries[n].asRecord()
	r.Status.Phase = v1.BackupVerified
	return r
}

// EarlierBackupPVMissing reports whether the function chose a backup of a previous namespace whose volume is missing.
// The controller must not create a backup volume in this case, because a user could then not restore the missing
// volume.
func EarlierBackupPVMissing(s *State) bool {
	return chosenEarlierBackup(&s.Basis, s.Entries) != nil && s.EarlierBackupPV == nil && s.BackupPVC == nil &&
		s.BackupPV == nil
}

// Foreign reports whether a verified backup is from a previous namespace with the same name, which may have had a
// different owner.
func (b *Basis) Foreign(r *v1.BackupRecord) bool {
	uid := r.Spec.Instance.NamespaceUID
	return r.IsVerified() && uid != "" && uid != b.NamespaceUID()
}

// Here reports whether the archive of a backup is expected on the backup volume of this instance.
func (s *State) Here(r *v1.BackupRecord) bool {
	if r.InStore() {
		return false
	}
	uid := r.Spec.Instance.NamespaceUID
	return uid == s.NamespaceUID() || s.BackupPV != nil && HasBackupsOf(s.BackupPV, uid)
}

// NamespaceOf returns the UID of the namespace that a volume belongs to.
func NamespaceOf(v *corev1.PersistentVolume) types.UID {
	return types.UID(v.Annotations[v1.AnnotationNamespaceUID])
}

// HasBackupsOf reports whether a volume contains backups of a namespace.
func HasBackupsOf(v *corev1.PersistentVolume, namespace types.UID) bool {
	return namespace != "" && (NamespaceOf(v) == namespace || slices.Contains(EarlierNamespaces(v), string(namespace)))
}

// EarlierNamespaces returns the previous namespaces whose backups are also stored on a volume.
func EarlierNamespaces(v *corev1.PersistentVolume) []string {
	if list := v.Annotations[v1.AnnotationEarlierNamespaces]; list != "" {
		return strings.Split(list, ",")
	}
	return nil
}
