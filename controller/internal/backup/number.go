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

// UnusedNumber that no backup has: a status that was lost may name one that is proven already, of what the data was then.
func UnusedNumber(s *instance.State) int64 {
	return max(s.XR.Status.BackupNumber, NextBackupNumber(s))
}

// skipNumber of a backup that a store has already, from a time that the cluster knows nothing of.
func skipNumber(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRStatus(s, CountTo(s, s.XR.Status.BackupNumber+1))
}

// CountBackup that is proven of a life that goes on: the next one has the next number, and the claim lists it.
func CountBackup(s *instance.State) map[string]any {
	fields := CountTo(s, NextBackupNumber(s))
	fields["backups"] = v1.ListBackups(s.Records)
	return fields
}

// LeaveNumber to a backup in life that has come to nothing: its folder on a volume may hold a finished archive that nobody came to note,
// and that another backup, of other data, does not write over.
func LeaveNumber(s *instance.State) map[string]any {
	if s.Store() != "" {
		return map[string]any{} // What was sent is discarded.
	}
	return CountTo(s, UnusedNumber(s)+1)
}

// NextBackupNumber is that of a backup after the newest one there is, with a record or
// without.
func NextBackupNumber(s *instance.State) int64 {
	if n := s.Missing(); n != nil && !n.Unreadable {
		return n.Spec.Number + 1
	}
	if b := v1.LatestBackup(s.Records, (*v1.MySQLBackup).IsProven); b != nil {
		return b.Spec.Number + 1
	}
	return 1
}

// isTaken is true of a number that a proven backup of another life has, or one after it.
func isTaken(s *instance.State, number int64) bool {
	return slices.ContainsFunc(s.Records, func(r v1.MySQLBackup) bool {
		return r.IsProven() && r.Spec.Instance.XR != s.Life.XR && r.Spec.Number >= number
	})
}

// CountTo a number for the next backup. What it was when this life began is kept: numbers of backups that came to nothing are in no record.
func CountTo(s *instance.State, number int64) map[string]any {
	fields := map[string]any{"backupNumber": number}
	was := cmp.Or(s.XR.Status.BackupNumber, number)
	if first := cmp.Or(firstNumber(s, was), was); first < number && first != s.XR.Status.FirstBackupNumber {
		fields["firstBackupNumber"] = first
	}
	return fields
}

// firstNumber that a backup of this life had, or would have had; 0 where the one of this number is the first.
func firstNumber(s *instance.State, number int64) int64 {
	first := number
	for _, n := range []int64{s.Identity().FirstBackupNumber, firstNumberOf(s.DataPV, s.Life.XR)} {
		if n > 0 {
			first = min(first, n)
		}
	}
	note := func(b *v1.MySQLBackupSpec) {
		if b.Instance.XR == s.Life.XR && b.Number > 0 {
			first = min(first, b.Number)
			if b.Since > 0 {
				first = min(first, b.Since)
			}
		}
	}
	for i := range s.Records {
		note(&s.Records[i].Spec)
	}
	for i := range s.Notes {
		note(&s.Notes[i].Spec)
	}
	if first == number {
		return 0
	}
	return first
}

// firstNumberOf a life, as its volume knows it where a status was lost; 0 where it does not.
func firstNumberOf(v *corev1.PersistentVolume, life types.UID) int64 {
	if v == nil || v.Labels[v1.LabelXR] != string(life) {
		return 0
	}
	n, _ := strconv.ParseInt(v.Annotations[v1.AnnotationFirstBackupNumber], 10, 64) // Else it is not known.
	return n
}
