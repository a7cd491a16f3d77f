package compose

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A state contains everything from which the status of an instance is derived.
type state struct {
	*resolved

	begin start
	// warning is an error in the spec of a started instance, which continues despite it, or nil.
	warning  *Refusal
	revision revision
	// volume is the volume that the PVC must be bound to.
	volume string
	// up is true if the server accepts connections.
	up bool
}

// report returns the status, the conditions and the readiness of the instance.
func report(r *resolved, s storage, begin start, rev revision, resources map[string]Resource,
	warning *Refusal) *Output {
	status := state{resolved: r, begin: begin, warning: warning, revision: rev, volume: s.volume}
	status.up = begin.replicas > 0 && deploymentReady(r.Observed.Deployment) && serviceReady(r.Observed.Service)
	ready := status.up && isConnected(r) && allReady(resources)
	conditions := []Condition{
		acceptedCondition(warning),
		status.restoredCondition(),
		status.servingCondition(),
		status.restartCondition(),
		lastBackupCondition(r),
		blockedCondition(blockerOf(r)),
	}
	if archivesLog(r) {
		conditions = append(conditions, archivingCondition(r.XR.Status.Archiving))
	}
	if r.spec.StorageAutogrow != nil && !r.ephemeral {
		conditions = append(conditions, autogrowCondition(r.XR.Status.StorageGrowth))
	}
	return &Output{
		Ready: ready,
		Settled: (ready || r.started && begin.reason == v1.ReasonSuspended) && warning == nil && rev.settings == nil &&
			outsideWarning(r) == "" && isSettled(r),
		Status: v1.MySQLStatus{
			Message:            status.message(),
			Reason:             status.reason(),
			ObservedGeneration: observedGeneration(r),
			Image:              r.templateInput.Image,
			Endpoint:           endpointOf(r),
			Binding:            bindingOf(r),
			Volume:             seenVolume(r),
			Restore:            begin.restore,
			Backups:            backupsStatus(r),
			InternalStatus: v1.InternalStatus{
				UID:         r.instance.XR,
				ServedImage: r.change.served, PendingImage: r.change.pending,
				RefusedService:  refusedService(r),
				BackupStore:     r.store,
				Started:         r.started || begin.replicas > 0,
				GTIDs:           r.engine.password && r.hasGTIDs && (r.started || begin.replicas > 0),
				Initialized:     r.engine.password && isInitialized(r, begin.restore),
				Revision:        rev.seen,
				FixedSettings:   fixedToReport(r),
				Settings:        settingsStatus(r, rev),
				Choice:          choiceAtBegin(r),
				Nodes:           nodesOfJobs(r, rev),
				PasswordVersion: passwordVersion(r),
				Certified:       rev.certified,
			},
		},
		Conditions: slices.Concat(conditions, ProgressConditions(conditions, r.change.pending != "")),
	}
}

// isSettled reports whether no change is in progress, and Crossplane watches the objects that the instance depends
// on.
func isSettled(r *resolved) bool {
	return r.Watched && r.change.pending == "" && r.XR.Status.ImageChange == nil &&
		r.XR.Status.BackupUnderWay() == nil && blockerOf(r) == nil
}

// choiceAtBegin returns the restore source that the instance started with. If it has not started or begun a restore, it
// returns the source in the spec.
func choiceAtBegin(r *resolved) string {
	if r.XR.Status.Started || r.XR.Status.Restore != nil {
		return r.XR.Status.Choice
	}
	return r.spec.Restore.Choice()
}

// seenVolume returns the name of the PersistentVolume with the data, for the status. The status keeps the name if the
// PVC is deleted.
func seenVolume(r *resolved) string {
	if c := r.Observed.DataPVC; c != nil && c.Spec.VolumeName != "" &&
		(c.Status.Phase == corev1.ClaimBound || !r.hostPath) {
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

// message returns one or two sentences for users. After a restore, it begins with the original operators' message.
func (s state) message() string {
	switch {
	case s.change.stopped:
		return s.begin.message
	case s.begin.replicas == 0:
		return s.begin.message + inBrackets(blockerOf(s.resolved)) + inSentence(s.XR.Status.CrossplaneWarning)
	case !s.up:
		return s.afterRestore() + "Starting the server" + inBrackets(blockerOf(s.resolved)) +
			inSentence(s.settingsMessage()) + inSentence(outsideWarning(s.resolved)) + s.change.waitsFor(s.XR.Status.ImageChange) +
			s.change.wayBack(s.XR.Status.ImageChange)
	case !isConnected(s.resolved):
		return s.afterRestore() + loginPending(s.XR.Status.Credentials) + inSentence(outsideWarning(s.resolved))
	case s.warning != nil:
		return s.afterRestore() + "Running, but " + s.warning.Error() + inSentence(outsideWarning(s.resolved))
	}
	return s.afterRestore() + "Running" + whereReached(s.resolved) + inSentence(outsideWarning(s.resolved)) +
		passwordWarning(s.XR.Status.Credentials) + s.pvcWarning() + inSentence(s.XR.Status.OutsideData) +
		inSentence(s.XR.Status.BackupWarning) + inSentence(autogrowWarning(s.resolved)) + inSentence(tlsWarning(s.resolved)) +
		requestWarning(&s.XR.Status) + inSentence(s.settingsMessage()) + s.change.waitsFor(s.XR.Status.ImageChange) + s.updateWaiting()
}

// reason returns status.reason: the reason of the condition that needs the most attention.
func (s state) reason() string {
	blocker, serving := blockerOf(s.resolved), s.servingCondition()
	switch {
	case blocker != nil && !s.up && !s.change.stopped:
		return blocker.Reason
	case s.begin.replicas == 0:
		return s.begin.reason
	case !serving.True:
		return serving.Reason
	case s.warning != nil:
		return s.warning.Reason
	}
	if last := lastBackupCondition(s.resolved); last.isFalse() {
		return last.Reason
	}
	if n := s.revision.settings; n != nil && (n.phase == v1.SettingsRefused || n.phase == v1.SettingsTakenBack) {
		return settingsReasons[n.phase]
	}
	return serving.Reason
}

// observedGeneration returns the generation of the object that a user created, or 0 for a claim. A claim gets a copy
// of this status, but has a different generation than its composite resource.
func observedGeneration(r *resolved) int64 {
	if a, ok := v1.APIOf(r.XR.GroupVersionKind().GroupKind()); ok && !a.HasClaims() {
		return r.XR.Generation
	}
	return 0
}

// requestWarning returns why an on-demand or scheduled backup failed, or the progress of a running one.
func requestWarning(status *v1.MySQLStatus) string {
	out := ""
	if b := status.BackupUnderWay(); b != nil && b.Message != "" {
		out = fmt.Sprintf(". Taking %s: %s", status.WhatIsTaken(b), b.Message)
	}
	if b := status.RequestedBackup; b != nil && b.Phase == v1.LastBackupFailed {
		out += fmt.Sprintf(". Backup %q has failed: %s. To retry, create another Backup", b.Request, b.Message)
	}
	return out + inSentence(scheduleWarning(status.BackupSchedule))
}

// scheduleWarning returns a message if a scheduled backup is overdue or no backup is scheduled, or "".
func scheduleWarning(status *v1.BackupScheduleStatus) string {
	switch {
	case status == nil:
		return ""
	case status.MissedAt == nil && status.NextAt == nil:
		return "No backup is scheduled: " + status.Message
	case status.MissedAt == nil:
		return ""
	case status.Message == "":
		return "A scheduled backup has been overdue since " + v1.PlannedName(status.MissedAt.Time)
	}
	return fmt.Sprintf("A scheduled backup has been overdue since %s: %s", v1.PlannedName(status.MissedAt.Time),
		status.Message)
}

// backupsStatus returns status.backups without the field recent, which the controller writes.
func backupsStatus(r *resolved) *v1.BackupsStatus {
	out := v1.BackupsStatus{Store: r.store, Last: r.XR.Status.NewestListed(), Message: backupsMessage(r)}
	if schedule := r.XR.Status.BackupSchedule; schedule != nil {
		out.NextTime, out.MissedTime = schedule.NextAt, schedule.MissedAt
	}
	if a := r.XR.Status.Archiving; a != nil && a.From != nil && archivesLog(r) {
		out.RecoverableFromTime, out.RecoverableUntilTime = a.From, a.Until
	}
	out.RecoveryPlan = recoveryPlan(r)
	if reflect.ValueOf(out).IsZero() {
		return nil
	}
	return &out
}

// backupsMessage returns the problems with the backups, or "".
func backupsMessage(r *resolved) string {
	status := &r.XR.Status
	return strings.Join(slices.DeleteFunc([]string{status.OutsideData, scheduleWarning(status.BackupSchedule),
		status.BackupWarning}, func(text string) bool { return text == "" }), ". ")
}

// lastBackupCondition reports whether the last backup succeeded. It is False if data exists that no backup contains.
func lastBackupCondition(r *resolved) Condition {
	status, out := &r.XR.Status, Condition{Type: v1.ConditionLastBackupSucceeded}
	missed := ""
	if r.spec.Backup.Schedule != nil {
		missed = scheduleWarning(status.BackupSchedule)
	}
	switch last := lastFinished(status); {
	case status.OutsideData != "":
		out.Reason, out.Message = v1.ReasonDataOutside, status.OutsideData
	case missed != "":
		out.Reason, out.Message = v1.ReasonBackupMissed, missed
	case last != nil && last.Phase == v1.LastBackupFailed:
		out.Reason, out.Message = v1.ReasonLastBackupFailed, last.Message
	case last != nil || status.NewestListed() != nil:
		out.True, out.Reason = true, v1.ReasonBackupSucceeded
	default:
		out.Unknown, out.Reason, out.Message = true, v1.ReasonNoBackup, "No backup of an instance with this name is known "+
			"yet"
	}
	return out
}

// lastFinished returns the most recent finished backup of the running instance, or nil.
func lastFinished(status *v1.MySQLStatus) (last *v1.LastBackupStatus) {
	for _, b := range []*v1.LastBackupStatus{status.RequestedBackup, status.ScheduledBackup} {
		if b != nil && !b.IsUnderWay() && (last == nil || last.BegunAt.Before(&b.BegunAt)) {
			last = b
		}
	}
	return last
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

// pvcWarning explains that the data PVC was deleted. It returns "" if the PVC is in order.
func (s state) pvcWarning() string {
	c, name := s.Observed.DataPVC, qualifiedName(s.instance.Namespace, s.instance.DataPVCName())
	switch {
	case s.ephemeral:
	case c == nil:
		return fmt.Sprintf(". PersistentVolumeClaim %s was deleted. It is being created again for volume %q", name, s.volume)
	case c.DeletionTimestamp != nil:
		return fmt.Sprintf(". PersistentVolumeClaim %s was deleted. The server stops until the PersistentVolumeClaim is "+
			"bound to its volume again", name)
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
		return Condition{Type: v1.ConditionServing, Reason: v1.ReasonWaitingToStart, Message: s.begin.message}
	case !s.up:
		return Condition{Type: v1.ConditionServing, Reason: v1.ReasonStarting,
			Message: "The server does not accept clients yet" + inBrackets(blockerOf(s.resolved))}
	case !isConnected(s.resolved):
		return Condition{Type: v1.ConditionServing, Reason: v1.ReasonLoginPending,
			Message: loginPending(s.XR.Status.Credentials)}
	}
	return Condition{Type: v1.ConditionServing, True: true, Reason: v1.ReasonRunning}
}

// restartCondition reports whether a restart would change the server's pod or its settings.
func (s state) restartCondition() Condition {
	if n := s.revision.settings; n != nil {
		return Condition{Type: v1.ConditionPendingRestart, True: true, Reason: settingsReasons[n.phase],
			Message: s.settingsMessage()}
	}
	if !s.revision.observed {
		return Condition{Type: v1.ConditionPendingRestart, Reason: v1.ReasonUpToDate}
	}
	message := "The server's pod was created by an earlier release, and stays unchanged until it restarts. To restart " +
		"it, run: kubectl rollout restart deployment --namespace " + s.instance.Namespace + " " + s.instance.DeploymentName()
	if s.ephemeral || !s.engine.stored {
		message += " (the restart deletes its data)"
	}
	return Condition{Type: v1.ConditionPendingRestart, True: true, Reason: v1.ReasonUpdateWaits, Message: message}
}

// updateWaiting returns the message about a pending restart.
func (s state) updateWaiting() string {
	if !s.revision.observed || s.revision.settings != nil {
		return ""
	}
	return ". An update of the server's pod is applied at its next restart"
}

func acceptedCondition(warning *Refusal) Condition {
	if warning != nil {
		return Condition{Type: v1.ConditionAccepted, Reason: warning.Reason, Message: warning.Error()}
	}
	return Condition{Type: v1.ConditionAccepted, True: true, Reason: v1.ReasonAccepted}
}

// loginPending explains why clients cannot log in to a running server yet.
func loginPending(c *v1.CredentialsStatus) string {
	if c != nil && c.State == v1.CredentialsFailed {
		return "The server is running, but clients cannot log in: " + c.Message
	}
	return "The server is running. Waiting for the controller to log in and publish the connection Secret"
}

// passwordWarning returns the controller's message about a password change that failed or is in progress.
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

// blockerOf returns what blocks the server's pod, or nil. The controller or the Deployment's status reports it.
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

func blockedCondition(blocker *v1.Blocker) Condition {
	if blocker == nil {
		return Condition{Type: v1.ConditionBlocked, Reason: v1.ReasonNotBlocked}
	}
	return Condition{Type: v1.ConditionBlocked, True: true, Reason: blocker.Reason, Message: blocker.Message}
}

func inBrackets(blocker *v1.Blocker) string {
	if blocker == nil {
		return ""
	}
	return " (" + blocker.Message + ")"
}

// whereReached describes the node port of a Database for a message. It warns if the data is lost with the pod.
func whereReached(r *resolved) string {
	e := endpointOf(r)
	if !r.database || e == nil || e.NodePort == 0 {
		return ""
	}
	text := fmt.Sprintf(": %s on port %d of every node", r.engine.name, e.NodePort)
	switch {
	case !r.engine.stored:
		text += ". The data is lost when the pod is deleted"
	case r.ephemeral:
		text += ". Without storageSize, the data is lost when the pod is deleted"
	}
	return text
}
