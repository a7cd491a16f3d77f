package v1

// Conditions of an XR and its claim, beside Crossplane's own Ready and Synced.
const (
	// ConditionAccepted is true when the spec can be carried out.
	ConditionAccepted = "Accepted"
	// ConditionRestored is true when the data is as it should be at the first
	// start: restored, or known to be nothing.
	ConditionRestored = "Restored"
	// ConditionServing is true when the server takes clients.
	ConditionServing = "Serving"
)

// Reasons of ConditionAccepted.
const (
	ReasonAccepted     = "Accepted"
	ReasonInvalid      = "Invalid"
	ReasonNameTaken    = "NameTaken"
	ReasonVolumeLost   = "VolumeLost"
	ReasonNotSupported = "NotSupported"
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
	ReasonHeld     = "Held"
	ReasonFenced   = "Fenced"
)
