package instance

import (
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// An Attempt is the one backup of a life that is being taken. Whatever its origin, it is announced, taken and verified in the same way;
// who wants to know what is special about a backup asks the Attempt, and not what the instance is doing.
type Attempt struct {
	// Origin is why the backup is taken. It is empty if none is under way; the other fields are those of the next one then.
	Origin v1.BackupOrigin
	// Method is Cold, of data that nobody uses, or Online, of a clone of the server that runs.
	Method v1.BackupMethod
	// Request that the backup answers: the text of backup.request, or the minute of backup.schedule. Empty for other origins.
	Request string
	// Record is the name of its MySQLBackup.
	Record string
	// Store is the BackupStore that the backup goes to; empty if it goes to a volume.
	Store string
	// Namespace in which its Job runs, the name of that, and of the Secret by which the Job reaches the store.
	Namespace, Job, Access string
	// BegunAt is when it was begun, for one of a running instance.
	BegunAt time.Time
	// Fenced is true while the server is stopped for a backup on request or by the schedule, and Failing is true once it was given up
	// and what was made for it is being removed.
	Fenced, Failing bool
}

// IsOnline reports whether the server goes on while the backup is taken.
func (a *Attempt) IsOnline() bool { return a.Method == v1.MethodOnline }

// IsOfDeletion reports whether it is the backup of the end of a life.
func (a *Attempt) IsOfDeletion() bool { return a.Origin == v1.OriginDeletion }

// IsAnswer reports whether somebody asked for the backup, or planned it.
func (a *Attempt) IsAnswer() bool {
	return a.Origin == v1.OriginRequest || a.Origin == v1.OriginSchedule
}

// Attempt is the backup of this life that is under way. It follows from what was read, and from nothing else. A deletion comes before
// all others, and a backup that was begun before another image is wanted ends first.
func (s *State) Attempt() Attempt {
	out := Attempt{Method: v1.MethodCold, Record: s.Life.RecordName(), Store: s.Store(), Namespace: s.jobNamespace()}
	switch {
	case s.IsDeleting():
		out.Origin = v1.OriginDeletion
		out.Job, out.Access = s.Life.Jobs().Backup(), s.Life.Accesses().Backup()
		if s.isRelocated() {
			out.Job, out.Access = s.Life.RescueName(v1.ComponentBackup), s.Life.Accesses().Rescue()
		}
		return out
	case s.XR == nil:
		return out
	}
	out.Record = s.Life.RecordNameInLife(s.XR.Status.BackupNumber)
	out.Job, out.Access = s.Life.Jobs().ImageChange(), s.Life.Accesses().Backup()
	is := &s.XR.Status
	switch b := is.BackupUnderWay(); {
	case b != nil:
		out.Origin, out.Request, out.BegunAt = v1.OriginRequest, b.Request, b.BegunAt.Time
		if b == is.ScheduledBackup {
			out.Origin = v1.OriginSchedule
		}
		if b.IsOnline() {
			out.Method = v1.MethodOnline
		}
		out.Job, out.Fenced, out.Failing = s.Life.Jobs().Request(), b.Fence, b.Phase == v1.LastBackupFailing
	case s.isImageChanging():
		out.Origin = v1.OriginImageChange
	}
	return out
}

// isImageChanging is true while there is something to do about a change of the image: a backup is
// to be taken before, or what was made for one that is over is to go.
func (s *State) isImageChanging() bool {
	is := &s.XR.Status
	if is.PendingImage == "" {
		return is.ImageChange != nil
	}
	return !is.ImageChange.MayStart(is.ServedImage)
}

// IsBackedUpInLife reports whether there is something to do about a backup of an instance that goes on.
func (s *State) IsBackedUpInLife() bool {
	a := s.Attempt()
	return a.Origin != "" && !a.IsOfDeletion()
}

// HasCloneAccount reports whether a backup for which the server goes on was begun, also where the instance is deleted meanwhile.
func (s *State) HasCloneAccount() bool {
	return s.XR != nil && s.XR.Status.BackupUnderWay().IsOnline()
}
