package v1

// An EventReason is the reason of an event, in the past tense. The constants below are all reasons that the
// controller uses. Users can look them up here, and alerts can match them. FunctionEvents returns the reasons that
// the function uses.
type EventReason string

// Events on the claim of an instance that is not being deleted.
const (
	// EventInstanceProtected is sent when the finalizers were added to the claim and the composite resource. From then
	// on, neither is deleted before a backup is verified.
	EventInstanceProtected EventReason = "InstanceProtected"
	// EventBackupPVCCreated is sent when the PersistentVolumeClaim of the backups was created.
	EventBackupPVCCreated EventReason = "BackupPVCCreated"
	// EventBackupPVCReplaced is sent when the PersistentVolumeClaim of the backups is created again. It requested too
	// little space, or conflicts with the backup volume of an earlier namespace.
	EventBackupPVCReplaced EventReason = "BackupPVCReplaced"
	// EventBackupVolumeAdopted is sent when this namespace has taken over the backup volume of an earlier namespace of
	// the same name.
	EventBackupVolumeAdopted EventReason = "BackupVolumeAdopted"
	// EventPreviousBackupFound is sent when the controller has completed its search for backups of previous instances.
	// It is also sent if there are none.
	EventPreviousBackupFound EventReason = "PreviousBackupFound"
	// EventNodeChosen is sent when a hostPath volume was restricted to the node that stores its data.
	EventNodeChosen EventReason = "NodeChosen"
	// EventVolumeRetained is sent when the reclaim policy of the data volume was set to Retain, so that the volume
	// outlives its PersistentVolumeClaim.
	EventVolumeRetained EventReason = "VolumeRetained"
	// EventStepRefused is a warning. It is sent when the API server refuses an object that the controller writes for an
	// instance, because of a quota or a policy.
	EventStepRefused EventReason = "StepRefused"
	// EventPodFailed is a warning. It is sent when a pod of the instance cannot run.
	EventPodFailed EventReason = "PodFailed"
	// EventPVCDeleted is sent when a user deleted the PersistentVolumeClaim of the data. The server is stopped until the
	// PersistentVolumeClaim is bound to its volume again. The event is a warning if the volume cannot be found.
	EventPVCDeleted EventReason = "PVCDeleted"
	// EventPVCRestored is sent when the PersistentVolumeClaim of the data exists again and is bound to its volume.
	EventPVCRestored EventReason = "PVCRestored"
	// EventImageChangeBegun is sent when the server is stopped for the backup before a version upgrade.
	EventImageChangeBegun EventReason = "ImageChangeBegun"
	// EventImageAllowed is sent when the backup before a version upgrade is verified and the new image may start.
	EventImageAllowed EventReason = "ImageAllowed"
	// EventRequestedBackupBegun is sent when an on-demand backup starts.
	EventRequestedBackupBegun EventReason = "RequestedBackupBegun"
	// EventScheduledBackupBegun is sent when a scheduled backup starts.
	EventScheduledBackupBegun EventReason = "ScheduledBackupBegun"
	// EventRequestedBackupEnded is sent when an on-demand backup is verified. The server starts again if it was
	// stopped.
	EventRequestedBackupEnded EventReason = "RequestedBackupEnded"
	// EventScheduledBackupEnded is sent when a scheduled backup is verified. The server starts again if it was stopped.
	EventScheduledBackupEnded EventReason = "ScheduledBackupEnded"
	// EventRequestedBackupCopied is sent when the copy for an on-demand backup is verified. The server starts again
	// before the backup is recorded.
	EventRequestedBackupCopied EventReason = "RequestedBackupCopied"
	// EventScheduledBackupCopied is sent when the copy for a scheduled backup is verified. The server starts again
	// before the backup is recorded.
	EventScheduledBackupCopied EventReason = "ScheduledBackupCopied"
	// EventRequestedBackupFailed is a warning. It is sent when an on-demand backup failed. The server starts again if
	// it was stopped. To retry, a user creates another Backup.
	EventRequestedBackupFailed EventReason = "RequestedBackupFailed"
	// EventScheduledBackupFailed is a warning. It is sent when a scheduled backup failed. The server starts again if it
	// was stopped. The next backup is taken at the next minute of the schedule.
	EventScheduledBackupFailed EventReason = "ScheduledBackupFailed"
	// EventCopyFound is a warning. It is sent when a restored or cloned volume of an instance with the same name was
	// found. A user has to decide what to do with the volume.
	EventCopyFound EventReason = "CopyFound"
	// EventOrphanDeleted is sent when a composite resource was deleted because its claim no longer exists.
	EventOrphanDeleted EventReason = "OrphanDeleted"
)

// Events on the claim about the archive of the binary log.
const (
	// EventArchivingInterrupted is a warning. It is sent when transactions are no longer archived. The controller
	// retries, and sends no event for a retry.
	EventArchivingInterrupted EventReason = "ArchivingInterrupted"
	// EventArchivingResumed is sent when transactions are archived again.
	EventArchivingResumed EventReason = "ArchivingResumed"
	// EventArchiveGap is a warning. It is sent when transactions were lost before they were archived. A new archive
	// begins after them.
	EventArchiveGap EventReason = "ArchiveGap"
)

// Events on the claim about the growth of its data volume (spec.storageAutogrow).
const (
	// EventStorageGrown is sent when the controller has requested a larger data volume, because it had little free space.
	EventStorageGrown EventReason = "StorageGrown"
	// EventStorageGrowthBlocked is a warning. It is sent when the data volume cannot grow. The message says why.
	EventStorageGrowthBlocked EventReason = "StorageGrowthBlocked"
)

// Events on the claim of an instance that is being deleted, in the order in which they occur.
const (
	// EventBackupAnnounced is sent when the BackupRecord was created.
	EventBackupAnnounced EventReason = "BackupAnnounced"
	// EventServerStopped is sent when the controller stops the server, and again when the server has stopped.
	EventServerStopped EventReason = "ServerStopped"
	// EventBackupStarted is sent when the copy of the data starts, and again when its verification starts.
	EventBackupStarted EventReason = "BackupStarted"
	// EventBackupFailed is a warning. It is sent when the backup failed and is retried.
	EventBackupFailed EventReason = "BackupFailed"
	// EventBackupVerified is sent when the archive was read back and verified.
	EventBackupVerified EventReason = "BackupVerified"
	// EventRestoreTestAwaited is sent when the release of the data waits for a restore test, because requireRestoreTest
	// is true.
	EventRestoreTestAwaited EventReason = "RestoreTestAwaited"
	// EventDeletionBlocked is a warning. It is sent when the deletion waits for manual action.
	EventDeletionBlocked EventReason = "DeletionBlocked"
	// EventDataReleased is sent when the finalizers of the data were removed.
	EventDataReleased EventReason = "DataReleased"
	// EventNameFreed is sent when the finalizer of the claim was removed.
	EventNameFreed EventReason = "NameFreed"
)

// Events on the claim about its password.
const (
	// EventConnectionPublished is sent when a login with the password in the connection Secret has succeeded for the
	// first time.
	EventConnectionPublished EventReason = "ConnectionPublished"
	// EventPasswordChanged is sent when the server accepts a new password.
	EventPasswordChanged EventReason = "PasswordChanged"
	// EventOldPasswordDiscarded is sent when the server no longer accepts the previous password.
	EventOldPasswordDiscarded EventReason = "OldPasswordDiscarded"
	// EventPasswordChangeFailed is a warning. It is sent when the controller could not change the password in the
	// server.
	EventPasswordChangeFailed EventReason = "PasswordChangeFailed"
)

// Events on a BackupRecord.
const (
	// EventBackupRecreated is sent when a deleted BackupRecord was created again from the metadata on its volume.
	EventBackupRecreated EventReason = "BackupRecreated"
	// EventArchiveKept is sent when a BackupRecord is deleted and its archive is kept.
	EventArchiveKept EventReason = "ArchiveKept"
	// EventArchiveRemovalStarted is sent when a Job was created that deletes an archive.
	EventArchiveRemovalStarted EventReason = "ArchiveRemovalStarted"
	// EventBackupLost is a warning. It is sent when a backup cannot be completed because its volume no longer exists.
	EventBackupLost EventReason = "BackupLost"
	// EventArchiveRemovalBlocked is sent when an archive cannot be deleted yet.
	EventArchiveRemovalBlocked EventReason = "ArchiveRemovalBlocked"
	// EventArchiveRemoved is sent when an archive was deleted.
	EventArchiveRemoved EventReason = "ArchiveRemoved"
	// EventRestoreTestPassed is sent when a server has started from a copy of the backup.
	EventRestoreTestPassed EventReason = "RestoreTestPassed"
	// EventRestoreTestFailed is a warning. It is sent when no server starts from a copy of the backup.
	EventRestoreTestFailed EventReason = "RestoreTestFailed"
	// EventRestoreTestUndecided is sent when the restore test could not run.
	EventRestoreTestUndecided EventReason = "RestoreTestUndecided"
)

// Events on a BackupStore.
const (
	// EventStoreReachable is sent when backups can be written to a store and read from it.
	EventStoreReachable EventReason = "StoreReachable"
	// EventStoreLost is a warning. It is sent when a store is no longer reachable.
	EventStoreLost EventReason = "StoreLost"
)

// FunctionEvents returns the reasons of the warnings that Crossplane sends for the function. They describe a state
// instead of an occurrence. Each is the reason of a condition: Accepted or Restored while it is false, or PendingRestart
// while it is true.
func FunctionEvents() []string {
	return []string{ReasonInvalid, ReasonNameTaken, ReasonVolumeLost, ReasonStaleStatus, ReasonNotSupported,
		ReasonNoPlatform, ReasonNotAllowed, ReasonRestoreFailed, ReasonSettingsRefused, ReasonSettingsTakenBack}
}
