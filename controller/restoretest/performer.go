package restoretest

import (
	"context"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
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
		return p.startTest(ctx, s)
	case Remove:
		uid := s.Job.UID
		return client.IgnoreNotFound(p.Client.Delete(ctx, s.Job.Job, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &uid}))
	case NameJob:
		return p.nameTest(ctx, s, s.Job.UID)
	case EndTurn:
		return p.writeStatus(ctx, step.Record, nil)
	case Conclude:
		return p.writeVerdict(ctx, s, step.Verdict)
	case Rest, Wait:
	}
	return nil
}

// startTest takes the turn before the Job is there, so that it is counted by then,
// and names the Job afterwards, so that no other is taken for it.
func (p *Performer) startTest(ctx context.Context, s *State) error {
	if s.restoreTest() == nil {
		err := p.writeStatus(ctx, s.Record, &v1.RestoreTest{ID: uuid.NewUUID(), StartedAt: metav1.Time{Time: s.Now.Truncate(time.Second)}, Awaited: s.Home.XR != nil})
		if err != nil {
			return err
		}
	}
	j := newJob(s, p.AgentImage)
	switch err := p.Client.Create(ctx, j); {
	case kerrors.IsAlreadyExists(err):
		return nil // The next look tells whose that is.
	case kerrors.IsForbidden(err), kerrors.IsInvalid(err): // By a quota or a policy. Others wait for the turn.
		return p.writeVerdict(ctx, s, concludeWith(metav1.ConditionUnknown, v1.ReasonNotTested, "its Job is refused: "+v1.PrintableText(err.Error(), v1.MaxForeignText)).Verdict)
	case err != nil:
		return err
	}
	return p.nameTest(ctx, s, j.UID)
}

// nameTest names the record's Job.
func (p *Performer) nameTest(ctx context.Context, s *State, job types.UID) error {
	t := s.restoreTest().DeepCopy()
	t.Job = job
	return p.writeStatus(ctx, s.Record, t)
}

// writeStatus of what is under way into a record, unless somebody wrote that first.
func (p *Performer) writeStatus(ctx context.Context, r *v1.MySQLBackup, t *v1.RestoreTest) error {
	before := r.DeepCopy()
	r.Status.RestoreTest = t
	return p.Client.Status().Patch(ctx, r, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// writeVerdict unless somebody wrote the record first. A verdict that comes again
// gets a new time: the wait for the next try counts from there.
func (p *Performer) writeVerdict(ctx context.Context, s *State, verdict metav1.Condition) error {
	before := s.Record.DeepCopy()
	now := s.Record.DeepCopy()
	verdict.LastTransitionTime = metav1.Time{Time: s.Now}
	meta.RemoveStatusCondition(&now.Status.Conditions, verdict.Type)
	meta.SetStatusCondition(&now.Status.Conditions, verdict)
	return p.Client.Status().Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
