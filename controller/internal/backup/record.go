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

// HeldBackup returns the name of the backup whose BackupRecord is missing, in the format of
// status.internal.heldBackup.
func HeldBackup(s *instance.State) string {
	if n := s.Missing(); n != nil {
		return n.Name
	}
	return ""
}

// RestoreSource returns the value of status.internal.restoreSource. It does not change once the function has chosen a
// backup.
func RestoreSource(s *instance.State) *v1.RestoreSourceStatus {
	from := s.Source
	switch {
	case from != nil:
	case s.XR.Spec.Restore.From == nil:
		return nil
	default:
		return s.XR.Status.RestoreSource
	}
	out := &v1.RestoreSourceStatus{From: s.XR.Spec.Restore.FromText(), NewestBackup: from.Newest()}
	if n := from.Missing(); n != nil {
		out.HeldBackup = n.Name
	}
	return out
}

// RestoreSourceFields returns the fields of RestoreSource for a merge patch. A merge patch removes a field only if it
// is null.
func RestoreSourceFields(s *instance.State) any {
	source := RestoreSource(s)
	if source == nil {
		return nil
	}
	return map[string]any{"from": source.From, "newestBackup": source.NewestBackup,
		"heldBackup": steps.OrNil(source.HeldBackup)}
}

// RecoverySource returns the value of status.internal.recoverySource. It does not change once the function has chosen a
// backup, or while the archive of a running instance grows.
func RecoverySource(s *instance.State) *v1.RecoverySource {
	previous, found := s.XR.Status.RecoverySource, s.Recovery
	switch {
	case s.XR.Spec.Restore.At == nil:
		return nil
	case found == nil, !found.IsNews(previous),
		// The times in the message change with each transaction. A write of each change would cause the next reconcile.
		isSameRefusal(previous, found):
		return previous
	}
	return found
}

// isSameRefusal reports whether both results say that the recovery is not possible, for the same reason.
func isSameRefusal(previous, found *v1.RecoverySource) bool {
	return previous != nil && previous.Choice == found.Choice && previous.Backup == "" && found.Backup == "" &&
		instance.IsSameMessage(previous.Message, found.Message)
}

// RecoverySourceFields returns the fields of RecoverySource for a merge patch. A merge patch removes a field only if it
// is null.
func RecoverySourceFields(s *instance.State) any {
	source := RecoverySource(s)
	if source == nil {
		return nil
	}
	out := map[string]any{"choice": source.Choice, "backup": steps.OrNil(source.Backup),
		"message": steps.OrNil(source.Message), "recovery": nil, "plan": planFields(source.Plan)}
	if r := source.Recovery; r != nil {
		out["recovery"] = map[string]any{"at": r.At, "timeline": r.Timeline, "segment": r.Segment, "digest": r.Digest,
			"until": r.Until}
	}
	return out
}

func planFields(p *v1.RecoveryPlan) any {
	if p == nil {
		return nil
	}
	return map[string]any{"at": p.At, "backup": p.Backup, "backupTime": p.BackupTime, "segments": p.Segments,
		"transactions": p.Transactions, "fetchSize": p.FetchSize, "applySize": p.ApplySize,
		"estimatedDuration": p.EstimatedDuration, "lastTransaction": transactionFields(p.LastTransaction),
		"nextTransaction": transactionFields(p.NextTransaction), "message": steps.OrNil(p.Message)}
}

func transactionFields(t *v1.PlannedTransaction) any {
	if t == nil {
		return nil
	}
	return map[string]any{"gtid": steps.OrNil(t.GTID), "commitTime": steps.OrNil(t.CommitTime)}
}

// NewRecord returns the BackupRecord of the next backup.
func NewRecord(s *instance.State) *v1.BackupRecord {
	number, attempt := s.Identity().BackupNumber, s.Attempt()
	if number == 0 { // The status was lost, and no volume contains the number.
		number = NextBackupNumber(s)
	}
	since := firstNumber(s, number)
	// Another backup may already use the number, for example an imported one. The numbers then do not show which of
	// them has newer data.
	if attempt.IsOfDeletion() && isTaken(s, number) {
		since = cmp.Or(since, number)
		number = NextBackupNumber(s)
	}
	r := &v1.BackupRecord{
		ObjectMeta: metav1.ObjectMeta{Name: attempt.Record, Finalizers: []string{v1.Finalizer}},
		Spec: v1.BackupRecordSpec{
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

			ImagePullSecrets: PullSecrets(s),
		},
	}
	r.Labels = r.DefaultLabels()
	return r
}

// storageClass returns the class of the data volume, or "" for a hostPath volume.
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

// createBackup creates the BackupRecord before the server stops.
func createBackup(s *instance.State, _ steps.Step) []change.Change {
	r := NewRecord(s)
	return []change.Change{change.NewObject(r),
		catalog.PatchRecordStatus(r, func(st *v1.BackupRecordStatus) { st.Phase = v1.BackupPending })}
}

func markRunning(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{catalog.PatchRecordStatus(s.Record(), func(st *v1.BackupRecordStatus) {
		st.Phase, st.Message = v1.BackupRunning, ""
		if st.StartTime == nil {
			st.StartTime = &metav1.Time{Time: s.Now}
		}
	})}
}

func markFailed(s *instance.State, step steps.Step) []change.Change {
	return []change.Change{catalog.PatchRecordStatus(s.Record(),
		func(st *v1.BackupRecordStatus) { st.Phase, st.Message = v1.BackupFailed, step.Message })}
}
