package verify

import (
	"context"
	"fmt"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Performer does what Next says.
type Performer struct {
	// Client that writes.
	Client client.Client
	// AgentImage of the Job.
	AgentImage string
}

// Perform a step.
func (p *Performer) Perform(ctx context.Context, s *State, step Step) error {
	switch step.Action {
	case Start:
		return p.start(ctx, s)
	case Remove:
		uid := s.Job.UID
		return client.IgnoreNotFound(p.Client.Delete(ctx, s.Job.Job, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &uid}))
	case Conclude:
		return p.conclude(ctx, s, step.Verdict)
	case Rest, Wait:
	}
	return nil
}

func (p *Performer) start(ctx context.Context, s *State) error {
	j := newJob(s, p.AgentImage)
	err := p.Client.Create(ctx, j)
	if kerrors.IsAlreadyExists(err) {
		return fmt.Errorf("Job %s/%s is there and somebody else's, or was made a moment ago", j.Namespace, j.Name) //nolint:staticcheck // It begins with a kind.
	}
	return err
}

// conclude unless somebody wrote the record first. A verdict that comes again has
// the time of the last.
func (p *Performer) conclude(ctx context.Context, s *State, verdict metav1.Condition) error {
	before := s.Record.DeepCopy()
	now := s.Record.DeepCopy()
	verdict.LastTransitionTime = metav1.Time{Time: s.Now}
	meta.RemoveStatusCondition(&now.Status.Conditions, verdict.Type)
	meta.SetStatusCondition(&now.Status.Conditions, verdict)
	return p.Client.Status().Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
