// Package rotate sets the requested password in a running server and maintains the connection Secret. The password in
// this Secret is valid at every moment, even after a crash between two steps.
//
//	        | the server accepts | connection | pending |
//	at rest | a                  | a          | none    |
//	Stage   | a                  | a          | b       | the new password is stored before it is set.
//	Change  | b and still a      | a          | b       | ALTER USER … RETAIN CURRENT PASSWORD
//	Promote | b and still a      | b          | b       | clients get b from here on.
//	Discard | b                  | b          | b       | after the grace period, which starts when Crossplane has published b.
//	Forget  | b                  | b          | none    |
//
// The controller sets only passwords that are stored in a Secret. The connection Secret contains only a password that
// the server has accepted.
//
// MySQL retains one old password. If the server accepts two passwords, the pending Secret shows which one is newer:
// an accepted pending password was set after the one in the connection Secret. A server without dual passwords
// follows the same steps, but refuses a between Change and Promote.
package rotate

import (
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// A rotationState contains everything that determines the next step.
type rotationState struct {
	// Wanted is the requested password. Connection and Pending are the passwords in the connection Secret and the
	// pending Secret, or "" if there is none.
	Wanted, Connection, Pending sql.Password
	// Reachable is true if the server responds.
	Reachable bool
	// AcceptsWanted, AcceptsConnection, AcceptsPending and AcceptsInitial are true if the server accepts the
	// respective password. The initial password is the one with which the server first started.
	AcceptsWanted, AcceptsConnection, AcceptsPending, AcceptsInitial bool
	// Dual is true if the server can retain an old password.
	Dual bool
	// Retained is true if a root account currently retains an old password.
	Retained bool
	// Since is the time since Crossplane published the current password of the connection Secret.
	Since time.Duration
	// Grace is the time for which an old password remains valid, so that clients can read the new one.
	Grace time.Duration
	// Settle is the grace period if another change is waiting.
	Settle time.Duration
	// Described is true if the connection Secret contains the requested database, host and port.
	Described bool
}

// An Action is what the controller does in one step of a password change.
type Action string

// These are the possible actions. Each can be interrupted at any point and repeated.
const (
	// NoOp means that everything is up to date.
	NoOp Action = "NoOp"
	// Wait waits until the old password can be discarded.
	Wait Action = "Wait"
	// Unreachable means that the server does not respond, so its state is unknown. Nothing is done.
	Unreachable Action = "Unreachable"
	// Refused means that the server accepts none of the known passwords.
	Refused Action = "Refused"
	// Create creates the connection Secret with an accepted password.
	Create Action = "Create"
	// Stage stores a password in the pending Secret.
	Stage Action = "Stage"
	// Change sets the pending password in the server.
	Change Action = "Change"
	// Promote copies an accepted password to the connection Secret.
	Promote Action = "Promote"
	// Discard discards the old password in the server.
	Discard Action = "Discard"
	// ReplaceAll makes a password the only valid one in the server. It sets the password without retaining another
	// one, and then discards the old one.
	ReplaceAll Action = "ReplaceAll"
	// Forget deletes the pending password.
	Forget Action = "Forget"
	// Describe writes database, host and port to the connection Secret.
	Describe Action = "Describe"
)

// A rotationStep is an action with its parameters.
type rotationStep struct {
	Do Action
	// Password is the password for Create, Stage, Change, Promote and ReplaceAll.
	Password sql.Password
	// Retain makes Change retain the current password.
	Retain bool
	// After is the duration of Wait.
	After time.Duration
}

// decideStep returns the next step of a change. It is correct in every state that a crash can leave.
func decideStep(s rotationState) rotationStep {
	if !s.Reachable {
		return rotationStep{Do: Unreachable}
	}
	if !s.AcceptsWanted && !s.AcceptsConnection && !s.AcceptsPending && !s.AcceptsInitial {
		return rotationStep{Do: Refused}
	}
	next := s.nextStep()
	if (next.Do == NoOp || next.Do == Wait) && !s.Described {
		return rotationStep{Do: Describe}
	}
	return next
}

func (s rotationState) nextStep() rotationStep {
	switch {
	case s.Connection == "":
		return s.firstPassword()
	case !s.AcceptsConnection:
		return s.repairConnection()
	case s.isUnpromoted() && s.Wanted != s.Connection:
		return rotationStep{Do: Promote, Password: s.Pending}
	case s.Retained:
		return s.releaseOld()
	case s.Wanted == s.Connection && s.Pending == "":
		return rotationStep{Do: NoOp}
	case s.Wanted == s.Connection:
		return rotationStep{Do: Forget}
	case s.Pending != s.Wanted:
		return rotationStep{Do: Stage, Password: s.Wanted}
	}
	return rotationStep{Do: Change, Password: s.Wanted, Retain: s.Dual}
}

// isUnpromoted reports whether the server already accepts the pending password, but the connection Secret does not
// contain it yet.
func (s rotationState) isUnpromoted() bool {
	return s.Pending != "" && s.Pending != s.Connection && s.AcceptsPending
}

// firstPassword returns the step if there is no connection Secret. Either the instance is new, or a user has deleted
// the Secret. In the second case, there may be a pending password, and the server may accept it or the previous one.
// releaseOld later discards the previous password.
func (s rotationState) firstPassword() rotationStep {
	switch {
	case s.Pending != "" && s.AcceptsPending:
		return rotationStep{Do: Create, Password: s.Pending}
	case s.AcceptsWanted:
		return rotationStep{Do: Create, Password: s.Wanted}
	}
	// The server was first started with a different password, which no client has.
	return s.resetPassword()
}

// repairConnection repairs a connection Secret whose password the server refuses. Either a server without dual
// passwords is between Change and Promote, or another client has changed the password.
func (s rotationState) repairConnection() rotationStep {
	switch {
	case s.Pending != "" && s.AcceptsPending:
		return rotationStep{Do: Promote, Password: s.Pending}
	case s.AcceptsWanted:
		return rotationStep{Do: Promote, Password: s.Wanted}
	}
	return s.resetPassword()
}

// resetPassword sets the requested password if no client has the current one. It is stored in the pending Secret
// first, because the spec may change again before a crash. Only the pending Secret then contains the password that
// was set.
func (s rotationState) resetPassword() rotationStep {
	if s.Pending != s.Wanted {
		return rotationStep{Do: Stage, Password: s.Wanted}
	}
	return rotationStep{Do: ReplaceAll, Password: s.Wanted}
}

// releaseOld discards the old password. It may be unknown whether the connection Secret contains the newer of the
// two. In this case, the password in the connection Secret is set again without retaining another one, which is
// always correct.
func (s rotationState) releaseOld() rotationStep {
	wait := s.Grace
	if s.Wanted != s.Connection {
		wait = min(s.Grace, s.Settle)
	}
	switch {
	case s.Since < wait:
		return rotationStep{Do: Wait, After: wait - s.Since}
	case s.Pending == s.Connection:
		return rotationStep{Do: Discard}
	}
	return rotationStep{Do: ReplaceAll, Password: s.Connection}
}
