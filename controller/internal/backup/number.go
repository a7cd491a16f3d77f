package backup

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// UnusedNumber returns a backup number that is not in use. If the status was lost, its backup number may belong to an
// older verified backup.
func UnusedNumber(s *instance.State) int64 {
	return max(s.XR.Status.BackupNumber, NextBackupNumber(s))
}

// skipNumber increments the backup number, because the store already contains a backup with this number. That backup
// was written before the cluster was restored from an etcd snapshot.
func skipNumber(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRInternal(s, CountTo(s, s.XR.Status.BackupNumber+1))
}

// CountBackup returns the fields of status.internal that increment the backup number after a verified backup of a
// running instance. PatchCounted writes them.
func CountBackup(s *instance.State) map[string]any { return CountTo(s, NextBackupNumber(s)) }

// PatchCounted writes fields of status.internal. If a backup is verified, it also updates the list of backups that
// users see.
func PatchCounted(s *instance.State, internal map[string]any) []change.Change {
	fields := steps.Internal(internal)
	if HasVerifiedBackup(s) {
		fields["backups"] = RecentBackups(s)
	}
	return steps.PatchXRStatus(s, fields)
}

// RecentBackups returns the fields of status.backups that the controller writes.
func RecentBackups(s *instance.State) map[string]any {
	return map[string]any{"recent": v1.ListBackups(s.Records)}
}

// LeaveNumber skips the number of a failed backup of a running instance. The directory of the backup on a volume may
// contain a complete archive that was not recorded. A later backup of other data must not overwrite it.
func LeaveNumber(s *instance.State) map[string]any {
	if s.Store() != "" {
		return map[string]any{} // The uploaded files are deleted, so the number can be used again.
	}
	return CountTo(s, UnusedNumber(s)+1)
}

// NextBackupNumber returns the number after the newest backup, even if that backup has no BackupRecord.
func NextBackupNumber(s *instance.State) int64 {
	if n := s.Missing(); n != nil && !n.Unreadable {
		return n.Spec.Number + 1
	}
	if b := v1.LatestBackup(s.Records, (*v1.BackupRecord).IsVerified); b != nil {
		return b.Spec.Number + 1
	}
	return 1
}

// isTaken reports whether another instance has a verified backup with the given number or a higher one.
func isTaken(s *instance.State, number int64) bool {
	return slices.ContainsFunc(s.Records, func(r v1.BackupRecord) bool {
		return r.IsVerified() && r.Spec.Instance.XR != s.Instance.XR && r.Spec.Number >= number
	})
}

// CountTo sets the number of the next backup. It also stores the number that the instance started with, because no
// BackupRecord contains the numbers of failed backups.
func CountTo(s *instance.State, number int64) map[string]any {
	fields := map[string]any{"backupNumber": number}
	counted := cmp.Or(s.XR.Status.BackupNumber, number)
	if first := cmp.Or(firstNumber(s, counted), counted); first < number && first != s.XR.Status.FirstBackupNumber {
		fields["firstBackupNumber"] = first
	}
	return fields
}

// firstNumber returns the number of the first backup of this instance. It returns 0 if the given number is the first
// one, because the field is then omitted.
func firstNumber(s *instance.State, number int64) int64 {
	first := number
	for _, n := range []int64{s.Identity().FirstBackupNumber, firstNumberOf(s.DataPV, s.Instance.XR)} {
		if n > 0 {
			first = min(first, n)
		}
	}
	entry := func(b *v1.BackupRecordSpec) {
		if b.Instance.XR == s.Instance.XR && b.Number > 0 {
			first = min(first, b.Number)
			if b.Since > 0 {
				first = min(first, b.Since)
			}
		}
	}
	for i := range s.Records {
		entry(&s.Records[i].Spec)
	}
	for i := range s.Entries {
		entry(&s.Entries[i].Spec)
	}
	if first == number {
		return 0
	}
	return first
}

// firstNumberOf reads the first backup number of an instance from its volume, which still contains it if the status
// is lost. It returns 0 if the number is unknown.
func firstNumberOf(v *corev1.PersistentVolume, instanceID types.UID) int64 {
	if v == nil || v.Labels[v1.LabelXR] != string(instanceID) {
		return 0
	}
	n, _ := strconv.ParseInt(v.Annotations[v1.AnnotationFirstBackupNumber], 10, 64) // An unreadable number is unknown.
	return n
}
