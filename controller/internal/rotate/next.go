// Package rotate brings the wanted password into a running server, and keeps
// the connection Secret true: the password in it authenticates at every moment,
// whatever crashes between any two steps.
//
//	        | the server accepts | connection | pending |
//	at rest | a                  | a          | none    |
//	Stage   | a                  | a          | b       | what is about to be set, before it is
//	Change  | b and still a      | a          | b       | ALTER USER … RETAIN CURRENT PASSWORD
//	Promote | b and still a      | b          | b       | from here on clients get b
//	Discard | b                  | b          | b       | after the grace period, which begins when Crossplane has published b
//	Forget  | b                  | b          | none    |
//
// Nothing is set in the server that no Secret has, and nothing is in the
// connection Secret that the server has not accepted.
//
// MySQL keeps one old password. The pending Secret is what tells which of two
// that are accepted is the newer one: if what is pending is accepted, it was set
// after what the connection Secret has. A server without dual passwords goes the
// same way, and refuses a between Change and Promote.
package rotate

import (
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// A rotationState is all that the next step depends on.
type rotationState struct {
	// Wanted by the spec; what the connection Secret has, or "" where there is no
	// such Secret; what the pending Secret has, or "".
	Wanted, Connection, Pending sql.Password
	// Reachable is true if the server answers.
	Reachable bool
	// AcceptsX is true if the server accepts it. Initial is what the server was first
	// started with.
	AcceptsWanted, AcceptsConnection, AcceptsPending, AcceptsInitial bool
	// Dual is true if the server can keep an old password.
	Dual bool
	// Retained is true if an account of root keeps an old password now.
	Retained bool
	// Since the connection Secret got its password, and with it the one that Crossplane
	// publishes.
	Since time.Duration
	// Grace in which an old password goes on to work, for clients that do not have
	// the new one yet.
	Grace time.Duration
	// Settle is the same where another change waits for it.
	Settle time.Duration
	// Described is true if the connection Secret names database, host and port as
	// they are wanted.
	Described bool
}

// An Action is what is done next.
type Action string

// Actions. Each may be cut off anywhere, or be repeated.
const (
	// NoOp: everything is as it is wanted.
	NoOp Action = "NoOp"
	// Wait until the old password may go.
	Wait Action = "Wait"
	// Unreachable: nothing can be known, and nothing is done.
	Unreachable Action = "Unreachable"
	// Refused: the server accepts no password that is known.
	Refused Action = "Refused"
	// Create the connection Secret, with a password that is accepted.
	Create Action = "Create"
	// Stage a password in the pending Secret.
	Stage Action = "Stage"
	// Change the server's password to the pending one, and retain the current one
	// where the server can.
	Change Action = "Change"
	// Promote a password that is accepted to the connection Secret.
	Promote Action = "Promote"
	// Discard the old password in the server.
	Discard Action = "Discard"
	// ReplaceAll makes a password the only one in the server: it is set without
	// retaining another, and then the old one is discarded.
	ReplaceAll Action = "ReplaceAll"
	// Forget the pending password.
	Forget Action = "Forget"
	// Describe database, host and port in the connection Secret.
	Describe Action = "Describe"
)

// A rotationStep is an action with what it needs.
type rotationStep struct {
	Do Action
	// Password of Create, Stage, Change, Promote and ReplaceAll.
	Password sql.Password
	// Retain the current password, in Change.
	Retain bool
	// After which Wait ends.
	After time.Duration
}

// decideStep step of a change. It is right in every state that a crash may leave.
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

// isUnpromoted is true if the server has the pending password already, and the
// connection Secret does not.
func (s rotationState) isUnpromoted() bool {
	return s.Pending != "" && s.Pending != s.Connection && s.AcceptsPending
}

// firstPassword that clients get. Where one is pending, clients had one before,
// and somebody deleted their Secret. What is accepted may be the older of two:
// without a pending Secret, releaseOld sees to that.
func (s rotationState) firstPassword() rotationStep {
	switch {
	case s.Pending != "" && s.AcceptsPending:
		return rotationStep{Do: Create, Password: s.Pending}
	case s.AcceptsWanted:
		return rotationStep{Do: Create, Password: s.Wanted}
	}
	// It was first started with another password. No client has that.
	return s.resetPassword()
}

// repairConnection Secret whose password is refused: a server without dual passwords,
// between Change and Promote, or somebody else's doing.
func (s rotationState) repairConnection() rotationStep {
	switch {
	case s.Pending != "" && s.AcceptsPending:
		return rotationStep{Do: Promote, Password: s.Pending}
	case s.AcceptsWanted:
		return rotationStep{Do: Promote, Password: s.Wanted}
	}
	return s.resetPassword()
}

// resetPassword of a server whose password no client has. The wanted one is staged
// all the same: after a crash the spec may have changed again, and only the pending
// Secret knows then what the server was given.
func (s rotationState) resetPassword() rotationStep {
	if s.Pending != s.Wanted {
		return rotationStep{Do: Stage, Password: s.Wanted}
	}
	return rotationStep{Do: ReplaceAll, Password: s.Wanted}
}

// releaseOld password. Where it is not known that the connection Secret has
// the newer of the two, it is made so: setting it again without retaining
// anything is right either way.
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
