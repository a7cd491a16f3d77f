package e2e

import (
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// usually is the default of AT_ONCE, which is the number of cases that run concurrently. It is suitable for two CPUs.
// Cases that make the same change to the whole cluster run in groups of up to twice this number.
const usually = 8

// TestMatrix deletes servers in different ways (deletion paths) while a fault occurs, and checks that every
// acknowledged row is restored.
//
// By default, it runs the cases from pairs that change the whole cluster, and TestCells runs the others. If MATRIX
// specifies a directory, TestMatrix runs the whole matrix and writes the results and logs to this directory. If it is
// run again, it skips the cases that have already passed with the same source code. AT_ONCE is the number of cases
// that run concurrently.
//
// No other test can use the cluster at the same time.
func TestMatrix(t *testing.T) {
	m := newMatrix(t)
	if m.resultDir == "" {
		m.run(t, slices.DeleteFunc(pairs(t), func(c *cell) bool { return !c.isAlone() }))
		return
	}
	m.read(t)
	t.Cleanup(func() { t.Log(m.summary()) })
	m.run(t, slices.DeleteFunc(every(), func(c *cell) bool {
		if reason := c.senseless(); reason != "" {
			m.senseless(t, c, reason)
			return true
		}
		return m.passed(c)
	}))
}

// TestCells runs the cases from pairs that can share the cluster with other tests.
func TestCells(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	for _, c := range slices.DeleteFunc(pairs(t), func(c *cell) bool { return c.isAlone() }) {
		t.Run(c.way.name+"/"+c.fault.name, func(t *testing.T) {
			t.Parallel()
			c.host, c.meeting = m.host, newMeeting([]*cell{c})
			defer c.meeting.leave(c)
			c.run(t, "")
		})
	}
}

// newMatrix returns a matrix for one test. During the test, composite resources can be deleted in the foreground.
func newMatrix(t *testing.T) *matrix {
	t.Helper()
	m := &matrix{entries: entries{resultDir: os.Getenv("MATRIX")}, atOnce: usually, host: findHost(t)}
	if n := os.Getenv("AT_ONCE"); n != "" {
		var err error
		if m.atOnce, err = strconv.Atoi(n); err != nil || m.atOnce < 1 {
			t.Fatalf("cannot run %q cells at once: AT_ONCE is a number above 0", n)
		}
	}
	dir := t.TempDir()
	m.host.fastController = sync.OnceValues(func() (string, error) {
		return controllerWithFastClock(t.Context(), dir, fastController, fast)
	})
	monthDir := t.TempDir()
	m.host.monthController = sync.OnceValues(func() (string, error) {
		return controllerWithFastClock(t.Context(), monthDir, monthController, monthOff)
	})
	foregroundIsAllowed(t)
	return m
}

// A matrix runs the cases for combinations of deletion paths and faults.
type matrix struct {
	entries

	atOnce int
	host   *host
}

// run runs the cases. Cases that make the same change to the whole cluster run together. Cases that affect only their
// own server all run concurrently.
func (m *matrix) run(t *testing.T, cells []*cell) {
	t.Helper()
	if slices.ContainsFunc(cells, func(c *cell) bool { return c.fault == faultClock }) {
		go m.host.fastController()                           //nolint:errcheck // The cases that need the image get the error.
		t.Cleanup(func() { _, _ = m.host.fastController() }) // The build uses the directory until it is complete.
	}
	if slices.ContainsFunc(cells, (*cell).usesStore) {
		m.startStore(t)
	}
	var alone []*cell
	for len(cells) > 0 {
		shares := cells[0].shares()
		same := func(c *cell) bool { return c.shares() == shares }
		group := slices.DeleteFunc(slices.Clone(cells), func(c *cell) bool { return !same(c) })
		cells = slices.DeleteFunc(cells, same)
		if shares == "" {
			alone = group
			continue
		}
		for chunk := range slices.Chunk(group, 2*m.atOnce) {
			m.beside(t, len(chunk), chunk, newMeeting(chunk))
		}
	}
	m.beside(t, m.atOnce, alone, nil)
}

// beside runs the cases concurrently, at most a given number at a time. shared synchronizes their changes to the whole
// cluster. If it is nil, each case runs on its own.
func (m *matrix) beside(t *testing.T, most int, cells []*cell, shared *meeting) {
	t.Helper()
	slots := make(chan struct{}, most)
	var all sync.WaitGroup
	for _, c := range cells {
		c.host, c.meeting = m.host, shared
		if shared == nil {
			c.meeting = newMeeting([]*cell{c})
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			m.cell(t, c)
		})
	}
	all.Wait()
}

func (m *matrix) cell(t *testing.T, c *cell) {
	t.Helper()
	defer c.meeting.leave(c)
	began, ran := time.Now(), false
	passed := t.Run(c.way.name+"/"+c.fault.name, func(t *testing.T) {
		defer c.meeting.leave(c)
		ran = true
		c.run(t, m.resultDir)
	})
	if ran { // The case was not excluded by the -run flag.
		m.ended(t, c, passed, time.Since(began))
	}
}

// A meeting synchronizes cases that need the same change to the whole cluster, such as a stopped kubelet. Its members
// are these cases. When all members have arrived at the same step, one of them performs the step for all.
type meeting struct {
	mu      sync.Mutex
	changed *sync.Cond

	members        []*cell
	arrived, round int
	busy, failed   bool

	// undo reverts the change to the whole cluster.
	undo func(*testing.T)
}

func newMeeting(members []*cell) *meeting {
	m := &meeting{members: slices.Clone(members)}
	m.changed = sync.NewCond(&m.mu)
	return m
}

// once waits until all cases of the meeting have called it. Then one of the cases calls run, and all of them continue.
func (m *meeting) once(t *testing.T, run func()) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arrived++
	for round := m.round; m.round == round; {
		if m.busy || m.arrived < len(m.members) {
			m.changed.Wait()
			continue
		}
		m.perform(run)
	}
	if m.failed {
		t.Fatal("what is done to the whole cluster failed")
	}
}

// perform calls run without the meeting's lock, and then wakes the other members. The deferred function is needed
// because run ends the goroutine if it fails the test.
func (m *meeting) perform(run func()) {
	m.busy = true
	m.mu.Unlock()
	ended := false
	defer func() {
		m.mu.Lock()
		m.busy, m.arrived, m.failed = false, 0, m.failed || !ended
		m.round++
		m.changed.Broadcast()
	}()
	run()
	ended = true
}

// leave removes a case from the meeting, so that the other cases no longer wait for it.
func (m *meeting) leave(c *cell) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members = slices.DeleteFunc(m.members, func(o *cell) bool { return o == c })
	m.changed.Broadcast()
}

// all returns the cases of the meeting that have not finished.
func (m *meeting) all() []*cell {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.members)
}

// end calls undo, which reverts the change to the whole cluster, if there is one.
func (m *meeting) end(t *testing.T) {
	t.Helper()
	if m.undo != nil {
		m.undo(t)
	}
}
