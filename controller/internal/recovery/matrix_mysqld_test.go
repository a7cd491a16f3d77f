//go:build mysqld

package recovery_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// variable is the environment variable with the directory for the results. If it is set, all cells run.
const variable = "RECOVERY_MATRIX"

// placeNames are the destinations in the order of history.destinations.
var placeNames = []string{"new name", "in place", "new cluster"}

// A cell is one case of the recovery matrix: a fault, a destination of the recovery, and a target such as a time.
type cell struct {
	fault  *fault
	place  int
	target *kind
}

func (c cell) title() string {
	return c.fault.name + " / " + placeNames[c.place] + " / " + c.target.name
}

// fixed is the number of kinds of targets that are tried after every fault. The other ones differ between faults.
const fixed = 2

// targetsOf returns the kinds of targets that are tried after a fault. number is the fault's index. The variable
// TARGETS sets the number of kinds.
func targetsOf(number int) (out []*kind) {
	f := &faults[number]
	var all []*kind
	for i := range kinds {
		if kinds[i].applies(f) {
			all = append(all, &kinds[i])
		}
	}
	count := 4
	if n, err := strconv.Atoi(os.Getenv("TARGETS")); err == nil {
		count = n
	}
	for i := range min(count, len(all)) {
		k := i
		if i >= fixed {
			k = fixed + (i-fixed+5*number)%(len(all)-fixed)
		}
		out = append(out, all[k])
	}
	return out
}

// cellsOf returns the cells of the fault with this index.
func cellsOf(number int) (out []cell) {
	for _, k := range targetsOf(number) {
		for place := range placeNames {
			out = append(out, cell{&faults[number], place, k})
		}
	}
	return out
}

// TestRealRecoveryMatrix recovers servers to many targets after many faults. Clients note what the server has
// acknowledged, and each recovered server must have exactly the rows of the transactions up to the target, in the order
// of the server's own log. A recovery may be refused only if the fault has made it impossible.
//
// By default, it runs one fault that the seed chooses. If RECOVERY_MATRIX specifies a directory, it runs all cells, and
// writes the results to this directory. If it is run again, it skips the cells that have already passed with the same
// source code. RUNS is the number of times that each cell must pass. SEED repeats a run.
func TestRealRecoveryMatrix(t *testing.T) {
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // A seed.
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("SEED=%d", seed)
	if os.Getenv(variable) == "" && os.Getenv("ALL") == "" {
		runSample(t, seed)
		return
	}
	r := newResults(t)
	for number := range faults {
		f := &faults[number]
		todo := []cell{}
		for _, c := range cellsOf(number) {
			if !r.hasPassed(c) {
				todo = append(todo, c)
			}
		}
		if len(todo) == 0 {
			continue
		}
		t.Run(f.name, func(t *testing.T) { runFault(t, r, f, todo, seed) })
	}
	t.Log(r.counts())
}

// runSample runs the cells of one random fault and one random target. The seed determines both.
func runSample(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // A test.
	number := random.IntN(len(faults))
	for !faults[number].isQuick {
		number = random.IntN(len(faults))
	}
	chosen := random.IntN(len(targetsOf(number)))
	todo := cellsOf(number)[len(placeNames)*chosen:][:len(placeNames)]
	t.Run(faults[number].name, func(t *testing.T) { runFault(t, nil, &faults[number], todo, seed) })
}

// runFault creates a history with the fault, and recovers to the targets of the given cells.
func runFault(t *testing.T, r *results, f *fault, todo []cell, seed uint64) {
	t.Helper()
	begun := time.Now()
	random := rand.New(rand.NewPCG(seed, uint64(len(f.name)))) //nolint:gosec // A test.
	h := newHistory(t, random, f.stepsClock, f.options...)
	h.pass(130)
	h.rest(2*time.Second, 4*time.Second) // The backup's time has whole seconds.
	h.begun = time.Now()
	f.inject(h)
	h.over = time.Now()
	p := h.finish(f)
	t.Logf("history: %s, %d transactions", time.Since(begun).Round(time.Second), len(h.last().txns))
	goals, tried := map[*kind]*target{}, map[string]error{}
	for _, c := range todo {
		if _, known := goals[c.target]; !known {
			goals[c.target] = nil
			if goal, ok := c.target.choose(p); ok {
				goals[c.target] = &goal
			}
		}
		t.Run(placeNames[c.place]+"/"+c.target.name, func(t *testing.T) {
			begun := time.Now()
			goal := goals[c.target]
			if goal == nil {
				r.skip(t, c)
				t.Skip("this history has no such target")
			}
			own := *p.history // The directories of the cell are removed with it.
			own.T = t
			cellHistory := *p
			cellHistory.history = &own
			err := cellHistory.tryOnce(p.places[c.place], *goal, tried)
			r.note(t, c, err == nil, seed, time.Since(begun))
			if err != nil {
				t.Errorf("%s: %v", goal.text, err)
			}
		})
	}
}

// finish lets the clients and the archiver continue after the fault, takes a backup, and stops them.
func (h *history) finish(f *fault) *prepared {
	h.Helper()
	if f.isLast {
		h.clients.stop()
		h.box.start(h.T) // Only to read its log.
		h.noteLog()
		h.box.Kill()
		return h.checkLines(f, false)
	}
	h.pass(50)
	h.rest(time.Second, 2*time.Second)
	if f.makesGap {
		h.await("another timeline", func() bool { return len(h.archiver.allLines()) > 1 })
	}
	h.awaitBase()
	h.awaitArchive()
	must(h.T, h.clone("20261122-0300")) // A scheduled backup.
	h.pass(50)
	h.rest(3*time.Second, 4*time.Second)
	if f.damages {
		time.Sleep(sameSegment)
	}
	h.pass(50)
	h.clients.stop()
	h.awaitArchive()
	h.noteLog()
	h.archiver.stop()
	h.box.stop(h.T)
	return h.checkLines(f, true)
}

// checkLines checks that the archive has a second timeline only if the fault makes a gap in the log.
func (h *history) checkLines(f *fault, hasData bool) *prepared {
	h.Helper()
	want := 1
	if f.makesGap {
		want = 2
	}
	lines := h.archiver.allLines()
	if len(lines) != want {
		text := ""
		for _, l := range lines {
			text += fmt.Sprintf("\n%s: %s", l.Timeline.Name(), l.Gap)
		}
		h.Fatalf("the archive has %d timelines, want %d:%s", len(lines), want, text)
	}
	if f.makesGap {
		h.Logf("gap: %.300s", lines[1].Gap)
	}
	return h.prepare(f, hasData)
}
