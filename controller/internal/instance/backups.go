package instance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// readBackupPVs reads the backup PVC and its volume or, without a PVC, the volume that an
// earlier one was bound to; and the one that an earlier namespace left, if it is to be adopted.
func (g *gathering) readBackupPVs(ctx context.Context) error {
	var err error
	if g.BackupPVC, err = g.readPVC(ctx, g.JobLocation().Namespace, g.JobLocation().Backup); err != nil {
		return err
	}
	if g.BackupPV, err = g.backupPV(ctx); err != nil {
		return err
	}
	if g.EarlierBackupPV, err = g.findEarlierBackupPV(ctx); err != nil {
		return err
	}
	if err := g.readAwaited(ctx); err != nil {
		return err
	}
	next := g.EarlierBackupPV
	if next == nil && g.BackupPVC == nil {
		next = g.BackupPV
	}
	if g.BackupBusy, err = g.isStillBound(ctx, next); err != nil || g.EarlierBackupPV == nil {
		return err
	}
	g.Restore, err = g.readJob(ctx, g.Life.Namespace, g.Life.Jobs().Restore())
	return err
}

// readAwaited tells a backup PVC that is about to have a volume from one that waits for a pod.
func (g *gathering) readAwaited(ctx context.Context) error {
	c := g.BackupPVC
	if g.XR == nil || g.IsDeleting() || g.XR.Status.Started || c == nil || c.Spec.VolumeName != "" || c.DeletionTimestamp != nil || c.Spec.StorageClassName == nil || *c.Spec.StorageClassName == "" {
		return nil
	}
	class, err := getObject(ctx, g.Reader, &storagev1.StorageClass{}, "", *c.Spec.StorageClassName)
	if class == nil || err != nil {
		return err
	}
	mode := class.VolumeBindingMode
	g.BackupPVCAwaited = mode == nil || *mode == storagev1.VolumeBindingImmediate
	if g.BackupPVCAwaited && g.Now.After(c.CreationTimestamp.Add(waitTimeout)) {
		g.PodFailure = fmt.Sprintf("PersistentVolumeClaim %s of the backups has no volume yet", c.Name)
		if why := g.looker().lastWarning(ctx, c); why != "" {
			g.PodFailure += ": " + why
		}
	}
	return nil
}

// isStillBound is true while the PVC that a volume names is there.
func (g *Gatherer) isStillBound(ctx context.Context, v *corev1.PersistentVolume) (bool, error) {
	if v == nil || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "" {
		return false, nil
	}
	ref := v.Spec.ClaimRef
	c, err := g.readPVC(ctx, ref.Namespace, ref.Name)
	return c != nil && c.UID == ref.UID, err
}

// backupPV that the backup PVC is bound to; without a PVC, the instance's volume for backups
// of this very namespace.
func (g *gathering) backupPV(ctx context.Context) (*corev1.PersistentVolume, error) {
	switch c := g.BackupPVC; {
	case c == nil:
		return g.findBackups(ctx, func(v *corev1.PersistentVolume) bool {
			return NamespaceOf(v) != "" && NamespaceOf(v) == g.NamespaceUID()
		})
	case c.Spec.VolumeName == "" || !g.needsRecords() && g.Node == "" && g.IsBackupPVRetained():
		return nil, nil //nolint:nilnil // No volume, or nobody asks.
	}
	v, err := getObject(ctx, g.Reader, &corev1.PersistentVolume{}, "", g.BackupPVC.Spec.VolumeName)
	if err != nil || v == nil || !Bound(v, g.BackupPVC) {
		return nil, err
	}
	return v, nil
}

// IsBackupPVRetained is true if the volume of the backup PVC was made to stay whatever becomes
// of that.
func (s *State) IsBackupPVRetained() bool {
	c := s.BackupPVC
	return c.Spec.VolumeName != "" && c.Annotations[v1.AnnotationRetainedPV] == c.Spec.VolumeName
}

// Bound is true if a volume says that it is a PVC's. A PVC may name any volume:
// whoever may make PVCs must not get at another's.
func Bound(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Namespace == c.Namespace && ref.Name == c.Name && ref.UID == c.UID
}

// findBackups is a volume for backups of the instance that is as it is wanted.
func (g *gathering) findBackups(ctx context.Context, wanted func(*corev1.PersistentVolume) bool) (*corev1.PersistentVolume, error) {
	all, err := g.backupPVs(ctx, g.Life)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if v := &all[i]; g.backupsOf(v) && wanted(v) {
			return v, nil
		}
	}
	return nil, nil //nolint:nilnil // No volume, and no error.
}

// backupsOf is true if a volume is, or was, bound to a PVC that this instance
// has for its backups: the usual one, or one of a rescue.
func (g *gathering) backupsOf(v *corev1.PersistentVolume) bool {
	ref := v.Spec.ClaimRef
	return ref == nil || ref.Namespace == v1.RescueNamespace || ref.Namespace == g.Life.Namespace && ref.Name == g.Life.BackupPVCName()
}

// findEarlierBackupPV is the volume of the backup that the function chose, where an
// earlier namespace left it.
func (g *gathering) findEarlierBackupPV(ctx context.Context) (*corev1.PersistentVolume, error) {
	r := g.ChosenEarlierBackup()
	if r == nil {
		return nil, nil //nolint:nilnil // There is nothing to inherit.
	}
	return g.findBackups(ctx, func(v *corev1.PersistentVolume) bool {
		here := NamespaceOf(v) == g.NamespaceUID() || g.BackupPVC != nil && Bound(v, g.BackupPVC)
		return !here && HasFinalizer(v) && HasBackupsOf(v, r.Spec.Instance.NamespaceUID)
	})
}

// ChosenEarlierBackup is the backup of an earlier namespace that this life is to be
// restored from, or nil. Only the function writes status.restore, and it chooses
// such a backup only where the platform allows it.
func (s *State) ChosenEarlierBackup() *v1.MySQLBackup {
	if s.XR == nil || s.XR.IsDeleting() || s.XR.Status.Started || !s.InOwnNamespace() {
		return nil
	}
	chosen := s.XR.Status.Restore
	if chosen == nil || chosen.Phase == v1.RestoreSucceeded {
		return nil
	}
	r := backupNamed(s, chosen.Backup)
	if r == nil || !s.Foreign(r) || r.InStore() {
		return nil
	}
	return r
}

// backupNamed is a record, or what a volume says of one that is gone: a choice that
// was made stands.
func backupNamed(s *State, name string) *v1.MySQLBackup {
	if n := slices.IndexFunc(s.Records, func(r v1.MySQLBackup) bool { return r.Name == name }); n >= 0 {
		return &s.Records[n]
	}
	n := slices.IndexFunc(s.Notes, func(n Note) bool { return n.Name == name && !n.Unreadable })
	if n < 0 {
		return nil
	}
	r := s.Notes[n].asRecord()
	r.Status.Phase = v1.BackupProven
	return r
}

// EarlierBackupPVMissing is true if the volume of such a backup cannot be found. A new one
// would be in its way when it comes back.
func EarlierBackupPVMissing(s *State) bool {
	return s.ChosenEarlierBackup() != nil && s.EarlierBackupPV == nil && s.BackupPVC == nil && s.BackupPV == nil
}

// Foreign is true if a proven backup is from an earlier namespace of the same
// name, which may have had another owner.
func (s *State) Foreign(r *v1.MySQLBackup) bool {
	uid := r.Spec.Instance.NamespaceUID
	return r.IsProven() && uid != "" && uid != s.NamespaceUID()
}

// Here is true if the archive of a backup lies, or would lie, on the volume that
// the backups of this life lie on.
func (s *State) Here(r *v1.MySQLBackup) bool {
	if r.InStore() {
		return false
	}
	uid := r.Spec.Instance.NamespaceUID
	return uid == s.NamespaceUID() || s.BackupPV != nil && HasBackupsOf(s.BackupPV, uid)
}

// NamespaceOf is the UID of the namespace that a volume is for.
func NamespaceOf(v *corev1.PersistentVolume) types.UID {
	return types.UID(v.Annotations[v1.AnnotationNamespaceUID])
}

// HasBackupsOf is true if a volume has backups that were taken in a namespace.
func HasBackupsOf(v *corev1.PersistentVolume, namespace types.UID) bool {
	return namespace != "" && (NamespaceOf(v) == namespace || slices.Contains(EarlierNamespaces(v), string(namespace)))
}

// EarlierNamespaces whose backups lie on a volume, too.
func EarlierNamespaces(v *corev1.PersistentVolume) []string {
	if list := v.Annotations[v1.AnnotationEarlierNamespaces]; list != "" {
		return strings.Split(list, ",")
	}
	return nil
}
