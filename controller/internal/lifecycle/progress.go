package lifecycle

import (
	"slices"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// showProgress writes the progress of a deletion to the status of the claim and the XR. The function writes the
// status of an existing instance. If the step changes the claim or the XR afterwards, the status write requires the
// same resourceVersion as that change. Without this precondition, the status write would hide a concurrent update
// from the API server's conflict check.
func showProgress(s *instance.State, step steps.Step, changes []change.Change) []change.Change {
	switch {
	case step.Attempt != "":
		return showInstance(s, step)
	case step.Phase == "":
		return nil
	case s.Orphan != nil:
		return showInRecord(s, step)
	}
	want := v1.DeletionStatus{Phase: step.Phase, Percent: step.Percent, Message: step.Message}
	if r := s.Record(); r != nil {
		want.Backup = r.Name
	}
	var out []change.Change
	for _, c := range []*instance.Composite{s.XR, s.Claim} {
		if c == nil || shows(c, want) {
			continue
		}
		// A merge patch keeps fields that it does not name, so empty fields must be set to null.
		p := change.PatchStatusFields(c.Unstructured,
			map[string]any{"message": "Deleting. " + step.Text(), "reason": want.Phase, "deletion": map[string]any{
				"phase": want.Phase, "backup": want.Backup, "percent": want.Percent, "message": want.Message,
			}}).OrGone()
		if !slices.ContainsFunc(changes, func(next change.Change) bool {
			return next.If == change.AsRead && next.Object.GetUID() == c.GetUID()
		}) {
			p = p.WhoeverWrote()
		}
		out = append(out, p)
	}
	return out
}

// showInRecord reports in the BackupRecord why an instance without XR and claim waits. No other object can report it,
// and the next claim with the same name waits for this instance. A failed BackupRecord already contains the reason. A
// BackupRecord that is being deleted reports what delays its deletion. The message does not contain the hint, because
// other objects repeat the message.
func showInRecord(s *instance.State, step steps.Step) []change.Change {
	r := s.Record()
	switch {
	case r == nil, r.IsVerified(), r.Status.Phase == v1.BackupFailed, r.DeletionTimestamp != nil:
		return nil
	case step.Action != steps.Wait && !step.Refused, step.Percent > 0, instance.IsSameMessage(r.Status.Message, step.Message):
		return nil
	}
	return []change.Change{catalog.PatchRecordStatus(r, func(st *v1.BackupRecordStatus) { st.Message = step.Message })}
}

func shows(c *instance.Composite, want v1.DeletionStatus) bool {
	d := c.Status.Deletion
	return d != nil && d.Phase == want.Phase && d.Backup == want.Backup && d.Percent == want.Percent &&
		d.Message == want.Message
}

// enoughProgress is the minimum increase of the progress that is written to the status, in percentage points.
const enoughProgress = 10

// showInstance writes the progress of an existing instance's backup to the status of the XR, and the function reports
// it. It writes only for a step that waits, because each write makes Crossplane reconcile. Crossplane throttles after
// 50 reconciles in a row to one every 30 seconds (internal/circuit of Crossplane).
func showInstance(s *instance.State, step steps.Step) []change.Change {
	if step.Action != steps.Wait && step.Action != steps.MarkFailed && !step.Refused {
		return nil
	}
	type shown struct {
		backup, message string
		percent         int32
	}
	var before shown
	switch status := &s.XR.Status; s.Attempt().Origin { //nolint:exhaustive // Other backups are not of a running instance.
	case v1.OriginRequest:
		before = shown{status.RequestedBackup.Backup, status.RequestedBackup.Message, status.RequestedBackup.Percent}
	case v1.OriginSchedule:
		before = shown{status.ScheduledBackup.Backup, status.ScheduledBackup.Message, status.ScheduledBackup.Percent}
	case v1.OriginImageChange:
		if !hasBegun(s) {
			return showDelayedImage(s, step)
		}
		before = shown{status.ImageChange.Backup, status.ImageChange.Message, status.ImageChange.Percent}
	default:
		return nil
	}
	after := shown{before.backup, step.Message, step.Percent}
	if r := s.Record(); r != nil {
		after.backup = r.Name
	}
	if after == before || before.percent > 0 && after.percent > before.percent &&
		after.percent < before.percent+enoughProgress {
		return nil
	}
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured,
		steps.Internal(map[string]any{backup.StatusFields[s.Attempt().Origin]: map[string]any{
			"backup": steps.OrNil(after.backup), "percent": after.percent, "message": after.message,
		}})).WhoeverWrote()}
}

// showDelayedImage writes to status.internal.imageChange why an image change has not begun. The field from stays
// empty until the server is stopped for the image change.
func showDelayedImage(s *instance.State, step steps.Step) []change.Change {
	want := v1.ImageChangeStatus{Message: step.Message}
	if c := s.XR.Status.ImageChange; c != nil && *c == want {
		return nil
	}
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured, steps.Internal(map[string]any{
		"imageChange": map[string]any{"from": want.From, "fence": nil, "allowed": nil, "backup": nil, "percent": nil,
			"message": want.Message},
	})).WhoeverWrote()}
}
