package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// patienceOnline with one that takes nothing from anybody while it is tried again.
const patienceOnline = 30 * time.Minute

// patience with what keeps a backup from its beginning, while the server is stopped for it. One that runs may take as long as
// it takes.
const patience = 3 * time.Minute

// decideRequested begins a backup that the claim asks for, once for each text, of a server that takes clients.
func decideRequested(s *instance.State) (step Step, open bool) {
	want := &s.XR.Spec.Backup
	if want.Request == "" || want.Method == "" || !mayBackUpRunning(s) || hasAnswered(s, v1.OriginRequest, want.Request) {
		return Step{}, false
	}
	return beginStep(want.Method, fmt.Sprintf("backup.request %q", want.Request)), true
}

// mayBackUpRunning is true of a server that takes clients and is to go on. A suspended one begins no backup, as the server would have
// to stay for its end.
func mayBackUpRunning(s *instance.State) bool {
	return s.XR.Status.Started && s.XR.IsServing() && !s.XR.Spec.Suspended
}

// beginStep of a backup that somebody asks for.
func beginStep(method v1.BackupMethod, who string) Step {
	step := Step{Action: BeginRequested, Message: fmt.Sprintf("The backup is taken that %s asks for, and the server goes on", who)}
	if method == v1.MethodCold {
		step.Message = fmt.Sprintf("The server is stopped for the backup that %s asks for", who)
	}
	return step
}

// statusOf the last backup that was asked for in this way.
func statusOf(s *instance.State, how v1.BackupOrigin) *v1.RequestedBackupStatus {
	if how == v1.OriginSchedule {
		return s.XR.Status.ScheduledBackup
	}
	return s.XR.Status.RequestedBackup
}

// Fields of the status that say how far a backup is.
const (
	fieldRequested = "requestedBackup"
	fieldScheduled = "scheduledBackup"
)

// fieldOf the status of the backup that is under way, and why it is taken.
func fieldOf(s *instance.State) (field string, how v1.BackupOrigin) {
	if s.UnderWay() == s.XR.Status.ScheduledBackup {
		return fieldScheduled, v1.OriginSchedule
	}
	return fieldRequested, v1.OriginRequest
}

// hasAnswered a request: with a backup, whose record knows it when the status is lost, or by saying why there is none.
func hasAnswered(s *instance.State, how v1.BackupOrigin, request string) bool {
	if b := statusOf(s, how); b != nil && b.Request == request {
		return true
	}
	for i := range s.Records {
		if r := &s.Records[i]; s.IsOwn(r) && r.IsProven() && r.Spec.Origin == how && r.Spec.Request == request {
			return true
		}
	}
	return false
}

// followRequested backup to its end, whatever the claim says meanwhile. What is in between is as before another image, but that
// the server goes on where it is cloned:
//
//	BeginRequested   the function stops the server
//	CreateBackup     a record says that it begins
//	CreateBackupJob  when the server's pod is gone: an agent copies the volume, and reads the copy again; or clones the server
//	WithdrawClone    the Job has it
//	NoteBackup       from here on it is proven
//	ResumeServer     the function starts the server as soon as the copy is verified, if recording it has to wait
//	MarkProven       the record says so
//	DeleteObjects    the Job, which holds PVCs
//	EndRequested     the function starts the server, and the next backup has the next number
//
// What fails is not tried again while clients wait:
//
//	FailRequested         the status says why
//	DeleteObjects         the Job
//	DeleteUnprovenBackup  it would keep the next instance of this name from starting
//	EndRequested          the function starts the server
func followRequested(s *instance.State) (step Step, open bool) {
	b := s.UnderWay()
	if b == nil {
		return Step{}, false
	}
	who := s.XR.Status.WhoAsksFor(b)
	if b.IsOnline() {
		defer func() { step.Phase = cmp.Or(step.Phase, v1.DeletionBackingUp) }() // A server that does not answer blocks nobody.
	}
	if b.Phase == v1.RequestedFailing && s.OwnNote() == nil && !hasProvenBackup(s) {
		step := putAside(s, EndRequested)
		if b.Fence && waitsForOthers(s, step) && (s.Backup == nil || hasEnded(s.Backup)) {
			return Step{Action: ResumeServer}, true // What is left of the failed backup is removed while the server runs.
		}
		return step, true
	}
	backUp, then := backUpStopped, ": the server starts"
	if isResumed(b) {
		backUp, then = backUpResumed, ""
	}
	if b.IsOnline() {
		backUp, then = backUpRunning, ""
	}
	step, open = backUp(s, fmt.Sprintf("The backup is taken that %s asks for: %s", who, s.RecordName()))
	step.Hint = ""
	refusal := refusalOf(s, step.Action)
	if canResume(s, step) {
		return Step{Action: ResumeServer, Message: fmt.Sprintf("The data is copied and verified for the backup that %s asks for: the server starts again", who)}, true
	}
	switch {
	case !open:
		return Step{Action: EndRequested, Message: fmt.Sprintf("Backup %q is proven, which %s asks for%s", s.Record().Name, who, then)}, true
	case isMissing(s):
		return Step{Action: FailRequested, Message: s.Refusal.Message}, true
	case isResumed(b) && !hasVerifiedCopy(s):
		return Step{Action: FailRequested, Message: "The verified copy was lost before it was recorded, and the server runs again. The next backup takes another copy"}, true
	case isResumed(b) && isRecordingOverdue(s):
		return Step{Action: FailRequested, Message: fmt.Sprintf("The verified copy could not be recorded within %s%s", patienceOnline, becauseOf(s, step))}, true
	case refusal != nil && !refusal.Passing:
		return Step{Action: FailRequested, Message: step.Message + ": " + refusal.Message}, true
	case hasFailed(s, step):
		return Step{Action: FailRequested, Message: step.Message}, true
	}
	return step, true
}

// canResume reports whether the server is to start again although the backup is not recorded yet. The server is stopped for the
// copy alone: a store may take long to answer, or refuse what is recorded there, and clients do not wait for that. What
// a backup volume records is one write, and the server waits for it unless that write has to wait.
func canResume(s *instance.State, step Step) bool {
	return s.UnderWay().Fence && (s.Store() != "" || waitsForOthers(s, step)) && hasVerifiedCopy(s)
}

// waitsForOthers reports whether a step is not done at once.
func waitsForOthers(s *instance.State, step Step) bool {
	return step.Action == Wait || refusalOf(s, step.Action) != nil
}

// isResumed reports whether the server runs again while a cold backup is recorded.
func isResumed(b *v1.RequestedBackupStatus) bool { return !b.IsOnline() && !b.Fence }

// hasVerifiedCopy reports whether the backup needs the data no more: it is recorded, or its Job has copied the data and read the
// copy back.
func hasVerifiedCopy(s *instance.State) bool {
	if hasProvenBackup(s) || s.OwnNote() != nil {
		return true
	}
	_, ok := backupSucceeded(s.Backup)
	return ok && s.Record() != nil && isVerified(s, s.Backup.Report) && !hasMoved(s, s.Backup) && !isMissing(s) && !wasMissing(s)
}

// isVerified reports whether a Job reports an archive that it has read back.
func isVerified(s *instance.State, r *agent.Report) bool {
	return r != nil && r.OK && !r.Empty && r.Command == "backup" && namesArchive(s, r) && sumPattern.MatchString(r.SHA256)
}

// isRecordingOverdue reports whether a verified copy could not be recorded for long.
func isRecordingOverdue(s *instance.State) bool {
	at, ok := backupSucceeded(s.Backup)
	return ok && !hasProvenBackup(s) && s.OwnNote() == nil && s.Now.Sub(at) >= patienceOnline
}

// becauseOf is the reason why a step is not done, for a sentence.
func becauseOf(s *instance.State, step Step) string {
	switch {
	case refusalOf(s, step.Action) != nil:
		return ": " + s.Refusal.Message
	case s.StoreFailure != "":
		return ": " + s.StoreFailure
	}
	return ""
}

// resumeServer lets the function start the server again.
func resumeServer(s *instance.State, _ Step) []change.Change {
	field, _ := fieldOf(s)
	return patchXRStatus(s, map[string]any{field: map[string]any{"fence": nil}})
}

// hasFailed is true of a step that would only be waited for, by somebody or for another try: with the server stopped, or too long.
func hasFailed(s *instance.State, step Step) bool {
	_, succeeded := backupSucceeded(s.Backup)
	switch {
	case succeeded || hasProvenBackup(s) || s.OwnNote() != nil:
		return false
	case isResumed(s.UnderWay()) && !isOnline(s):
		return false // The server runs, and the time of the recording is bounded.
	case isOnline(s):
		return isOverdue(s) && (s.Backup == nil || !isRunning(s.Backup))
	case step.Phase == v1.DeletionFailed || step.Phase == v1.DeletionHeld:
		return true
	case s.Now.Sub(s.UnderWay().BegunAt.Time) < patience || hasOwnPod(s):
		return false
	}
	return s.Backup == nil || !isRunning(s.Backup)
}

// isOverdue is true of an online backup that was tried for long.
func isOverdue(s *instance.State) bool { return s.Now.Sub(s.UnderWay().BegunAt.Time) >= patienceOnline }

// hasOwnPod is true while the server stops, which takes as long as it takes.
func hasOwnPod(s *instance.State) bool {
	return !isScaledDown(s.Deployment) || slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return p.Labels[v1.LabelXR] == string(s.Life.XR) })
}

// beginRequested with a number that no backup has. What is planned is not due any more.
func beginRequested(s *instance.State, _ Step) []change.Change {
	want := s.XR.Spec.Backup
	begun := map[string]any{
		"request": want.Request, "phase": v1.RequestedRunning, "method": want.Method, "begunAt": metav1.Time{Time: s.Now}, "fence": nil,
		"backup": nil, "percent": nil, "message": nil,
	}
	if want.Method == v1.MethodCold {
		begun["fence"] = true
	}
	fields, field := countTo(s, unusedNumber(s)), fieldRequested
	if _, open := decideRequested(s); !open {
		begun["request"], field = dueName(s), fieldScheduled
		fields["backupSchedule"] = plan(s)
	}
	fields[field] = begun
	if want.Method == v1.MethodCold {
		return append(checkData(s), patchXRStatus(s, fields)...)
	}
	return patchXRStatus(s, fields)
}

func failRequested(s *instance.State, step Step) []change.Change {
	field, _ := fieldOf(s)
	return patchXRStatus(s, map[string]any{field: map[string]any{"phase": v1.RequestedFailing, "backup": nil, "percent": nil, "message": step.Message}})
}

// hasEnded reports whether a Job has ended, well or not.
func hasEnded(j *instance.Job) bool {
	at, _ := j.Finished()
	return at != nil
}

// endRequested, and count a backup that is proven: the next one is of what comes after it.
func endRequested(s *instance.State, step Step) []change.Change {
	var before []change.Change
	if isOnline(s) {
		before = withdrawClone(s, step) // Whoever was here before may have come no further than to its account.
	}
	field, how := fieldOf(s)
	proven := hasProvenBackup(s)
	var fields map[string]any
	if proven {
		fields = countBackup(s)
		fields[field] = map[string]any{"phase": v1.RequestedProven, "fence": nil, "backup": s.Record().Name, "percent": nil, "message": nil}
	} else {
		fields = leaveNumber(s)
		fields[field] = map[string]any{"phase": v1.RequestedFailed, "fence": nil}
	}
	if how == v1.OriginSchedule {
		if after := afterPlanned(s, proven); after != nil {
			fields["backupSchedule"] = after
		}
	}
	return append(before, patchXRStatus(s, fields)...)
}

// forgetExpired backups that were asked for, or planned, once a life that goes on has another one. Those of the end of a life, and those
// before another image, stay until the end of a later one, and one that is being tried until that is known. An archive on a volume goes as that of each record that somebody deletes
// with the word for it.
func forgetExpired(s *instance.State) (step Step, open bool) {
	if !s.XR.IsServing() || !lastAreProven(s) {
		return Step{}, false
	}
	asked := slices.DeleteFunc(provenBackupsHere(s), func(r *v1.MySQLBackup) bool {
		return r.Spec.Origin != v1.OriginRequest && r.Spec.Origin != v1.OriginSchedule
	})
	return condemn(expired(s, asked, func(r *v1.MySQLBackup) bool { return !isRival(s, r) && !r.IsBeingTried() }))
}

// lastAreProven is true where there were such backups, and the last of each kind is proven: one that fails does not count.
func lastAreProven(s *instance.State) bool {
	proven := false
	for _, b := range []*v1.RequestedBackupStatus{s.XR.Status.RequestedBackup, s.XR.Status.ScheduledBackup} {
		if b != nil && b.Phase != v1.RequestedProven {
			return false
		}
		proven = proven || b != nil
	}
	return proven
}

// isRival of this life's backups.
func isRival(s *instance.State, r *v1.MySQLBackup) bool {
	for i := range s.Records {
		if own := &s.Records[i]; s.IsOwn(own) && r.IsRivalOf(own) {
			return true
		}
	}
	return false
}
