package logarchive

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

const manifestUUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

func validManifest(number int64) *Manifest {
	m := &Manifest{Number: number, Segment: numberText(number) + "-abcdefghij" + segmentSuffix, SHA256: strings.Repeat("a", 64),
		Start: manifestUUID + ":1-3", GTIDs: manifestUUID + ":5-6", Until: manifestUUID + ":1-6", LastGTID: manifestUUID + ":6"}
	if number > 1 {
		m.Previous = strings.Repeat("b", 64)
	}
	return m
}

func TestManifestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Manifest)
		want   string
	}{
		"Valid":           {func(*Manifest) {}, ""},
		"OtherNumber":     {func(m *Manifest) { m.Number = 3 }, "it has number 3"},
		"NoPrevious":      {func(m *Manifest) { m.Previous = "" }, "previous segment"},
		"BadPrevious":     {func(m *Manifest) { m.Previous = "x" }, "previous segment"},
		"OtherSegment":    {func(m *Manifest) { m.Segment = numberText(3) + "-abcdefghij" + segmentSuffix }, "its segment"},
		"SegmentIsPath":   {func(m *Manifest) { m.Segment = "../" + m.Segment }, "its segment"},
		"NoChecksum":      {func(m *Manifest) { m.SHA256 = "" }, "its segment"},
		"NoGTIDs":         {func(m *Manifest) { m.GTIDs = "" }, "contradict"},
		"GTIDsAfterUntil": {func(m *Manifest) { m.GTIDs = manifestUUID + ":6-7" }, "contradict"},
		"LastIsElsewhere": {func(m *Manifest) { m.LastGTID = manifestUUID + ":1" }, "contradict"},
		"LastIsSet":       {func(m *Manifest) { m.LastGTID = manifestUUID + ":5-6" }, "is not one GTID"},
		"BadStart":        {func(m *Manifest) { m.Start = "x" }, "is not a GTID set"},
	} {
		t.Run(name, func(t *testing.T) {
			m := validManifest(2)
			tc.change(m)
			err := m.checkFields(2)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	if err := validManifest(1).checkFields(1); err != nil {
		t.Error(err)
	}
}

func TestNumberOf(t *testing.T) {
	for key, want := range map[string]int64{
		"a/0000000001.json": 1, "a/0000000001.binlog": 0, "a/head.json": 0, "a/1.json": 0, "a/0000000000.json": 0,
		"a/-000000001.json": 0, "a/+000000001.json": 0, "a/12345678901.json": 12345678901,
	} {
		if got, ok := numberOf(key); ok != (want > 0) || ok && got != want {
			t.Errorf("%s: %d, %v", key, got, ok)
		}
	}
}

// TestTimelineOrder checks that the names of timelines are in the order of their creation, even if the clock is not.
func TestTimelineOrder(t *testing.T) {
	now := time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	first := newTimeline("log", Timeline{}, now, "zzzzzzzzzz")
	for _, next := range []time.Time{now, now.Add(-time.Hour), now.Add(time.Second), now.Add(time.Hour)} {
		if second := newTimeline("log", first, next, "aaaaaaaaaa"); second.Prefix <= first.Prefix {
			t.Errorf("%s follows %s", second.Prefix, first.Prefix)
		}
	}
}

func FuzzManifest(f *testing.F) {
	raw, err := store.SigningKey{}.Sign("key", validManifest(2))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, int64(2))
	f.Fuzz(func(t *testing.T, raw []byte, number int64) {
		m, err := ParseTrusted(raw, number)
		if err != nil {
			return
		}
		before, err := m.BeforeSegment()
		if err != nil {
			t.Fatal(err)
		}
		until, err := binlog.ParseSet(m.Until)
		if err != nil || !until.Contains(before) {
			t.Fatalf("%s is not a part of %s, %v", before, until, err)
		}
		if strings.Contains(m.Segment, "/") {
			t.Fatalf("the segment is %q", m.Segment)
		}
		if _, err := json.Marshal(m); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDamagedEnd checks that an archiver continues after damage to the end of its archive.
func TestDamagedEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(m *model, last *Last)
		// timelines is the number of timelines after the archiver has continued.
		timelines int
		gap       string
	}{
		"Nothing": {func(*model, *Last) {}, 1, ""},
		"NoHead":  {func(m *model, last *Last) { m.objects.Set(last.headKey(), nil) }, 1, ""},
		"Head":    {func(m *model, last *Last) { m.objects.Set(last.headKey(), []byte("x")) }, 1, ""},
		"HeadOfOtherKey": {func(m *model, last *Last) {
			raw, err := store.NewSigningKey().Sign(last.headKey(), Head{Number: 99})
			if err == nil {
				m.objects.Set(last.headKey(), raw)
			}
		}, 1, ""},
		"LastManifest": {func(m *model, last *Last) {
			m.objects.Set(last.ManifestKey(last.Number), []byte("{}"))
		}, 2, "the end of the archive is damaged: the archived binary log is damaged"},
		"NoLastManifest": {func(m *model, last *Last) {
			m.objects.Set(last.ManifestKey(last.Number), nil)
		}, 2, "no such key"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(7, nil)
				for range 2 {
					ctx, stop := context.WithCancel(t.Context())
					go m.runProcess(ctx, 0)
					for range 3 {
						time.Sleep(5 * time.Second)
						m.server.Commit(10, 0)
					}
					time.Sleep(time.Minute)
					stop()
					time.Sleep(time.Minute)
					if all, err := m.reader().Timelines(t.Context()); err != nil || len(all) != 1 {
						break
					} else if last, err := m.reader().Last(t.Context(), all[0]); err == nil && m.latest[0].Gap != "" {
						tc.damage(m, last)
					}
				}
				all, err := m.reader().Timelines(t.Context())
				if err != nil || len(all) != tc.timelines || !strings.Contains(m.latest[0].Gap, tc.gap) {
					t.Errorf("%d timelines, error %v, gap %q", len(all), err, m.latest[0].Gap)
				}
				if tc.gap == "" && m.latest[0].Gap != "" {
					t.Errorf("gap %q", m.latest[0].Gap)
				}
				if len(m.problems) > 0 {
					t.Error(m.problems)
				}
				if _, err := m.reader().Last(t.Context(), all[len(all)-1]); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestStopDuringComparison checks that an archiver ends although the server does not send the last transaction.
func TestStopDuringComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(7, nil)
		ctx, stop := context.WithCancel(t.Context())
		go m.runProcess(ctx, 0)
		time.Sleep(5 * time.Second)
		m.server.Commit(10, 0)
		time.Sleep(5 * time.Second)
		stop()
		synctest.Wait()
		time.Sleep(time.Minute)
		a := m.newArchiver(0)
		connect := a.Connect
		a.Connect = func(ctx context.Context) (Stream, binlog.State, error) {
			s, state, err := connect(ctx)
			return &editedStream{Stream: s, edit: func(binlog.Part) []binlog.Part {
				return []binlog.Part{{}}
			}}, state, err
		}
		ctx, stop = context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := a.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// TestIdleServer checks that the archive of an idle server is complete up to a few seconds ago, without new objects.
func TestIdleServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(7, nil)
		ctx, stop := context.WithCancel(t.Context())
		go m.runProcess(ctx, 0)
		time.Sleep(time.Second)
		m.server.Commit(10, 0)
		time.Sleep(time.Hour)
		if late := time.Since(m.latest[0].Until); late < commitDelay || late > commitDelay+stateTime+time.Second {
			t.Errorf("the archive is %s late", late)
		}
		if n := len(m.objects.Keys()); n != 4 {
			t.Errorf("%d objects: %v", n, m.objects.Keys())
		}
		stop()
		time.Sleep(time.Minute)
		last, err := m.reader().Last(t.Context(), m.latest[0].Timeline)
		if err != nil || time.Since(time.UnixMicro(int64(last.Time))) > time.Minute+9*time.Second { //nolint:gosec // A time.
			t.Errorf("%+v, %v", last, err)
		}
	})
}
