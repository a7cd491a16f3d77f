package v1

// Conditions of an XR and its claim, beside Crossplane's own Ready and Synced.
const (
	// ConditionAccepted is true when the spec can be carried out.
	ConditionAccepted = "Accepted"
	// ConditionRestored is true when the data is as it should be at the first
	// start: restored, or known to be nothing.
	ConditionRestored = "Restored"
	// ConditionServing is true when the server takes clients: it is up, and a login
	// with the published password has worked.
	ConditionServing = "Serving"
	// ConditionBlocked is true while something outside of the instance keeps its
	// server, or its restore, from running. The message says what, in the words of
	// who said it first: the kubelet, the scheduler or an admission controller.
	ConditionBlocked = "Blocked"
	// ConditionUpdated is false while the server runs in a pod as an earlier release
	// of the function made it. It gets today's when it restarts anyway.
	ConditionUpdated = "Updated"
	// ConditionSettingsApplied is false while the server runs with other settings than those of
	// spec.config. It exists once an instance has such settings.
	ConditionSettingsApplied = "SettingsApplied"
	// ConditionBackedUp is false while there is no backup that was planned. It is there where
	// backups are.
	ConditionBackedUp = "BackedUp"
)

// Reasons of ConditionBackedUp.
const (
	ReasonAsPlanned = "AsPlanned"
	// ReasonBackupMissed is that of one which has failed, or has not begun.
	ReasonBackupMissed = "BackupMissed"
	// ReasonDataOutside is that of data which no backup holds, as it is stored outside of the data directory. The condition
	// has it also without a schedule.
	ReasonDataOutside = "DataOutside"
)

// Reasons of ConditionSettingsApplied.
const (
	ReasonSettingsApplied = "SettingsApplied"
	// ReasonValidatingSettings: a server without data is started with the new settings first.
	ReasonValidatingSettings = "ValidatingSettings"
	// ReasonSettingsRefused: that server did not start or serve.
	ReasonSettingsRefused = "SettingsRefused"
	// ReasonSettingsOnTrial: the server restarts with the new settings.
	ReasonSettingsOnTrial = "SettingsOnTrial"
	// ReasonSettingsTakenBack: the server did not come up with the new settings, and runs with the last
	// that served.
	ReasonSettingsTakenBack = "SettingsTakenBack"
)

// Reasons of ConditionUpdated.
const (
	ReasonUpToDate = "UpToDate"
	// ReasonUpdateWaits for the next restart, which somebody else decides on.
	ReasonUpdateWaits = "UpdateWaits"
)

// Reasons of ConditionBlocked.
const (
	// ReasonPodFailure: a pod is there and does not run.
	ReasonPodFailure = "PodFailure"
	// ReasonPodsRefused: the API server refuses the server's pods.
	ReasonPodsRefused = "PodsRefused"
	// ReasonRefused: the API server refuses what the controller makes for the instance.
	ReasonRefused = "Refused"
	// ReasonRecordMissing: a backup of an earlier instance of this name has none.
	ReasonRecordMissing = "RecordMissing"
	// ReasonStoreFailed: a store does not say which backups of an earlier instance it has.
	ReasonStoreFailed = "StoreFailed"
	// ReasonCopyFound: data of an instance of this name was copied or restored from elsewhere.
	ReasonCopyFound  = "CopyFound"
	ReasonNotBlocked = "NotBlocked"
)

// ConditionRestorable of a MySQLBackup says whether a server has started from a
// copy of it, and found its tables whole. Unknown means that it could not be
// tried; without the condition it has not been tried yet.
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
	// ReasonStaleStatus: the status is of an earlier composite resource of the same name.
	ReasonStaleStatus  = "StaleStatus"
	ReasonNotSupported = "NotSupported"
	// ReasonNoPlatform: there is no MySQLPlatform, which says what claims may ask for.
	ReasonNoPlatform = "NoPlatform"
	// ReasonNotAllowed: the MySQLPlatform does not allow what the spec asks for.
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
	// ReasonLoginPending: the server is up, and nobody has logged in yet.
	ReasonLoginPending = "LoginPending"
	ReasonHeld         = "Held"
	// ReasonSuspended: the claim wants no server.
	ReasonSuspended = "Suspended"
	ReasonFenced    = "Fenced"
)
