package restoretest

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
)

// withChanges is a step with all that is written for it.
func withChanges(s *State, step Step) Step {
	switch step.Action {
	case Start:
		step.Changes = startTest(s)
	case Remove:
		step.Changes = append(takeAccess(s), change.DeleteObject(s.Job.Job, metav1.DeletePropagationForeground))
	case NameJob:
		step.Changes = writeTurn(step.Record, func(t *v1.RestoreTest) { t.Job, t.Concluded = s.Job.UID, false })
	case EndTurn:
		step.Changes = append(takeAccess(s), change.PatchObjectStatus(step.Record, func(r *v1.MySQLBackup) { r.Status.RestoreTest = nil }))
	case Conclude:
		step.Changes = writeVerdict(s, step.Verdict)
	case NoOp, Wait:
	}
	return step
}

// startTest takes the turn before the Job is there, so that it is counted by then. The Job is
// named afterwards, so that no other is taken for it.
func startTest(s *State) []change.Change {
	turn := s.restoreTest()
	if turn != nil {
		return append(giveAccess(s), change.NewObject(newJob(s, turn.ID)))
	}
	took := writeTurn(s.Record, func(t *v1.RestoreTest) {
		*t = v1.RestoreTest{ID: s.NewTurn, StartedAt: metav1.Time{Time: s.Now.Truncate(time.Second)}, Awaited: s.isHeld()}
	})
	return append(append(took, giveAccess(s)...), change.NewObject(newJob(s, s.NewTurn)))
}

// giveAccess to the store, if the backup lies in one, to the Job that is about to be made.
func giveAccess(s *State) []change.Change {
	if !s.Record.InStore() {
		return nil
	}
	from, life := s.Record.Spec.Archive, s.Record.Spec.Instance.Life()
	to := agent.AccessSecret(life, life.Namespace, life.Accesses().RestoreTest())
	return []change.Change{change.InStore(change.GiveAccess, to, change.Remote{Store: from.Store, Archive: from.Path, Manifest: s.Note.Manifest})}
}

// takeAccess away from a Job that has had it.
func takeAccess(s *State) []change.Change {
	if s.Access == nil {
		return nil
	}
	return []change.Change{change.DeleteObject(s.Access, "")}
}

// writeTurn of a record.
func writeTurn(r *v1.MySQLBackup, how func(*v1.RestoreTest)) []change.Change {
	return []change.Change{change.PatchObjectStatus(r, func(r *v1.MySQLBackup) {
		if r.Status.RestoreTest == nil {
			r.Status.RestoreTest = &v1.RestoreTest{}
		}
		how(r.Status.RestoreTest)
	})}
}

// writeVerdict into the record. One that comes again gets a new time: the wait for the next
// try counts from there.
func writeVerdict(s *State, verdict metav1.Condition) []change.Change {
	verdict.LastTransitionTime = metav1.Time{Time: s.Now}
	return []change.Change{change.PatchObjectStatus(s.Record, func(r *v1.MySQLBackup) {
		meta.RemoveStatusCondition(&r.Status.Conditions, verdict.Type)
		meta.SetStatusCondition(&r.Status.Conditions, verdict)
		if r.Status.RestoreTest != nil {
			r.Status.RestoreTest.Concluded = true
		}
	})}
}
