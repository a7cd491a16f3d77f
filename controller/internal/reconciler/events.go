package reconciler

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// An announcement is an event before it is sent.
type announcement struct {
	reason  v1.EventReason
	warning bool
}

// maxEntry is the maximum length of an event's note in bytes. The API server allows 1024.
const maxEntry = 1000

// sendEvent sends an event about an object. Only this function sends events, so that their length is limited and they
// contain no terminal control sequences.
func sendEvent(recorder events.EventRecorder, about runtime.Object, a announcement, action, message string) {
	kind := corev1.EventTypeNormal
	if a.warning {
		kind = corev1.EventTypeWarning
	}
	recorder.Eventf(about, nil, kind, string(a.reason), action, "%s", v1.PrintableText(message, maxEntry))
}

// eventsOfStores are the events of a store that has become reachable or unreachable.
var eventsOfStores = map[bool]announcement{
	true:  {reason: v1.EventStoreReachable},
	false: {reason: v1.EventStoreLost, warning: true},
}

// eventsOfPhases are the events of deletion phases.
var eventsOfPhases = map[v1.DeletionPhase]announcement{
	v1.DeletionAnnounced:   {reason: v1.EventBackupAnnounced},
	v1.DeletionStopping:    {reason: v1.EventServerStopped},
	v1.DeletionBackingUp:   {reason: v1.EventBackupStarted},
	v1.DeletionRestoreTest: {reason: v1.EventRestoreTestAwaited},
	v1.DeletionFailed:      {reason: v1.EventBackupFailed, warning: true},
	v1.DeletionReleasing:   {reason: v1.EventDataReleased},
	v1.DeletionBlocked:     {reason: v1.EventDeletionBlocked, warning: true},
}

// eventsOfActions are the events of actions that are more specific than their phase, or have no phase.
var eventsOfActions = map[steps.Action]announcement{
	steps.AddFinalizers:        {reason: v1.EventInstanceProtected},
	steps.DeleteOrphanedXR:     {reason: v1.EventOrphanDeleted},
	steps.CreateBackupPVC:      {reason: v1.EventBackupPVCCreated},
	steps.DeleteBackupPVC:      {reason: v1.EventBackupPVCReplaced},
	steps.ReleaseBackupPV:      {reason: v1.EventBackupPVCReplaced},
	steps.AdoptBackupPV:        {reason: v1.EventBackupVolumeAdopted},
	steps.RecordPreviousBackup: {reason: v1.EventPreviousBackupFound},
	steps.ReportPodFailure:     {reason: v1.EventPodFailed, warning: true},
	steps.ReportCopy:           {reason: v1.EventCopyFound, warning: true},
	steps.SetNodeAffinity:      {reason: v1.EventNodeChosen},
	steps.RetainDataPV:         {reason: v1.EventVolumeRetained},
	steps.FenceServer:          {reason: v1.EventPVCDeleted},
	steps.UnfenceServer:        {reason: v1.EventPVCRestored},
	steps.BeginImageChange:     {reason: v1.EventImageChangeBegun},
	steps.AllowImage:           {reason: v1.EventImageAllowed},
	steps.RecordBackup:         {reason: v1.EventBackupVerified},
	steps.MarkVerified:         {reason: v1.EventBackupVerified},
	steps.ReleaseDataPVC:       {reason: v1.EventDataReleased},
	steps.RemoveClaimFinalizer: {reason: v1.EventNameFreed},
}

// eventsOfRequest are the events of on-demand backups, and eventsOfSchedule are the events of scheduled backups.
var (
	eventsOfRequest = map[steps.Action]announcement{
		steps.BeginBackup:  {reason: v1.EventRequestedBackupBegun},
		steps.EndBackup:    {reason: v1.EventRequestedBackupEnded},
		steps.ResumeServer: {reason: v1.EventRequestedBackupCopied},
		steps.GiveUpBackup: {reason: v1.EventRequestedBackupFailed, warning: true},
	}
	eventsOfSchedule = map[steps.Action]announcement{
		steps.BeginBackup:  {reason: v1.EventScheduledBackupBegun},
		steps.EndBackup:    {reason: v1.EventScheduledBackupEnded},
		steps.ResumeServer: {reason: v1.EventScheduledBackupCopied},
		steps.GiveUpBackup: {reason: v1.EventScheduledBackupFailed, warning: true},
	}
)

// eventsOfAttempts are the events of a running instance's backup.
var eventsOfAttempts = map[steps.AttemptPhase]announcement{
	steps.AttemptAnnounced: {reason: v1.EventBackupAnnounced},
	steps.AttemptStopping:  {reason: v1.EventServerStopped},
	steps.AttemptRunning:   {reason: v1.EventBackupStarted},
	steps.AttemptFailed:    {reason: v1.EventBackupFailed, warning: true},
	steps.AttemptBlocked:   {reason: v1.EventBackupFailed, warning: true},
}

// eventsOfInstance are the events of actions on an existing instance. In a deletion, these actions use the event of their
// phase.
var eventsOfInstance = map[steps.Action]announcement{
	steps.DeletePVC:     {reason: v1.EventPVCDeleted},
	steps.ReserveDataPV: {reason: v1.EventPVCDeleted},
	steps.CreatePVC:     {reason: v1.EventPVCDeleted},
	steps.NoOp:          {reason: v1.EventPVCDeleted, warning: true},
}

// eventOf returns the event of a step that has a message. The reason is empty if the step has no event.
func eventOf(step steps.Step) announcement {
	if step.Refused {
		return announcement{reason: v1.EventStepRefused, warning: true}
	}
	ofOrigin := eventsOfRequest
	if step.Origin == v1.OriginSchedule {
		ofOrigin = eventsOfSchedule
	}
	for _, events := range []map[steps.Action]announcement{ofOrigin, eventsOfActions} {
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
	return eventsOfInstance[step.Action]
}

// eventsOfArchives are the events of BackupRecords and their archives.
var eventsOfArchives = map[steps.Action]announcement{
	catalog.RemakeRecord:   {reason: v1.EventBackupRecreated},
	catalog.VerifyRecord:   {reason: v1.EventBackupVerified},
	catalog.LetRecordGo:    {reason: v1.EventArchiveKept},
	catalog.StartRemoval:   {reason: v1.EventArchiveRemovalStarted},
	catalog.ArchiveRemoved: {reason: v1.EventArchiveRemoved},
	catalog.ReportDelay:    {reason: v1.EventArchiveRemovalBlocked},
	catalog.ReportLost:     {reason: v1.EventBackupLost, warning: true},
}

// eventOfVerdict returns the event about the result of a restore test.
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

// Events about the archive of a binary log.
var (
	archivingInterrupted = announcement{reason: v1.EventArchivingInterrupted, warning: true}
	archivingResumed     = announcement{reason: v1.EventArchivingResumed}
	archiveGap           = announcement{reason: v1.EventArchiveGap, warning: true}
)

// Events about the growth of a data volume.
var (
	storageGrown         = announcement{reason: v1.EventStorageGrown}
	storageGrowthBlocked = announcement{reason: v1.EventStorageGrowthBlocked, warning: true}
)
