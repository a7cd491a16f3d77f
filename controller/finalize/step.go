// Package finalize decides what happens to an instance that outlives its
// composition: that nothing starts before its data is protected, and that no
// data goes before a proven backup of it exists.
//
// Next is pure and says what is to be done now; a Performer does it. Each step is
// derived from what is there, so that a crash between any two is harmless.
package finalize

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An Action is what a Performer can do.
type Action string

// Actions while an instance lives.
const (
	// Rest does nothing until something changes.
	Rest Action = "Rest"
	// Wait does nothing for a while.
	Wait Action = "Wait"
	// Protect puts our finalizer on claim and XR.
	Protect Action = "Protect"
	// Supersede deletes an XR whose claim has bound another one.
	Supersede Action = "Supersede"
	// MakeBackupPV makes the backup PVC, and its volume on hostPath.
	MakeBackupPV Action = "MakeBackupPV"
	// GrowBackupPV with the instance.
	GrowBackupPV Action = "GrowBackupPV"
	// DropBackupPVC deletes a backup PVC that is too small and has no volume, or
	// that is in the way of an earlier namespace's volume.
	DropBackupPVC Action = "DropBackupPVC"
	// ReleaseBackupPV gives an empty volume that is in that way its reclaim
	// policy back, and drops our finalizer.
	ReleaseBackupPV Action = "ReleaseBackupPV"
	// Inherit makes the backup volume of an earlier namespace this namespace's.
	Inherit Action = "Inherit"
	// LatchBackupPV keeps the volume that the backup PVC is bound to.
	LatchBackupPV Action = "LatchBackupPV"
	// Look writes status.previous.
	Look Action = "Look"
	// Tell writes status.trouble.
	Tell Action = "ServerTrouble"
	// Pin hostPath volumes to the node that they were first used on.
	Pin Action = "Pin"
	// Latch keeps the data volume whatever becomes of its claim.
	Latch Action = "Latch"
	// Fence stops the server of a living instance, and Unfence lets it run again.
	Fence   Action = "Fence"
	Unfence Action = "Unfence"
	// ReleaseHandle lets a data PVC go that is being deleted, while its volume is
	// kept. Rebind makes the volume bindable for the next claim of that name, and
	// MakeHandle makes that claim where no function does.
	ReleaseHandle Action = "ReleaseHandle"
	Rebind        Action = "Rebind"
	MakeHandle    Action = "MakeHandle"
)

// Actions of a deletion, in their order.
const (
	// Announce the backup: a record, phase Pending.
	Announce Action = "Announce"
	// Stop the server.
	Stop Action = "Stop"
	// Delete the targets.
	Delete Action = "Delete"
	// StartBackup makes the backup Job.
	StartBackup Action = "StartBackup"
	// MarkRunning, MarkFailed and Prove write the record's phase.
	MarkRunning Action = "MarkRunning"
	MarkFailed  Action = "MarkFailed"
	// MarkEmpty writes on the XR that there is nothing to lose.
	MarkEmpty Action = "MarkEmpty"
	// KeepPassword copies the password of root into the record's Secret.
	KeepPassword Action = "KeepPassword"
	// NoteBackup writes on the volume of the backups what is proven: from then on it
	// is. Prove says so in the record, and MakeRecord makes it again where it is gone.
	NoteBackup Action = "NoteBackup"
	Prove      Action = "Prove"
	MakeRecord Action = "MakeRecord"
	// StartPrune makes the Job that removes backups that are too many.
	StartPrune Action = "StartPrune"
	// Forget the records whose archives it removed.
	Forget Action = "Forget"
	// Withdraw a record that was announced and will never be proven.
	Withdraw Action = "Withdraw"
	// StartWipe makes the Job that empties a hostPath folder.
	StartWipe Action = "StartWipe"
	// ReleaseVolume gives the data volume its reclaim policy back, and
	// ReleaseClaim deletes the data PVC. Both drop our finalizer.
	ReleaseVolume Action = "ReleaseVolume"
	ReleaseClaim  Action = "ReleaseClaim"
	// ReleaseXR and FreeName drop the finalizers of XR and claim.
	ReleaseXR Action = "ReleaseXR"
	FreeName  Action = "FreeName"
)

// A Phase is what status.deletion.step shows.
type Phase string

// Phases of a deletion.
const (
	PhaseAnnounced Phase = "Announced"
	PhaseStopping  Phase = "Stopping"
	PhaseBackingUp Phase = "BackingUp"
	PhaseVerifying Phase = "Verifying"
	PhaseFailed    Phase = "Failed"
	PhaseReleasing Phase = "Releasing"
	// PhaseHeld waits for a person.
	PhaseHeld Phase = "Held"
)

// A Step is the one thing to do now, and what to say about it.
type Step struct {
	Action Action
	// Phase of a deletion, how far it is, and what people read. Without a phase the
	// message is an event only: the function writes the status of what lives.
	Phase   Phase
	Percent int32
	Message string
	// After is how long a Wait is.
	After time.Duration
	// Targets of a Delete, or the records that a Forget is about.
	Targets []client.Object
}
