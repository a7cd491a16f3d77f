package rotate

import (
	"slices"
	"strings"
	"testing"
)

// A way records how explore first reached a world: from which other world, and by which move.
type way struct {
	from world
	move string
}

// explore visits all reachable worlds until one of them violates a guarantee. It returns a shortest path to that
// world.
func (d design) explore(starts ...world) (seen map[world]way, trace []string) {
	seen = map[world]way{}
	queue := slices.Clone(starts)
	for _, w := range starts {
		seen[w] = way{}
	}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		if reason := broken(w); reason != "" {
			return seen, append(traced(seen, w), reason)
		}
		for _, m := range d.moves(w) {
			if _, ok := seen[m.next]; !ok {
				seen[m.next] = way{w, m.name}
				queue = append(queue, m.next)
			}
		}
	}
	return seen, nil
}

func traced(seen map[world]way, w world) []string {
	out := []string{}
	for seen[w].move != "" {
		out = append(out, seen[w].move)
		w = seen[w].from
	}
	slices.Reverse(out)
	return out
}

// settle returns the world after all steps of the controller, if nothing else happens, and the number of steps. The
// number is -1 if the steps never finish.
func (d design) settle(w world) (world, int) {
	w.up, w.plan, w.half = true, rotationStep{}, false
	for n := range 40 {
		s := d.next(w.state())
		switch {
		case s.Do == NoOp:
			return w, n
		case s.Do == Wait && w.age < old:
			w.age++
		case !acts(s):
			return w, -1
		}
		for !w.perform(s) { //nolint:revive // ReplaceAll has two effects.
		}
	}
	return w, -1
}

// starts returns the initial worlds: new instances that were started with the requested or another password, and a
// running instance. If the server can retain a password, a user may have changed one before or after the controller's
// first login.
func starts(dual bool) []world {
	base := world{up: true, dual: dual, wanted: "a", changes: 3, outages: 1, deletions: 1, age: old}
	changed := func(change func(*world)) world {
		w := base
		change(&w)
		return w
	}
	out := []world{
		changed(func(w *world) { w.primary, w.initial = "a", "a" }),
		changed(func(w *world) { w.primary, w.initial = "r", "r" }),
		changed(func(w *world) { w.primary, w.connection = "a", "a" }),
	}
	if dual {
		out = append(out,
			changed(func(w *world) { w.primary, w.retained, w.initial = "r", "q", "r" }),
			changed(func(w *world) { w.primary, w.retained, w.initial = "q", "r", "r" }),
			changed(func(w *world) { w.primary, w.retained, w.initial = "a", "r", "r" }),
			changed(func(w *world) { w.primary, w.retained, w.initial = "r", "a", "r" }),
			changed(func(w *world) { w.primary, w.retained, w.connection = "a", "h", "a" }),
			changed(func(w *world) { w.primary, w.retained, w.connection = "h", "a", "a" }),
		)
	}
	return out
}

// TestModel checks that no reachable state (world) of the model violates a guarantee of broken. From each state, the
// controller must finish the password change.
func TestModel(t *testing.T) {
	for _, tc := range []struct {
		design

		name   string
		starts []world
	}{
		{design{next: decideStep}, "MySQL", starts(true)},
		{design{next: decideStep, outsiders: true}, "MySQL, and somebody deletes the pending Secret", starts(true)},
		{design{next: decideStep}, "a server without dual passwords", starts(false)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			seen, trace := tc.explore(tc.starts...)
			if trace != nil {
				t.Fatalf("after %d states:\n  %s", len(seen), strings.Join(trace, "\n  "))
			}
			longest := 0
			for w := range seen {
				end, n := tc.settle(w)
				if n < 0 || end.connection != w.wanted || end.primary != w.wanted || end.retained != "" || end.pending != "" {
					t.Fatalf("%+v does not come to rest, but to %+v:\n  %s", w, end, strings.Join(traced(seen, w), "\n  "))
				}
				longest = max(longest, n)
			}
			t.Logf("%d states: the promise holds in each, and each comes to rest in at most %d steps", len(seen), longest)
		})
	}
}

// TestModelFindsBugs checks that explore finds a violated guarantee for each incorrect design.
func TestModelFindsBugs(t *testing.T) {
	for _, tc := range []struct {
		design

		reason string
	}{
		{reason: "RETAIN is repeated although it is unknown whether it was already executed.",
			design: design{next: func(s rotationState) rotationStep {
				s.AcceptsPending = s.AcceptsPending && s.Pending == s.Connection
				s.Retained = false
				return decideStep(s)
			}}},
		{reason: "The connection Secret is changed before the server is changed.",
			design: design{next: func(s rotationState) rotationStep {
				if n := decideStep(s); n.Do != Change {
					return n
				}
				return rotationStep{Do: Promote, Password: s.Wanted}
			}}},
		{reason: "The old password is discarded before the new one is promoted.",
			design: design{next: func(s rotationState) rotationStep {
				if s.Retained && s.isUnpromoted() {
					return rotationStep{Do: Discard}
				}
				return decideStep(s)
			}}},
		{reason: "Any wanted password that the server accepts is treated as the newer one.",
			design: design{next: func(s rotationState) rotationStep {
				if s.AcceptsWanted && s.Wanted != s.Connection && s.Connection != "" {
					return rotationStep{Do: Promote, Password: s.Wanted}
				}
				if n := decideStep(s); n.Do != ReplaceAll {
					return n
				}
				return rotationStep{Do: Discard}
			}}},
		{reason: "A second change does not wait for the clients of the first change.",
			design: design{next: func(s rotationState) rotationStep {
				s.Settle = 0
				return decideStep(s)
			}}},
		{reason: "The old password is discarded although it is unknown which password is older.",
			design: design{outsiders: true, next: func(s rotationState) rotationStep {
				if n := decideStep(s); n.Do != ReplaceAll {
					return n
				}
				return rotationStep{Do: Discard}
			}}},
		{reason: "A password that no Secret contains is set in a restored server.",
			design: design{next: func(s rotationState) rotationStep {
				if s.Connection == "" {
					s.Pending = s.Wanted
				}
				return decideStep(s)
			}}},
		{reason: "Without the lock, the server may receive a delayed statement of an earlier session.",
			design: design{next: decideStep, unlocked: true}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			seen, trace := tc.explore(starts(true)...)
			if trace == nil {
				t.Fatalf("not found in %d states", len(seen))
			}
			t.Logf("found after %d states:\n  %s", len(seen), strings.Join(trace, "\n  "))
		})
	}
}
