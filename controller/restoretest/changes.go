package restoretest

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
)

// withChanges is a step with all that is written for it.
func withChanges(s *State, step Step) Step {
	switch step.Action {
	case Start:
		step.Changes = startTest(s)
	case Remove:
		step.Changes = []change.Change{change.DeleteObject(s.Job.Job, metav1.DeletePropagationForeground)}
	case NameJob:
		step.Changes = writeTurn(step.Record, func(t *v1.RestoreTest) { t.Job, t.Concluded = s.Job.UID, false })
	case EndTurn:
		step.Changes = []change.Change{change.PatchObjectStatus(step.Record, func(r *v1.MySQLBackup) { r.Status.RestoreTest = nil })}
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
		return []change.Change{change.NewObject(newJob(s, turn.ID))}
	}
	took := writeTurn(s.Record, func(t *v1.RestoreTest) {
		*t = v1.RestoreTest{ID: s.NewTurn, StartedAt: metav1.Time{Time: s.Now.Truncate(time.Second)}, Awaited: s.Home.IsDeleting()}
	})
	return append(took, change.NewObject(newJob(s, s.NewTurn)))
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
