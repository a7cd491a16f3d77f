package gitops

import (
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// The health statuses of Argo CD.
const (
	healthy     = "Healthy"
	progressing = "Progressing"
	degraded    = "Degraded"
	suspended   = "Suspended"
)

// A state is a test case: the state of an instance, and the status that GitOps tools must compute for it.
type state struct {
	name string
	// example is a subdirectory of examples. The state consists of its composite resource and the function's response,
	// and of the changes that change makes.
	example string
	change  func(object)

	// claim and namespaced are the statuses that kstatus computes for the two APIs.
	claim, namespaced status.Status
	// users is the status that a user would expect. It is set only if kstatus computes a different status for at least
	// one API.
	users status.Status

	health string
	// message specifies the message that Argo CD must show. If it contains a space, it is the message itself. Otherwise
	// it is the type of the condition that contains the message. If it is empty, status.message contains the message.
	message string
}

// pendingDeletion is Argo CD's message for each object that is being deleted (GetResourceHealth in pkg/health of its
// gitops-engine).
const pendingDeletion = "Pending deletion"

func states() []state {
	const inProgress, current, failed = status.InProgressStatus, status.CurrentStatus, status.FailedStatus
	const waitingForCrossplane = "Waiting for Crossplane"
	return []state{
		{name: "just created", example: "original-claim", change: func(o object) { delete(o, "status") },
			claim: current, namespaced: current, users: inProgress, health: progressing, message: waitingForCrossplane},
		{name: "waits for the controller", example: "original-claim", claim: inProgress, namespaced: inProgress,
			health: progressing},
		{name: "starting", example: "fresh-instance", claim: inProgress, namespaced: inProgress, health: progressing},
		{name: "waits for the first login", example: "fresh-instance", change: func(o object) {
			setCondition(o, v1.ConditionServing, "False", v1.ReasonLoginPending, "The server is up")
			set(o, "message", "The server is up")
		}, claim: inProgress, namespaced: inProgress, health: progressing},
		{name: "serving", example: "running", claim: current, namespaced: current, health: healthy},
		{name: "an update waits for a restart", example: "update-waits", claim: current, namespaced: current, health: healthy},
		{name: "an image waits for its backup", example: "image-waits", claim: inProgress, namespaced: inProgress,
			health: healthy},
		{name: "the last backup failed", example: "running", change: func(o object) {
			setCondition(o, v1.ConditionLastBackupSucceeded, "False", v1.ReasonLastBackupFailed, "No space")
			set(o, "message", `Running. Backup "x" has failed: No space`)
		}, claim: current, namespaced: current, health: healthy},
		{name: "a new spec is not observed", example: "running", change: func(o object) { metadata(o)["generation"] = int64(2) },
			claim: current, namespaced: inProgress, users: inProgress, health: progressing,
			message: "Waiting for Crossplane to see the new spec"},
		{name: "refused from the beginning", example: "name-taken", claim: failed, namespaced: failed,
			health: degraded, message: v1.ConditionAccepted},
		{name: "a new spec is refused", example: "running", change: refuse,
			claim: failed, namespaced: inProgress, users: failed, health: degraded, message: v1.ConditionAccepted},
		{name: "a change is not supported", example: "running", change: func(o object) {
			setCondition(o, v1.ConditionAccepted, "False", v1.ReasonNotSupported, "The volume cannot grow")
			set(o, "message", "Running, but the volume cannot grow")
		}, claim: failed, namespaced: failed, health: degraded, message: v1.ConditionAccepted},
		{name: "Crossplane cannot apply an object", example: "running", change: func(o object) {
			set(o, "reason", v1.ReasonUnsynced)
			set(o, "message", "Crossplane cannot create the objects of this instance: forbidden")
			if o["apiVersion"] == v1.GroupVersion.String() {
				setCondition(o, "Synced", "False", "ReconcileError", statusMessage(o))
			}
		}, claim: current, namespaced: current, users: failed, health: degraded},
		{name: "blocked", example: "fresh-instance", change: func(o object) {
			setCondition(o, v1.ConditionBlocked, "True", v1.ReasonPodFailure, "Back-off pulling image")
		}, claim: failed, namespaced: failed, health: degraded, message: v1.ConditionBlocked},
		{name: "restoring", example: "restore-during", claim: inProgress, namespaced: inProgress, health: progressing},
		{name: "the restore failed", example: "restore-failed", claim: failed, namespaced: failed,
			health: degraded, message: v1.ConditionRestored},
		{name: "waits for an earlier backup", example: "backup-unfinished", claim: inProgress, namespaced: inProgress,
			health: progressing},
		{name: "waits for manual action", example: "backup-failed", claim: inProgress, namespaced: inProgress, users: failed,
			health: progressing},
		{name: "the volume was lost", example: "volume-vanished", claim: failed, namespaced: failed,
			health: degraded, message: v1.ConditionAccepted},
		{name: "fenced", example: "fenced", claim: inProgress, namespaced: inProgress, health: progressing},
		{name: "new settings are validated", example: "running", change: func(o object) {
			setCondition(o, v1.ConditionPendingRestart, "True", v1.ReasonValidatingSettings, "Validating the settings")
		}, claim: inProgress, namespaced: inProgress, health: progressing, message: v1.ConditionPendingRestart},
		{name: "new settings are refused", example: "running", change: func(o object) {
			setCondition(o, v1.ConditionPendingRestart, "True", v1.ReasonSettingsRefused, "The server does not start")
		}, claim: failed, namespaced: failed, health: degraded, message: v1.ConditionPendingRestart},
		{name: "new settings were reverted", example: "running", change: func(o object) {
			setCondition(o, v1.ConditionPendingRestart, "True", v1.ReasonSettingsTakenBack, "The server does not start")
		}, claim: failed, namespaced: failed, health: degraded, message: v1.ConditionPendingRestart},
		{name: "suspended", example: "suspended", claim: inProgress, namespaced: inProgress, users: current, health: suspended},
		{name: "paused", example: "running", change: func(o object) {
			metadata(o)["annotations"] = object{"crossplane.io/paused": "true"}
			setCondition(o, "Synced", "False", "ReconcilePaused", "Reconciliation is paused")
		}, claim: current, namespaced: current, health: suspended,
			message: "Crossplane is paused by the annotation crossplane.io/paused"},
		{name: "being deleted", example: "running", change: func(o object) {
			remove(o, "Deleting. Backing up the data, 40%", v1.DeletionBackingUp)
		}, claim: status.TerminatingStatus, namespaced: status.TerminatingStatus, health: progressing, message: pendingDeletion},
		{name: "its deletion waits for manual action", example: "running", change: func(o object) {
			remove(o, "Deleting. The backup failed: no space", v1.DeletionBlocked)
		}, claim: status.TerminatingStatus, namespaced: status.TerminatingStatus, health: progressing, message: pendingDeletion},
	}
}

// refuse changes the spec of a serving instance to a spec that the function refuses. Crossplane then drops the
// function's status and keeps Ready, and the controller reports the refusal.
func refuse(o object) {
	metadata(o)["generation"] = int64(2)
	setCondition(o, "Synced", "True", "ReconcileSuccess", "")
	if o["apiVersion"] == v1.GroupVersion.String() {
		setCondition(o, "Synced", "False", "ReconcileError", "cannot compose resources: spec.config[datadir]: Forbidden")
	}
	setCondition(o, v1.ConditionAccepted, "False", v1.ReasonInvalid, "spec.config[datadir]: Forbidden")
	set(o, "reason", v1.ReasonInvalid)
	set(o, "message", "Crossplane cannot create the objects of this instance: spec.config[datadir]: Forbidden")
}

// remove starts the deletion of an object.
func remove(o object, message string, phase v1.DeletionPhase) {
	metadata(o)["deletionTimestamp"] = "2026-01-02T03:04:05Z"
	setCondition(o, "Ready", "False", "Deleting", "")
	set(o, "message", message)
	set(o, "deletion", object{"phase": string(phase), "message": message})
}

// statusMessage returns status.message of an object.
func statusMessage(o object) string {
	s, _ := o["status"].(object)
	message, _ := s["message"].(string)
	return message
}
