package v1

// Conditions of a composite resource and its claim, in addition to Crossplane's own Ready and Synced. The function
// sets all of them from its first call on, so that `kubectl wait` can wait for either value.
const (
	// ConditionAccepted is true if the spec is valid and allowed.
	ConditionAccepted = "Accepted"
	// ConditionRestored is true if the data is ready for the first start: it was restored, or there is nothing to
	// restore.
	ConditionRestored = "Restored"
	// ConditionServing is true if the server accepts clients: it runs, and a login with the published password has
	// succeeded.
	ConditionServing = "Serving"
	// ConditionBlocked is true while something outside of the instance prevents its server, or its restore, from
	// running. The message contains the original text of the kubelet, the scheduler or an admission controller.
	ConditionBlocked = "Blocked"
	// ConditionPendingRestart is true while the server runs with the pod template of an earlier release of the function,
	// or with settings other than those in spec.config.
	ConditionPendingRestart = "PendingRestart"
	// ConditionLastBackupSucceeded is true if the last requested or scheduled backup was verified. It is unknown until
	// there is a backup.
	ConditionLastBackupSucceeded = "LastBackupSucceeded"
	// ConditionArchiving is true while the binary log is archived in the BackupStore. It exists only if
	// the instance uses a BackupStore and spec.backup.continuous.enabled is not false.
	ConditionArchiving = "Archiving"
	// ConditionStorageAutogrow is true while the data volume grows by itself if that is necessary. It exists only if
	// spec.storageAutogrow is set.
	ConditionStorageAutogrow = "StorageAutogrow"
	// ConditionStalled is true if the instance does not continue until a user changes something. kstatus reads it.
	ConditionStalled = "Stalled"
	// ConditionReconciling is true while the instance is changing and continues by itself. kstatus reads it.
	ConditionReconciling = "Reconciling"
)

// ReasonNotStalled is the reason of ConditionStalled while it is false. Otherwise it has the reason of another
// condition.
const ReasonNotStalled = "NotStalled"

// Reasons of ConditionReconciling. While it is true, it can also have the reason of another condition.
const (
	ReasonReconciled = "Reconciled"
	// ReasonImageChange means that the server does not run the image of the spec yet.
	ReasonImageChange = "ImageChange"
)

// ReasonNotAccepted is the reason of each condition that is unknown because the spec was never accepted.
const ReasonNotAccepted = "NotAccepted"

// ReasonUnsynced is the value of status.reason if the spec is accepted, but Crossplane reports an error.
const ReasonUnsynced = "Unsynced"

// Reasons of ConditionArchiving.
const (
	// ReasonArchived means that each transaction is archived a few seconds after its commit, or before its commit returns.
	ReasonArchived = "Archived"
	// ReasonNotStarted means that the archive has not begun yet.
	ReasonNotStarted = "NotStarted"
	// ReasonArchiveUnsupported means that the server cannot archive its binary log.
	ReasonArchiveUnsupported = "ArchiveUnsupported"
	// ReasonStoreDurabilitySuspended means that transactions are not archived, and that commits do not wait for the
	// archive, as storeFailurePolicy Continue specifies.
	ReasonStoreDurabilitySuspended = "StoreDurabilitySuspended"
	// ReasonArchiveFailing means that transactions are not archived.
	ReasonArchiveFailing = "ArchiveFailing"
)

// Reasons of ConditionStorageAutogrow.
const (
	// ReasonMonitored means that the volume has enough free space, and grows when it has not.
	ReasonMonitored = "Monitored"
	// ReasonGrowing means that the controller has requested a larger volume.
	ReasonGrowing = "Growing"
	// ReasonNotMonitored means that the controller has not reported yet.
	ReasonNotMonitored = "NotMonitored"
	// ReasonNotMeasured means that the free space of the volume is unknown.
	ReasonNotMeasured = "NotMeasured"
	// ReasonNotExpandable means that the volume has no storage class that allows volume expansion.
	ReasonNotExpandable = "NotExpandable"
	// ReasonSizeNotEnforced means that the file system of the volume is larger than the volume. A larger volume would not
	// have more free space.
	ReasonSizeNotEnforced = "SizeNotEnforced"
	// ReasonLimitReached means that the volume must grow, but has its maximum size.
	ReasonLimitReached = "LimitReached"
	// ReasonGrowthRefused means that the API server refuses a larger volume, because of a quota or a policy.
	ReasonGrowthRefused = "GrowthRefused"
	// ReasonGrowthStalled means that the volume was requested to grow, but has not become larger.
	ReasonGrowthStalled = "GrowthStalled"
)

// Reasons of ConditionLastBackupSucceeded.
const (
	ReasonBackupSucceeded = "BackupSucceeded"
	// ReasonBackupMissed means that a scheduled backup failed, or did not start.
	ReasonBackupMissed = "BackupMissed"
	// ReasonLastBackupFailed means that an on-demand backup failed.
	ReasonLastBackupFailed = "BackupFailed"
	// ReasonDataOutside means that no backup contains data that is stored outside of the data directory.
	ReasonDataOutside = "DataOutside"
	// ReasonNoBackup means that there is no backup yet.
	ReasonNoBackup = "NoBackup"
)

// Reasons of ConditionPendingRestart.
const (
	ReasonUpToDate = "UpToDate"
	// ReasonUpdateWaits means that the update is applied at the next restart. A user decides when to restart.
	ReasonUpdateWaits = "UpdateWaits"
	// ReasonValidatingSettings means that a Job validates the new settings by starting a server without data.
	ReasonValidatingSettings = "ValidatingSettings"
	// ReasonSettingsRefused means that the server in the validating Job did not start or did not accept clients.
	ReasonSettingsRefused = "SettingsRefused"
	// ReasonSettingsOnTrial means that the server restarts with the new settings.
	ReasonSettingsOnTrial = "SettingsOnTrial"
	// ReasonSettingsTakenBack means that the server did not start with the new settings. It runs with the last settings
	// that worked.
	ReasonSettingsTakenBack = "SettingsTakenBack"
)

// Reasons of ConditionBlocked.
const (
	// ReasonPodFailure means that a pod exists and does not run.
	ReasonPodFailure = "PodFailure"
	// ReasonPodsRefused means that the API server refuses the server's pods.
	ReasonPodsRefused = "PodsRefused"
	// ReasonRefused means that the API server refuses an object that the controller creates for the instance.
	ReasonRefused = "Refused"
	// ReasonRecordMissing means that a backup of a previous instance of the same name has no BackupRecord.
	ReasonRecordMissing = "RecordMissing"
	// ReasonStoreFailed means that the controller cannot list the backups of previous instances in a store.
	ReasonStoreFailed = "StoreFailed"
	// ReasonCopyFound means that a restored or cloned volume of an instance with the same name was found.
	ReasonCopyFound  = "CopyFound"
	ReasonNotBlocked = "NotBlocked"
)

// ConditionRestorable of a BackupRecord is the result of its restore test. It is true if a server has started from a
// copy of the backup and found its tables intact. Unknown means that the restore test could not run. Without the
// condition the backup has not been tested yet.
const ConditionRestorable = "Restorable"

// Reasons of ConditionRestorable.
const (
	ReasonServerStarted = "ServerStarted"
	ReasonBroken        = "Broken"
	ReasonNotTested     = "NotTested"
)

// Reasons of ConditionAccepted.
const (
	ReasonAccepted   = "Accepted"
	ReasonInvalid    = "Invalid"
	ReasonNameTaken  = "NameTaken"
	ReasonVolumeLost = "VolumeLost"
	// ReasonStaleStatus means that the status is from an earlier composite resource of the same name.
	ReasonStaleStatus  = "StaleStatus"
	ReasonNotSupported = "NotSupported"
	// ReasonNoPlatform means that the Platform object does not exist.
	ReasonNoPlatform = "NoPlatform"
	// ReasonNotAllowed means that the Platform does not allow a value of the spec.
	ReasonNotAllowed = "NotAllowed"
)

// Reasons of ConditionRestored.
const (
	ReasonNothingToRestore = "NothingToRestore"
	ReasonRestored         = "Restored"
	ReasonRestoring        = "Restoring"
	ReasonRestoreFailed    = "RestoreFailed"
	ReasonWaiting          = "Waiting"
)

// Reasons of ConditionServing.
const (
	ReasonRunning  = "Running"
	ReasonStarting = "Starting"
	// ReasonLoginPending means that the server runs, and that the controller has not logged in yet.
	ReasonLoginPending   = "LoginPending"
	ReasonWaitingToStart = "WaitingToStart"
	// ReasonSuspended means that the server is stopped because spec.suspend is true.
	ReasonSuspended = "Suspended"
	ReasonFenced    = "Fenced"
)
