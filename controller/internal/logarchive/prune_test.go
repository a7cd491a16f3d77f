package logarchive

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/fakelog"
)

// A pruner runs an archiver that prunes, and checks each of its requests.
type pruner struct {
	*model

	t        *testing.T
	keepFrom time.Time
	// deleted is the number of deletions since the last pause of the archiver, and pause is the time of that pause.
	deleted int
	pause   time.Time
	// most is the maximum number of deletions at once.
	most int
	// hasOldHead is true if the head of a timeline is older than its first manifest.
	hasOldHead bool
}

// start starts an archiver until the returned function is called.
func (p *pruner) start() (stop func()) {
	a := p.newArchiver(0)
	a.KeepFrom = func() time.Time { return p.keepFrom }
	a.Bucket = &fakelog.Bucket{Objects: p.objects, Inject: p.check}
	ctx, cancel := context.WithCancel(p.t.Context()) //nolint:gosec // The returned function calls it.
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
	}
}

// check fails the test if too many objects are deleted at once, or a segment that a reader may need.
func (p *pruner) check(verb, key string) fakelog.Fault {
	line := Timeline{strings.TrimSuffix(key[:strings.LastIndex(key, "/")], "/")}
	number, isManifest := numberOf(key)
	if verb != "delete" {
		return fakelog.Fault{}
	}
	if p.deleted++; !p.pause.Equal(time.Now()) {
		p.deleted, p.pause = 1, time.Now()
	}
	if p.deleted > p.most {
		p.t.Errorf("%d deletions at once", p.deleted)
	}
	h, err := p.reader().head(p.t.Context(), line)
	if isManifest && !p.hasOldHead && (err != nil || h.Number > 0 && number >= h.Number) {
		p.t.Errorf("segment %d is deleted, but the head says %d", number, h.Number)
	}
	if _, err := p.reader().Last(p.t.Context(), line); err != nil {
		p.t.Errorf("the last segment is not found: %v", err)
	}
	return fakelog.Fault{}
}

// commit makes the server commit transactions with pauses, so that the archiver writes this number of segments.
func (p *pruner) commit(count int) {
	for range count {
		time.Sleep(4 * time.Second)
		p.server.Commit(10, 0)
	}
}

// manifests returns the number of manifests of a timeline.
func (p *pruner) manifests(line Timeline) (n int) {
	for _, key := range p.objects.Keys() {
		if _, ok := numberOf(key); ok && strings.HasPrefix(key, line.Prefix+"/") {
			n++
		}
	}
	return n
}

// TestPrune checks that an archiver prunes its timeline in small steps, and never segments that a reader may need.
func TestPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pruner{model: newModel(7, nil), t: t, most: 20}
		stop := p.start()
		p.commit(50)
		line := p.latest[0].Timeline
		p.keepFrom = time.Now().Add(2 * time.Hour)
		time.Sleep(headTime + time.Second) // There is more to delete, so several calls follow each other quickly.
		p.commit(20)
		if n := p.manifests(line); n > 25 {
			t.Errorf("%d manifests", n)
		}
		time.Sleep(10 * time.Minute)
		stop()
		stop = p.start()
		p.commit(2)
		time.Sleep(5 * time.Minute)
		stop()
		if n := p.manifests(line); n != 1 || p.latest[0].Timeline != line {
			t.Errorf("%d manifests, %+v", n, p.latest[0])
		}
	})
}

// TestPruneOthers checks that an archiver deletes older timelines in small steps, and keeps damaged ones.
func TestPruneOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(p *pruner, line Timeline)
		keeps  bool
	}{
		"Whole":    {func(*pruner, Timeline) {}, false},
		"NoHead":   {func(p *pruner, line Timeline) { p.objects.Set(line.headKey(), nil) }, false},
		"OnlyHead": {func(p *pruner, line Timeline) { p.deleteManifests(line, 1, 99) }, false},
		"OldHead": {func(p *pruner, line Timeline) {
			p.deleteManifests(line, 1, 20)
			raw, err := p.key.Sign(line.headKey(), Head{Number: 4})
			if err != nil {
				p.t.Fatal(err)
			}
			p.objects.Set(line.headKey(), raw)
			p.hasOldHead = true
		}, false},
		"NoLast": {func(p *pruner, line Timeline) { p.deleteManifests(line, 35, 99) }, true},
		"Damaged": {func(p *pruner, line Timeline) {
			p.objects.Set(line.ManifestKey(25), []byte("{}"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pruner{model: newModel(7, nil), t: t, most: 20 + 3 + 30}
				stop := p.start()
				p.commit(35)
				time.Sleep(5 * time.Second)
				stop()
				old := p.latest[0].Timeline
				p.objects.Set(old.Prefix+"/"+numberText(12)+"-abcdefghij"+segmentSuffix, []byte("unpublished"))
				tc.change(p, old)
				p.server.Replace()
				stop = p.start()
				p.commit(2)
				p.keepFrom = time.Now().Add(2 * time.Hour)
				time.Sleep(10 * time.Minute)
				stop()
				found := false
				for _, key := range p.objects.Keys() {
					found = found || strings.HasPrefix(key, old.Prefix+"/")
				}
				if found != tc.keeps || p.latest[0].Timeline == old || len(p.problems) > 0 {
					t.Errorf("found %v, %+v, %v", p.objects.Keys(), p.latest[0], p.problems)
				}
			})
		})
	}
}

// deleteManifests deletes the manifests of a timeline whose numbers are between first and last.
func (p *pruner) deleteManifests(line Timeline, first, last int64) {
	for n := first; n <= last; n++ {
		p.objects.Set(line.ManifestKey(n), nil)
	}
}

// TestLastOfDamagedTimeline checks what a reader finds if objects of a timeline are missing.
func TestLastOfDamagedTimeline(t *testing.T) {
	for name, tc := range map[string]struct {
		first, last int64
		want        int64
		isMissing   bool
	}{
		"Whole":       {0, 0, 9, false},
		"OnlyHead":    {1, 9, 0, false},
		"FirstPruned": {1, 4, 9, false},
		"LastMissing": {9, 9, 0, true},
		"HeadIsOld":   {1, 8, 9, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pruner{model: newModel(7, nil), t: t, most: 20 + 3 + 30}
				stop := p.start()
				p.commit(9)
				time.Sleep(5 * time.Second)
				stop()
				line := p.latest[0].Timeline
				if name == "HeadIsOld" {
					raw, err := p.key.Sign(line.headKey(), Head{Number: 5})
					if err != nil {
						t.Fatal(err)
					}
					p.objects.Set(line.headKey(), raw)
				}
				p.deleteManifests(line, tc.first, tc.last)
				last, err := p.reader().Last(t.Context(), line)
				number := int64(0)
				if last != nil {
					number = last.Number
				}
				if number != tc.want || store.Is(err, store.NotFound) != tc.isMissing || err != nil && !tc.isMissing {
					t.Errorf("%+v, %v", last, err)
				}
			})
		})
	}
}
