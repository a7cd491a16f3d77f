package steps

import (
	"cmp"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// Retries come sooner at first: a quarter of the time since it began, within
// these bounds.
const (
	Soonest = 5 * time.Second
	Latest  = 5 * time.Minute
)

// A Builder makes the changes of an action, whose name it has. It looks at the state, and changes nothing there.
type Builder func(*instance.State, Step) []change.Change

// RefusalOf an action, if that was the last one; nil where it was carried out, or another.
func RefusalOf(s *instance.State, a Action) *instance.Refusal {
	if f := s.Refusal; f != nil && f.Of == string(a) {
		return f
	}
	return nil
}

// Pauses until the next look: for what the cluster does in a moment, for what takes it a
// while, and for what takes a person.
const (
	RequeueSoon      = 500 * time.Millisecond
	RequeueLater     = 5 * time.Second
	RequeueForPerson = time.Minute
)

// Sentence begins with a capital letter.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// An Action is what a step does.
type Action string

// Actions while an instance lives. Those on volumes and PVCs are a deletion's, too.
const (
	// NoOp does nothing until something changes.
	NoOp Action = "NoOp"
	// Wait does nothing for a while.
	Wait Action = "Wait"
	// AddFinalizers puts our finalizer on claim and XR.
	AddFinalizers Action = "AddFinalizers"
	// DeleteOrphanedXR deletes an XR whose claim has bound another one, or is gone while
	// its namespace goes.
	DeleteOrphanedXR Action = "DeleteOrphanedXR"
	// CreateBackupPVC makes the backup PVC, and its volume on hostPath.
	CreateBackupPVC Action = "CreateBackupPVC"
	// ExpandBackupPVC grows it with the instance.
	ExpandBackupPVC Action = "ExpandBackupPVC"
	// DeleteBackupPVC deletes a backup PVC that is too small and has no volume, or
	// that is in the way of an earlier namespace's volume.
	DeleteBackupPVC Action = "DeleteBackupPVC"
	// ReleaseBackupPV sets a volume aside that has no backup in its index and is in the way of another one: it
	// drops our finalizer. The volume and its disk stay.
	ReleaseBackupPV Action = "ReleaseBackupPV"
	// AdoptBackupPV makes the backup volume of an earlier namespace this namespace's.
	AdoptBackupPV Action = "AdoptBackupPV"
	// RetainBackupPV keeps the volume that the backup PVC is bound to.
	RetainBackupPV Action = "RetainBackupPV"
	// RecordPreviousBackup writes status.previousBackup, and what comes with it.
	RecordPreviousBackup Action = "RecordPreviousBackup"
	// WarnOfBackup writes status.backupWarning.
	WarnOfBackup Action = "WarnOfBackup"
	// ReportUnsynced writes status.message where Crossplane keeps the function from it.
	ReportUnsynced Action = "ReportUnsynced"
	// WarnOfCrossplane writes status.crossplaneWarning.
	WarnOfCrossplane Action = "WarnOfCrossplane"
	// RetryService removes status.refusedService.
	RetryService Action = "RetryService"
	// ReportHeldClaim writes status.message of a claim whose deletion waits for Crossplane.
	ReportHeldClaim Action = "ReportHeldClaim"
	// NoteRestored writes status.restoredBy, or takes it away where nobody needs it any more.
	NoteRestored Action = "NoteRestored"
	// ClearStatus takes away what an earlier XR of the same name had.
	ClearStatus Action = "ClearStatus"
	// ReportPodFailure writes status.blockedBy, and ReportCopy does where that is a copy of data.
	ReportPodFailure Action = "ReportPodFailure"
	ReportCopy       Action = "ReportCopy"
	// ReportSettings writes status.settingsVerdict.
	ReportSettings Action = "ReportSettings"
	// SetNodeAffinity pins hostPath volumes to the node that they were first used on.
	SetNodeAffinity Action = "SetNodeAffinity"
	// GiveRestoreAccess to a store makes the Secret that the function's Job waits for.
	GiveRestoreAccess Action = "GiveRestoreAccess"
	// RenewAccess of a backup Job that runs: it ends soon after the Job.
	RenewAccess Action = "RenewAccess"
	// RetainDataPV keeps the data volume whatever becomes of its PVC.
	RetainDataPV Action = "RetainDataPV"
	// SkipNumber leaves out the number of a backup that a store has already, from a time before the cluster was set back.
	SkipNumber Action = "SkipNumber"
	// BeginBackup begins a backup of a running instance, for which a cold one stops the server. GiveUpBackup says that it has
	// failed. EndBackup lets the server start again.
	BeginBackup  Action = "BeginBackup"
	GiveUpBackup Action = "GiveUpBackup"
	EndBackup    Action = "EndBackup"
	// ResumeServer lets the server start again after the copy of a cold backup, before the backup is recorded.
	ResumeServer Action = "ResumeServer"
	// PlanBackups writes when the next one is due by the schedule, and ReportLateBackup that one
	// which is due cannot begin.
	PlanBackups      Action = "PlanBackups"
	ReportLateBackup Action = "ReportLateBackup"
	// WithdrawClone takes the account away with which a Job clones the server.
	WithdrawClone Action = "WithdrawClone"
	// BeginImageChange stops the server for a backup before another image starts, AllowImage
	// says that it may, and EndImageChange takes both away: the image has taken clients, or is
	// not wanted any more.
	BeginImageChange Action = "BeginImageChange"
	AllowImage       Action = "AllowImage"
	EndImageChange   Action = "EndImageChange"
	// FenceServer stops the server of a living instance, and UnfenceServer lets it run again.
	FenceServer   Action = "FenceServer"
	UnfenceServer Action = "UnfenceServer"
	// DeletePVC deletes a data PVC, or lets one go that is being deleted, while its
	// volume is kept. ReserveDataPV makes the volume bindable for the next PVC of that name, and
	// CreatePVC makes that PVC where no function does.
	DeletePVC     Action = "DeletePVC"
	ReserveDataPV Action = "ReserveDataPV"
	CreatePVC     Action = "CreatePVC"
)

// Actions of a deletion; their order stands above decideDelete. DeleteObjects is also for what is
// in the way of an instance that lives.
const (
	// RemoveSettings removes unreadable settings from the spec of a claim or composite resource that is being deleted.
	RemoveSettings Action = "RemoveSettings"
	// CreateBackup makes a record, phase Pending.
	CreateBackup Action = "CreateBackup"
	// StopServer scales it down.
	StopServer Action = "StopServer"
	// DeleteObjects deletes the targets.
	DeleteObjects Action = "DeleteObjects"
	// CreateBackupJob makes the backup Job.
	CreateBackupJob Action = "CreateBackupJob"
	// GrowBackupPVC grows the backup PVC for a backup that did not fit, and ends its Job.
	GrowBackupPVC Action = "GrowBackupPVC"
	// MarkRunning and MarkFailed write the record's phase.
	MarkRunning Action = "MarkRunning"
	MarkFailed  Action = "MarkFailed"
	// MarkNoData writes on the XR, or on the PVC of a life without one, that there is
	// nothing to lose.
	MarkNoData Action = "MarkNoData"
	// NoteBackup writes on the volume of the backups what is proven: from then on it
	// is. MarkProven says so in the record, and RecreateBackup makes it again where it is gone.
	NoteBackup     Action = "NoteBackup"
	MarkProven     Action = "MarkProven"
	RecreateBackup Action = "RecreateBackup"
	// LetCopyGo lets go what is nobody's, as somebody said: the data stays.
	LetCopyGo Action = "LetCopyGo"
	// CreatePruneJob makes the Job that removes backups that are too many.
	CreatePruneJob Action = "CreatePruneJob"
	// DeleteOldBackups deletes the records whose archives it removed.
	DeleteOldBackups Action = "DeleteOldBackups"
	// CondemnBackups deletes those that are too many in a store, with the word that their archives may go.
	CondemnBackups Action = "CondemnBackups"
	// DeleteUnprovenBackup deletes a record that was announced and will never be proven.
	DeleteUnprovenBackup Action = "DeleteUnprovenBackup"
	// CreateWipeJob makes the Job that empties a hostPath folder.
	CreateWipeJob Action = "CreateWipeJob"
	// ReleaseDataPV gives the data volume its reclaim policy back, and
	// ReleaseDataPVC deletes the data PVC. Both drop our finalizer.
	ReleaseDataPV  Action = "ReleaseDataPV"
	ReleaseDataPVC Action = "ReleaseDataPVC"
	// RemoveXRFinalizer and RemoveClaimFinalizer drop the finalizers of XR and claim.
	RemoveXRFinalizer    Action = "RemoveXRFinalizer"
	RemoveClaimFinalizer Action = "RemoveClaimFinalizer"
)

// An AttemptPhase is how far a backup is that is being taken, whatever its origin. That of a deletion is shown as a phase of the deletion.
type AttemptPhase string

// Phases of an attempt, in their order.
const (
	AttemptAnnounced AttemptPhase = "Announced"
	AttemptStopping  AttemptPhase = "Stopping"
	AttemptRunning   AttemptPhase = "Running"
	// AttemptFailed is tried again.
	AttemptFailed AttemptPhase = "Failed"
	// AttemptHeld waits for a person.
	AttemptHeld AttemptPhase = "Held"
	// AttemptEmpty found nothing to back up.
	AttemptEmpty AttemptPhase = "Empty"
)

// phasesOfDeletion in which the backup of a deletion is.
var phasesOfDeletion = map[AttemptPhase]v1.DeletionPhase{
	AttemptAnnounced: v1.DeletionAnnounced,
	AttemptStopping:  v1.DeletionStopping,
	AttemptRunning:   v1.DeletionBackingUp,
	AttemptFailed:    v1.DeletionFailed,
	AttemptHeld:      v1.DeletionHeld,
	AttemptEmpty:     v1.DeletionReleasing,
}

// OfDeletion is the same step with the phase of the deletion that the backup is part of.
func (s Step) OfDeletion() Step {
	if s.Attempt != "" {
		s.Phase, s.Attempt = phasesOfDeletion[s.Attempt], ""
	}
	return s
}

// A Step is the one thing to do now, and what to say about it.
type Step struct {
	Action Action
	// Phase of a deletion, how far it is, and what people read. Without a phase the
	// message is an event only: the function writes the status of what lives.
	Phase v1.DeletionPhase
	// Attempt is the phase of the backup of an instance that goes on. A step has this or Phase, or neither.
	Attempt AttemptPhase
	// Origin of that backup; empty for steps that are about none.
	Origin  v1.BackupOrigin
	Percent int32
	Message string
	// Refused is true if the last try was, by a quota or a policy. The message says so.
	Refused bool
	// Hint is a command that gives the data up. It is for those who wait for this very
	// deletion, and stands in the message of claim and XR: nobody repeats it elsewhere.
	Hint string
	// After is how long a Wait is, or until when a NoOp holds without an event; zero for ever.
	After time.Duration
	// Targets of an action that has some: objects, PVCs or records.
	Targets []client.Object
	// Changes are all that is written, in this order, up to the first that is refused.
	Changes []change.Change
}

// PhaseText is the phase of the deletion, or of the backup, for logs.
func (s Step) PhaseText() string { return cmp.Or(string(s.Phase), string(s.Attempt)) }

// Text is all that there is to say to those who wait for the deletion.
func (s Step) Text() string {
	if s.Hint == "" {
		return s.Message
	}
	return s.Message + ". " + s.Hint
}
