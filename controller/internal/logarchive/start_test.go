package logarchive

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleReconnects checks when an archiver of an idle server continues a timeline without segments.
func TestIdleReconnects(t *testing.T) {
	for name, tc := range map[string]struct {
		// change changes the server or the bucket while the archiver is not connected.
		change func(m *model, line Timeline)
		want   bool
	}{
		"Idle":   {func(*model, Timeline) {}, true},
		"Purged": {func(m *model, _ Timeline) { m.server.Purge(0) }, true},
		"Reset":  {func(m *model, _ Timeline) { m.server.Reset() }, false},
		"ResetAndMore": {func(m *model, _ Timeline) {
			m.server.Reset()
			for range 5 {
				m.server.Commit(10, 0)
			}
		}, false},
		"PurgedAndReset": {func(m *model, _ Timeline) {
			m.server.Reset() // The number of transactions is the same, but gtid_purged is empty.
			m.server.Commit(10, 0)
			m.server.Commit(10, 0)
		}, false},
		"OtherServer":    {func(m *model, _ Timeline) { m.server.Replace() }, false},
		"NewTransaction": {func(m *model, _ Timeline) { m.server.Commit(10, 0) }, false},
		"NoStart":        {func(m *model, line Timeline) { m.objects.Set(line.startKey(), nil) }, false},
		"DamagedStart":   {func(m *model, line Timeline) { m.objects.Set(line.startKey(), []byte("{}")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(7, nil)
				m.server.Reset()
				m.server.Commit(10, 0)
				m.server.Commit(10, 0)
				if name == "PurgedAndReset" {
					m.server.Purge(1)
				}
				now := m.server.State().Now
				run := func() (stop func()) {
					ctx, cancel := context.WithCancel(t.Context()) //nolint:gosec // The returned function calls it.
					go m.runProcess(ctx, 0)
					time.Sleep(30 * time.Second)
					return func() {
						cancel()
						time.Sleep(time.Minute)
					}
				}
				run()()
				first := m.latest[0]
				run()()
				if got := m.latest[0]; got.Timeline != first.Timeline || got.Gap != first.Gap || got.Gap == "" || got.Until.IsZero() {
					t.Errorf("%+v, want %+v", got, first)
				}
				tc.change(m, first.Timeline)
				stop := run()
				m.server.Commit(10, 0)
				time.Sleep(10 * time.Second)
				stop()
				got := m.latest[0]
				if got.Number != 1 || got.GTIDs != m.server.Executed().String() || (got.Timeline == first.Timeline) != tc.want {
					t.Errorf("%+v, want %+v", got, first)
				}
				last, err := m.reader().Last(t.Context(), got.Timeline)
				if err != nil || (last.BeforeTime == now) != tc.want || len(m.problems) > 0 {
					t.Errorf("%+v, %v, %v", last, err, m.problems)
				}
				if err := m.checkTimeline(got.Timeline); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
