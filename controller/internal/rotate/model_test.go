package rotate

import (
	"fmt"
	"slices"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// The model contains one account of a server, the two Secrets, the spec, and a controller. The controller may stop
// between any two effects, or act on an outdated decision. The tests visit all interleavings.

// This is the age of the password in the connection Secret, relative to the two grace periods.
const (
	fresh = iota
	settled
	old
)

const (
	modelSettle = time.Second
	modelGrace  = time.Minute
)

// A world is a complete state of the model. Passwords are letters, and "" means that there is no password.
type world struct {
	primary, retained           sql.Password
	connection, pending, wanted sql.Password
	before                      sql.Password // The previous password in the connection Secret.
	age                         int
	up                          bool
	dual                        bool
	initial                     sql.Password // The password from the server's first start.
	plan                        rotationStep // The step that the controller has decided but not performed yet.
	half                        bool         // ReplaceAll has set the password but not discarded the old one.
	late                        rotationStep // A step that the server may still execute, because the response was lost.
	changes, outages, deletions int          // How often each event may still happen.
}

func (w *world) accepts(p sql.Password) bool {
	return p != "" && (p == w.primary || p == w.retained)
}

func (w *world) state() rotationState {
	return rotationState{
		Wanted: w.wanted, Connection: w.connection, Pending: w.pending, Reachable: w.up, Dual: w.dual,
		Retained:      w.retained != "",
		AcceptsWanted: w.accepts(w.wanted), AcceptsConnection: w.accepts(w.connection),
		AcceptsPending: w.accepts(w.pending), AcceptsInitial: w.accepts(w.initial),
		Since: []time.Duration{0, modelSettle, modelGrace}[w.age], Grace: modelGrace, Settle: modelSettle, Described: true,
	}
}

// set sets the server's password in the model, as MySQL does.
func (w *world) set(p sql.Password, retain bool) {
	if retain {
		w.retained = w.primary
	}
	w.primary = p
}

func (w *world) promote(p sql.Password) {
	w.before, w.connection, w.age = w.connection, p, fresh
}

// perform performs the next write of a step. A step with two writes needs two calls, and the first one returns false.
func (w *world) perform(s rotationStep) (done bool) {
	switch s.Do {
	case Create, Promote:
		w.promote(s.Password)
	case Stage:
		w.pending = s.Password
	case Change:
		w.set(s.Password, s.Retain)
	case Discard:
		w.retained = ""
	case Forget:
		w.pending = ""
	case ReplaceAll:
		if w.half {
			w.retained, w.half = "", false
			return true
		}
		w.set(s.Password, false)
		w.half = true
		return false
	case NoOp, Wait, Unreachable, Refused, Describe:
	}
	return true
}

func acts(s rotationStep) bool {
	return !slices.Contains([]Action{"", NoOp, Wait, Unreachable, Refused}, s.Do)
}

// onServer reports whether the step needs a running server.
func onServer(s rotationStep) bool {
	return slices.Contains([]Action{Change, Discard, ReplaceAll}, s.Do)
}

// A design decides and performs steps. It is the real design, or an incorrect one that the model must detect.
type design struct {
	next func(rotationState) rotationStep
	// unlocked is true if there is no lock, so that the server may execute a statement of an earlier session late.
	unlocked bool
	// outsiders is true if other clients may delete the pending Secret.
	outsiders bool
}

// A move is an event of the model, such as a write or a restart. It leads to the world next.
type move struct {
	name string
	next world
}

func (d design) moves(w world) []move {
	out := d.outside(w)
	add := func(name string, change func(*world)) {
		next := w
		change(&next)
		out = append(out, move{name, next})
	}
	if w.late.Do != "" {
		add("the late statement", func(n *world) { n.perform(n.late); n.late = rotationStep{} })
	}
	if !acts(w.plan) {
		if s := d.next(w.state()); acts(s) {
			add("decide "+string(s.Do), func(n *world) { n.plan = s })
		}
		return out
	}
	if w.up || !onServer(w.plan) {
		add(fmt.Sprintf("%s %s", w.plan.Do, string(w.plan.Password)), func(n *world) {
			if n.perform(n.plan) {
				n.plan = rotationStep{}
			}
		})
	}
	add("crash", func(n *world) { n.plan, n.half = rotationStep{}, false })
	if d.unlocked && w.up && w.plan.Do == Change && w.late.Do == "" {
		add("crash with the statement on its way", func(n *world) { n.late, n.plan = n.plan, rotationStep{} })
	}
	return out
}

// outside returns the moves that the controller does not make. They are caused by users, by the server, or by the
// passage of time.
func (d design) outside(w world) []move {
	out := []move{}
	add := func(name string, change func(*world)) {
		next := w
		change(&next)
		out = append(out, move{name, next})
	}
	for _, p := range []sql.Password{"a", "b", "c"} {
		if p != w.wanted && w.changes > 0 {
			add("wanted "+string(p), func(n *world) { n.wanted = p; n.changes-- })
		}
	}
	if w.up && w.outages > 0 {
		// A restart loses no acknowledged change.
		add("server down", func(n *world) { n.up = false; n.outages-- })
	}
	if !w.up {
		add("server up", func(n *world) { n.up = true })
	}
	if w.age < old {
		add("time passes", func(n *world) { n.age++ })
	}
	if d.outsiders && w.deletions > 0 && w.pending != "" && w.accepts(w.connection) && w.dual {
		add("somebody deletes the pending Secret", func(n *world) { n.pending = ""; n.deletions-- })
	}
	return out
}

// broken returns the guarantee that a world violates, or "".
func broken(w world) string {
	switch {
	case w.connection == "" && !w.accepts(w.pending) && !w.accepts(w.initial):
		return "the password of the server is in nobody's memory"
	case w.connection == "":
		return ""
	case w.dual && !w.accepts(w.connection):
		return "the password in the connection Secret is refused"
	case !w.dual && !w.accepts(w.connection) && !w.accepts(w.pending):
		return "no Secret has a password that is accepted"
	case w.dual && w.before != "" && w.age < settled && !w.accepts(w.before):
		return "a client that has just read the connection Secret is refused"
	}
	return ""
}
