package main

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/finalize"
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

// eventsOfPhases of a deletion.
var eventsOfPhases = map[finalize.Phase]announcement{
	finalize.PhaseAnnounced:   {reason: v1.EventBackupAnnounced},
	finalize.PhaseStopping:    {reason: v1.EventServerStopped},
	finalize.PhaseBackingUp:   {reason: v1.EventBackupStarted},
	finalize.PhaseRestoreTest: {reason: v1.EventRestoreTestAwaited},
	finalize.PhaseFailed:      {reason: v1.EventBackupFailed, warning: true},
	finalize.PhaseReleasing:   {reason: v1.EventDataReleased},
	finalize.PhaseHeld:        {reason: v1.EventDeletionHeld, warning: true},
}

// eventsOfActions that say more than their phase, or have none.
var eventsOfActions = map[finalize.Action]announcement{
	finalize.AddFinalizers:        {reason: v1.EventInstanceProtected},
	finalize.DeleteOrphanedXR:     {reason: v1.EventOrphanDeleted},
	finalize.CreateBackupPVC:      {reason: v1.EventBackupPVCCreated},
	finalize.DeleteBackupPVC:      {reason: v1.EventBackupPVCReplaced},
	finalize.ReleaseBackupPV:      {reason: v1.EventBackupPVCReplaced},
	finalize.AdoptBackupPV:        {reason: v1.EventBackupVolumeAdopted},
	finalize.RecordPreviousBackup: {reason: v1.EventPreviousBackupFound},
	finalize.ReportPodFailure:     {reason: v1.EventPodFailed, warning: true},
	finalize.SetNodeAffinity:      {reason: v1.EventNodeChosen},
	finalize.RetainDataPV:         {reason: v1.EventVolumeRetained},
	finalize.FenceServer:          {reason: v1.EventPVCDeleted},
	finalize.UnfenceServer:        {reason: v1.EventPVCRestored},
	finalize.NoteBackup:           {reason: v1.EventBackupProven},
	finalize.MarkProven:           {reason: v1.EventBackupProven},
	finalize.ReleaseDataPVC:       {reason: v1.EventDataReleased},
	finalize.RemoveClaimFinalizer: {reason: v1.EventNameFreed},
}

// eventOf a step that has a message.
func eventOf(step finalize.Step) announcement {
	if a, ok := eventsOfActions[step.Action]; ok {
		return a
	}
	if a, ok := eventsOfPhases[step.Phase]; ok {
		return a
	}
	// What is left of a living instance is about its PVC.
	return announcement{reason: v1.EventPVCDeleted, warning: step.Action == finalize.NoOp}
}

// eventsOfArchives are about what becomes of a record and its archive.
var eventsOfArchives = map[finalize.Action]announcement{
	finalize.RemakeRecord: {reason: v1.EventBackupRecreated},
	finalize.ProveRecord:  {reason: v1.EventBackupProven},
	finalize.LetRecordGo:  {reason: v1.EventArchiveKept},
	finalize.StartErase:   {reason: v1.EventArchiveRemovalStarted},
	finalize.Erased:       {reason: v1.EventArchiveRemoved},
	finalize.TellRecord:   {reason: v1.EventArchiveRemovalHeld},
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
