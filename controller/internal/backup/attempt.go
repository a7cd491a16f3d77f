package backup

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// PatienceOnline with one that takes nothing from anybody while it is tried again.
const PatienceOnline = 30 * time.Minute

// Patience with what keeps a backup from its beginning, while the server is stopped for it. One that runs may take as long as
// it takes.
const Patience = 3 * time.Minute

// DecideRequested begins a backup that the claim asks for, once for each text, of a server that takes clients.
func DecideRequested(s *instance.State) (step steps.Step, open bool) {
	want := &s.XR.Spec.Backup
	if want.Request == "" || want.Method == "" || !mayBackUpRunning(s) || hasAnswered(s, v1.OriginRequest, want.Request) {
		return steps.Step{}, false
	}
	return beginStep(v1.OriginRequest, want.Method, v1.RequestText(want.Request)), true
}

// mayBackUpRunning is true of a server that takes clients and is to go on. A suspended one begins no backup, as the server would have
// to stay for its end.
func mayBackUpRunning(s *instance.State) bool {
	return s.XR.Status.Started && s.XR.IsServing() && !s.XR.Spec.Suspended
}

// beginStep of a backup that somebody asks for.
func beginStep(origin v1.BackupOrigin, method v1.BackupMethod, who string) steps.Step {
	step := steps.Step{Action: steps.BeginBackup, Origin: origin, Message: fmt.Sprintf("The backup is taken that %s asks for, and the server goes on", who)}
	if method == v1.MethodCold {
		step.Message = fmt.Sprintf("The server is stopped for the backup that %s asks for", who)
	}
	return step
}

// lastOf the backups of one origin.
func lastOf(s *instance.State, origin v1.BackupOrigin) *v1.LastBackupStatus {
	if origin == v1.OriginSchedule {
		return s.XR.Status.ScheduledBackup
	}
	return s.XR.Status.RequestedBackup
}

// StatusFields say how far a backup of an instance that goes on is, by its origin.
var StatusFields = map[v1.BackupOrigin]string{
	v1.OriginRequest:     "requestedBackup",
	v1.OriginSchedule:    "scheduledBackup",
	v1.OriginImageChange: "imageChange",
}

// hasAnswered a request: with a backup, whose record knows it when the status is lost, or by saying why there is none.
func hasAnswered(s *instance.State, origin v1.BackupOrigin, request string) bool {
	if b := lastOf(s, origin); b != nil && b.Request == request {
		return true
	}
	for i := range s.Records {
		if r := &s.Records[i]; s.IsOwn(r) && r.IsProven() && r.Spec.Origin == origin && r.Spec.Request == request {
			return true
		}
	}
	return false
}

// FollowAttempt at a backup that was asked for or planned to its end, whatever the claim says meanwhile. What is in between is as
// before another image, but that the server goes on where it is cloned:
//
//	BeginBackup      the function stops the server
//	CreateBackup     a record says that it begins
//	CreateBackupJob  when the server's pod is gone: an agent copies the volume, and reads the copy again; or clones the server
//	WithdrawClone    the Job has it
//	NoteBackup       from here on it is proven
//	ResumeServer     the function starts the server as soon as the copy is verified, if recording it has to wait
//	MarkProven       the record says so
//	DeleteObjects    the Job, which holds PVCs
//	EndBackup        the function starts the server, and the next backup has the next number
//
// What fails is not tried again while clients wait:
//
//	GiveUpBackup          the status says why
//	DeleteObjects         the Job
//	DeleteUnprovenBackup  it would keep the next instance of this name from starting
//	EndBackup             the function starts the server
func FollowAttempt(s *instance.State) (step steps.Step, open bool) {
	a := s.Attempt()
	if !a.IsAnswer() {
		return steps.Step{}, false
	}
	switch {
	case a.Failing && s.OwnNote() == nil && !HasProvenBackup(s):
		step = clearFailed(s, &a)
	default:
		step = answer(s, &a)
	}
	if step.Origin, step.Hint = a.Origin, ""; a.IsOnline() {
		step.Attempt = cmp.Or(step.Attempt, steps.AttemptRunning) // A server that does not answer blocks nobody.
	}
	return step, true
}

// clearFailed removes what was made for a backup that was given up.
func clearFailed(s *instance.State, a *instance.Attempt) steps.Step {
	step := PutAside(s, steps.EndBackup)
	if a.Fenced && waitsForOthers(s, step) && (s.Backup == nil || steps.HasEnded(s.Backup)) {
		return steps.Step{Action: steps.ResumeServer} // What is left of the failed backup is removed while the server runs.
	}
	return step
}

// answer with a backup, or by giving it up.
func answer(s *instance.State, a *instance.Attempt) steps.Step {
	who := whoAsksFor(a)
	backUp, then := Stopped, ": the server starts"
	if isResumed(a) {
		backUp, then = backUpResumed, ""
	}
	if a.IsOnline() {
		backUp, then = backUpRunning, ""
	}
	step, open := backUp(s, fmt.Sprintf("The backup is taken that %s asks for: %s", who, a.Record))
	refusal := steps.RefusalOf(s, step.Action)
	switch {
	case canResume(s, a, step):
		return steps.Step{Action: steps.ResumeServer, Message: fmt.Sprintf("The data is copied and verified for the backup that %s asks for: the server starts again", who)}
	case !open:
		return steps.Step{Action: steps.EndBackup, Message: fmt.Sprintf("Backup %q is proven, which %s asks for%s", s.Record().Name, who, then)}
	case isMissing(s):
		return steps.Step{Action: steps.GiveUpBackup, Message: s.Refusal.Message}
	case isResumed(a) && !hasVerifiedCopy(s):
		return steps.Step{Action: steps.GiveUpBackup, Message: "The verified copy was lost before it was recorded, and the server runs again. The next backup takes another copy"}
	case isResumed(a) && isRecordingOverdue(s):
		return steps.Step{Action: steps.GiveUpBackup, Message: fmt.Sprintf("The verified copy could not be recorded within %s%s", PatienceOnline, becauseOf(s, step))}
	case refusal != nil && !refusal.Passing:
		return steps.Step{Action: steps.GiveUpBackup, Message: step.Message + ": " + refusal.Message}
	case hasFailed(s, a, step):
		return steps.Step{Action: steps.GiveUpBackup, Message: step.Message}
	}
	return step
}

// whoAsksFor a backup, in words.
func whoAsksFor(a *instance.Attempt) string {
	if a.Origin == v1.OriginSchedule {
		return v1.ScheduleText(a.Request)
	}
	return v1.RequestText(a.Request)
}

// canResume reports whether the server is to start again although the backup is not recorded yet. The server is stopped for the
// copy alone: a store may take long to answer, or refuse what is recorded there, and clients do not wait for that. What
// a backup volume records is one write, and the server waits for it unless that write has to wait.
func canResume(s *instance.State, a *instance.Attempt, step steps.Step) bool {
	return a.Fenced && (s.Store() != "" || waitsForOthers(s, step)) && hasVerifiedCopy(s)
}

// waitsForOthers reports whether a step is not done at once.
func waitsForOthers(s *instance.State, step steps.Step) bool {
	return step.Action == steps.Wait || steps.RefusalOf(s, step.Action) != nil
}

// isResumed reports whether the server runs again while a cold backup is recorded.
func isResumed(a *instance.Attempt) bool { return !a.IsOnline() && !a.Fenced }

// hasVerifiedCopy reports whether the backup needs the data no more: it is recorded, or its Job has copied the data and read the
// copy back.
func hasVerifiedCopy(s *instance.State) bool {
	if HasProvenBackup(s) || s.OwnNote() != nil {
		return true
	}
	_, ok := backupSucceeded(s.Backup)
	return ok && s.Record() != nil && isVerified(s, s.Backup.Report) && !HasMoved(s, s.Backup) && !isMissing(s) && !wasMissing(s)
}

// isVerified reports whether a Job reports an archive that it has read back.
func isVerified(s *instance.State, r *agent.Report) bool {
	return r != nil && r.OK && !r.Empty && r.Command == "backup" && namesArchive(s, r) && sumPattern.MatchString(r.SHA256)
}

// isRecordingOverdue reports whether a verified copy could not be recorded for long.
func isRecordingOverdue(s *instance.State) bool {
	at, ok := backupSucceeded(s.Backup)
	return ok && !HasProvenBackup(s) && s.OwnNote() == nil && s.Now.Sub(at) >= PatienceOnline
}

// becauseOf is the reason why a step is not done, for a sentence.
func becauseOf(s *instance.State, step steps.Step) string {
	switch {
	case steps.RefusalOf(s, step.Action) != nil:
		return ": " + s.Refusal.Message
	case s.StoreFailure != "":
		return ": " + s.StoreFailure
	}
	return ""
}

// resumeServer lets the function start the server again.
func resumeServer(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRStatus(s, map[string]any{StatusFields[s.Attempt().Origin]: map[string]any{"fence": nil}})
}

// hasFailed is true of a step that would only be waited for, by somebody or for another try: with the server stopped, or too long.
func hasFailed(s *instance.State, a *instance.Attempt, step steps.Step) bool {
	_, succeeded := backupSucceeded(s.Backup)
	switch {
	case succeeded || HasProvenBackup(s) || s.OwnNote() != nil:
		return false
	case isResumed(a):
		return false // The server runs, and the time of the recording is bounded.
	case a.IsOnline():
		return isOverdue(s) && (s.Backup == nil || !steps.IsRunning(s.Backup))
	case step.Attempt == steps.AttemptFailed || step.Attempt == steps.AttemptHeld:
		return true
	case s.Now.Sub(a.BegunAt) < Patience || hasOwnPod(s):
		return false
	}
	return s.Backup == nil || !steps.IsRunning(s.Backup)
}

// isOverdue is true of an online backup that was tried for long.
func isOverdue(s *instance.State) bool { return s.Now.Sub(s.Attempt().BegunAt) >= PatienceOnline }

// hasOwnPod is true while the server stops, which takes as long as it takes.
func hasOwnPod(s *instance.State) bool {
	return !isScaledDown(s.Deployment) || slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return p.Labels[v1.LabelXR] == string(s.Life.XR) })
}

// beginBackup with a number that no backup has. What is planned is not due any more.
func beginBackup(s *instance.State, step steps.Step) []change.Change {
	want := s.XR.Spec.Backup
	begun := map[string]any{
		"request": want.Request, "phase": v1.LastBackupRunning, "method": want.Method, "begunAt": metav1.Time{Time: s.Now}, "fence": nil,
		"backup": nil, "percent": nil, "message": nil,
	}
	fields := CountTo(s, UnusedNumber(s))
	fields[StatusFields[step.Origin]] = begun
	if step.Origin == v1.OriginSchedule {
		begun["request"], fields["backupSchedule"] = dueName(s), plan(s)
	}
	if want.Method != v1.MethodCold {
		return steps.PatchXRStatus(s, fields)
	}
	begun["fence"] = true
	return append(CheckData(s), steps.PatchXRStatus(s, fields)...)
}

func giveUpBackup(s *instance.State, step steps.Step) []change.Change {
	return steps.PatchXRStatus(s, map[string]any{StatusFields[step.Origin]: map[string]any{"phase": v1.LastBackupFailing, "backup": nil, "percent": nil, "message": step.Message}})
}

// endBackup, and count a backup that is proven: the next one is of what comes after it.
func endBackup(s *instance.State, step steps.Step) []change.Change {
	var before []change.Change
	a := s.Attempt()
	if a.IsOnline() {
		before = withdrawClone(s, step) // Whoever was here before may have come no further than to its account.
	}
	field, proven := StatusFields[a.Origin], HasProvenBackup(s)
	var fields map[string]any
	if proven {
		fields = CountBackup(s)
		fields[field] = map[string]any{"phase": v1.LastBackupProven, "fence": nil, "backup": s.Record().Name, "percent": nil, "message": nil}
	} else {
		fields = LeaveNumber(s)
		fields[field] = map[string]any{"phase": v1.LastBackupFailed, "fence": nil}
	}
	if a.Origin == v1.OriginSchedule {
		if after := afterPlanned(s, proven); after != nil {
			fields["backupSchedule"] = after
		}
	}
	return append(before, steps.PatchXRStatus(s, fields)...)
}

// ForgetExpired backups that were asked for, or planned, once a life that goes on has another one. Those of the end of a life, and those
// before another image, stay until the end of a later one, and one that is being tried until that is known. An archive on a volume goes as that of each record that somebody deletes
// with the word for it.
func ForgetExpired(s *instance.State) (step steps.Step, open bool) {
	if !s.XR.IsServing() || !lastAreProven(s) {
		return steps.Step{}, false
	}
	asked := slices.DeleteFunc(catalog.ProvenBackupsHere(s), func(r *v1.MySQLBackup) bool {
		return r.Spec.Origin != v1.OriginRequest && r.Spec.Origin != v1.OriginSchedule
	})
	return catalog.Condemn(catalog.Expired(s, asked, func(r *v1.MySQLBackup) bool { return !isRival(s, r) && !r.IsBeingTried() }))
}

// lastAreProven is true where there were such backups, and the last of each kind is proven: one that fails does not count.
func lastAreProven(s *instance.State) bool {
	proven := false
	for _, b := range []*v1.LastBackupStatus{s.XR.Status.RequestedBackup, s.XR.Status.ScheduledBackup} {
		if b != nil && b.Phase != v1.LastBackupProven {
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
