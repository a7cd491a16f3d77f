package finalize

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

	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/restoretest"
)

// A walk through the model. TestModel reads a state at once; in truth the world
// goes on between one read and the next. Too many ways lead through that to take
// all of them: a walk takes one by chance, which its number alone decides.
type walk struct {
	rand  *rand.Rand
	world model
	trace []string
	// patience of users: one in so many moves may be theirs.
	patience int
	// lags is a bug that was put in on purpose: data PVCs come from a cache.
	lags bool
	// held is true if a step of the last pass waits for a person.
	held bool

	// seen are the objects of seenOf.
	seen   modelReader
	seenOf model
}

// walks in which a bug is looked for.
const walks = 1000

// walksOfStart that each start is worth: those of WALKS, as `make test-all` sets it.
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
	return &walk{rand: rand.New(rand.NewPCG(uint64(number), 0)), world: start, patience: 1 << (number % 4)} //nolint:gosec // Each run is to be the same.
}

func (w *walk) objects(of model) modelReader {
	if w.seen.objects == nil || w.seenOf != of {
		w.seen, w.seenOf = modelReader{of.objects()}, of
	}
	return w.seen
}

// A tornReader answers one gathering, and lets the world go on before one of the
// answers.
type tornReader struct {
	of *walk
	// before the gathering.
	before model
	// at so many reads from now the world goes on.
	at int
}

func (w *walk) torn() *tornReader {
	return &tornReader{of: w, before: w.world, at: 1 + w.rand.IntN(16)}
}

func (r *tornReader) Get(ctx context.Context, k client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	r.meanwhile()
	from := r.of.world
	if _, ok := into.(*corev1.PersistentVolumeClaim); ok && r.of.lags && k.Name == lifeOf(0).DataPVCName() {
		from = r.before
	}
	return r.of.objects(from).Get(ctx, k, into, opts...)
}

func (r *tornReader) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	r.meanwhile()
	return r.of.objects(r.of.world).List(ctx, l, opts...)
}

// meanwhile much happens at one moment of a gathering, and nothing at the others.
func (r *tornReader) meanwhile() {
	if r.at--; r.at != 0 {
		return
	}
	for range 1 + r.of.rand.IntN(10) {
		r.of.others(true)
	}
}

// others than the controller do something; false if they do not.
func (w *walk) others(users bool) bool {
	users = users && w.rand.IntN(w.patience) == 0
	moves := slices.DeleteFunc(w.world.moves(), func(x move) bool { return x.to == w.world || x.user && !users })
	if len(moves) == 0 {
		return false
	}
	w.take(moves[w.rand.IntN(len(moves))])
	return true
}

func (w *walk) take(x move) {
	if x.to != w.world {
		w.trace, w.world = append(w.trace, x.name), x.to
	}
}

// pass of the controller: a step of one life, and one of its restore test.
func (w *walk) pass(r client.Reader) error {
	began := len(w.trace)
	lives, err := gathererFrom(r).Gather(context.Background(), key())
	if err != nil {
		return err
	}
	if began < len(w.trace) {
		w.trace = slices.Insert(w.trace, began, "the controller begins to read")
	}
	w.held = false
	steps := map[int]Step{}
	for n, s := range lives {
		step := Next(s)
		w.held = w.held || step.Phase == PhaseHeld && step.Message != ""
		if !idle(step) {
			steps[n] = step
		}
	}
	if len(steps) > 0 {
		n := slices.Sorted(maps.Keys(steps))[w.rand.IntN(len(steps))]
		if s, step := lives[n], steps[n]; !w.world.refuses(s, step) {
			w.take(w.world.performed(s, step))
		}
	}
	tests, err := w.world.restoreTestMoves(restoretest.Next)
	for _, x := range tests {
		w.take(x)
	}
	if err != nil {
		return err
	}
	return w.archivesPass(r)
}

// archivesPass is a step about a record whose life is over, if there is one to do.
func (w *walk) archivesPass(r client.Reader) error {
	if w.world.quiet() {
		return nil
	}
	a, err := w.world.archives(r)
	if err != nil {
		return err
	}
	steps := slices.DeleteFunc(NextOfArchives(a), idleArchive)
	if len(steps) == 0 {
		return nil
	}
	if step := steps[w.rand.IntN(len(steps))]; !w.world.refusesArchive(step) {
		w.take(w.world.performedOnArchive(step))
	}
	return nil
}

// refusesArchive is what comes too late.
func (m model) refusesArchive(step ArchiveStep) bool {
	there := m.objects()
	changed := func(o client.Object) bool {
		n := slices.IndexFunc(there, func(have client.Object) bool { return kindOf(have) == kindOf(o) && have.GetName() == o.GetName() })
		return n < 0 || !reflect.DeepEqual(there[n], o)
	}
	switch step.Action { //nolint:exhaustive // The others write to the record.
	case AnswerAsked, NoteRecord:
		return changed(step.Volume)
	case RemakeRecord, StartErase:
		return false
	}
	return changed(step.Record)
}

// refuses what comes too late: a write to an object that is no longer as it was
// read, or to one that is gone, and another object of a name that is taken.
func (m model) refuses(s *instance.State, step Step) bool {
	there := m.objects()
	find := func(o client.Object) client.Object {
		n := slices.IndexFunc(there, func(have client.Object) bool {
			return kindOf(have) == kindOf(o) && have.GetNamespace() == o.GetNamespace() && have.GetName() == o.GetName()
		})
		if n < 0 {
			return nil
		}
		return there[n]
	}
	locked, named := written(s, step)
	switch {
	case step.Action == NoteBackup && s.BackupPV == nil, step.Action == CreateBackupPVC && m.backup != none, step.Action == CreatePVC && placeOf(s) == atHome && m.pvc != none:
		return true
	case slices.ContainsFunc(locked, func(o client.Object) bool { return !reflect.DeepEqual(find(o), o) }):
		return true
	}
	return slices.ContainsFunc(named, func(o client.Object) bool {
		have := find(o)
		return have == nil || !maps.Equal(have.GetLabels(), o.GetLabels())
	})
}

// written are the objects that a step writes to: those that must be as they were
// read, and those that must be there. The model gives all claims of a name one UID,
// so they are of the first sort.
func written(s *instance.State, step Step) (locked, named []client.Object) {
	var xr []client.Object
	if !s.Orphaned && s.XR != nil {
		xr = []client.Object{s.XR.Unstructured}
	}
	switch step.Action { //nolint:exhaustive // The others write to the XR, or to what nobody else writes to.
	case DeleteObjects, DeleteOldBackups:
		return nil, step.Targets
	case DeletePVC:
		return step.Targets, nil
	case ReleaseDataPVC:
		return []client.Object{s.DataPVC}, nil
	case ReserveDataPV, RetainDataPV, ReleaseDataPV:
		return []client.Object{s.DataPV}, nil
	case NoteBackup:
		if s.BackupPV != nil {
			locked = append(locked, s.BackupPV)
		}
		return locked, nil
	case MarkRunning, MarkFailed, MarkProven:
		return []client.Object{s.Record()}, nil
	case DeleteUnprovenBackup:
		return step.Targets, nil
	case RetainBackupPV:
		return []client.Object{s.BackupPVC}, nil
	case AdoptBackupPV:
		return []client.Object{s.EarlierBackupPV}, nil
	case StopServer:
		return []client.Object{s.Deployment}, nil
	case RemoveClaimFinalizer:
		return []client.Object{s.Claim.Unstructured}, nil
	case CreateBackupPVC:
		if s.BackupPV != nil {
			locked = append(locked, s.BackupPV)
		}
		return locked, nil
	case AddFinalizers:
		if s.Claim != nil {
			locked = append(locked, s.Claim.Unstructured)
		}
		return append(locked, xr...), nil
	case RemoveXRFinalizer, MarkNoData:
		return xr, nil
	}
	return nil, xr
}

// why a walk ended badly; empty if it did not. Users do what they may, and then it
// goes on to the end.
func (w *walk) why(mayWait bool) string {
	for range 200 {
		before := w.world
		if w.rand.IntN(3) > 0 || !w.others(true) {
			if err := w.pass(w.torn()); err != nil {
				return err.Error()
			}
		}
		if why := w.world.check(); why != "" {
			return why
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
		switch why := w.world.check(); {
		case why != "":
			return why
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

// TestModelTorn: the promises of TestModel, while the world does not wait until
// the controller has read all of it.
func TestModelTorn(t *testing.T) {
	t.Parallel()
	number := walksOfStart(t)
	for name, start := range modelStarts() {
		t.Run(name, func(t *testing.T) { t.Parallel(); walkAll(t, start, number) })
	}
	for name, start := range recordStarts() { // They are longer.
		t.Run(name, func(t *testing.T) { t.Parallel(); walkAll(t, start, (number+4)/5) })
	}
}

func walkAll(t *testing.T, start model, walks int) {
	t.Helper()
	for number := range walks {
		w := newWalk(number, start)
		if why := w.why(start.mayWait()); why != "" {
			t.Fatalf("walk %d: %s:\n%s", number, why, strings.Join(w.trace, "\n"))
		}
	}
}

// TestModelTornFindsBugs: with a data PVC from a cache, a volume looks as if its
// claim were gone.
func TestModelTornFindsBugs(t *testing.T) {
	for number := range walks {
		w := newWalk(number, modelStarts()["data PVC"])
		w.lags = true
		if why := w.why(true); why != "" {
			t.Logf("walk %d: %s", number, why)
			return
		}
	}
	t.Errorf("it is not found in %d walks", walks)
}
