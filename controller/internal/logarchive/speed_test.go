//go:build bench

package logarchive

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/fakelog"
)

// newSpeedArchiver returns an archiver of a fake server with a bucket in memory.
func newSpeedArchiver(s *fakelog.Server, identity *age.X25519Identity, name string, report func(Progress)) *Archiver {
	a := &Archiver{Reader: Reader{Bucket: &fakelog.Bucket{Objects: fakelog.NewObjects()}, Key: store.NewSigningKey(), Log: name},
		Now: time.Now, Report: report,
		Connect: func(ctx context.Context) (Stream, binlog.State, error) { return s.Connect(ctx) }}
	if identity != nil {
		a.Recipients = []age.Recipient{identity.Recipient()}
	}
	return a
}

// TestSpeedOfArchiver prints how fast an archiver stores a log with small and with large transactions.
func TestSpeedOfArchiver(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("| transactions | size | encrypted | time | transactions per s | MB per s | peak heap of the archiver in MB |")
	for _, tc := range []struct {
		count, size int
		identity    *age.X25519Identity
	}{{100_000, 500, nil}, {100_000, 500, identity}, {10_000, 20_000, identity}, {4, 64 << 20, identity}} {
		s := fakelog.NewServer()
		ctx, stop := context.WithCancel(t.Context())
		started, done := make(chan struct{}, 1), make(chan struct{})
		isOver := false
		a := newSpeedArchiver(s, tc.identity, "v1/a/b/log", func(p Progress) {
			select {
			case started <- struct{}{}:
			default:
			}
			if set, err := binlog.ParseSet(p.GTIDs); err == nil && set.Count() == int64(tc.count) && !isOver {
				isOver = true
				close(done)
			}
		})
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		<-started
		for range tc.count - 1 {
			s.Commit(tc.size, 0)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		begun, server, peak := time.Now(), m.HeapInuse, uint64(0)
		s.Commit(tc.size, 0)
		for wait := true; wait; {
			select {
			case <-done:
				wait = false
			case <-time.After(20 * time.Millisecond):
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapInuse-min(server, m.HeapInuse))
			}
		}
		took := time.Since(begun).Seconds()
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		fmt.Printf("| %d | %d | %v | %.1f s | %.0f | %.0f | %d |\n", tc.count, tc.size, tc.identity != nil, took,
			float64(tc.count)/took, float64(tc.count*tc.size)/took/1e6, peak>>20)
	}
}

// TestSpeedOfBusyArchivers prints the memory of 50 archivers of servers that write all the time.
func TestSpeedOfBusyArchivers(t *testing.T) {
	const count, size, duration = 50, 20_000, 20 * time.Second
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	s := fakelog.NewServer()
	s.IsRandom = true
	ctx, stop := context.WithCancel(t.Context())
	ended, ready := make(chan error, count), make(chan struct{}, count)
	archivers := make([]*Archiver, count)
	for n := range archivers {
		isFirst := true
		a := newSpeedArchiver(s, identity, fmt.Sprintf("v1/a/%d/log", n), func(Progress) {
			if isFirst {
				isFirst = false
				ready <- struct{}{}
			}
		})
		archivers[n] = a
		go func() { ended <- a.Run(ctx) }()
	}
	for range count {
		<-ready
	}
	peak, written := uint64(0), 0
	for begun := time.Now(); time.Since(begun) < duration; time.Sleep(20 * time.Millisecond) {
		s.Commit(size, 0)
		written += size
		for _, a := range archivers {
			emptySegments(a)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse+m.StackInuse)
	}
	stop()
	for range count {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("| busy archivers | MB per s of all | peak memory of all in MB |")
	fmt.Printf("| %d | %.0f | %d |\n", count, float64(count*written)/duration.Seconds()/1e6, peak>>20)
}

// emptySegments removes the content of all segments from the fake bucket, so that it does not count as memory of the archiver.
func emptySegments(a *Archiver) {
	objects := a.Bucket.(*fakelog.Bucket).Objects //nolint:forcetypeassert // newSpeedArchiver has set it.
	for _, key := range objects.Keys() {
		if strings.Contains(key, segmentSuffix) {
			objects.Set(key, []byte{})
		}
	}
}

// TestSpeedOfIdleArchivers prints the memory of archivers of idle servers, and of servers that write a little.
func TestSpeedOfIdleArchivers(t *testing.T) {
	const count = 1_000
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	measure := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	s := fakelog.NewServer()
	before := measure()
	ctx, stop := context.WithCancel(t.Context())
	ended, ready := make(chan error, count), make(chan struct{}, count)
	for n := range count {
		isFirst := true
		a := newSpeedArchiver(s, identity, fmt.Sprintf("v1/a/%d/log", n), func(Progress) {
			if isFirst {
				isFirst = false
				ready <- struct{}{}
			}
		})
		go func() { ended <- a.Run(ctx) }()
	}
	for range count {
		<-ready
	}
	time.Sleep(5 * time.Second)
	fmt.Println("| state | memory per archiver in KB |")
	fmt.Printf("| idle | %d |\n", (measure()-before)/count/1000)
	s.Commit(500, 0)
	time.Sleep(time.Second)
	fmt.Printf("| within a segment | %d |\n", (measure()-before)/count/1000)
	time.Sleep(5 * time.Second)
	fmt.Printf("| after a segment | %d |\n", (measure()-before)/count/1000)
	stop()
	for range count {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
