package instance

import (
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// An Attempt is the current backup of an instance. Backups of all origins go through the same steps. Code that
// depends on the kind of a backup must use the Attempt and not the state of the instance.
type Attempt struct {
	// Origin is the reason for the backup. If it is empty, no backup is in progress, and the other fields describe
	// the next one.
	Origin v1.BackupOrigin
	// Method is Cold for the data of a stopped server, or Online for a clone of the running server.
	Method v1.BackupMethod
	// Request identifies the on-demand or scheduled backup: the name of the Backup object or the minute of the
	// schedule. It is empty for other origins.
	Request string
	// Record is the name of the BackupRecord.
	Record string
	// Store is the name of the BackupStore, or "" if the backup is written to a volume.
	Store string
	// Namespace and Job identify the Job of the backup. Access is the name of the Secret that gives the Job access to
	// the store.
	Namespace, Job, Access string
	// BegunAt is the start time of a running instance's backup.
	BegunAt time.Time
	// Fenced is true while the server is stopped for an on-demand or scheduled backup. Failing is true after the
	// backup has failed, while its objects are being deleted.
	Fenced, Failing bool
}

// IsOnline reports whether the server continues to run during the backup.
func (a *Attempt) IsOnline() bool { return a.Method == v1.MethodOnline }

// IsOfDeletion reports whether the backup is the final backup of an instance.
func (a *Attempt) IsOfDeletion() bool { return a.Origin == v1.OriginDeletion }

// IsAnswer reports whether the backup is an on-demand or scheduled backup.
func (a *Attempt) IsAnswer() bool {
	return a.Origin == v1.OriginRequest || a.Origin == v1.OriginSchedule
}

// Attempt returns the current backup of this instance. The result depends only on the state that was read.
func (b *Basis) Attempt() Attempt {
	out := Attempt{Origin: backupOrigin(&b.Subject), Method: v1.MethodCold, Record: b.Instance.RecordName(), Store: b.Store(),
		Namespace: jobNamespace(b)}
	switch {
	case b.IsDeleting():
		out.Job, out.Access = b.Instance.Jobs().Backup(), b.Instance.Accesses().Backup()
		if isRelocated(b) {
			out.Job, out.Access = b.Instance.RecoveryName(v1.ComponentBackup), b.Instance.Accesses().Recovery()
		}
		return out
	case b.XR == nil:
		return out
	}
	out.Record = b.Instance.NumberedRecordName(b.XR.Status.BackupNumber)
	out.Job, out.Access = b.Instance.Jobs().ImageChange(), b.Instance.Accesses().Backup()
	if answer := b.XR.Status.BackupUnderWay(); answer != nil {
		if answer.IsOnline() {
			out.Method = v1.MethodOnline
		}
		out.Request, out.BegunAt = answer.Request, answer.BegunAt.Time
		out.Job, out.Fenced, out.Failing = b.Instance.Jobs().Request(), answer.Fence, answer.Phase == v1.LastBackupFailing
	}
	return out
}

// backupOrigin returns the origin of the current backup, or "" if there is none. A deletion has priority. A backup
// that started before an image change was requested is completed first.
func backupOrigin(s *Subject) v1.BackupOrigin {
	switch {
	case s.IsDeleting():
		return v1.OriginDeletion
	case s.XR == nil:
		return ""
	}
	status := &s.XR.Status
	switch answer := status.BackupUnderWay(); {
	case answer != nil && answer == status.ScheduledBackup:
		return v1.OriginSchedule
	case answer != nil:
		return v1.OriginRequest
	case isImageChanging(status):
		return v1.OriginImageChange
	}
	return ""
}

// isImageChanging reports whether an image change needs work: a backup must be taken first, or the objects of a
// previous change must be deleted.
func isImageChanging(status *v1.MySQLStatus) bool {
	if status.PendingImage == "" {
		return status.ImageChange != nil
	}
	return !status.ImageChange.MayStart(status.ServedImage)
}

// IsBackedUpInstance reports whether a backup of a running instance is in progress or must be cleaned up.
func (s *Subject) IsBackedUpInstance() bool {
	origin := backupOrigin(s)
	return origin != "" && origin != v1.OriginDeletion
}

// HasCloneAccount reports whether an online backup has started, even if the instance is being deleted in the
// meantime.
func HasCloneAccount(xr *Composite) bool {
	return xr != nil && xr.Status.BackupUnderWay().IsOnline()
}
