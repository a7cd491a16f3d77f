package rotate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNext(t *testing.T) {
	// rest returns a state in which password a is requested, accepted and published.
	rest := func(change func(*rotationState)) rotationState {
		s := rotationState{
			Wanted: "a", Connection: "a", Reachable: true, AcceptsWanted: true, AcceptsConnection: true,
			Dual: true, Since: time.Hour, Grace: time.Minute, Settle: time.Second, Described: true,
		}
		change(&s)
		return s
	}
	// wanting returns a state in which password b is requested and the server does not have it.
	wanting := func(change func(*rotationState)) rotationState {
		return rest(func(s *rotationState) { s.Wanted, s.AcceptsWanted = "b", false; change(s) })
	}
	// restored returns a state without a connection Secret, in which the server has a different password.
	restored := func(change func(*rotationState)) rotationState {
		return wanting(func(s *rotationState) {
			s.Connection, s.AcceptsConnection, s.AcceptsInitial = "", false, true
			change(s)
		})
	}
	cases := map[string]struct {
		reason string
		state  rotationState
		want   rotationStep
	}{
		"NoOp": {"Nothing is to be done.", rest(func(*rotationState) {}), rotationStep{Do: NoOp}},
		"Unreachable": {"Nothing can be known.", rest(func(s *rotationState) { s.Reachable = false }),
			rotationStep{Do: Unreachable}},
		"Refused": {"Nobody knows the password.",
			rest(func(s *rotationState) { s.AcceptsWanted, s.AcceptsConnection = false, false }), rotationStep{Do: Refused}},
		"Describe": {"Another database.", rest(func(s *rotationState) { s.Described = false }),
			rotationStep{Do: Describe}},

		"Stage": {"Nothing is set that no Secret has.", wanting(func(*rotationState) {}),
			rotationStep{Do: Stage, Password: "b"}},
		"Restage": {"The user wants something else before it is set.", wanting(func(s *rotationState) { s.Pending = "x" }),
			rotationStep{Do: Stage, Password: "b"}},
		"Change": {"What is staged may be set.", wanting(func(s *rotationState) { s.Pending = "b" }),
			rotationStep{Do: Change, Password: "b", Retain: true}},
		"ChangeOne": {"A server without dual passwords.", wanting(func(s *rotationState) { s.Pending, s.Dual = "b", false }),
			rotationStep{Do: Change, Password: "b"}},
		"Promote": {"What is set is published.", wanting(func(s *rotationState) {
			s.Pending, s.AcceptsWanted, s.AcceptsPending, s.Retained = "b", true, true, true
		}), rotationStep{Do: Promote, Password: "b"}},
		"PromoteOther": {"Also if the user wants something else by now: its old one is the published one.",
			wanting(func(s *rotationState) {
				s.Pending, s.AcceptsPending, s.Retained = "x", true, true
			}), rotationStep{Do: Promote, Password: "x"}},
		"PromoteFirst": {"Before anybody is told where another database is.", wanting(func(s *rotationState) {
			s.Pending, s.AcceptsPending, s.Retained, s.Described = "x", true, true, false
		}), rotationStep{Do: Promote, Password: "x"}},
		"PromoteOne": {"The published one is refused already.", wanting(func(s *rotationState) {
			s.Pending, s.AcceptsWanted, s.AcceptsPending, s.AcceptsConnection, s.Dual = "b", true, true, false, false
		}), rotationStep{Do: Promote, Password: "b"}},

		"Wait": {"Clients have time.", rest(func(s *rotationState) {
			s.Pending, s.AcceptsPending, s.Retained, s.Since = "a", true, true, 20*time.Second
		}), rotationStep{Do: Wait, After: 40 * time.Second}},
		"Discard": {"The time is over.",
			rest(func(s *rotationState) { s.Pending, s.AcceptsPending, s.Retained = "a", true, true }),
			rotationStep{Do: Discard}},
		"Forget": {"One is left.", rest(func(s *rotationState) { s.Pending, s.AcceptsPending = "a", true }),
			rotationStep{Do: Forget}},
		"Recall": {"The user is back at the published one before another was set.",
			rest(func(s *rotationState) { s.Pending = "b" }), rotationStep{Do: Forget}},
		"Return": {"Or after it was set: it is the newer one, and nobody has it.", rest(func(s *rotationState) {
			s.Pending, s.AcceptsPending, s.Retained = "b", true, true
		}), rotationStep{Do: ReplaceAll, Password: "a"}},
		"Settle": {"A second change waits less.",
			wanting(func(s *rotationState) { s.Pending, s.AcceptsPending, s.Retained, s.Since = "a", true, true, 0 }),
			rotationStep{Do: Wait, After: time.Second}},
		"Hurry": {"And then pushes the oldest out.", wanting(func(s *rotationState) {
			s.Pending, s.AcceptsPending, s.Retained, s.Since = "a", true, true, time.Second
		}), rotationStep{Do: Discard}},
		"Unknown": {"Nobody knows which is the newer one.", rest(func(s *rotationState) { s.Retained = true }),
			rotationStep{Do: ReplaceAll, Password: "a"}},
		"UnknownBack": {"The wanted one is accepted, and may be the older.", wanting(func(s *rotationState) {
			s.AcceptsWanted, s.Retained = true, true
		}), rotationStep{Do: ReplaceAll, Password: "a"}},

		"Create": {"The first contact.", restored(func(s *rotationState) { s.AcceptsWanted = true }),
			rotationStep{Do: Create, Password: "b"}},
		"CreatePending": {"Somebody deleted the Secret during a change.",
			restored(func(s *rotationState) { s.Pending, s.AcceptsPending = "x", true }),
			rotationStep{Do: Create, Password: "x"}},
		"StageRestored": {"Nothing is set that no Secret has.", restored(func(*rotationState) {}),
			rotationStep{Do: Stage, Password: "b"}},
		"ReplaceRestored": {"The password of the backup goes at once.", restored(func(s *rotationState) { s.Pending = "b" }),
			rotationStep{Do: ReplaceAll, Password: "b"}},
		"Repair": {"The wanted one was set by hand.",
			wanting(func(s *rotationState) { s.AcceptsConnection, s.AcceptsWanted = false, true }),
			rotationStep{Do: Promote, Password: "b"}},
		"Overrule": {"Another one was.",
			rest(func(s *rotationState) { s.AcceptsConnection, s.AcceptsWanted, s.AcceptsInitial = false, false, true }),
			rotationStep{Do: Stage, Password: "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := decideStep(tc.state)
			if got != tc.want {
				t.Errorf("%s -want, +got:\n%s", tc.reason, cmp.Diff(tc.want, got))
			}
		})
	}
}
