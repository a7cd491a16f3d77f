package compose

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A state of an instance, which its report puts into words.
type state struct {
	*resolved

	begin start
	// warning of an instance that has started: what cannot be carried out, where the
	// rest can.
	warning  *Refusal
	revision revision
	// volume that the PVC is wanted on.
	volume string
	// up is true if the server takes connections.
	up bool
}

// report on the instance: status, conditions and readiness.
func report(r *resolved, s storage, begin start, of revision, resources map[string]Resource, warning *Refusal) *Output {
	is := state{resolved: r, begin: begin, warning: warning, revision: of, volume: s.volume}
	is.up = begin.replicas > 0 && deploymentReady(r.Observed.Deployment) && serviceReady(r.Observed.Service)
	ready := is.up && isConnected(r) && allReady(resources)
	return &Output{
		Ready:   ready,
		Settled: (ready || r.started && begin.reason == v1.ReasonSuspended) && warning == nil && of.settings == nil && outsideWarning(r) == "" && isSettled(r),
		Status: v1.MySQLStatus{
			Message:     is.message(),
			UID:         r.instance.XR,
			Image:       r.wish.Image,
			ServedImage: r.change.served, PendingImage: r.change.pending,
			Endpoint:        endpointOf(r),
			RefusedService:  refusedService(r),
			Binding:         bindingOf(r),
			Volume:          seenVolume(r),
			BackupStore:     r.store,
			Started:         r.started || begin.replicas > 0,
			GTIDs:           r.engine.password && r.hasGTIDs && (r.started || begin.replicas > 0),
			Initialized:     r.engine.password && isInitialized(r, begin.restore),
			Revision:        of.seen,
			FixedSettings:   fixedToReport(r),
			Settings:        settingsStatus(r, of),
			Restore:         begin.restore,
			Choice:          choiceAtBegin(r),
			Nodes:           nodesOfJobs(r, of),
			PasswordVersion: passwordVersion(r),
			Certified:       of.certified,
		},
		Conditions: slices.Concat([]Condition{
			acceptedCondition(warning),
			is.restoredCondition(),
			is.servingCondition(),
			is.updateCondition(),
			blockedCondition(blockerOf(r)),
		}, is.settingsCondition(), scheduleCondition(r)),
	}
}

// isSettled is true where nobody does anything to an instance that is as it should be, and Crossplane watches what it depends on.
func isSettled(r *resolved) bool {
	return r.platform.CoreWatches && r.change.pending == "" && r.XR.Status.ImageChange == nil && r.XR.Status.BackupUnderWay() == nil && blockerOf(r) == nil
}

// choiceAtBegin is the choice of what to start from that the spec has, or had when it was made.
func choiceAtBegin(r *resolved) string {
	if r.XR.Status.Started || r.XR.Status.Restore != nil {
		return r.XR.Status.Choice
	}
	return r.spec.Restore.Choice()
}

// seenVolume that holds the data, for the status: once it is there it stays.
func seenVolume(r *resolved) string {
	if c := r.Observed.DataPVC; c != nil && c.Spec.VolumeName != "" && (c.Status.Phase == corev1.ClaimBound || !r.hostPath) {
		return c.Spec.VolumeName
	}
	return r.XR.Status.Volume
}

func allReady(rs map[string]Resource) bool {
	for _, r := range rs {
		if !r.Ready {
			return false
		}
	}
	return true
}

// message for people, in a sentence or two. What the original operators said
// after a restore, it says too.
func (s state) message() string {
	switch {
	case s.change.stopped:
		return s.begin.message
	case s.begin.replicas == 0:
		return s.begin.message + inBrackets(blockerOf(s.resolved)) + inSentence(s.XR.Status.CrossplaneWarning)
	case !s.up:
		return s.afterRestore() + "Starting the server" + inBrackets(blockerOf(s.resolved)) + inSentence(s.settingsMessage()) + inSentence(outsideWarning(s.resolved)) + s.change.waitsFor() + s.change.wayBack(s.XR.Status.ImageChange)
	case !isConnected(s.resolved):
		return s.afterRestore() + loginPending(s.XR.Status.Credentials) + inSentence(outsideWarning(s.resolved))
	case s.warning != nil:
		return s.afterRestore() + "Running, but " + s.warning.Error() + inSentence(outsideWarning(s.resolved))
	}
	return s.afterRestore() + "Running" + whereReached(s.resolved) + inSentence(outsideWarning(s.resolved)) + passwordWarning(s.XR.Status.Credentials) + s.pvcWarning() + inSentence(s.XR.Status.OutsideData) + inSentence(s.XR.Status.BackupWarning) + inSentence(tlsWarning(s.resolved)) + requestWarning(&s.XR.Status) + inSentence(s.settingsMessage()) + s.change.waitsFor() + s.updateWaiting()
}

// requestWarning says why there is no backup that the claim has asked for, or planned, or how far it is.
func requestWarning(is *v1.MySQLStatus) string {
	out := ""
	if b := is.BackupUnderWay(); b != nil && b.Message != "" {
		out = fmt.Sprintf(". The backup that %s asks for is under way: %s", is.WhoAsksFor(b), b.Message)
	}
	if b := is.RequestedBackup; b != nil && b.Phase == v1.LastBackupFailed {
		out += fmt.Sprintf(". The backup that backup.request %q asked for has failed: %s. Another text asks for another one", b.Request, b.Message)
	}
	return out + inSentence(scheduleWarning(is.BackupSchedule))
}

// scheduleWarning says since when there is no backup that was planned, and why; empty where there is.
func scheduleWarning(is *v1.BackupScheduleStatus) string {
	switch {
	case is == nil:
		return ""
	case is.MissedAt == nil && is.NextAt == nil:
		return "No backup is planned: " + is.Message
	case is.MissedAt == nil:
		return ""
	case is.Message == "":
		return "There is no backup that was planned since " + v1.PlannedName(is.MissedAt.Time)
	}
	return fmt.Sprintf("There is no backup that was planned since %s: %s", v1.PlannedName(is.MissedAt.Time), is.Message)
}

// scheduleCondition says whether there is each backup that was planned; nil where none is. Data that no backup holds counts before that.
func scheduleCondition(r *resolved) []Condition {
	is := r.XR.Status.BackupSchedule
	if why := r.XR.Status.OutsideData; why != "" {
		return []Condition{{Type: v1.ConditionBackedUp, Reason: v1.ReasonDataOutside, Message: why}}
	}
	if r.spec.Backup.Schedule == "" || is == nil {
		return nil
	}
	if why := scheduleWarning(is); why != "" {
		return []Condition{{Type: v1.ConditionBackedUp, Reason: v1.ReasonBackupMissed, Message: why}}
	}
	return []Condition{{Type: v1.ConditionBackedUp, True: true, Reason: v1.ReasonAsPlanned}}
}

func (s state) afterRestore() string {
	switch from := s.begin.restore; {
	case from != nil && from.Import != nil:
		return fmt.Sprintf("Imported %s. ", from.Import)
	case from != nil:
		return fmt.Sprintf("Restoring DB have succeed (backup %s). ", from.Backup)
	}
	return ""
}

// pvcWarning says what became of the data PVC, if anything.
func (s state) pvcWarning() string {
	c, name := s.Observed.DataPVC, qualifiedName(s.instance.Namespace, s.instance.DataPVCName())
	switch {
	case s.ephemeral:
	case c == nil:
		return fmt.Sprintf(". PersistentVolumeClaim %s was deleted: it is made again on volume %q", name, s.volume)
	case c.DeletionTimestamp != nil:
		return fmt.Sprintf(". PersistentVolumeClaim %s was deleted: the server stops until it is back on its volume", name)
	}
	return ""
}

func (s state) restoredCondition() Condition {
	switch s.begin.reason {
	case v1.ReasonRestored, v1.ReasonNothingToRestore:
		return Condition{Type: v1.ConditionRestored, True: true, Reason: s.begin.reason}
	case v1.ReasonFenced, v1.ReasonSuspended:
		return Condition{Type: v1.ConditionRestored, True: s.started, Reason: s.begin.reason}
	}
	return Condition{Type: v1.ConditionRestored, Reason: s.begin.reason, Message: s.begin.message}
}

func (s state) servingCondition() Condition {
	switch {
	case s.begin.reason == v1.ReasonFenced || s.begin.reason == v1.ReasonSuspended:
		return Condition{Type: v1.ConditionServing, Reason: s.begin.reason, Message: s.begin.message}
	case s.begin.replicas == 0:
		return Condition{Type: v1.ConditionServing, Reason: v1.ReasonHeld, Message: s.begin.message}
	case !s.up:
		return Condition{Type: v1.ConditionServing, Reason: v1.ReasonStarting, Message: "The server does not take clients yet" + inBrackets(blockerOf(s.resolved))}
	case !isConnected(s.resolved):
		return Condition{Type: v1.ConditionServing, Reason: v1.ReasonLoginPending, Message: loginPending(s.XR.Status.Credentials)}
	}
	return Condition{Type: v1.ConditionServing, True: true, Reason: v1.ReasonRunning}
}

// updateCondition says whether the server's pod is as this release makes it.
func (s state) updateCondition() Condition {
	if !s.revision.observed || s.revision.settings != nil {
		return Condition{Type: v1.ConditionUpdated, True: true, Reason: v1.ReasonUpToDate}
	}
	message := "The server runs in a pod as an earlier release made it, and goes on so until it restarts: kubectl rollout restart deployment --namespace " + s.instance.Namespace + " " + s.instance.DeploymentName()
	if s.ephemeral || !s.engine.stored {
		message += " (its data goes with the pod)"
	}
	return Condition{Type: v1.ConditionUpdated, Reason: v1.ReasonUpdateWaits, Message: message}
}

// updateWaiting is that in the message for people.
func (s state) updateWaiting() string {
	if !s.revision.observed || s.revision.settings != nil {
		return ""
	}
	return ". An update of its pod waits for the next restart"
}

func acceptedCondition(warning *Refusal) Condition {
	if warning != nil {
		return Condition{Type: v1.ConditionAccepted, Reason: warning.Reason, Message: warning.Error()}
	}
	return Condition{Type: v1.ConditionAccepted, True: true, Reason: v1.ReasonAccepted}
}

// loginPending says what keeps a server that is up from being served: nobody has
// logged in with the password that clients would get.
func loginPending(c *v1.CredentialsStatus) string {
	if c != nil && c.State == v1.CredentialsFailed {
		return "The server is up, but nobody can log in: " + c.Message
	}
	return "The server is up; waiting for the controller to log in and publish the connection Secret"
}

// passwordWarning is what the controller says of the password in the running
// server, where it is not the wanted one.
func passwordWarning(c *v1.CredentialsStatus) string {
	switch {
	case c == nil:
		return ""
	case c.State == v1.CredentialsFailed:
		return ", but its password could not be changed: " + c.Message
	case c.State == v1.CredentialsChanging:
		return ". Changing the password: " + c.Message
	}
	return ""
}

// blockerOf the server's pod, or nil: what the controller heard of the pod, or what
// Kubernetes says to the Deployment.
func blockerOf(r *resolved) *v1.Blocker {
	if r.XR.Status.BlockedBy != nil || r.Observed.Deployment == nil {
		return r.XR.Status.BlockedBy
	}
	for _, c := range r.Observed.Deployment.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return &v1.Blocker{Reason: v1.ReasonPodsRefused, Message: c.Message}
		}
	}
	return nil
}

func blockedCondition(by *v1.Blocker) Condition {
	if by == nil {
		return Condition{Type: v1.ConditionBlocked, Reason: v1.ReasonNotBlocked}
	}
	return Condition{Type: v1.ConditionBlocked, True: true, Reason: by.Reason, Message: by.Message}
}

func inBrackets(by *v1.Blocker) string {
	if by == nil {
		return ""
	}
	return " (" + by.Message + ")"
}

// whereReached says at which port, for those who asked for nothing but a server.
func whereReached(r *resolved) string {
	e := endpointOf(r)
	if !r.database || e == nil || e.NodePort == 0 {
		return ""
	}
	text := fmt.Sprintf(": %s on port %d of every node", r.engine.name, e.NodePort)
	switch {
	case !r.engine.stored:
		text += "; the data goes with the pod"
	case r.ephemeral:
		text += "; without storageSize the data goes with the pod"
	}
	return text
}
