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

// showProgress of a deletion in the status of claim and XR. The status of what lives is the
// function's. Where the step writes to one of them afterwards, it stands on what was read: then
// this does, too, or its own write would hide another's from the API server.
func showProgress(s *instance.State, step steps.Step, then []change.Change) []change.Change {
	switch {
	case step.Attempt != "":
		return showInLife(s, step)
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
		// Fields that are empty now must go, and a merge patch keeps what it does not
		// name.
		p := change.PatchStatusFields(c.Unstructured, map[string]any{"message": "Deleting. " + step.Text(), "deletion": map[string]any{
			"phase": want.Phase, "backup": want.Backup, "percent": want.Percent, "message": want.Message,
		}}).OrGone()
		if !slices.ContainsFunc(then, func(next change.Change) bool { return next.If == change.AsRead && next.Object.GetUID() == c.GetUID() }) {
			p = p.WhoeverWrote()
		}
		out = append(out, p)
	}
	return out
}

// showInRecord what a life waits for that has neither XR nor claim: nothing else says it, and the next claim of its name waits for it. The
// record of a backup that has failed has why already, and one that somebody deletes what keeps it. Others repeat it, so it has no hint.
func showInRecord(s *instance.State, step steps.Step) []change.Change {
	r := s.Record()
	switch {
	case r == nil, r.IsProven(), r.Status.Phase == v1.BackupFailed, r.DeletionTimestamp != nil:
		return nil
	case step.Action != steps.Wait && !step.Refused, step.Percent > 0, instance.SaysSame(r.Status.Message, step.Message):
		return nil
	}
	return []change.Change{catalog.PatchRecordStatus(r, func(st *v1.MySQLBackupStatus) { st.Message = step.Message })}
}

func shows(c *instance.Composite, want v1.DeletionStatus) bool {
	d := c.Status.Deletion
	return d != nil && d.Phase == want.Phase && d.Backup == want.Backup && d.Percent == want.Percent && d.Message == want.Message
}

// enoughProgress in percent is worth another write.
const enoughProgress = 10

// showInLife how far a backup of an instance that goes on is, in the status of the XR: the function tells people. Only what takes its
// time is shown, as each write is a reason for Crossplane to compose once more, which it does 50 times in a row and then
// every 30 seconds (internal/circuit of Crossplane).
func showInLife(s *instance.State, step steps.Step) []change.Change {
	if step.Action != steps.Wait && step.Action != steps.MarkFailed && !step.Refused {
		return nil
	}
	type shown struct {
		backup, message string
		percent         int32
	}
	var was shown
	switch is := &s.XR.Status; s.Attempt().Origin { //nolint:exhaustive // No other is of an instance that goes on.
	case v1.OriginRequest:
		was = shown{is.RequestedBackup.Backup, is.RequestedBackup.Message, is.RequestedBackup.Percent}
	case v1.OriginSchedule:
		was = shown{is.ScheduledBackup.Backup, is.ScheduledBackup.Message, is.ScheduledBackup.Percent}
	case v1.OriginImageChange:
		if is.ImageChange == nil {
			return nil
		}
		was = shown{is.ImageChange.Backup, is.ImageChange.Message, is.ImageChange.Percent}
	default:
		return nil
	}
	is := shown{was.backup, step.Message, step.Percent}
	if r := s.Record(); r != nil {
		is.backup = r.Name
	}
	if is == was || was.percent > 0 && is.percent > was.percent && is.percent < was.percent+enoughProgress {
		return nil
	}
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured, map[string]any{backup.StatusFields[s.Attempt().Origin]: map[string]any{
		"backup": steps.OrNil(is.backup), "percent": is.percent, "message": is.message,
	}}).WhoeverWrote()}
}
