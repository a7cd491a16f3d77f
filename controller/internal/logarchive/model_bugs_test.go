package logarchive

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/fakelog"
)

// A lateBucket writes segments only after the next request, as if their manifests were published first.
type lateBucket struct {
	bucket

	mu      sync.Mutex
	pending func()
}

func (b *lateBucket) Put(ctx context.Context, key string, raw []byte) error {
	if !isSegment(key) {
		return b.bucket.Put(ctx, key, raw)
	}
	raw = slices.Clone(raw)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = func() { _ = b.bucket.Put(ctx, key, raw) }
	return nil
}

func (b *lateBucket) PutIf(ctx context.Context, key string, raw []byte, etag string) error {
	err := b.bucket.PutIf(ctx, key, raw, etag)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending != nil && err == nil {
		b.pending()
		b.pending = nil
	}
	return err
}

// A blindBucket returns each manifest as this client has written it, as if the client did not read it back.
type blindBucket struct {
	bucket

	written map[string][]byte
}

func blind(b bucket) blindBucket { return blindBucket{b, map[string][]byte{}} }

func (b blindBucket) PutIf(ctx context.Context, key string, raw []byte, etag string) error {
	b.written[key] = slices.Clone(raw)
	return b.bucket.PutIf(ctx, key, raw, etag)
}

func (b blindBucket) ReadSmall(ctx context.Context, key string, limit int64) ([]byte, error) {
	if raw := b.written[key]; raw != nil {
		return raw, nil
	}
	return b.bucket.ReadSmall(ctx, key, limit)
}

// An unconditionalBucket overwrites existing manifests, as if the archiver wrote them without a condition.
type unconditionalBucket struct{ bucket }

func (b unconditionalBucket) PutIf(ctx context.Context, key string, raw []byte, _ string) error {
	return b.Put(ctx, key, raw)
}

// A carelessBucket reports success for manifests that exist, and does not read them back.
type carelessBucket struct{ blindBucket }

func (b carelessBucket) PutIf(ctx context.Context, key string, raw []byte, etag string) error {
	if err := b.blindBucket.PutIf(ctx, key, raw, etag); !store.Is(err, store.Exists) {
		return err
	}
	return nil
}

// An optimisticBucket reports success for manifests that the store refused, and does not read them back.
type optimisticBucket struct{ blindBucket }

func (b optimisticBucket) PutIf(ctx context.Context, key string, raw []byte, etag string) error {
	_ = b.blindBucket.PutIf(ctx, key, raw, etag)
	return nil
}

// A forgetfulBucket lists no objects, as if the archiver did not look for earlier timelines.
type forgetfulBucket struct{ bucket }

func (forgetfulBucket) Prefixes(context.Context, string, int) ([]string, error) { return nil, nil }

// An editedStream replaces parts of the binary log that the fake server sends, to simulate a bug in the archiver.
type editedStream struct {
	Stream

	// edit returns the parts to send instead of a part.
	edit  func(binlog.Part) []binlog.Part
	queue []binlog.Part
}

func (s *editedStream) Next() (binlog.Part, error) {
	for len(s.queue) == 0 {
		p, err := s.Stream.Next()
		if err != nil {
			return p, err
		}
		s.queue = s.edit(p)
	}
	p := s.queue[0]
	s.queue = s.queue[1:]
	return p, nil
}

// sendOldTransaction makes the server send the archived transaction first, as if the archiver did not compare it.
func sendOldTransaction(m *model, s Stream, state binlog.State) (Stream, binlog.State) {
	isFirst := true
	var replaced *fakelog.Transaction
	return &editedStream{Stream: s, edit: func(p binlog.Part) []binlog.Part {
		if len(p.Raw) == 0 {
			return []binlog.Part{p}
		}
		if isFirst {
			isFirst = false
			replaced = m.archivedTransaction(p.Begin.GTID)
		}
		if replaced == nil {
			return []binlog.Part{p}
		}
		if !p.IsEnd {
			return nil
		}
		out := []binlog.Part{{Begin: &replaced.Begin, Raw: replaced.Bytes(), IsEnd: true, Format: replaced.Format}}
		replaced = nil
		return out
	}}, state
}

// archivedTransaction returns the transaction of the fake server that has this GTID and the checksum of the last
// archived one.
func (m *model) archivedTransaction(g binlog.GTID) (out *fakelog.Transaction) {
	all, err := m.reader().Timelines(context.Background())
	if err != nil {
		return nil
	}
	var last *Last
	for _, line := range slices.Backward(all) {
		if last, err = m.reader().Last(context.Background(), line); last != nil || err != nil {
			break
		}
	}
	if last == nil {
		return nil
	}
	m.server.Visit(func(all []*fakelog.Generation) {
		for _, generation := range all {
			for i := range generation.Log {
				t := &generation.Log[i]
				if t.GTID == g && Digest(t.Bytes()) == last.LastDigest {
					out = t
				}
			}
		}
	})
	return out
}

// TestModelFindsBugs checks that the model detects incorrect archivers. Each of them is the real archiver in an
// environment that makes it behave as if it had the bug. The comparison of the last transaction also detects a purge and
// a new server_uuid, so the model does not need these checks of the archiver.
func TestModelFindsBugs(t *testing.T) {
	for reason, bug := range map[string]*designBug{
		"TheManifestIsPublishedFirst":     {bucket: func(b bucket) bucket { return &lateBucket{bucket: b} }},
		"ManifestsAreOverwritten":         {bucket: func(b bucket) bucket { return unconditionalBucket{b} }},
		"AnExistingManifestIsIgnored":     {bucket: func(b bucket) bucket { return carelessBucket{blind(b)} }},
		"AnErrorOfTheManifestIsIgnored":   {bucket: func(b bucket) bucket { return optimisticBucket{blind(b)} }},
		"EachRunBeginsATimeline":          {bucket: func(b bucket) bucket { return forgetfulBucket{b} }},
		"TheLastTransactionIsNotCompared": {stream: sendOldTransaction},
		"ATransactionIsStoredTwice": {stream: func(m *model, s Stream, state binlog.State) (Stream, binlog.State) {
			return &editedStream{Stream: s, edit: func(p binlog.Part) []binlog.Part {
				if p.Begin != nil && p.IsEnd || m.rand.IntN(50) > 0 || len(p.Raw) == 0 {
					return []binlog.Part{p}
				}
				return []binlog.Part{p, p}
			}}, state
		}},
		"ATransactionIsLost": {stream: func(m *model, s Stream, state binlog.State) (Stream, binlog.State) {
			isLost := false
			return &editedStream{Stream: s, edit: func(p binlog.Part) []binlog.Part {
				if p.Begin != nil {
					isLost = m.rand.IntN(30) == 0
				}
				if isLost && len(p.Raw) > 0 {
					return nil
				}
				return []binlog.Part{p}
			}}, state
		}},
		"APartialTransactionIsStored": {stream: func(m *model, s Stream, state binlog.State) (Stream, binlog.State) {
			return &editedStream{Stream: s, edit: func(p binlog.Part) []binlog.Part {
				p.IsEnd = p.IsEnd || m.rand.IntN(10) == 0 && len(p.Raw) > 0
				return []binlog.Part{p}
			}}, state
		}},
		"StatesVouchForTheFuture": {state: func(_ *model, state binlog.State) binlog.State {
			state.Now += uint64(2 * commitDelay / time.Microsecond)
			return state
		}},
		"AResetIsNotNoticed": {state: func(m *model, state binlog.State) binlog.State {
			if got, err := binlog.ParseSet(m.latest[0].GTIDs); err == nil {
				state.Executed = got
			}
			return state
		}},
		"UnsentTransactionsAreIgnored": {state: func(m *model, state binlog.State) binlog.State {
			if got, err := binlog.ParseSet(m.latest[0].GTIDs); err == nil && state.Executed.Contains(got) {
				state.Executed = got
			}
			return state
		}},
		"TheTimelineHasNoTime": {stream: func(_ *model, s Stream, state binlog.State) (Stream, binlog.State) {
			state.Now = 0
			return s, state
		}},
		"TheFormatIsThatOfTheFirstPart": {stream: func(_ *model, s Stream, state binlog.State) (Stream, binlog.State) {
			var first binlog.Format
			return &editedStream{Stream: s, edit: func(p binlog.Part) []binlog.Part {
				if !first.IsKnown() {
					first = p.Format
				}
				p.Format = first
				return []binlog.Part{p}
			}}, state
		}},
		"GapsAreNotReported": {report: func(p Progress) Progress {
			p.Gap = ""
			return p
		}},
		"ProgressIsReportedTooEarly": {report: func(p Progress) Progress {
			if p.Number > 0 {
				p.Number++
			}
			return p
		}},
	} {
		t.Run(reason, func(t *testing.T) {
			for seed := range seeds(t, 60) {
				if problem := runSeed(t, seed, bug); problem != "" {
					t.Logf("found with seed %d: %.200s", seed, problem)
					return
				}
			}
			t.Fatal("not found")
		})
	}
}

// TestFakes checks that the fake server behaves like a server if nothing is injected.
func TestFakes(t *testing.T) {
	s := fakelog.NewServer()
	s.Commit(1, 0)
	st, state, err := s.Connect(t.Context())
	if err != nil || state.Executed.Count() != 1 {
		t.Fatal(state, err)
	}
	if err := st.Start(binlog.Set{}); err != nil {
		t.Fatal(err)
	}
	p, err := st.Next()
	if err != nil || p.Begin == nil || p.Begin.GTID.Number != 1 {
		t.Fatal(p, err)
	}
	s.Reset()
	s.Commit(1, 0)
	for {
		if p, err = st.Next(); err != nil || len(p.Raw) == 0 {
			break
		}
	}
	if err != nil || st.State().Executed.Count() != 1 {
		t.Fatal(p, err)
	}
	s.Break()
	if _, err := st.Next(); err == nil || errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
