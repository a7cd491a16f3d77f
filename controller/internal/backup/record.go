package backup

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// HeldBackup is the name of the backup that has no record, as status.HeldBackup has it.
func HeldBackup(s *instance.State) string {
	if n := s.Missing(); n != nil {
		return n.Name
	}
	return ""
}

// RestoreSource is what status.RestoreSource is to say. What it said before the choice was made stays.
func RestoreSource(s *instance.State) *v1.RestoreSourceStatus {
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

// RestoreSourceFields are those of RestoreSource for a merge patch, which removes a field only if it is null.
func RestoreSourceFields(s *instance.State) any {
	of := RestoreSource(s)
	if of == nil {
		return nil
	}
	return map[string]any{"from": of.From, "newestBackup": of.NewestBackup, "heldBackup": steps.OrNil(of.HeldBackup)}
}

// NewRecord of the backup that is to be taken.
func NewRecord(s *instance.State) *v1.MySQLBackup {
	number, attempt := s.Identity().BackupNumber, s.Attempt()
	if number == 0 { // Its status was lost, and it never had a volume that knew.
		number = NextBackupNumber(s)
	}
	since := firstNumber(s, number)
	if attempt.IsOfDeletion() && isTaken(s, number) { // By what came, such as with an adoption, once this life had begun: nobody knows which rows are newer.
		since = cmp.Or(since, number)
		number = NextBackupNumber(s)
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

// createBackup makes the record before anything stops.
func createBackup(s *instance.State, _ steps.Step) []change.Change {
	r := NewRecord(s)
	return []change.Change{change.NewObject(r), catalog.PatchRecordStatus(r, func(st *v1.MySQLBackupStatus) { st.Phase = v1.BackupPending })}
}

func markRunning(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{catalog.PatchRecordStatus(s.Record(), func(st *v1.MySQLBackupStatus) {
		st.Phase, st.Message = v1.BackupRunning, ""
		if st.StartedAt == nil {
			st.StartedAt = &metav1.Time{Time: s.Now}
		}
	})}
}

func markFailed(s *instance.State, step steps.Step) []change.Change {
	return []change.Change{catalog.PatchRecordStatus(s.Record(), func(st *v1.MySQLBackupStatus) { st.Phase, st.Message = v1.BackupFailed, step.Message })}
}
