package logarchive

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/fakelog"
)

// crashWithTail returns a model whose archiver has stored a segment and then three pieces, and has crashed. All
// transactions are acknowledged.
func crashWithTail(t *testing.T) (*model, Timeline, []string) {
	t.Helper()
	m := newModel(7, nil)
	acknowledged := 0
	m.server.Waits = func() bool { return true }
	m.server.Acknowledged = func(_ *fakelog.Generation, end int) { acknowledged = end }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	a := m.newArchiver(0)
	a.Bucket = &fakelog.Bucket{Objects: m.objects, Inject: func(_, key string) fakelog.Fault {
		return fakelog.Fault{Crashes: strings.HasPrefix(path.Base(key), numberText(2)+"-")}
	}}
	go func() { _ = a.Run(ctx) }() // It crashes.
	time.Sleep(10 * time.Second)
	count := int(m.server.Executed().Count())
	m.server.Commit(10, 0)
	time.Sleep(10 * time.Second)
	for range 3 {
		m.server.Commit(10, 0)
		time.Sleep(100 * time.Millisecond)
	}
	if acknowledged != count+4 {
		t.Fatalf("%d transactions are acknowledged, want %d", acknowledged, count+4)
	}
	time.Sleep(time.Minute)
	pieces := slices.DeleteFunc(m.objects.Keys(), func(key string) bool { return !strings.HasSuffix(key, pieceSuffix) })
	if line := m.latest[0]; len(pieces) != 3 || line.Number != 1 {
		t.Fatalf("want three pieces after segment 1, got %q after segment %d", pieces, line.Number)
	}
	return m, m.latest[0].Timeline, pieces
}

// TestPromoteTail checks which acknowledged transactions become segments after the archiver and the server were lost.
func TestPromoteTail(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(m *model, pieces []string)
		want   int64 // The number of the last segment.
		lost   string
	}{
		"Complete": {reason: "Each piece must become a segment.", change: func(*model, []string) {}, want: 4},
		"FirstMissing": {reason: "No transaction can follow the lost ones.",
			change: func(m *model, p []string) { m.objects.Set(p[0], nil) }, want: 1, lost: "piece 2"},
		"MiddleMissing": {reason: "The transactions before the lost ones must be kept.",
			change: func(m *model, p []string) { m.objects.Set(p[1], nil) }, want: 2, lost: "piece 3"},
		"LastDamaged": {reason: "A piece that cannot be read must be reported.",
			change: func(m *model, p []string) { m.objects.Set(p[2], []byte("{}")) }, want: 3, lost: "piece 4"},
		"Exchanged": {reason: "A piece is valid only under its own name.", change: func(m *model, p []string) {
			one, two := m.objects.Get(p[0]), m.objects.Get(p[1])
			m.objects.Set(p[0], two)
			m.objects.Set(p[1], one)
		}, want: 1, lost: "piece 2"},
		"OtherTail": {reason: "A damaged tail must not hide another one.", change: func(m *model, p []string) {
			m.objects.Set(path.Join(path.Dir(p[0]), "abcdefghij-"+numberText(2)+pieceSuffix), []byte("{}"))
		}, want: 4, lost: "piece 2"},
		"BaseLost": {reason: "The checksum of the segment before the tail must be known.", change: func(m *model, p []string) {
			m.objects.Set(path.Join(path.Dir(p[0]), "..", "..", numberText(1)+manifestSuffix), nil)
		}, want: 0, lost: "segment 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, line, pieces := crashWithTail(t)
				tc.change(m, pieces)
				for range 2 { // The second call must change nothing.
					last, err := m.reader().Last(t.Context(), line)
					if err != nil {
						t.Fatal(err)
					}
					last, err = m.reader().PromoteTail(t.Context(), line, last)
					switch {
					case numberAfter(last)-1 != tc.want:
						t.Errorf("%s\nthe last segment is %d, want %d: %v", tc.reason, numberAfter(last)-1, tc.want, err)
					case tc.lost == "" && err != nil:
						t.Error(err)
					case tc.lost != "" && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tc.lost)):
						t.Errorf("%s\nwant an error with %q, got %v", tc.reason, tc.lost, err)
					}
					if err := m.checkTimeline(line); err != nil {
						t.Errorf("%s\n%v", tc.reason, err)
					}
				}
			})
		})
	}
}

// TestPromoteTailInterrupted checks that a promotion that fails at any request can be continued.
func TestPromoteTailInterrupted(t *testing.T) {
	for n, isDone := 0, false; !isDone; n++ {
		synctest.Test(t, func(t *testing.T) {
			m, line, _ := crashWithTail(t)
			requests := 0
			r := m.reader()
			r.Bucket = &fakelog.Bucket{Objects: m.objects, Inject: func(string, string) fakelog.Fault {
				requests++
				return fakelog.Fault{Crashes: requests == n+1, IsDone: n%2 == 0}
			}}
			last, err := r.Last(t.Context(), line)
			if err == nil {
				_, err = r.PromoteTail(t.Context(), line, last)
			}
			isDone = err == nil
			last, err = m.reader().Last(t.Context(), line)
			if err != nil {
				t.Fatal(err)
			}
			last, err = m.reader().PromoteTail(t.Context(), line, last)
			if err != nil || last.Until != m.server.Executed().String() {
				t.Errorf("after %d requests: %v, %v", n, last, err)
			}
			if err := m.checkTimeline(line); err != nil {
				t.Errorf("after %d requests: %v", n, err)
			}
		})
	}
}

// TestTailOfLostData checks that the next archiver keeps acknowledged transactions that the server has lost, and begins a
// new timeline. A server with all transactions continues the timeline.
func TestTailOfLostData(t *testing.T) {
	for name, lost := range map[string]int{"Complete": 0, "Rewound": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, line, pieces := crashWithTail(t)
				if lost > 0 {
					m.server.Rewind(lost)
				}
				ctx, stop := context.WithCancel(t.Context())
				go m.runProcess(ctx, 0)
				time.Sleep(time.Minute)
				m.server.Commit(10, 0)
				time.Sleep(time.Minute)
				stop()
				time.Sleep(time.Minute)
				got := m.latest[0]
				if (got.Timeline == line) != (lost == 0) || got.GTIDs != m.server.Executed().String() {
					t.Errorf("%+v", got)
				}
				if err := m.checkTimeline(line); err != nil || len(m.problems) > 0 {
					t.Fatal(err, m.problems)
				}
				if n := len(m.found); n != 4 && lost > 0 {
					t.Errorf("the first timeline has %d transactions, want 4", n)
				}
				if lost == 0 && m.objects.Get(pieces[0]) != nil {
					t.Error("the pieces were not deleted")
				}
			})
		})
	}
}

// A keepingBucket permits no deletions.
type keepingBucket struct{ bucket }

func (keepingBucket) Delete(context.Context, string) error {
	return &store.Error{Kind: store.Denied, Verb: "delete", Err: errors.New("it is locked")}
}

// TestKeptTails checks that tails that cannot be deleted change nothing.
func TestKeptTails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(7, nil)
		m.server.Waits = func() bool { return true }
		for range 3 {
			a := m.newArchiver(0)
			a.Bucket = keepingBucket{a.Bucket}
			ctx, stop := context.WithCancel(t.Context())
			go func() { _ = a.Run(ctx) }() // It ends with ctx.
			for range 20 {
				m.server.Commit(10, 0)
				time.Sleep(time.Second)
			}
			stop()
			time.Sleep(time.Minute)
		}
		line := m.latest[0].Timeline
		if err := m.checkTimeline(line); err != nil || m.latest[0].GTIDs != m.server.Executed().String() || len(m.problems) > 0 {
			t.Errorf("%v, %v, %+v", err, m.problems, m.latest[0])
		}
		last, err := m.reader().Last(t.Context(), line)
		if err != nil {
			t.Fatal(err)
		}
		hasTail, err := m.reader().HasTail(t.Context(), line, last)
		promoted, perr := m.reader().PromoteTail(t.Context(), line, last)
		if !hasTail || err != nil || perr != nil || promoted != last {
			t.Errorf("%v, %v, %v, %+v", hasTail, err, perr, promoted)
		}
	})
}

// TestIncludeTail checks that the tail of a running archiver is left to it.
func TestIncludeTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, line, _ := crashWithTail(t)
		ctx, stop := context.WithCancel(t.Context())
		before, err := m.reader().Last(ctx, line)
		if err != nil {
			t.Fatal(err)
		}
		go m.runProcess(ctx, 0)
		go func() {
			for ctx.Err() == nil {
				m.server.Commit(10, 0)
				time.Sleep(300 * time.Millisecond)
			}
		}()
		for range 20 {
			time.Sleep(700 * time.Millisecond)
			last, err := m.reader().Last(ctx, line)
			if err != nil {
				t.Fatal(err)
			}
			if _, damage, err := m.reader().IncludeTail(ctx, line, last, true); damage != nil || err != nil {
				t.Errorf("%v, %v", damage, err)
			}
		}
		stop()
		time.Sleep(time.Minute)
		last, err := m.reader().Last(t.Context(), line)
		if err != nil || last.Number <= before.Number || len(m.problems) > 0 {
			t.Errorf("%v, %v", err, m.problems)
		}
		if until, err := binlog.ParseSet(last.Until); err != nil || !until.Equal(m.server.Executed()) {
			t.Errorf("the archive has %s: %v", last.Until, err)
		}
	})
}

// TestAcknowledgeWhileSending checks that a transaction is acknowledged if its segment is stored before its piece.
func TestAcknowledgeWhileSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(7, nil)
		acknowledged := 0
		m.server.Waits = func() bool { return true }
		m.server.Acknowledged = func(_ *fakelog.Generation, end int) { acknowledged = end }
		a := m.newArchiver(0)
		a.Bucket = &fakelog.Bucket{Objects: m.objects, Inject: func(_, key string) fakelog.Fault {
			if strings.HasSuffix(key, pieceSuffix) {
				return fakelog.Fault{Delay: 2 * segmentTime}
			}
			return fakelog.Fault{}
		}}
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = a.Run(ctx) }() // It ends with ctx.
		time.Sleep(10 * time.Second)
		count := int(m.server.Executed().Count())
		m.server.Commit(10, 0)
		time.Sleep(time.Minute)
		if acknowledged != count+1 {
			t.Errorf("%d transactions are acknowledged, want %d", acknowledged, count+1)
		}
		stop()
		time.Sleep(time.Minute)
	})
}
