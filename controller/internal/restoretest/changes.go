package restoretest

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
)

// withChanges returns the step with the writes to the API server that its action requires.
func withChanges(s *State, step Step) Step {
	switch step.Action {
	case Start:
		step.Changes = startTest(s)
	case Remove:
		step.Changes = append(takeAccess(s), change.DeleteObject(s.Job.Job, metav1.DeletePropagationForeground))
	case NameJob:
		step.Changes = writeTurn(step.Record, func(t *v1.RestoreTest) { t.Job, t.Concluded = s.Job.UID, false })
	case EndTurn:
		step.Changes = append(takeAccess(s),
			change.PatchObjectStatus(step.Record, func(r *v1.BackupRecord) { r.Status.RestoreTest = nil }))
	case Conclude:
		step.Changes = writeVerdict(s, step.Verdict)
	case NoOp, Wait:
	}
	return step
}

// startTest stores the test in the BackupRecord before it creates the Job, so that the test counts as running from
// then on. It stores the UID of the Job afterwards, so that no other Job is mistaken for the controller's.
func startTest(s *State) []change.Change {
	turn := s.restoreTest()
	if turn != nil {
		return append(giveAccess(s), change.NewObject(newJob(s, turn.ID)))
	}
	took := writeTurn(s.Record, func(t *v1.RestoreTest) {
		*t = v1.RestoreTest{ID: s.NewTurn, StartTime: metav1.Time{Time: s.Now.Truncate(time.Second)}, Awaited: s.isHeld()}
	})
	return append(append(took, giveAccess(s)...), change.NewObject(newJob(s, s.NewTurn)))
}

// giveAccess creates the Secret that gives the Job of the test access to the store, if the backup is stored in one.
func giveAccess(s *State) []change.Change {
	if !s.Record.InStore() {
		return nil
	}
	from, instanceID := s.Record.Spec.Archive, s.Record.Spec.Instance.Instance()
	secret := agent.AccessSecret(instanceID, instanceID.Namespace, instanceID.Accesses().RestoreTest())
	return []change.Change{change.InStore(change.GiveAccess, secret,
		change.Remote{Store: from.Store, Archive: from.Path, Manifest: s.Entry.Manifest})}
}

// takeAccess deletes the Secret that gives the Job of the test access to the store.
func takeAccess(s *State) []change.Change {
	if s.Access == nil {
		return nil
	}
	return []change.Change{change.DeleteObject(s.Access, "")}
}

// writeTurn changes status.restoreTest of a BackupRecord.
func writeTurn(r *v1.BackupRecord, edit func(*v1.RestoreTest)) []change.Change {
	return []change.Change{change.PatchObjectStatus(r, func(r *v1.BackupRecord) {
		if r.Status.RestoreTest == nil {
			r.Status.RestoreTest = &v1.RestoreTest{}
		}
		edit(r.Status.RestoreTest)
	})}
}

// writeVerdict writes the result to the BackupRecord. A repeated result gets a new time, because the delay until the
// next attempt starts at that time.
func writeVerdict(s *State, verdict metav1.Condition) []change.Change {
	verdict.LastTransitionTime = metav1.Time{Time: s.Now}
	return []change.Change{change.PatchObjectStatus(s.Record, func(r *v1.BackupRecord) {
		meta.RemoveStatusCondition(&r.Status.Conditions, verdict.Type)
		meta.SetStatusCondition(&r.Status.Conditions, verdict)
		if r.Status.RestoreTest != nil {
			r.Status.RestoreTest.Concluded = true
		}
	})}
}
