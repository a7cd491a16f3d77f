package lifecycle

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// heldBackup is the name of the backup that has no record, as status.heldBackup has it.
func heldBackup(s *instance.State) string {
	if n := s.Missing(); n != nil {
		return n.Name
	}
	return ""
}

// restoreSource is what status.restoreSource is to say. What it said before the choice was made stays.
func restoreSource(s *instance.State) *v1.RestoreSourceStatus {
	from := s.Source
	switch {
	case from != nil:
	case s.XR.Spec.Restore.From == nil:
		return nil
	default:
		return s.XR.Status.RestoreSource
	}
	out := &v1.RestoreSourceStatus{From: from.Of.Name, NewestBackup: from.Newest()}
	if n := from.Missing(); n != nil {
		out.HeldBackup = n.Name
	}
	return out
}

// restoreSourceFields are those of restoreSource for a merge patch, which removes a field only if it is null.
func restoreSourceFields(s *instance.State) any {
	of := restoreSource(s)
	if of == nil {
		return nil
	}
	return map[string]any{"from": of.From, "newestBackup": of.NewestBackup, "heldBackup": orNil(of.HeldBackup)}
}

// nextBackupNumber is that of a backup after the newest one there is, with a record or
// without.
func nextBackupNumber(s *instance.State) int64 {
	if n := s.Missing(); n != nil && !n.Unreadable {
		return n.Spec.Number + 1
	}
	if b := v1.LatestBackup(s.Records, (*v1.MySQLBackup).IsProven); b != nil {
		return b.Spec.Number + 1
	}
	return 1
}

// newRecord of the backup that is to be taken.
func newRecord(s *instance.State) *v1.MySQLBackup {
	number, attempt := s.Identity().BackupNumber, s.Attempt()
	if number == 0 { // Its status was lost, and it never had a volume that knew.
		number = nextBackupNumber(s)
	}
	since := firstNumber(s, number)
	if attempt.IsOfDeletion() && isTaken(s, number) { // By what came, such as with an adoption, once this life had begun: nobody knows which rows are newer.
		since = cmp.Or(since, number)
		number = nextBackupNumber(s)
	}
	return &v1.MySQLBackup{
		ObjectMeta: metav1.ObjectMeta{Name: attempt.Record, Labels: s.Life.Labels(), Finalizers: []string{v1.Finalizer}},
		Spec: v1.MySQLBackupSpec{
			Instance:     s.BackedUp(),
			Image:        serverImage(s),
			Version:      serverVersion(s),
			StorageSize:  s.Identity().Size,
			StorageClass: storageClass(s),
			Number:       number,
			Since:        since,
			Origin:       attempt.Origin,
			Method:       attempt.Method,
			Request:      attempt.Request,
			Nodes:        nodesOf(s),
			Choice:       s.Identity().Choice,
		},
	}
}

// storageClass of the data volume; empty for a folder of a node.
func storageClass(s *instance.State) string {
	switch {
	case s.HostPath():
		return ""
	case s.DataPVC != nil && s.DataPVC.Spec.StorageClassName != nil:
		return *s.DataPVC.Spec.StorageClassName
	case s.DataPV != nil:
		return s.DataPV.Spec.StorageClassName
	}
	return ""
}

// isTaken is true of a number that a proven backup of another life has, or one after it.
func isTaken(s *instance.State, number int64) bool {
	return slices.ContainsFunc(s.Records, func(r v1.MySQLBackup) bool {
		return r.IsProven() && r.Spec.Instance.XR != s.Life.XR && r.Spec.Number >= number
	})
}

// countTo a number for the next backup. What it was when this life began is kept: numbers of backups that came to nothing are in no record.
func countTo(s *instance.State, number int64) map[string]any {
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

// createBackup makes the record before anything stops.
func createBackup(s *instance.State, _ Step) []change.Change {
	r := newRecord(s)
	return []change.Change{change.NewObject(r), patchRecordStatus(r, func(st *v1.MySQLBackupStatus) { st.Phase = v1.BackupPending })}
}

func markRunning(s *instance.State, _ Step) []change.Change {
	return []change.Change{patchRecordStatus(s.Record(), func(st *v1.MySQLBackupStatus) {
		st.Phase, st.Message = v1.BackupRunning, ""
		if st.StartedAt == nil {
			st.StartedAt = &metav1.Time{Time: s.Now}
		}
	})}
}

func markFailed(s *instance.State, step Step) []change.Change {
	return []change.Change{patchRecordStatus(s.Record(), func(st *v1.MySQLBackupStatus) { st.Phase, st.Message = v1.BackupFailed, step.Message })}
}

func patchRecordStatus(r *v1.MySQLBackup, how func(*v1.MySQLBackupStatus)) change.Change {
	return change.PatchObjectStatus(r, func(r *v1.MySQLBackup) { how(&r.Status) })
}
