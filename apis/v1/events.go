package v1

// An EventReason is why an event was sent: what has happened, in the past tense.
// Those below are all that the controller sends, so that a person can look one up and
// a rule can name it; FunctionEvents are what the function does.
type EventReason string

// Events on the claim of an instance that lives.
const (
	// EventInstanceProtected is sent when claim and composite resource got their
	// finalizers: nothing goes before a backup is proven.
	EventInstanceProtected EventReason = "InstanceProtected"
	// EventBackupPVCCreated is sent when the PVC of the backups was made.
	EventBackupPVCCreated EventReason = "BackupPVCCreated"
	// EventBackupPVCReplaced is sent when that PVC is made again: it asked for too
	// little, or is in the way of an earlier namespace's volume.
	EventBackupPVCReplaced EventReason = "BackupPVCReplaced"
	// EventBackupVolumeAdopted is sent when the backup volume of an earlier namespace
	// became this one's.
	EventBackupVolumeAdopted EventReason = "BackupVolumeAdopted"
	// EventPreviousBackupFound is sent when it is known whether a backup of an
	// earlier instance of the name is there.
	EventPreviousBackupFound EventReason = "PreviousBackupFound"
	// EventNodeChosen is sent when data in a node's folder was bound to that node.
	EventNodeChosen EventReason = "NodeChosen"
	// EventVolumeRetained is sent when the data volume was made to outlive its PVC.
	EventVolumeRetained EventReason = "VolumeRetained"
	// EventStepRefused is sent when the API server refuses what the controller writes for
	// an instance, as a quota or a policy wants it. It is a warning.
	EventStepRefused EventReason = "StepRefused"
	// EventPodFailed is sent when something keeps a pod of the instance from
	// running. It is a warning.
	EventPodFailed EventReason = "PodFailed"
	// EventPVCDeleted is sent when somebody deleted the PVC of the data: the server
	// stops until it is back. It is a warning where its volume cannot be found.
	EventPVCDeleted EventReason = "PVCDeleted"
	// EventPVCRestored is sent when that PVC is back on its volume.
	EventPVCRestored EventReason = "PVCRestored"
	// EventImageChangeBegun is sent when the server is stopped for a backup, before an image of
	// another series starts on its data.
	EventImageChangeBegun EventReason = "ImageChangeBegun"
	// EventImageAllowed is sent when that backup is proven, and the image may start.
	EventImageAllowed EventReason = "ImageAllowed"
	// EventRequestedBackupBegun is sent when a backup begins that the claim requests.
	EventRequestedBackupBegun EventReason = "RequestedBackupBegun"
	// EventScheduledBackupBegun is sent when a backup begins that backup.schedule plans.
	EventScheduledBackupBegun EventReason = "ScheduledBackupBegun"
	// EventRequestedBackupEnded is sent when a backup is verified that the claim requests, and the server starts again if it was stopped.
	EventRequestedBackupEnded EventReason = "RequestedBackupEnded"
	// EventScheduledBackupEnded is sent when a backup is verified that backup.schedule plans, and the server starts again if it was stopped.
	EventScheduledBackupEnded EventReason = "ScheduledBackupEnded"
	// EventRequestedBackupCopied is sent when the copy for a backup that the claim requests is verified, and the server starts again before the backup is recorded.
	EventRequestedBackupCopied EventReason = "RequestedBackupCopied"
	// EventScheduledBackupCopied is sent when the copy for a backup that backup.schedule plans is verified, and the server starts again before the backup is recorded.
	EventScheduledBackupCopied EventReason = "ScheduledBackupCopied"
	// EventRequestedBackupFailed is sent when a backup failed that the claim requests. The server starts again if it was stopped, and the next request starts another backup. It is a warning.
	EventRequestedBackupFailed EventReason = "RequestedBackupFailed"
	// EventScheduledBackupFailed is sent when a backup failed that backup.schedule plans. The server starts again if it was stopped, and the next minute of the schedule starts another backup. It is a warning.
	EventScheduledBackupFailed EventReason = "ScheduledBackupFailed"
	// EventCopyFound is sent when data of this name was found that was copied or restored from
	// elsewhere: a person decides about it. It is a warning.
	EventCopyFound EventReason = "CopyFound"
	// EventOrphanDeleted is sent when a composite resource was deleted because no
	// claim has it any more.
	EventOrphanDeleted EventReason = "OrphanDeleted"
)

// Events on the claim of an instance that is being deleted, in their order.
const (
	// EventBackupAnnounced is sent when the record of the backup was made.
	EventBackupAnnounced EventReason = "BackupAnnounced"
	// EventServerStopped is sent when the server was told to stop, and when it has.
	EventServerStopped EventReason = "ServerStopped"
	// EventBackupStarted is sent when the data is copied, and then proved.
	EventBackupStarted EventReason = "BackupStarted"
	// EventBackupFailed is sent when that came to nothing and is tried again. It is a
	// warning.
	EventBackupFailed EventReason = "BackupFailed"
	// EventBackupProven is sent when the archive was read back and holds.
	EventBackupProven EventReason = "BackupProven"
	// EventRestoreTestAwaited is sent when the data waits for a server to start from
	// its backup, as requireRestorable says.
	EventRestoreTestAwaited EventReason = "RestoreTestAwaited"
	// EventDeletionHeld is sent when a person has to act. It is a warning.
	EventDeletionHeld EventReason = "DeletionHeld"
	// EventDataReleased is sent when what held the data was let go.
	EventDataReleased EventReason = "DataReleased"
	// EventNameFreed is sent when the claim was let go.
	EventNameFreed EventReason = "NameFreed"
)

// Events on the claim about its password.
const (
	// EventConnectionPublished is sent when a login with the password of the
	// connection Secret has worked for the first time.
	EventConnectionPublished EventReason = "ConnectionPublished"
	// EventPasswordChanged is sent when the server accepts a new password.
	EventPasswordChanged EventReason = "PasswordChanged"
	// EventOldPasswordDiscarded is sent when it no longer accepts the one before.
	EventOldPasswordDiscarded EventReason = "OldPasswordDiscarded"
	// EventPasswordChangeFailed is sent when a password could not be brought into the
	// server. It is a warning.
	EventPasswordChangeFailed EventReason = "PasswordChangeFailed"
)

// Events on a MySQLBackup.
const (
	// EventBackupRecreated is sent when a record that was deleted was made again from
	// its volume.
	EventBackupRecreated EventReason = "BackupRecreated"
	// EventArchiveKept is sent when a record goes and its archive stays.
	EventArchiveKept EventReason = "ArchiveKept"
	// EventArchiveRemovalStarted is sent when a Job was made that removes an archive.
	EventArchiveRemovalStarted EventReason = "ArchiveRemovalStarted"
	// EventBackupLost is sent when nobody finishes a backup: its volume is gone. It is a
	// warning.
	EventBackupLost EventReason = "BackupLost"
	// EventArchiveRemovalHeld is sent when an archive cannot be removed yet.
	EventArchiveRemovalHeld EventReason = "ArchiveRemovalHeld"
	// EventArchiveRemoved is sent when it is gone.
	EventArchiveRemoved EventReason = "ArchiveRemoved"
	// EventRestoreTestPassed is sent when a server has started from the backup.
	EventRestoreTestPassed EventReason = "RestoreTestPassed"
	// EventRestoreTestFailed is sent when none does. It is a warning.
	EventRestoreTestFailed EventReason = "RestoreTestFailed"
	// EventRestoreTestUndecided is sent when it could not be found out.
	EventRestoreTestUndecided EventReason = "RestoreTestUndecided"
)

// Events on a BackupStore.
const (
	// EventStoreReachable is sent when backups can go to a store, and come back.
	EventStoreReachable EventReason = "StoreReachable"
	// EventStoreLost is sent when they no longer can. It is a warning.
	EventStoreLost EventReason = "StoreLost"
)

// FunctionEvents are the reasons of what Crossplane sends as warnings for the function. They
// say what is so, and not what has happened: each is the reason of the condition Accepted, or
// Restored, that is false.
func FunctionEvents() []string {
	return []string{ReasonInvalid, ReasonNameTaken, ReasonVolumeLost, ReasonStaleStatus, ReasonNotSupported, ReasonNoPlatform, ReasonNotAllowed, ReasonRestoreFailed}
}
