package logarchive

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
)

// TestClockStepsWhileIdle checks that a segment is marked if its transactions have a time for which the archive was
// already complete.
func TestClockStepsWhileIdle(t *testing.T) {
	for name, tc := range map[string]struct {
		// wait is the time between the step and the next transaction. The clock steps one minute back.
		wait     time.Duration
		restarts bool
		want     int64
	}{
		"AtOnce":           {10 * time.Second, false, 2},
		"AtOnceRestarted":  {10 * time.Second, true, 2},
		"Later":            {2 * time.Minute, false, 0},
		"LaterRestarted":   {2 * time.Minute, true, 0},
		"ShortlyBefore":    {50 * time.Second, false, 2},
		"ShortlyRestarted": {50 * time.Second, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(7, nil)
				ctx, stop := context.WithCancel(t.Context())
				go m.runProcess(ctx, 0)
				time.Sleep(time.Second)
				m.server.Commit(10, 0)
				time.Sleep(10 * time.Minute)
				known := uint64(m.latest[0].Until.UnixMicro())
				m.server.StepClock(-time.Minute)
				if tc.restarts {
					stop()
					time.Sleep(time.Second)
					ctx, stop = context.WithCancel(t.Context())
					go m.runProcess(ctx, 0)
				}
				time.Sleep(tc.wait)
				m.server.Commit(10, 0)
				time.Sleep(10 * time.Second)
				stop()
				time.Sleep(time.Minute)
				last, err := m.reader().Last(t.Context(), m.latest[0].Timeline)
				if err != nil || last.Number != 2 || last.SteppedAt != tc.want || tc.want == 2 && last.MaxTime < known {
					t.Errorf("%+v, %v, want %d, %d", last, err, tc.want, known)
				}
			})
		})
	}
}

// TestStates checks when an idle server's state ends the archiver, and when it confirms that the archive is complete.
func TestStates(t *testing.T) {
	errState := errors.New("injected")
	for name, tc := range map[string]struct {
		state func(binlog.State) (binlog.State, error)
		// runs is the time until Run must end, or 0 if it must not end.
		runs  time.Duration
		moves bool
		want  string
	}{
		"Same": {func(s binlog.State) (binlog.State, error) { return s, nil }, 0, true, ""},
		"OtherServer": {func(s binlog.State) (binlog.State, error) {
			s.ServerUUID = manifestUUID
			return s, nil
		}, 5 * time.Second, false, "its server_uuid is " + manifestUUID},
		"Fewer": {func(s binlog.State) (binlog.State, error) {
			s.Executed = binlog.Set{}
			return s, nil
		}, 5 * time.Second, false, "it lacks the transactions"},
		"More": {func(s binlog.State) (binlog.State, error) {
			s.Executed[s.ServerUUID][0].Last++
			return s, nil
		}, 80 * time.Second, false, "but does not send them"},
		"Fails": {func(s binlog.State) (binlog.State, error) { return s, errState }, 80 * time.Second, false, "injected"},
		"Early": {func(s binlog.State) (binlog.State, error) {
			s.Now = 1
			return s, nil
		}, 0, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(7, nil)
				m.server.Commit(10, 0)
				a := m.newArchiver(0)
				begun := time.Now()
				a.State = func(context.Context) (binlog.State, error) { return tc.state(m.server.State()) }
				ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
				defer stop()
				err := a.Run(ctx)
				took := time.Since(begun)
				switch {
				case tc.runs == 0 && took < time.Minute, tc.runs > 0 && (took > tc.runs || tc.runs > time.Minute && took < time.Minute):
					t.Errorf("Run ended after %s", took)
				case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("error %v, want %q", err, tc.want)
				case tc.moves == m.latest[0].Until.IsZero():
					t.Errorf("until %s", m.latest[0].Until)
				}
			})
		})
	}
}

// TestUnarchivableEvents checks that an archive goes on in a new timeline after an event that cannot be archived.
func TestUnarchivableEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		cause func(m *model)
		gap   string
	}{
		"Incident":      {func(m *model) { m.server.Incident() }, "lacks transactions"},
		"LargeEvent":    {func(m *model) { m.server.CommitLarge() }, "a row of more than 64 MiB"},
		"Both":          {func(m *model) { m.server.Incident(); m.server.CommitLarge() }, "lacks transactions"},
		"IncidentFirst": {func(m *model) { m.server.Reset(); m.server.Incident(); m.server.Break() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(7, nil)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go m.runProcess(ctx, 0)
				time.Sleep(5 * time.Second)
				m.server.Commit(10, 0)
				time.Sleep(5 * time.Second)
				tc.cause(m)
				time.Sleep(5 * time.Second)
				m.server.Commit(10, 0)
				time.Sleep(time.Minute)
				stop()
				time.Sleep(time.Minute)
				p := m.latest[0]
				if p.GTIDs != m.server.Executed().String() || p.Number != 1 || !strings.Contains(p.Gap, tc.gap) {
					t.Errorf("%+v, want %s", p, m.server.Executed())
				}
				if err := m.checkTimeline(p.Timeline); err != nil || len(m.problems) > 0 {
					t.Error(err, m.problems)
				}
			})
		})
	}
}

// TestEndIsStored checks that the time up to which the archive is complete is in the store when the server was stopped,
// and that it is at most a few seconds old.
func TestEndIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(7, nil)
		a := m.newArchiver(0)
		ended := make(chan error)
		go func() { ended <- a.Run(t.Context()) }()
		time.Sleep(time.Second)
		m.server.Commit(10, 0)
		time.Sleep(headTime + headTime/2)
		m.server.Break()
		if err := <-ended; err == nil {
			t.Error("Run did not end with the stream")
		}
		last, err := m.reader().Last(t.Context(), m.latest[0].Timeline)
		if err != nil {
			t.Fatal(err)
		}
		age := time.Since(time.UnixMicro(int64(last.Time))) //nolint:gosec // A time.
		if age > 2*stateTime+commitDelay {
			t.Errorf("the archive is complete up to %s before the end", age)
		}
	})
}
