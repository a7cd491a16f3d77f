package backup

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// PatienceOnline is the time after which an unsuccessful online backup is reported as failed. It is longer than
// Patience, because an online backup does not interrupt clients.
const PatienceOnline = 30 * time.Minute

// Patience is the maximum time that a server stays stopped for a backup that cannot start. A backup that has started
// has no time limit.
const Patience = 3 * time.Minute

// DecideRequested starts the on-demand backup that a Backup object requests. It does so once for each Backup object,
// and only if the server accepts clients.
func DecideRequested(s *instance.State) (step steps.Step, open bool) {
	want := s.Requested
	if want.Name == "" || !mayBackUpRunning(s) || hasAnswered(s, v1.OriginRequest, want.Name, want.UID) {
		return steps.Step{}, false
	}
	return beginStep(v1.OriginRequest, want.Method, v1.BackupText(want.Name)), true
}

// mayBackUpRunning reports whether the server accepts clients and will keep running. No backup starts for a suspended
// instance, because its server would have to run until the backup is complete.
func mayBackUpRunning(s *instance.State) bool {
	return s.XR.Status.Started && s.XR.IsServing() && !s.XR.Spec.Suspend
}

// beginStep returns the step that starts an on-demand or scheduled backup.
func beginStep(origin v1.BackupOrigin, method v1.BackupMethod, subject string) steps.Step {
	step := steps.Step{Action: steps.BeginBackup, Origin: origin,
		Message: fmt.Sprintf("Taking %s while the server runs", subject)}
	if method == v1.MethodCold {
		step.Message = "Stopping the server for " + subject
	}
	return step
}

// lastOf returns the status of the last backup with the given origin, which must be an on-demand request or the
// schedule.
func lastOf(s *instance.State, origin v1.BackupOrigin) *v1.LastBackupStatus {
	if origin == v1.OriginSchedule {
		return s.XR.Status.ScheduledBackup
	}
	return s.XR.Status.RequestedBackup
}

// StatusFields maps each origin to the field of status.internal that contains the progress of a running instance's
// backup.
var StatusFields = map[v1.BackupOrigin]string{
	v1.OriginRequest:     "requestedBackup",
	v1.OriginSchedule:    "scheduledBackup",
	v1.OriginImageChange: "imageChange",
}

// hasAnswered reports whether an on-demand or scheduled backup has completed or failed. If the status is lost, a
// completed backup is still recognized by its BackupRecord.
func hasAnswered(s *instance.State, origin v1.BackupOrigin, request string, uid types.UID) bool {
	if b := lastOf(s, origin); b != nil && b.Request == request && b.UID == uid {
		return true
	}
	for i := range s.Records {
		if r := &s.Records[i]; s.IsOwn(r) && r.IsVerified() && r.Spec.Origin == origin && r.Spec.Request == request {
			return true
		}
	}
	return false
}

// FollowAttempt runs an on-demand or scheduled backup to completion, even if the claim changes in the meantime. A
// cold backup stops the server, and an online backup clones the running server. The actions are:
//
//	BeginBackup      the function stops the server for a cold backup.
//	CreateBackup     a BackupRecord is created.
//	CreateBackupJob  when the server's pod is deleted, a Job copies the volume and reads the copy back; or it clones the server.
//	WithdrawClone    the Job has its clone, and the clone account is removed.
//	RecordBackup       the backup is verified.
//	ResumeServer     the function starts the server once the copy is verified, if recording the backup has to wait.
//	MarkVerified       the BackupRecord reports that the backup is verified.
//	DeleteObjects    the Job is deleted, because its pods hold PVCs.
//	EndBackup        the function starts the server, and the next backup gets the next number.
//
// A failed backup is not retried, because clients wait:
//
//	GiveUpBackup          the status contains the reason.
//	DeleteObjects         the Job is deleted.
//	DeleteUnprovenBackup  the BackupRecord is deleted, because it would block the next instance with this name.
//	EndBackup             the function starts the server.
func FollowAttempt(s *instance.State) (step steps.Step, open bool) {
	a := s.Attempt()
	if !a.IsAnswer() {
		return steps.Step{}, false
	}
	switch {
	case a.Failing && s.OwnEntry() == nil && !HasVerifiedBackup(s):
		step = clearFailed(s, &a)
	default:
		step = answer(s, &a)
	}
	if step.Origin, step.Hint = a.Origin, ""; a.IsOnline() {
		step.Attempt = cmp.Or(step.Attempt, steps.AttemptRunning) // An unresponsive server must not block other steps.
	}
	return step, true
}

// clearFailed deletes the objects of a failed backup.
func clearFailed(s *instance.State, a *instance.Attempt) steps.Step {
	step := DiscardAttempt(s, steps.EndBackup)
	if a.Fenced && waitsForOthers(s, step) && (s.BackupJob == nil || steps.HasEnded(s.BackupJob)) {
		return steps.Step{Action: steps.ResumeServer} // The objects of the failed backup are deleted while the server runs.
	}
	return step
}

// answer returns the next step of the backup, or the step that reports it as failed.
func answer(s *instance.State, a *instance.Attempt) steps.Step {
	subject := whatIsTaken(a)
	backUp, outcome := Stopped, ". Starting the server"
	if isResumed(a) {
		backUp, outcome = backUpResumed, ""
	}
	if a.IsOnline() {
		backUp, outcome = backUpRunning, ""
	}
	step, open := backUp(s, "Taking "+whatIsNamed(a))
	refusal := steps.RefusalOf(s, step.Action)
	switch {
	case canResume(s, a, step):
		return steps.Step{Action: steps.ResumeServer,
			Message: fmt.Sprintf("The data for %s is copied and verified. Starting the server again", subject)}
	case !open:
		return steps.Step{Action: steps.EndBackup,
			Message: "Verified " + whatIsNamed(a) + outcome}
	case isMissing(s):
		return steps.Step{Action: steps.GiveUpBackup, Message: s.Refusal.Message}
	case isResumed(a) && !hasVerifiedCopy(s):
		return steps.Step{Action: steps.GiveUpBackup,
			Message: "The verified copy was lost before it was recorded, and the server runs again. The next backup takes " +
				"another copy"}
	case isResumed(a) && isRecordingOverdue(s):
		return steps.Step{Action: steps.GiveUpBackup,
			Message: fmt.Sprintf("The verified copy could not be recorded within %s%s", PatienceOnline, becauseOf(s, step))}
	case refusal != nil && !refusal.Passing:
		return steps.Step{Action: steps.GiveUpBackup, Message: step.Message + ": " + refusal.Message}
	case hasFailed(s, a, step):
		return steps.Step{Action: steps.GiveUpBackup, Message: step.Message}
	}
	return step
}

// whatIsTaken describes the backup in messages, by its scheduled time or the name of its Backup object.
func whatIsTaken(a *instance.Attempt) string {
	if a.Origin == v1.OriginSchedule {
		return v1.ScheduledBackupText(a.Request)
	}
	return v1.BackupText(a.Request)
}

// whatIsNamed describes the backup like whatIsTaken. For a scheduled backup, it adds the name of the Backup object,
// which the controller has chosen.
func whatIsNamed(a *instance.Attempt) string {
	if a.Origin == v1.OriginSchedule {
		return fmt.Sprintf("%s, backup %q", whatIsTaken(a), a.Record)
	}
	return whatIsTaken(a)
}

// canResume reports whether the server can start again although the backup is not recorded yet. The server must be
// stopped only while the data is copied, and clients must not wait for a store that responds slowly or refuses the
// metadata. A backup volume needs only a single write, so the server waits for that write unless it is delayed.
func canResume(s *instance.State, a *instance.Attempt, step steps.Step) bool {
	return a.Fenced && (s.Store() != "" || waitsForOthers(s, step)) && hasVerifiedCopy(s)
}

// waitsForOthers reports whether a step of a backup waits for a store or a volume, or was refused.
func waitsForOthers(s *instance.State, step steps.Step) bool {
	return step.Action == steps.Wait || steps.RefusalOf(s, step.Action) != nil
}

// isResumed reports whether the server runs again while a cold backup is recorded.
func isResumed(a *instance.Attempt) bool { return !a.IsOnline() && !a.Fenced }

// hasVerifiedCopy reports whether the backup no longer needs the data. Either the backup is recorded, or its Job has
// copied the data and read the copy back.
func hasVerifiedCopy(s *instance.State) bool {
	if HasVerifiedBackup(s) || s.OwnEntry() != nil {
		return true
	}
	_, ok := backupSucceeded(s.BackupJob)
	return ok && s.Record() != nil && isVerified(s, s.BackupJob.Report) && !HasMoved(s, s.BackupJob) && !isMissing(s) &&
		!wasMissing(s)
}

// isVerified reports whether a Job's report names an archive that the Job has read back.
func isVerified(s *instance.State, r *agent.Report) bool {
	return r != nil && r.OK && !r.Empty && r.Command == "backup" && namesArchive(s, r) && sumPattern.MatchString(r.SHA256)
}

// isRecordingOverdue reports whether recording a verified copy has taken longer than PatienceOnline.
func isRecordingOverdue(s *instance.State) bool {
	finished, ok := backupSucceeded(s.BackupJob)
	return ok && !HasVerifiedBackup(s) && s.OwnEntry() == nil && s.Now.Sub(finished) >= PatienceOnline
}

// becauseOf returns why a step of a backup is delayed, as the end of a message: a refusal, or the error of a store.
func becauseOf(s *instance.State, step steps.Step) string {
	switch {
	case steps.RefusalOf(s, step.Action) != nil:
		return ": " + s.Refusal.Message
	case s.StoreFailure != "":
		return ": " + s.StoreFailure
	}
	return ""
}

// resumeServer writes to status.internal that the server need not be stopped for the backup, so the function starts it
// again.
func resumeServer(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRInternal(s, map[string]any{StatusFields[s.Attempt().Origin]: map[string]any{"fence": nil}})
}

// hasFailed reports whether a backup has failed. A backup that stops the server fails if the step would wait for a
// user or a retry. An online backup fails after PatienceOnline.
func hasFailed(s *instance.State, a *instance.Attempt, step steps.Step) bool {
	_, succeeded := backupSucceeded(s.BackupJob)
	switch {
	case succeeded || HasVerifiedBackup(s) || s.OwnEntry() != nil:
		return false
	case isResumed(a):
		return false // The server runs, and the time for recording is limited.
	case a.IsOnline():
		return isOverdue(s) && (s.BackupJob == nil || !steps.IsRunning(s.BackupJob))
	case step.Attempt == steps.AttemptFailed || step.Attempt == steps.AttemptBlocked:
		return true
	case s.Now.Sub(a.BegunAt) < Patience || hasOwnPod(s):
		return false
	}
	return s.BackupJob == nil || !steps.IsRunning(s.BackupJob)
}

// isOverdue reports whether an online backup has taken longer than PatienceOnline.
func isOverdue(s *instance.State) bool { return s.Now.Sub(s.Attempt().BegunAt) >= PatienceOnline }

// hasOwnPod reports whether the server's pod still exists. The server may take any amount of time to shut down.
func hasOwnPod(s *instance.State) bool {
	return !isScaledDown(s.Deployment) ||
		slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return p.Labels[v1.LabelXR] == string(s.Instance.XR) })
}

// beginBackup starts a backup with an unused number. A scheduled backup is no longer due after that.
func beginBackup(s *instance.State, step steps.Step) []change.Change {
	request, method, uid := s.Requested.Name, s.Requested.Method, s.Requested.UID
	if step.Origin == v1.OriginSchedule {
		request, method, uid = dueName(s), s.XR.Spec.Backup.ScheduledMethod(), ""
	}
	begun := map[string]any{
		"request": request, "uid": steps.OrNil(string(uid)), "phase": v1.LastBackupRunning, "method": method, "begunAt": metav1.Time{Time: s.Now},
		"fence":  nil,
		"backup": nil, "percent": nil, "message": nil,
	}
	fields := CountTo(s, UnusedNumber(s))
	fields[StatusFields[step.Origin]] = begun
	if step.Origin == v1.OriginSchedule {
		fields["backupSchedule"] = plan(s)
	}
	if method != v1.MethodCold {
		return steps.PatchXRInternal(s, fields)
	}
	begun["fence"] = true
	return append(CheckData(s), steps.PatchXRInternal(s, fields)...)
}

func giveUpBackup(s *instance.State, step steps.Step) []change.Change {
	return steps.PatchXRInternal(s, map[string]any{
		StatusFields[step.Origin]: map[string]any{"phase": v1.LastBackupFailing, "backup": nil, "percent": nil,
			"message": step.Message}})
}

// endBackup finishes a backup. After a verified backup, it also increments the backup number of the instance.
func endBackup(s *instance.State, step steps.Step) []change.Change {
	var before []change.Change
	a := s.Attempt()
	if a.IsOnline() {
		before = withdrawClone(s, step) // The controller may have been restarted after it created the account.
	}
	field, verified := StatusFields[a.Origin], HasVerifiedBackup(s)
	var fields map[string]any
	if verified {
		fields = CountBackup(s)
		fields[field] = map[string]any{"phase": v1.LastBackupVerified, "fence": nil, "backup": s.Record().Name, "percent": nil,
			"message": nil}
	} else {
		fields = LeaveNumber(s)
		fields[field] = map[string]any{"phase": v1.LastBackupFailed, "fence": nil}
	}
	if a.Origin == v1.OriginSchedule {
		if after := afterPlanned(s, verified); after != nil {
			fields["backupSchedule"] = after
		}
	}
	return append(before, PatchCounted(s, fields)...)
}

// PruneExpired deletes expired on-demand and scheduled backups when a running instance has a newer one. The backups
// of a deletion or an image change are kept until a later deletion. A backup that is being restore-tested is kept
// until the test is finished. The archive on a volume is deleted as if a user had deleted its BackupRecord with the
// annotation that deletes the archive.
func PruneExpired(s *instance.State) (step steps.Step, open bool) {
	if !s.XR.IsServing() || !lastAreVerified(s) {
		return steps.Step{}, false
	}
	asked := slices.DeleteFunc(catalog.VerifiedBackupsHere(s), func(r *v1.BackupRecord) bool {
		return r.Spec.Origin != v1.OriginRequest && r.Spec.Origin != v1.OriginSchedule
	})
	return catalog.MarkForRemoval(catalog.Expired(s, asked, func(r *v1.BackupRecord) bool {
		return !isRival(s, r) && !r.IsBeingTried()
	}))
}

// lastAreVerified reports whether there are on-demand or scheduled backups, and the last one of each kind is verified.
// If the last one failed, older backups are kept.
func lastAreVerified(s *instance.State) bool {
	verified := false
	for _, b := range []*v1.LastBackupStatus{s.XR.Status.RequestedBackup, s.XR.Status.ScheduledBackup} {
		if b != nil && b.Phase != v1.LastBackupVerified {
			return false
		}
		verified = verified || b != nil
	}
	return verified
}

// isRival reports whether a backup is from an instance that existed at the same time as this one. Neither backup then
// contains the rows of the other.
func isRival(s *instance.State, r *v1.BackupRecord) bool {
	for i := range s.Records {
		if own := &s.Records[i]; s.IsOwn(own) && r.IsRivalOf(own) {
			return true
		}
	}
	return false
}
