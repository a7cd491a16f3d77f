package lifecycle

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/restoretest"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A walk is one random sequence of events of the model. TestModel assumes that the controller reads a state at one
// moment. In reality, objects change between two reads, which results in far too many sequences to try all. Each walk
// has a number, which is the seed of its random generator.
type walk struct {
	rand  *rand.Rand
	world model
	trace []string
	// oddsOfUser is n if one of n events may be an event of a user.
	oddsOfUser int
	// lags and rash are deliberate bugs. With lags, data PVCs are read from a cache. With rash, changes have no
	// precondition.
	lags, rash bool
	// held is true if a step of the last pass waits for manual action.
	held bool

	// seen contains the Kubernetes objects of the state seenOf, so that they are not created again for each read.
	seen   modelReader
	seenOf model
}

// walks is the maximum number of walks in which a bug must be found.
const walks = 1000

// walksOfStart returns the number of walks for each start state. WALKS sets it, for example in `make test-all`.
func walksOfStart(t *testing.T) int {
	t.Helper()
	text := cmp.Or(os.Getenv("WALKS"), "200")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("WALKS is %q; it is a number of walks, one or more", text)
	}
	return n
}

func newWalk(number int, start model) *walk {
	return &walk{rand: rand.New(rand.NewPCG(uint64(number), 0)), world: start, oddsOfUser: 1 << (number % 4)} //nolint:gosec // Each run must be the same.
}

func (w *walk) objects(world model) modelReader {
	if w.seen.objects == nil || w.seenOf != world {
		w.seen, w.seenOf = modelReader{world, world.objects()}, world
	}
	return w.seen
}

// A tornReader serves the reads of one reconcile, and changes the model before one of them.
type tornReader struct {
	walk *walk
	// before is the model before the first read.
	before model
	// countdown is the number of reads until the model changes.
	countdown int
}

func (w *walk) torn() *tornReader {
	return &tornReader{walk: w, before: w.world, countdown: 1 + w.rand.IntN(16)}
}

func (r *tornReader) Get(ctx context.Context, k client.ObjectKey, target client.Object,
	opts ...client.GetOption) error {
	r.meanwhile()
	from := r.walk.world
	if _, ok := target.(*corev1.PersistentVolumeClaim); ok && r.walk.lags && k.Name == r.walk.world.instanceOf(0).DataPVCName() {
		from = r.before
	}
	return r.walk.objects(from).Get(ctx, k, target, opts...)
}

func (r *tornReader) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	r.meanwhile()
	return r.walk.objects(r.walk.world).List(ctx, l, opts...)
}

func (r *tornReader) model() model {
	r.meanwhile()
	return r.walk.world
}

// meanwhile is called before each read. It applies random events before the read at which the countdown ends, and none
// before the other reads.
func (r *tornReader) meanwhile() {
	if r.countdown--; r.countdown != 0 {
		return
	}
	for range 1 + r.walk.rand.IntN(10) {
		r.walk.others(true)
	}
}

// others applies one random event that the controller does not cause. It reports whether such an event was possible.
func (w *walk) others(users bool) bool {
	users = users && w.rand.IntN(w.oddsOfUser) == 0
	moves := slices.DeleteFunc(w.world.moves(), func(x move) bool { return x.next == w.world || x.user && !users })
	if len(moves) == 0 {
		return false
	}
	w.take(moves[w.rand.IntN(len(moves))])
	return true
}

func (w *walk) take(x move) {
	if x.next != w.world {
		w.trace, w.world = append(w.trace, x.name), x.next
	}
}

// pass runs the controller once. It takes the next step of a random instance, then one of a restore test, and then one
// of a BackupRecord.
func (w *walk) pass(r worldReader) error {
	began := len(w.trace)
	instances, err := gatherListed(gathererOf(r), w.world.key())
	if err != nil {
		return err
	}
	if began < len(w.trace) {
		w.trace = slices.Insert(w.trace, began, "the controller begins to read")
	}
	w.held = false
	next := map[int]steps.Step{}
	for n, s := range instances {
		step := Next(s)
		w.held = w.held || step.Phase == v1.DeletionBlocked && step.Message != ""
		if !idle(step) {
			next[n] = step
		}
	}
	if len(next) > 0 {
		n := slices.Sorted(maps.Keys(next))[w.rand.IntN(len(next))]
		w.write("the controller does "+string(next[n].Action), next[n].Changes)
	}
	subject, tests, err := w.world.restoreTestChanges(restoretest.Next)
	if err != nil {
		return err
	}
	w.write(subject, tests)
	return w.archivesPass(r)
}

// archivesPass lets the controller take one step for a BackupRecord of a deleted instance, if there is one.
func (w *walk) archivesPass(r worldReader) error {
	if w.world.quiet() {
		return nil
	}
	a, err := w.world.archives(r)
	if err != nil {
		return err
	}
	steps := slices.DeleteFunc(catalog.NextOfArchives(a), idleArchive)
	if len(steps) == 0 {
		return nil
	}
	step := steps[w.rand.IntN(len(steps))]
	w.write("the controller does "+string(step.Action), step.Changes)
	return nil
}

// write applies changes as the API server does. Many other events can happen before each change, because the
// controller may be paused and then write what it decided long ago.
func (w *walk) write(subject string, changes []change.Change) {
	mine := map[string]client.Object{}
	for _, c := range changes {
		if w.rand.IntN(4) == 0 {
			for range 1 + w.rand.IntN(10) {
				w.others(true)
			}
		}
		if w.rash {
			c.If = change.OfName
		}
		if elsewhere, possible := w.world.elsewhere(c); elsewhere && !possible {
			if c.MayFail {
				continue
			}
			return
		} else if elsewhere {
			next := w.world
			next.write(c)
			w.take(move{name: subject, next: next})
			continue
		}
		name := kindOf(c.Object) + " " + c.Object.GetNamespace() + "/" + c.Object.GetName()
		now := find(w.objects(w.world).objects, c.Object)
		switch own, written := mine[name]; {
		case written && own == nil:
			continue // Another client created the object.
		case written && c.If == change.AsRead && !reflect.DeepEqual(now, own), !written && !holds(c, now):
			return
		case c.Verb == change.Create && now != nil:
			mine[name] = nil
			continue
		case now == nil && c.Verb != change.Create:
			continue
		}
		next := w.world
		next.write(c)
		w.take(move{name: subject, next: next})
		mine[name] = find(w.objects(w.world).objects, c.Object)
	}
}

// why returns why a walk failed, or "". Users act in the first part of the walk. The second part continues without
// them until nothing changes.
func (w *walk) why(mayWait bool) string {
	for range 200 {
		before := w.world
		if w.rand.IntN(3) > 0 || !w.others(true) {
			if err := w.pass(w.torn()); err != nil {
				return err.Error()
			}
		}
		if reason := w.world.check(); reason != "" {
			return reason
		}
		if w.world == before && len(w.world.moves()) == 0 {
			break
		}
	}
	for range 2000 {
		before := w.world
		if err := w.pass(w.objects(w.world)); err != nil {
			return err.Error()
		}
		rests := !w.others(false) && w.world == before
		switch reason := w.world.check(); {
		case reason != "":
			return reason
		case rests && w.held && mayWait:
			return ""
		case rests && w.held:
			return "it waits for a person, who has done nothing wrong"
		case rests:
			return w.world.stuck()
		}
	}
	return "it comes to no end"
}

// TestModelTorn checks the same invariants as TestModel, while objects change during the reads of the controller.
func TestModelTorn(t *testing.T) {
	t.Parallel()
	number := walksOfStart(t)
	for name, start := range modelStarts() {
		t.Run(name, func(t *testing.T) { t.Parallel(); walkAll(t, start, number) })
	}
	for name, start := range ownStarts() { // Most of their events also occur in the other walks.
		t.Run("without claims, "+name, func(t *testing.T) { t.Parallel(); walkAll(t, start, (number+4)/5) })
	}
	for name, start := range recordStarts() { // These walks are longer.
		t.Run(name, func(t *testing.T) { t.Parallel(); walkAll(t, start, (number+4)/5) })
	}
}

func walkAll(t *testing.T, start model, walks int) {
	t.Helper()
	for number := range walks {
		w := newWalk(number, start)
		if reason := w.why(start.mayWait()); reason != "" {
			t.Fatalf("walk %d: %s:\n%s", number, reason, strings.Join(w.trace, "\n"))
		}
	}
}

// TestModelTornFindsBugs checks that walks detect bugs in reads and writes.
func TestModelTornFindsBugs(t *testing.T) {
	for name, bug := range map[string]struct {
		reason string
		start  model
		put    func(*walk)
	}{
		"cache": {reason: "With a data PVC from a cache, a volume appears to have lost its PVC.",
			start: modelStarts()["data PVC"], put: func(w *walk) { w.lags = true }},
		"no precondition": {reason: "The controller overwrites a request that a user made in the meantime.",
			start: recordStarts()["two records lost"], put: func(w *walk) { w.rash = true }},
	} {
		t.Run(name, func(t *testing.T) {
			for number := range walks {
				w := newWalk(number, bug.start)
				bug.put(w)
				if reason := w.why(true); reason != "" {
					t.Logf("walk %d: %s", number, reason)
					return
				}
			}
			t.Errorf("%s It is not found in %d walks", bug.reason, walks)
		})
	}
}
