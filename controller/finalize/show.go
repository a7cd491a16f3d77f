package finalize

import (
	"context"

	kerrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// Show a deletion's progress in the status of claim and XR. The status of what
// lives is the function's.
func (p *Performer) Show(ctx context.Context, s *instance.State, step Step) error {
	if step.Phase == "" {
		return nil
	}
	want := v1.DeletionStatus{Step: string(step.Phase), Percent: step.Percent, Message: step.Message}
	if r := s.Record(); r != nil {
		want.Backup = r.Name
	}
	for _, c := range []*instance.Composite{s.XR, s.Claim} {
		if c == nil || c == s.XR && s.Orphaned || shows(c, want) {
			continue
		}
		// Fields that are empty now must go, and a merge patch keeps what it does not
		// name.
		err := p.Status(ctx, c, map[string]any{"message": "Deleting. " + want.Message, "deletion": map[string]any{
			"step": want.Step, "backup": want.Backup, "percent": want.Percent, "message": want.Message,
		}})
		if err != nil && !kerrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func shows(c *instance.Composite, want v1.DeletionStatus) bool {
	d := c.Status.Deletion
	return d != nil && d.Step == want.Step && d.Backup == want.Backup && d.Percent == want.Percent && d.Message == want.Message
}
