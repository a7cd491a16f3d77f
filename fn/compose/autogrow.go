package compose

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/autogrow"
)

// volumeSize returns the size that the data volume must have, given the size in the spec. It is larger if the volume
// has grown, or if the instance is restored from a larger volume.
func volumeSize(r *resolved, size resource.Quantity) resource.Quantity {
	if size.IsZero() || r.hostPath {
		return size
	}
	return autogrow.Size(size, r.XR.Status.GrownSize(), sizeOfBackup(r), r.spec.StorageAutogrow, &r.platform)
}

// sizeOfBackup returns the size of the volume that the backup to restore was taken from, or zero. The PVC is created
// before the controller and the function agree on the backup, and cannot be resized before it is bound. The function
// therefore reads the size from the BackupRecord that it will probably choose.
func sizeOfBackup(r *resolved) resource.Quantity {
	restore, among, wanted := &r.spec.Restore, r.Required.Records.Items, (*v1.BackupRecord).IsVerified
	switch last := v1.LatestBackup(ownBackups(r.instance, among), isFinished); {
	case r.started || r.spec.StorageAutogrow == nil:
		return resource.Quantity{}
	case r.XR.Status.Restore != nil:
		chosen := r.XR.Status.Restore.Backup
		wanted = func(b *v1.BackupRecord) bool { return b.Name == chosen }
		if restore.Backup != nil || restore.From != nil {
			among = append(among[:len(among):len(among)], r.Required.Named.Items...)
		}
	case isChoiceUsed(restore, last):
	case restore.Backup != nil:
		name := *restore.Backup
		wanted = func(b *v1.BackupRecord) bool { return b.BackupName() == name }
		among = r.Required.Named.Items
	case restore.From != nil:
		among = r.Required.Named.Items
	case restore.At != nil && r.XR.Status.RecoverySource != nil:
		base := r.XR.Status.RecoverySource.Backup
		wanted = func(b *v1.BackupRecord) bool { return b.Name == base }
	case restore.Import != nil || restore.Policy == v1.RestoreNever:
		return resource.Quantity{}
	}
	b := v1.LatestBackup(among, wanted)
	if b == nil || b.Spec.Instance.Namespace != r.instance.Namespace {
		return resource.Quantity{}
	}
	size, _ := v1.ParseSize(b.Spec.StorageSize) // A backup without a size sets no minimum.
	return size
}

// checkAutogrow validates spec.storageAutogrow and returns an error for each invalid field.
func checkAutogrow(r *resolved, spec *field.Path) field.ErrorList {
	text, name := r.spec.Size()
	size, _ := v1.ParseSize(text) // An invalid size is reported elsewhere.
	return autogrow.Check(r.spec.StorageAutogrow, size, name, spec.Child("storageAutogrow"))
}

// whyNotGrown returns the advice at the end of the error that the new volume is smaller than the volume of the backup.
func whyNotGrown(r *resolved) string {
	if r.spec.StorageAutogrow == nil {
		return ", or set spec.storageAutogrow"
	}
	return ", or increase spec.storageAutogrow.to. The platform may limit both (maxStorageSize)"
}

// checkStorageLimit checks the sizes in the spec against maxStorageSize of the Platform. large is the error about the
// size, and grows the error about the limit in spec.storageAutogrow. A hostPath volume has no size.
func checkStorageLimit(r *resolved, spec *field.Path) (large, grows *field.Error, err error) {
	text, name := r.spec.Size()
	size, err := v1.ParseSize(text)
	if err != nil || r.hostPath || r.ephemeral {
		return nil, nil, nil //nolint:nilerr // Either there is no volume, or the error is reported elsewhere.
	}
	return autogrow.CheckLimit(&r.platform, r.spec.StorageAutogrow, size, name, spec)
}

// asksForMore reports whether the spec requests a larger volume than the instance has.
func asksForMore(r *resolved) bool {
	text, _ := r.spec.Size()
	size, _ := v1.ParseSize(text) // An invalid size is reported elsewhere.
	if c := r.Observed.DataPVC; c != nil {
		current, ok := v1.StorageOf(c.Spec.Resources.Requests)
		return ok && size.Cmp(current) > 0
	}
	return false
}

// awaitsBackups reports whether the size of the data PVC depends on backups that Crossplane has not read yet.
func awaitsBackups(r *resolved) bool {
	return r.spec.StorageAutogrow != nil && !r.started && !r.Required.Records.Known
}

// autogrowCondition returns the condition StorageAutogrow from what the controller reports.
func autogrowCondition(s *v1.StorageGrowthStatus) Condition {
	out := Condition{Type: v1.ConditionStorageAutogrow}
	switch {
	case s == nil || s.Reason == "":
		out.Unknown, out.Reason = true, v1.ReasonNotMonitored
		out.Message = "Waiting for the controller to read the free space. " + checkController
	case s.Reason == v1.ReasonMonitored || s.Reason == v1.ReasonGrowing:
		out.True, out.Reason, out.Message = true, s.Reason, s.Message
	default:
		out.Reason, out.Message = s.Reason, s.Message
	}
	return out
}

// autogrowWarning returns why the data volume cannot grow by itself, or "".
func autogrowWarning(r *resolved) string {
	if r.spec.StorageAutogrow == nil {
		return ""
	}
	if c := autogrowCondition(r.XR.Status.StorageGrowth); c.isFalse() {
		return c.Message
	}
	return ""
}
