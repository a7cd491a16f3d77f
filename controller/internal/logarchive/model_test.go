package logarchive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/fakelog"
)

const modelLog = "v1/ns/xr/log"

// A model runs archivers with a fake server and a fake bucket, injects faults, and checks the archive.
type model struct {
	rand    *rand.Rand
	server  *fakelog.Server
	objects *fakelog.Objects
	key     store.SigningKey
	// identity decrypts the segments. It is nil if they are not encrypted.
	identity *age.X25519Identity
	// faults is the probability of a fault for each request, in percent. hasResets allows operations that lose
	// transactions of the log.
	faults    int
	hasResets bool
	// isSteady is true if the clock of the server never goes backwards.
	isSteady bool
	bug      *designBug
	// seen contains the prefixes of the timelines that archivers have reported.
	seen   map[string]bool
	latest [2]Progress
	// found contains the transactions of the timeline that was checked last.
	found collector
	// acknowledged contains the acknowledged transactions.
	acknowledged map[string]binlog.GTID
	// processes is the number of archivers at the same time. isPlain is true for one archiver without faults.
	processes int
	isPlain   bool

	mu       sync.Mutex
	problems []string
}

// A lockedSource is a source of random numbers for several goroutines.
type lockedSource struct {
	mu  sync.Mutex
	pcg *rand.PCG
}

// Uint64 implements rand.Source.
func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}

// A designBug makes the environment of an archiver behave as if the archiver had a bug.
type designBug struct {
	bucket func(bucket) bucket
	stream func(*model, Stream, binlog.State) (Stream, binlog.State)
	report func(Progress) Progress
	state  func(*model, binlog.State) binlog.State
}

func (m *model) complainf(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.problems = append(m.problems, fmt.Sprintf(format, args...))
}

// inject returns a random fault for a request to the fake bucket, or no fault.
func (m *model) inject(verb, _ string) fakelog.Fault {
	if m.rand.IntN(100) >= m.faults {
		return fakelog.Fault{}
	}
	switch m.rand.IntN(6) {
	case 0:
		return fakelog.Fault{Fails: true}
	case 1:
		return fakelog.Fault{Fails: true, IsDone: true}
	case 2:
		return fakelog.Fault{Fails: true, IsDone: true, Delay: time.Duration(m.rand.IntN(20_000)) * time.Millisecond}
	case 3:
		return fakelog.Fault{Crashes: true, IsDone: m.rand.IntN(2) == 0}
	default:
		_ = verb
		return fakelog.Fault{Delay: time.Duration(m.rand.IntN(8_000)) * time.Millisecond}
	}
}

// newArchiver returns an archiver of the fake server and the fake bucket. process is 0 or 1.
func (m *model) newArchiver(process int) *Archiver {
	var b bucket = &fakelog.Bucket{Objects: m.objects, Inject: m.inject}
	if m.bug != nil && m.bug.bucket != nil {
		b = m.bug.bucket(b)
	}
	a := &Archiver{Reader: Reader{Bucket: b, Key: m.key, Log: modelLog}, Now: time.Now}
	if m.identity != nil {
		a.Recipients = []age.Recipient{m.identity.Recipient()}
	}
	a.Connect = func(ctx context.Context) (Stream, binlog.State, error) {
		if m.rand.IntN(200) < m.faults {
			return nil, binlog.State{}, errors.New("cannot connect")
		}
		st, state, err := m.server.Connect(ctx)
		if err == nil && m.rand.IntN(100) < m.faults {
			st.BreakAfter = 1 + m.rand.IntN(60)
		}
		if m.bug != nil && m.bug.stream != nil {
			s, state := m.bug.stream(m, st, state)
			return s, state, err
		}
		return st, state, err
	}
	a.State = func(ctx context.Context) (binlog.State, error) {
		if m.rand.IntN(100) < m.faults {
			return binlog.State{}, errors.New("cannot read the state")
		}
		state := m.server.State()
		select {
		case <-ctx.Done():
			return state, ctx.Err()
		case <-time.After(time.Duration(m.rand.IntN(400)) * time.Millisecond):
		}
		if m.bug != nil && m.bug.state != nil {
			state = m.bug.state(m, state)
		}
		return state, nil
	}
	a.Report = func(p Progress) {
		if m.bug != nil && m.bug.report != nil {
			p = m.bug.report(p)
		}
		m.latest[process] = p
		m.checkReport(p)
	}
	return a
}

// runProcess runs an archiver again and again until the context ends, as the product does.
func (m *model) runProcess(ctx context.Context, process int) {
	for ctx.Err() == nil {
		a := m.newArchiver(process) //nolint:contextcheck // Report has no context.
		err := a.Run(ctx)
		if ctx.Err() == nil && err == nil {
			m.complainf("Run returned without an error")
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(m.rand.IntN(2_000)) * time.Millisecond):
		}
	}
}

// checkReport checks that a reported progress is correct at the time of the report.
func (m *model) checkReport(p Progress) {
	m.mu.Lock()
	isNew := !m.seen[p.Timeline.Prefix]
	m.seen[p.Timeline.Prefix] = true
	m.mu.Unlock()
	if isNew && p.Gap == "" && len(m.objects.Get(p.Timeline.ManifestKey(1))) == 0 {
		m.complainf("timeline %s is new, but no gap was reported", p.Timeline.Name())
	}
	got, err := binlog.ParseSet(p.GTIDs)
	if err != nil {
		m.complainf("%v", err)
		return
	}
	if p.Number > 0 {
		if l, err := m.reader().Segment(context.Background(), p.Timeline, p.Number); err != nil {
			m.complainf("segment %d was reported, but its manifest is missing: %v", p.Number, err)
		} else if until, err := binlog.ParseSet(l.Until); err != nil || !until.Equal(got) {
			m.complainf("segment %d ends at %s, but %s was reported", p.Number, l.Until, p.GTIDs)
		} else if m.objects.Get(p.Timeline.SegmentKey(l.Manifest)) == nil {
			m.complainf("segment %d was reported, but its transactions are missing", p.Number)
		} else if m.isSteady {
			m.server.Visit(func(all []*fakelog.Generation) { m.checkGeneration(all[len(all)-1], p, l) })
		}
	}
	if m.isSteady && !p.Until.IsZero() {
		m.server.Visit(func(all []*fakelog.Generation) { m.checkUntil(all[len(all)-1], p, got) })
	}
}

// checkGeneration checks that the server's current log contains the last archived transaction. This is not necessary if
// the archive is complete only until a time before that log.
func (m *model) checkGeneration(g *fakelog.Generation, p Progress, l *Last) {
	isOlder := func(t fakelog.Transaction) bool { return t.Time >= g.Begun && t.Time < uint64(p.Until.UnixMicro()) }
	if slices.ContainsFunc(g.Log, isOlder) && !slices.ContainsFunc(g.Log, func(t fakelog.Transaction) bool {
		return t.GTID.String() == l.LastGTID && Digest(t.Bytes()) == l.LastDigest
	}) {
		m.complainf("the archive claims to be complete until %s, but it has another log than the server", p.Until)
	}
}

// checkUntil checks that a progress has all transactions of the server up to its time.
func (m *model) checkUntil(g *fakelog.Generation, p Progress, got binlog.Set) {
	for i := range g.Log {
		if t := &g.Log[i]; t.Time < uint64(p.Until.UnixMicro()) && !got.Has(t.GTID) {
			m.complainf("the archive claims to be complete until %s, but lacks %s, committed at %s", p.Until, t.GTID,
				time.UnixMicro(int64(t.Time)).UTC()) //nolint:gosec // A time.
			return
		}
	}
}

func (m *model) reader() Reader {
	return Reader{Bucket: &fakelog.Bucket{Objects: m.objects}, Key: m.key, Log: modelLog}
}

// act changes the fake server at random: it commits transactions, resets the log, breaks connections or steps the
// clock.
func (m *model) act() {
	switch k := m.rand.IntN(100); {
	case k < 60:
		for range 1 + m.rand.IntN(6) {
			m.server.Commit(m.rand.IntN(300), time.Duration(m.rand.IntN(3_500))*time.Millisecond)
		}
	case k < 64:
		m.server.Commit(segmentBytes/2+m.rand.IntN(segmentBytes), 0)
	case k < 66:
		m.server.Commit(2*partSize+m.rand.IntN(segmentBytes), 0)
	case k < 72:
		m.server.Break()
	case k < 74 && m.hasResets:
		m.server.Incident()
	case k < 75 && m.hasResets:
		m.server.CommitLarge()
	case k < 78 && m.hasResets:
		m.server.Purge(m.rand.IntN(4))
	case k < 80 && m.hasResets:
		m.server.Reset()
		m.awaitReset()
	case k < 83 && m.hasResets: // The numbers overtake the archive before the archiver is connected again.
		n := int(m.server.Executed().Count())
		m.server.Reset()
		for range n + m.rand.IntN(4) - 1 {
			m.server.Commit(m.rand.IntN(100), 0)
		}
		m.server.Break()
	case k < 86 && m.hasResets: // The numbers overtake the archive, and the archiver stays connected.
		n := int(m.server.Executed().Count())
		m.server.Reset()
		for range n + 1 + m.rand.IntN(4) {
			m.server.Commit(m.rand.IntN(100), 0)
		}
		m.awaitReset()
	case k < 89 && m.hasResets:
		m.server.Replace()
	case k < 93 && m.hasResets:
		n := m.rand.IntN(5)
		m.server.Rewind(n)
		for range m.rand.IntN(2 * (n + 1)) {
			m.server.Commit(m.rand.IntN(100), 0)
		}
	case k < 96:
		m.server.ChangeChecksum()
	case k < 98 && !m.isSteady:
		m.server.StepClock(-time.Duration(m.rand.IntN(5_000)) * time.Millisecond)
	}
}

// awaitReset breaks the connections, or waits until the archiver has asked an idle server for its state. An archiver
// that stays connected cannot notice a reset if the server has as many transactions as before in the meantime.
func (m *model) awaitReset() {
	if m.rand.IntN(2) == 0 {
		m.server.Break()
		return
	}
	time.Sleep(time.Duration(10+m.rand.IntN(20)) * time.Second)
}

// run runs a model with one or two archivers and returns the problems.
func (m *model) run() []string {
	for phase := range 3 {
		ctx, stop := context.WithCancel(context.Background())
		if !m.isPlain {
			m.processes = max(m.processes, 1+m.rand.IntN(2))
		}
		for process := range m.processes {
			go m.runProcess(ctx, process)
		}
		for range m.rand.IntN(14) {
			time.Sleep(time.Duration(m.rand.IntN(3_000)) * time.Millisecond)
			m.act()
		}
		stop()
		time.Sleep(2 * time.Minute) // All delayed requests and all archivers end.
		synctest.Wait()
		if phase == 1 && m.rand.IntN(2) == 0 {
			m.act()
		}
	}
	m.checkEnd()
	return m.problems
}

// checkEnd runs an archiver without faults until it has all transactions, and checks the archive.
func (m *model) checkEnd() {
	isFaultless := m.faults == 0
	m.faults = 0
	ctx, stop := context.WithCancel(context.Background())
	go m.runProcess(ctx, 0)
	time.Sleep(30 * time.Second)
	m.server.Commit(10, 0)
	time.Sleep(time.Minute)
	m.server.Commit(10, 0) // The archiver is stopped before it sends this transaction.
	synctest.Wait()
	stop()
	time.Sleep(time.Minute)
	synctest.Wait()
	if got, want := m.latest[0].GTIDs, m.server.Executed().String(); got != want {
		m.complainf("the archive has %s, want %s", got, want)
	}
	all, err := m.reader().Timelines(context.Background())
	if err != nil {
		m.complainf("%v", err)
	}
	all = slices.DeleteFunc(all, func(line Timeline) bool { return m.objects.Get(line.ManifestKey(1)) == nil })
	if len(all) > 1 && !m.hasResets && m.processes == 1 && isFaultless {
		m.complainf("there are %d timelines, although no transaction was lost", len(all))
	}
	for _, line := range all {
		if err := m.checkTimeline(line); err != nil {
			m.complainf("timeline %s: %v", line.Name(), err)
		}
		for _, t := range m.found {
			delete(m.acknowledged, string(t.raw))
		}
	}
	if len(m.acknowledged) > 0 && m.processes == 1 {
		m.complainf("%d acknowledged transactions were lost", len(m.acknowledged))
	}
}

// An archivedTransaction is a transaction that was read from a segment of the archive.
type archivedTransaction struct {
	binlog.Begin

	raw []byte
}

// A collector is a binlog.Visitor that stores the transactions of a segment.
type collector []archivedTransaction

func (c *collector) Begin(b binlog.Begin) (bool, error) {
	*c = append(*c, archivedTransaction{Begin: b})
	return true, nil
}

func (c *collector) Part(raw []byte, _ bool) error {
	last := &(*c)[len(*c)-1]
	last.raw = append(last.raw, raw...)
	return nil
}

// checkTimeline checks the chain of a timeline, and that its transactions are a part of one log of the server.
func (m *model) checkTimeline(line Timeline) error {
	number := int64(0)
	for m.objects.Get(line.ManifestKey(number+1)) != nil {
		number++
	}
	last, err := m.reader().Last(context.Background(), line)
	m.found = nil
	if number == 0 && last == nil { // The archiver was stopped before it wrote the first manifest.
		return err
	}
	if err != nil || last == nil || last.Number != number {
		return fmt.Errorf("the last segment is not %d: %w", number, err)
	}
	found, set := collector{}, binlog.Set{}
	start, err := binlog.ParseSet(last.Start)
	if err != nil {
		return err
	}
	set.AddAll(start)
	previous, predecessor := "", &Manifest{}
	for n := int64(1); n <= number; n++ {
		raw := m.objects.Get(line.ManifestKey(n))
		l, err := m.reader().Segment(context.Background(), line, n)
		switch {
		case err != nil:
			return err
		case l.Previous != previous:
			return fmt.Errorf("segment %d does not follow the previous one", n)
		}
		previous = Digest(raw)
		before := set.Clone()
		size := len(found)
		if err := m.readSegment(line, l.Manifest, &found); err != nil {
			return fmt.Errorf("segment %d: %w", n, err)
		}
		for _, t := range found[size:] {
			if set.Has(t.GTID) {
				return fmt.Errorf("transaction %s is stored twice", t.GTID)
			}
			set.Add(t.GTID)
		}
		if n == 1 && !m.isComplete(start, l.BeforeTime) {
			return errors.New("transactions before the timeline were committed after its beginning")
		}
		if reason := checkManifest(l.Manifest, predecessor, before, set, found[size:]); reason != "" {
			return fmt.Errorf("segment %d: %s", n, reason)
		}
		predecessor = l.Manifest
	}
	isPart := false
	m.server.Visit(func(all []*fakelog.Generation) {
		isPart = slices.ContainsFunc(all, func(g *fakelog.Generation) bool { return isPartOf(start, found, g) })
	})
	if !isPart {
		return errors.New("its transactions are not a part of a log of the server")
	}
	m.found = found
	return nil
}

// checkAcknowledged checks that acknowledged transactions can be recovered if the archiver and the server are lost now.
func (m *model) checkAcknowledged(g *fakelog.Generation, end int) {
	m.server.Visit(func([]*fakelog.Generation) {
		m.acknowledged[string(g.Log[end-1].Bytes())] = g.Log[end-1].GTID
	})
	if m.rand.IntN(4) > 0 { // The check reads the whole archive.
		return
	}
	after := &model{server: m.server, objects: m.objects.Clone(), key: m.key, identity: m.identity, isSteady: m.isSteady}
	all, err := after.reader().Timelines(context.Background())
	if err != nil {
		m.complainf("%v", err)
		return
	}
	var want fakelog.Transaction
	m.server.Visit(func([]*fakelog.Generation) { want = g.Log[end-1] })
	for _, line := range all {
		last, err := after.reader().Last(context.Background(), line)
		if err == nil {
			_, err = after.reader().PromoteTail(context.Background(), line, last)
		}
		if errors.Is(err, ErrDamaged) && m.processes > 1 {
			return // Two archivers have acknowledged at the same time, and the damage is reported.
		}
		if err == nil {
			err = after.checkTimeline(line)
		}
		if err != nil {
			m.complainf("after an acknowledgement, timeline %s: %v", line.Name(), err)
		}
		if slices.ContainsFunc(after.found, func(t archivedTransaction) bool { return bytes.Equal(t.raw, want.Bytes()) }) {
			return
		}
	}
	m.complainf("transaction %s was acknowledged, but it cannot be recovered", want.GTID)
}

// isComplete reports whether all transactions of a set were committed before a time, in one of the server's logs. It is
// always true if the clock of the server may go backwards.
func (m *model) isComplete(set binlog.Set, before uint64) (ok bool) {
	m.server.Visit(func(all []*fakelog.Generation) {
		ok = !m.isSteady || slices.ContainsFunc(all, func(g *fakelog.Generation) bool {
			return !slices.ContainsFunc(g.Log, func(t fakelog.Transaction) bool { return set.Has(t.GTID) && t.Time > before })
		})
	})
	return ok
}

// checkManifest returns a reason if the manifest does not describe its segment.
func checkManifest(m, previous *Manifest, before, until binlog.Set, own []archivedTransaction) string {
	latest, stepped, first, last := m.BeforeTime, false, own[0].Time, uint64(0)
	for _, t := range own {
		stepped = stepped || t.Time < latest
		latest, first, last = max(latest, t.Time), min(first, t.Time), max(last, t.Time)
	}
	isMarked := m.SteppedAt == m.Number
	got, err := m.BeforeSegment()
	switch {
	case err != nil || !got.Equal(before) || m.Until != until.String():
		return "its GTIDs are wrong"
	case m.Number > 1 && m.BeforeTime != previous.MaxTime:
		return "its time of the transactions before it is wrong"
	case m.FirstTime != first || m.LastTime != last || m.MaxTime < latest || m.MaxTime > latest && !isMarked,
		stepped && !isMarked, isMarked && !stepped && m.MaxTime == latest:
		return "its times are wrong"
	case m.Transactions != previous.Transactions+int64(len(own)):
		return "its number of transactions is wrong"
	}
	return ""
}

func (m *model) readSegment(line Timeline, manifest *Manifest, found *collector) error {
	raw := m.objects.Get(line.SegmentKey(manifest))
	if Digest(raw) != manifest.SHA256 || int64(len(raw)) != manifest.Size {
		return fmt.Errorf("its transactions are missing or differ (%d bytes)", len(raw))
	}
	var in io.Reader = bytes.NewReader(raw)
	if manifest.IsEncrypted() != (m.identity != nil) {
		return errors.New("the encryption is wrong")
	}
	if m.identity != nil {
		var err error
		if in, err = age.Decrypt(in, m.identity); err != nil {
			return err
		}
	}
	unpacked, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer unpacked.Close()
	r, err := binlog.NewReader(unpacked)
	if err != nil {
		return err
	}
	_, err = r.Read(found)
	return err
}

// isPartOf reports whether transactions follow each other in a log, after all transactions of a set.
func isPartOf(start binlog.Set, found []archivedTransaction, g *fakelog.Generation) bool {
	set := g.Before.Clone()
	begin := 0
	for begin < len(g.Log) && !set.Equal(start) {
		set.Add(g.Log[begin].GTID)
		begin++
	}
	if !set.Equal(start) || len(found) > len(g.Log)-begin {
		return false
	}
	if g.HasIncident(begin, begin+len(found)) {
		return false
	}
	for i, t := range found {
		if !bytes.Equal(t.raw, g.Log[begin+i].Bytes()) {
			return false
		}
	}
	return true
}

// newModel returns a model. The seed determines its faults and its operations.
func newModel(seed uint64, bug *designBug) *model {
	r := rand.New(&lockedSource{pcg: rand.NewPCG(seed, 1)}) //nolint:gosec // A test needs no secure random numbers.
	m := &model{rand: r, server: fakelog.NewServer(), objects: fakelog.NewObjects(), key: store.NewSigningKey(), bug: bug,
		seen: map[string]bool{}, acknowledged: map[string]binlog.GTID{},
		faults: []int{0, 2, 10, 25}[r.IntN(4)], hasResets: r.IntN(3) > 0, isSteady: r.IntN(4) > 0}
	m.processes = 1
	if m.isPlain = seed%8 == 7; m.isPlain {
		m.faults, m.hasResets = 0, false
	}
	if r.IntN(3) == 0 {
		m.identity, _ = age.GenerateX25519Identity() // It never fails.
	}
	if seed%2 == 0 {
		m.server.Waits = func() bool { return r.IntN(3) > 0 }
		m.server.Acknowledged = m.checkAcknowledged
	}
	for range r.IntN(4) {
		m.server.Commit(10, 0)
	}
	return m
}

// runSeed runs the model for one seed and returns the first problem, or "".
func runSeed(t *testing.T, seed uint64, bug *designBug) (problem string) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		if all := newModel(seed, bug).run(); len(all) > 0 {
			problem = all[0]
		}
	})
	return problem
}

// seeds returns how many seeds a test runs. The environment variable SEEDS replaces the usual number.
func seeds(t *testing.T, usual uint64) uint64 {
	t.Helper()
	if text := os.Getenv("SEEDS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return usual
}

// TestModel checks the archive after random faults of the server, the bucket, the network and the archiver.
func TestModel(t *testing.T) {
	failed := 0
	for seed := range seeds(t, 60) {
		if problem := runSeed(t, seed, nil); problem != "" {
			t.Errorf("seed %d: %s", seed, problem)
			if failed++; failed == 5 {
				t.FailNow()
			}
		}
	}
}

// TestStop checks that an archiver that is stopped stores what it has received, even if the store is slow.
func TestStop(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(seed, nil)
			m.faults = 0
			a := m.newArchiver(0)
			a.Bucket = &fakelog.Bucket{Objects: m.objects, Inject: func(string, string) fakelog.Fault {
				return fakelog.Fault{Delay: time.Duration(m.rand.IntN(3_000)) * time.Millisecond}
			}}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- a.Run(ctx) }()
			time.Sleep(20 * time.Second)
			for range 10 {
				m.server.Commit(200, 0)
				time.Sleep(time.Duration(m.rand.IntN(1_000)) * time.Millisecond)
			}
			m.server.Commit(200, 0)
			time.Sleep(time.Duration(m.rand.IntN(6_000)) * time.Millisecond)
			stop()
			if err := <-ended; err != nil || len(m.problems) > 0 {
				t.Fatalf("seed %d: %v, %v", seed, err, m.problems)
			}
		})
	}
}

// isSegment reports whether a key belongs to an object with transactions.
func isSegment(key string) bool { return strings.Contains(path.Base(key), segmentSuffix) }
