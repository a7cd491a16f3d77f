package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	if want.Request == "" || want.Method == "" || !s.XR.Status.Started || !s.XR.IsServing() || hasAnswered(s, want.Request) {
		return forgetExpired(s)
	}
	step = Step{Action: BeginRequested, Message: fmt.Sprintf("The backup is taken that backup.request %q asks for, and the server goes on", want.Request)}
	if want.Method == v1.MethodCold {
		step.Message = fmt.Sprintf("The server is stopped for the backup that backup.request %q asks for", want.Request)
	}
	return step, true
}

// hasAnswered a request: with a backup, whose record knows it when the status is lost, or by saying why there is none.
func hasAnswered(s *instance.State, request string) bool {
	if b := s.XR.Status.RequestedBackup; b != nil && b.Request == request {
		return true
	}
	for i := range s.Records {
		if r := &s.Records[i]; s.IsOwn(r) && r.IsProven() && r.Spec.Request == request {
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
	if !s.IsBackupRequested() {
		return Step{}, false
	}
	b := s.XR.Status.RequestedBackup
	if b.IsOnline() {
		defer func() { step.Phase = cmp.Or(step.Phase, v1.DeletionBackingUp) }() // A server that does not answer blocks nobody.
	}
	if b.Phase == v1.RequestedFailing && s.OwnNote() == nil && !hasProvenBackup(s) {
		return putAside(s, EndRequested), true
	}
	backUp, then := backUpStopped, ": the server starts"
	if b.IsOnline() {
		backUp, then = backUpRunning, ""
	}
	step, open = backUp(s, fmt.Sprintf("The backup is taken that backup.request %q asks for: %s", b.Request, s.RecordName()))
	step.Hint = ""
	switch {
	case !open:
		return Step{Action: EndRequested, Message: fmt.Sprintf("Backup %q is proven, which backup.request %q asks for%s", s.Record().Name, b.Request, then)}, true
	case s.Refusal != nil && s.Refusal.Of == string(step.Action) && !s.Refusal.Passing:
		return Step{Action: FailRequested, Message: step.Message + ": " + s.Refusal.Message}, true
	case hasFailed(s, step):
		return Step{Action: FailRequested, Message: step.Message}, true
	}
	return step, true
}

// hasFailed is true of a step that would only be waited for, by somebody or for another try: with the server stopped, or too long.
func hasFailed(s *instance.State, step Step) bool {
	_, succeeded := backupSucceeded(s.Backup)
	switch {
	case succeeded || hasProvenBackup(s) || s.OwnNote() != nil:
		return false
	case isOnline(s):
		return s.Now.Sub(s.XR.Status.RequestedBackup.BegunAt.Time) >= patienceOnline && (s.Backup == nil || !isRunning(s.Backup))
	case step.Phase == v1.DeletionFailed || step.Phase == v1.DeletionHeld:
		return true
	case s.Now.Sub(s.XR.Status.RequestedBackup.BegunAt.Time) < patience || hasOwnPod(s):
		return false
	}
	return s.Backup == nil || !isRunning(s.Backup)
}

// hasOwnPod is true while the server stops, which takes as long as it takes.
func hasOwnPod(s *instance.State) bool {
	return !isScaledDown(s.Deployment) || slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return p.Labels[v1.LabelXR] == string(s.Life.XR) })
}

// beginRequested with a number that no backup has.
func beginRequested(s *instance.State, _ Step) []change.Change {
	want := s.XR.Spec.Backup
	var fence any
	if want.Method == v1.MethodCold {
		fence = true
	}
	return patchXRStatus(s, map[string]any{"backupNumber": unusedNumber(s), "requestedBackup": map[string]any{
		"request": want.Request, "phase": v1.RequestedRunning, "method": want.Method, "begunAt": metav1.Time{Time: s.Now}, "fence": fence,
		"backup": nil, "percent": nil, "message": nil,
	}})
}

func failRequested(s *instance.State, step Step) []change.Change {
	return patchXRStatus(s, map[string]any{"requestedBackup": map[string]any{"phase": v1.RequestedFailing, "backup": nil, "percent": nil, "message": step.Message}})
}

// endRequested, and count a backup that is proven: the next one is of what comes after it.
func endRequested(s *instance.State, step Step) []change.Change {
	var before []change.Change
	if isOnline(s) {
		before = withdrawClone(s, step) // Whoever was here before may have come no further than to its account.
	}
	if !hasProvenBackup(s) {
		return append(before, patchXRStatus(s, map[string]any{"requestedBackup": map[string]any{"phase": v1.RequestedFailed, "fence": nil}})...)
	}
	return append(before, patchXRStatus(s, map[string]any{"backupNumber": nextBackupNumber(s), "requestedBackup": map[string]any{
		"phase": v1.RequestedProven, "fence": nil, "backup": s.Record().Name, "percent": nil, "message": nil,
	}})...)
}

// forgetExpired backups that were asked for, once a life that goes on has another one. Those of the end of a life, and those before
// another image, stay until the end of a later one. An archive on a volume goes as that of each record that somebody deletes with
// the word for it.
func forgetExpired(s *instance.State) (step Step, open bool) {
	if b := s.XR.Status.RequestedBackup; b == nil || b.Phase != v1.RequestedProven || !s.XR.IsServing() {
		return Step{}, false
	}
	requested := slices.DeleteFunc(provenBackupsHere(s), func(r *v1.MySQLBackup) bool { return r.Spec.Origin != v1.OriginRequest })
	return condemn(expired(s, requested, func(r *v1.MySQLBackup) bool { return !isRival(s, r) }))
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
