package rotate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNext(t *testing.T) {
	// at rest: a is wanted, accepted and published.
	rest := func(change func(*State)) State {
		s := State{
			Wanted: "a", Connection: "a", Reachable: true, AcceptsWanted: true, AcceptsConnection: true,
			Dual: true, Since: time.Hour, Grace: time.Minute, Settle: time.Second, Described: true,
		}
		change(&s)
		return s
	}
	// wanting b, which the server does not have.
	wanting := func(change func(*State)) State {
		return rest(func(s *State) { s.Wanted, s.AcceptsWanted = "b", false; change(s) })
	}
	// restored: there is no connection Secret, and the server has another password.
	restored := func(change func(*State)) State {
		return wanting(func(s *State) { s.Connection, s.AcceptsConnection, s.AcceptsOther = "", false, true; change(s) })
	}
	cases := map[string]struct {
		reason string
		state  State
		want   Step
	}{
		"Rest":        {"Nothing is to be done.", rest(func(*State) {}), Step{Do: Rest}},
		"Unreachable": {"Nothing can be known.", rest(func(s *State) { s.Reachable = false }), Step{Do: Unreachable}},
		"Refused":     {"Nobody knows the password.", rest(func(s *State) { s.AcceptsWanted, s.AcceptsConnection = false, false }), Step{Do: Refused}},
		"Describe":    {"Another database.", rest(func(s *State) { s.Described = false }), Step{Do: Describe}},

		"Stage":     {"Nothing is set that no Secret has.", wanting(func(*State) {}), Step{Do: Stage, Password: "b"}},
		"Restage":   {"The user wants something else before it is set.", wanting(func(s *State) { s.Pending = "x" }), Step{Do: Stage, Password: "b"}},
		"Change":    {"What is staged may be set.", wanting(func(s *State) { s.Pending = "b" }), Step{Do: Change, Password: "b", Retain: true}},
		"ChangeOne": {"A server without dual passwords.", wanting(func(s *State) { s.Pending, s.Dual = "b", false }), Step{Do: Change, Password: "b"}},
		"Promote": {"What is set is published.", wanting(func(s *State) {
			s.Pending, s.AcceptsWanted, s.AcceptsPending, s.Retained = "b", true, true, true
		}), Step{Do: Promote, Password: "b"}},
		"PromoteOther": {"Also if the user wants something else by now: its old one is the published one.", wanting(func(s *State) {
			s.Pending, s.AcceptsPending, s.Retained = "x", true, true
		}), Step{Do: Promote, Password: "x"}},
		"PromoteFirst": {"Before anybody is told where another database is.", wanting(func(s *State) {
			s.Pending, s.AcceptsPending, s.Retained, s.Described = "x", true, true, false
		}), Step{Do: Promote, Password: "x"}},
		"PromoteOne": {"The published one is refused already.", wanting(func(s *State) {
			s.Pending, s.AcceptsWanted, s.AcceptsPending, s.AcceptsConnection, s.Dual = "b", true, true, false, false
		}), Step{Do: Promote, Password: "b"}},

		"Wait":    {"Clients have time.", rest(func(s *State) { s.Pending, s.AcceptsPending, s.Retained, s.Since = "a", true, true, 20*time.Second }), Step{Do: Wait, After: 40 * time.Second}},
		"Discard": {"The time is over.", rest(func(s *State) { s.Pending, s.AcceptsPending, s.Retained = "a", true, true }), Step{Do: Discard}},
		"Forget":  {"One is left.", rest(func(s *State) { s.Pending, s.AcceptsPending = "a", true }), Step{Do: Forget}},
		"Recall":  {"The user is back at the published one before another was set.", rest(func(s *State) { s.Pending = "b" }), Step{Do: Forget}},
		"Return": {"Or after it was set: it is the newer one, and nobody has it.", rest(func(s *State) {
			s.Pending, s.AcceptsPending, s.Retained = "b", true, true
		}), Step{Do: Take, Password: "a"}},
		"Settle":  {"A second change waits less.", wanting(func(s *State) { s.Pending, s.AcceptsPending, s.Retained, s.Since = "a", true, true, 0 }), Step{Do: Wait, After: time.Second}},
		"Hurry":   {"And then pushes the oldest out.", wanting(func(s *State) { s.Pending, s.AcceptsPending, s.Retained, s.Since = "a", true, true, time.Second }), Step{Do: Discard}},
		"Unknown": {"Nobody knows which is the newer one.", rest(func(s *State) { s.Retained = true }), Step{Do: Take, Password: "a"}},
		"UnknownBack": {"The wanted one is accepted, and may be the older.", wanting(func(s *State) {
			s.AcceptsWanted, s.Retained = true, true
		}), Step{Do: Take, Password: "a"}},

		"Create":        {"The first contact.", restored(func(s *State) { s.AcceptsWanted = true }), Step{Do: Create, Password: "b"}},
		"CreatePending": {"Somebody deleted the Secret during a change.", restored(func(s *State) { s.Pending, s.AcceptsPending = "x", true }), Step{Do: Create, Password: "x"}},
		"StageRestored": {"Nothing is set that no Secret has.", restored(func(*State) {}), Step{Do: Stage, Password: "b"}},
		"TakeRestored":  {"The password of the backup goes at once.", restored(func(s *State) { s.Pending = "b" }), Step{Do: Take, Password: "b"}},
		"Repair":        {"The wanted one was set by hand.", wanting(func(s *State) { s.AcceptsConnection, s.AcceptsWanted = false, true }), Step{Do: Promote, Password: "b"}},
		"Overrule":      {"Another one was.", rest(func(s *State) { s.AcceptsConnection, s.AcceptsWanted, s.AcceptsOther = false, false, true }), Step{Do: Stage, Password: "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.state)
			if got != tc.want {
				t.Errorf("%s -want, +got:\n%s", tc.reason, cmp.Diff(tc.want, got))
			}
		})
	}
}
