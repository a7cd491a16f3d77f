package lifecycle

import (
	"slices"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// showProgress of a deletion in the status of claim and XR. The status of what lives is the
// function's. Where the step writes to one of them afterwards, it stands on what was read: then
// this does, too, or its own write would hide another's from the API server.
func showProgress(s *instance.State, step Step, then []change.Change) []change.Change {
	switch {
	case step.Phase == "":
		return nil
	case s.XR != nil && !s.IsDeleting():
		if s.IsBackupRequested() {
			return showRequested(s, step)
		}
		return showImageChange(s, step)
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

func shows(c *instance.Composite, want v1.DeletionStatus) bool {
	d := c.Status.Deletion
	return d != nil && d.Phase == want.Phase && d.Backup == want.Backup && d.Percent == want.Percent && d.Message == want.Message
}
