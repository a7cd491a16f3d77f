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

// The delay before a retry is a quarter of the time since the first attempt, within these bounds.
const (
	Soonest = 5 * time.Second
	Latest  = 5 * time.Minute
)

// A Builder returns the API writes that a step requires. It does not modify the state.
type Builder func(*instance.State, Step) []change.Change

// RefusalOf returns how a write of the action was refused, if it was the last action of the instance. Otherwise it
// returns nil.
func RefusalOf(s *instance.State, a Action) *instance.Refusal {
	if f := s.Refusal; f != nil && f.Of == string(a) {
		return f
	}
	return nil
}

// Delays until the next reconcile. RequeueSoon is for work that the cluster does immediately, RequeueLater for work
// that takes longer, and RequeueForPerson for work that requires a user.
const (
	RequeueSoon      = 500 * time.Millisecond
	RequeueLater     = 5 * time.Second
	RequeueForPerson = time.Minute
)

// Sentence returns the text with its first letter in upper case.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// An Action identifies what a step does.
type Action string

// Actions on an existing instance. A deletion also uses the actions on volumes and PVCs.
const (
	// NoOp waits for an event.
	NoOp Action = "NoOp"
	// Wait waits for a fixed time.
	Wait Action = "Wait"
	// AddFinalizers adds the finalizer to the claim and the XR.
	AddFinalizers Action = "AddFinalizers"
	// DeleteOrphanedXR deletes an XR whose claim is bound to another XR, or whose claim was deleted together with its
	// namespace.
	DeleteOrphanedXR Action = "DeleteOrphanedXR"
	// CreateBackupPVC creates the backup PVC and, on hostPath, its volume.
	CreateBackupPVC Action = "CreateBackupPVC"
	// ExpandBackupPVC expands the backup PVC with the instance.
	ExpandBackupPVC Action = "ExpandBackupPVC"
	// DeleteBackupPVC deletes a backup PVC that is unbound and too small, or whose name is needed for the volume of a
	// previous namespace.
	DeleteBackupPVC Action = "DeleteBackupPVC"
	// ReleaseBackupPV removes the finalizer from an empty backup volume that another volume replaces. The volume and
	// its disk are kept.
	ReleaseBackupPV Action = "ReleaseBackupPV"
	// AdoptBackupPV assigns the backup volume of a previous namespace to this namespace.
	AdoptBackupPV Action = "AdoptBackupPV"
	// RetainBackupPV retains the volume that the backup PVC is bound to.
	RetainBackupPV Action = "RetainBackupPV"
	// RecordPreviousBackup writes status.internal.previousBackup and related fields.
	RecordPreviousBackup Action = "RecordPreviousBackup"
	// PlanRecovery writes the plan of a recovery for a suspended instance without a volume.
	PlanRecovery Action = "PlanRecovery"
	// WarnOfBackup writes status.internal.backupWarning, which says that the next backup may not fit on its volume.
	WarnOfBackup Action = "WarnOfBackup"
	// ReportUnsynced writes status.message, if Crossplane discards the function's status.
	ReportUnsynced Action = "ReportUnsynced"
	// WarnOfCrossplane writes status.internal.crossplaneWarning, an error that Crossplane reports while the server
	// runs.
	WarnOfCrossplane Action = "WarnOfCrossplane"
	// RetryService removes status.internal.refusedService, so that the function tries the Service of the spec again.
	RetryService Action = "RetryService"
	// ReportBlockedClaim writes status.message of a claim whose deletion waits for Crossplane.
	ReportBlockedClaim Action = "ReportBlockedClaim"
	// RecordRestored writes status.internal.restoredBy, or removes it when the field is no longer needed.
	RecordRestored Action = "RecordRestored"
	// ClearStatus removes the status of a previous XR with the same name.
	ClearStatus Action = "ClearStatus"
	// ReportPodFailure writes status.internal.blockedBy. ReportCopy writes it if the cause is a copy of the data.
	ReportPodFailure Action = "ReportPodFailure"
	ReportCopy       Action = "ReportCopy"
	// ReportSettings writes status.internal.settingsVerdict, the reason why new settings were refused or rolled back.
	ReportSettings Action = "ReportSettings"
	// SetNodeAffinity pins hostPath volumes to the node that they were first used on.
	SetNodeAffinity Action = "SetNodeAffinity"
	// GiveRestoreAccess creates the Secret that gives the function's restore Job access to the store.
	GiveRestoreAccess Action = "GiveRestoreAccess"
	// RenewAccess renews the access of a running backup Job to a store. The access expires soon after the Job is
	// finished.
	RenewAccess Action = "RenewAccess"
	// RetainDataPV makes the data volume survive the deletion of its PVC.
	RetainDataPV Action = "RetainDataPV"
	// SkipNumber skips the number of a backup that the store already contains. That backup was written before the
	// cluster was restored from an etcd snapshot.
	SkipNumber Action = "SkipNumber"
	// BeginBackup starts a backup of a running instance. A cold backup stops the server. GiveUpBackup reports a
	// failed backup. EndBackup lets the server start again.
	BeginBackup  Action = "BeginBackup"
	GiveUpBackup Action = "GiveUpBackup"
	EndBackup    Action = "EndBackup"
	// ResumeServer lets the server start again once a cold backup has copied the data, before the backup is recorded.
	ResumeServer Action = "ResumeServer"
	// PlanBackups stores when the next scheduled backup is due. ReportLateBackup reports that an overdue backup
	// cannot start.
	PlanBackups      Action = "PlanBackups"
	ReportLateBackup Action = "ReportLateBackup"
	// WithdrawClone removes the account with which a Job clones the server.
	WithdrawClone Action = "WithdrawClone"
	// BeginImageChange stops the server for a backup before another image starts. AllowImage allows the new image.
	// EndImageChange removes status.internal.imageChange and blockedBy, when the new server accepts clients or the
	// user no longer requests the image.
	BeginImageChange Action = "BeginImageChange"
	AllowImage       Action = "AllowImage"
	EndImageChange   Action = "EndImageChange"
	// FenceServer stops the server of an existing instance, and UnfenceServer lets it run again.
	FenceServer   Action = "FenceServer"
	UnfenceServer Action = "UnfenceServer"
	// DeletePVC deletes a data PVC, or releases a data PVC that is being deleted. Its volume is retained. ReserveDataPV
	// makes the volume available to the next PVC with that name. CreatePVC creates that PVC if the function cannot.
	DeletePVC     Action = "DeletePVC"
	ReserveDataPV Action = "ReserveDataPV"
	CreatePVC     Action = "CreatePVC"
)

// Actions of a deletion. The comment of decideDelete lists them in order. DeleteObjects is also used for objects that
// block an existing instance.
const (
	// RemoveSettings removes unreadable settings from the spec of a claim or composite resource that is being deleted.
	RemoveSettings Action = "RemoveSettings"
	// CreateBackup creates a BackupRecord in phase Pending.
	CreateBackup Action = "CreateBackup"
	// StopServer scales the Deployment to zero.
	StopServer Action = "StopServer"
	// DeleteObjects deletes the objects in the field Targets of the step.
	DeleteObjects Action = "DeleteObjects"
	// CreateBackupJob creates the backup Job.
	CreateBackupJob Action = "CreateBackupJob"
	// GrowBackupPVC expands the backup PVC for a backup that did not fit, and deletes its Job.
	GrowBackupPVC Action = "GrowBackupPVC"
	// MarkRunning and MarkFailed write the phase of the BackupRecord.
	MarkRunning Action = "MarkRunning"
	MarkFailed  Action = "MarkFailed"
	// MarkNoData records on the XR, or on the PVC of an instance without an XR, that there is no data to lose.
	MarkNoData Action = "MarkNoData"
	// RecordBackup writes the catalog entry on the backup volume, and the backup is verified from then on. MarkVerified
	// updates the BackupRecord. RecreateBackup creates the BackupRecord again if it is missing.
	RecordBackup   Action = "RecordBackup"
	MarkVerified   Action = "MarkVerified"
	RecreateBackup Action = "RecreateBackup"
	// LetCopyGo releases objects that a user annotated as leave-alone. Their data is kept.
	LetCopyGo Action = "LetCopyGo"
	// CreatePruneJob creates the Job that deletes expired backups.
	CreatePruneJob Action = "CreatePruneJob"
	// DeleteOldBackups deletes the BackupRecords of the archives that the prune Job deleted.
	DeleteOldBackups Action = "DeleteOldBackups"
	// MarkForRemoval deletes expired BackupRecords of a store, with the annotation that deletes their archives.
	MarkForRemoval Action = "CondemnBackups"
	// DeleteUnprovenBackup deletes a BackupRecord whose backup will never be verified.
	DeleteUnprovenBackup Action = "DeleteUnprovenBackup"
	// CreateWipeJob creates the Job that empties a hostPath directory.
	CreateWipeJob Action = "CreateWipeJob"
	// ReleaseDataPV restores the reclaim policy of the data volume, and ReleaseDataPVC deletes the data PVC. Both
	// remove the finalizer.
	ReleaseDataPV  Action = "ReleaseDataPV"
	ReleaseDataPVC Action = "ReleaseDataPVC"
	// RemoveXRFinalizer and RemoveClaimFinalizer remove the finalizers from the XR and the claim.
	RemoveXRFinalizer    Action = "RemoveXRFinalizer"
	RemoveClaimFinalizer Action = "RemoveClaimFinalizer"
)

// An AttemptPhase is the progress of a backup. For a final backup, it is converted to a phase of the deletion.
type AttemptPhase string

// Phases of a backup, in order.
const (
	AttemptAnnounced AttemptPhase = "Announced"
	AttemptStopping  AttemptPhase = "Stopping"
	AttemptRunning   AttemptPhase = "Running"
	// AttemptFailed means that the backup will be retried.
	AttemptFailed AttemptPhase = "Failed"
	// AttemptBlocked means that the backup waits for manual action.
	AttemptBlocked AttemptPhase = "Blocked"
	// AttemptEmpty means that there is no data to back up.
	AttemptEmpty AttemptPhase = "Empty"
)

// phasesOfDeletion maps the phase of a final backup to the phase of its deletion.
var phasesOfDeletion = map[AttemptPhase]v1.DeletionPhase{
	AttemptAnnounced: v1.DeletionAnnounced,
	AttemptStopping:  v1.DeletionStopping,
	AttemptRunning:   v1.DeletionBackingUp,
	AttemptFailed:    v1.DeletionFailed,
	AttemptBlocked:   v1.DeletionBlocked,
	AttemptEmpty:     v1.DeletionReleasing,
}

// OfDeletion returns the step with the phase of the deletion instead of the phase of its final backup.
func (s Step) OfDeletion() Step {
	if s.Attempt != "" {
		s.Phase, s.Attempt = phasesOfDeletion[s.Attempt], ""
	}
	return s
}

// A Step is the next action for an instance and its message.
type Step struct {
	Action Action
	// Phase is the phase of the deletion that users see, with Percent and Message. Without a phase, the message is only
	// an event, because the function writes the status of an existing instance.
	Phase v1.DeletionPhase
	// Attempt is the progress of a backup of a running instance. It is empty during a deletion, because a deletion
	// sets Phase instead.
	Attempt AttemptPhase
	// Origin is the origin of this backup, or "" if the step is not about a backup.
	Origin  v1.BackupOrigin
	Percent int32
	Message string
	// Refused is true if a quota or a policy refused the last attempt. The message contains the reason.
	Refused bool
	// Hint is a command that skips the backup and loses the data. Only the messages of the claim and the XR contain it,
	// so that only users who wait for this deletion see it.
	Hint string
	// After is the duration of a Wait, or the time until the next reconcile after a NoOp. If it is zero, only an event
	// causes a reconcile.
	After time.Duration
	// Targets lists the objects that the action deletes or changes, such as PVCs or BackupRecords.
	Targets []client.Object
	// Changes lists the writes of the step in order. If a write is refused, the rest are skipped.
	Changes []change.Change
}

// PhaseText returns the phase of the deletion or of the backup, for logs.
func (s Step) PhaseText() string { return cmp.Or(string(s.Phase), string(s.Attempt)) }

// Text returns the message and the hint for users who wait for the deletion.
func (s Step) Text() string {
	if s.Hint == "" {
		return s.Message
	}
	return s.Message + ". " + s.Hint
}
