package reconciler

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/lifecycle"
)

// An announcement is an event before it is sent.
type announcement struct {
	reason  v1.EventReason
	warning bool
}

// maxNote in bytes of an event, of which the API server takes 1024.
const maxNote = 1000

// sendEvent about an object. All events are sent here, so that none is too long, or
// has anything in it that a terminal would obey.
func sendEvent(to events.EventRecorder, about runtime.Object, a announcement, action, message string) {
	kind := corev1.EventTypeNormal
	if a.warning {
		kind = corev1.EventTypeWarning
	}
	to.Eventf(about, nil, kind, string(a.reason), action, "%s", v1.PrintableText(message, maxNote))
}

// eventsOfStores that come, or go.
var eventsOfStores = map[bool]announcement{
	true:  {reason: v1.EventStoreReachable},
	false: {reason: v1.EventStoreLost, warning: true},
}

// eventsOfPhases of a deletion.
var eventsOfPhases = map[v1.DeletionPhase]announcement{
	v1.DeletionAnnounced:   {reason: v1.EventBackupAnnounced},
	v1.DeletionStopping:    {reason: v1.EventServerStopped},
	v1.DeletionBackingUp:   {reason: v1.EventBackupStarted},
	v1.DeletionRestoreTest: {reason: v1.EventRestoreTestAwaited},
	v1.DeletionFailed:      {reason: v1.EventBackupFailed, warning: true},
	v1.DeletionReleasing:   {reason: v1.EventDataReleased},
	v1.DeletionHeld:        {reason: v1.EventDeletionHeld, warning: true},
}

// eventsOfActions that say more than their phase, or have none.
var eventsOfActions = map[lifecycle.Action]announcement{
	lifecycle.AddFinalizers:        {reason: v1.EventInstanceProtected},
	lifecycle.DeleteOrphanedXR:     {reason: v1.EventOrphanDeleted},
	lifecycle.CreateBackupPVC:      {reason: v1.EventBackupPVCCreated},
	lifecycle.DeleteBackupPVC:      {reason: v1.EventBackupPVCReplaced},
	lifecycle.ReleaseBackupPV:      {reason: v1.EventBackupPVCReplaced},
	lifecycle.AdoptBackupPV:        {reason: v1.EventBackupVolumeAdopted},
	lifecycle.RecordPreviousBackup: {reason: v1.EventPreviousBackupFound},
	lifecycle.ReportPodFailure:     {reason: v1.EventPodFailed, warning: true},
	lifecycle.ReportCopy:           {reason: v1.EventCopyFound, warning: true},
	lifecycle.SetNodeAffinity:      {reason: v1.EventNodeChosen},
	lifecycle.RetainDataPV:         {reason: v1.EventVolumeRetained},
	lifecycle.FenceServer:          {reason: v1.EventPVCDeleted},
	lifecycle.UnfenceServer:        {reason: v1.EventPVCRestored},
	lifecycle.BeginImageChange:     {reason: v1.EventImageChangeBegun},
	lifecycle.AllowImage:           {reason: v1.EventImageAllowed},
	lifecycle.NoteBackup:           {reason: v1.EventBackupProven},
	lifecycle.MarkProven:           {reason: v1.EventBackupProven},
	lifecycle.ReleaseDataPVC:       {reason: v1.EventDataReleased},
	lifecycle.RemoveClaimFinalizer: {reason: v1.EventNameFreed},
}

// eventsOfRequest are about a backup that the claim requests, eventsOfSchedule about one that the schedule has planned.
var (
	eventsOfRequest = map[lifecycle.Action]announcement{
		lifecycle.BeginBackup:  {reason: v1.EventRequestedBackupBegun},
		lifecycle.EndBackup:    {reason: v1.EventRequestedBackupEnded},
		lifecycle.ResumeServer: {reason: v1.EventRequestedBackupCopied},
		lifecycle.GiveUpBackup: {reason: v1.EventRequestedBackupFailed, warning: true},
	}
	eventsOfSchedule = map[lifecycle.Action]announcement{
		lifecycle.BeginBackup:  {reason: v1.EventScheduledBackupBegun},
		lifecycle.EndBackup:    {reason: v1.EventScheduledBackupEnded},
		lifecycle.ResumeServer: {reason: v1.EventScheduledBackupCopied},
		lifecycle.GiveUpBackup: {reason: v1.EventScheduledBackupFailed, warning: true},
	}
)

// eventsOfAttempts are about a backup of an instance that goes on.
var eventsOfAttempts = map[lifecycle.AttemptPhase]announcement{
	lifecycle.AttemptAnnounced: {reason: v1.EventBackupAnnounced},
	lifecycle.AttemptStopping:  {reason: v1.EventServerStopped},
	lifecycle.AttemptRunning:   {reason: v1.EventBackupStarted},
	lifecycle.AttemptFailed:    {reason: v1.EventBackupFailed, warning: true},
	lifecycle.AttemptHeld:      {reason: v1.EventBackupFailed, warning: true},
}

// eventsInLife are those of actions that have their phase's event in a deletion.
var eventsInLife = map[lifecycle.Action]announcement{
	lifecycle.DeletePVC:     {reason: v1.EventPVCDeleted},
	lifecycle.ReserveDataPV: {reason: v1.EventPVCDeleted},
	lifecycle.CreatePVC:     {reason: v1.EventPVCDeleted},
	lifecycle.NoOp:          {reason: v1.EventPVCDeleted, warning: true},
}

// eventOf a step that has a message; none where it has no reason.
func eventOf(step lifecycle.Step) announcement {
	if step.Refused {
		return announcement{reason: v1.EventStepRefused, warning: true}
	}
	ofOrigin := eventsOfRequest
	if step.Origin == v1.OriginSchedule {
		ofOrigin = eventsOfSchedule
	}
	for _, events := range []map[lifecycle.Action]announcement{ofOrigin, eventsOfActions} {
		if a, ok := events[step.Action]; ok {
			return a
		}
	}
	switch {
	case step.Phase != "":
		return eventsOfPhases[step.Phase]
	case step.Attempt != "":
		return eventsOfAttempts[step.Attempt]
	}
	return eventsInLife[step.Action]
}

// eventsOfArchives are about what becomes of a record and its archive.
var eventsOfArchives = map[lifecycle.Action]announcement{
	lifecycle.RemakeRecord: {reason: v1.EventBackupRecreated},
	lifecycle.ProveRecord:  {reason: v1.EventBackupProven},
	lifecycle.LetRecordGo:  {reason: v1.EventArchiveKept},
	lifecycle.StartErase:   {reason: v1.EventArchiveRemovalStarted},
	lifecycle.Erased:       {reason: v1.EventArchiveRemoved},
	lifecycle.TellRecord:   {reason: v1.EventArchiveRemovalHeld},
	lifecycle.TellLost:     {reason: v1.EventBackupLost, warning: true},
}

// eventOfVerdict on whether a server starts from a backup.
func eventOfVerdict(status metav1.ConditionStatus) announcement {
	switch status {
	case metav1.ConditionTrue:
		return announcement{reason: v1.EventRestoreTestPassed}
	case metav1.ConditionFalse:
		return announcement{reason: v1.EventRestoreTestFailed, warning: true}
	case metav1.ConditionUnknown:
	}
	return announcement{reason: v1.EventRestoreTestUndecided}
}
