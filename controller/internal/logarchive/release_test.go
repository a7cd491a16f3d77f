package logarchive

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/fakelog"
)

// TestRelease checks that an archiver releases each part of a transaction when it has stored or dropped the part, and
// not before.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(7, nil)
		received, stored, isLarge, released := 0, 0, false, atomic.Int64{}
		connect := func(a *Archiver) {
			inner := a.Connect
			a.Connect = func(ctx context.Context) (Stream, binlog.State, error) {
				s, state, err := inner(ctx)
				return &editedStream{Stream: s, edit: func(p binlog.Part) []binlog.Part {
					if len(p.Raw) > 0 {
						received++
						if n := received - int(released.Load()); n > 2 {
							t.Errorf("%d parts are in memory", n)
						}
						p.Done = func() { released.Add(1) }
					}
					return []binlog.Part{p}
				}}, state, err
			}
		}
		for range 3 {
			a := m.newArchiver(0)
			connect(a)
			a.Bucket = &fakelog.Bucket{Objects: m.objects, Inject: func(verb, key string) fakelog.Fault {
				if verb == "put" && isSegment(key) && isLarge { // The last part of the large transaction is being stored.
					isLarge = false
					stored++
					if received == int(released.Load()) {
						t.Error("a part was released before it was stored")
					}
				}
				return fakelog.Fault{Delay: 100 * time.Millisecond}
			}}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- a.Run(ctx) }()
			time.Sleep(5 * time.Second)
			isLarge = true
			m.server.Commit(3*partSize, 0)
			m.server.Commit(10, 0)
			time.Sleep(time.Second)
			m.server.Break()
			if err := <-ended; err == nil {
				t.Error("Run did not end")
			}
			stop()
			synctest.Wait()
			if n := received - int(released.Load()); n != 0 {
				t.Errorf("%d parts were not released", n)
			}
		}
		if stored != 3 {
			t.Errorf("%d large transactions were stored", stored)
		}
	})
}
