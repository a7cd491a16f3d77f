package fakelog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/google/uuid"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
)

// Heartbeat is the interval of heartbeats on an idle connection.
const Heartbeat = 2 * time.Second

// A Generation is a history of the server's log. A new one begins when the log is reset, or when the server gets other
// data.
type Generation struct {
	UUID string
	// Begun is the time of the reset or of the new data, in microseconds since 1970.
	Begun uint64
	// Before are the transactions that the server had executed before this log began.
	Before binlog.Set
	Log    []Transaction
	// incidents contains positions in the log. Directly before each of them, the server could not write transactions.
	// large contains the positions of transactions with an event that is too large for the client.
	incidents, large map[int]bool
	// purged is the number of transactions that the server has deleted from the beginning of the log.
	purged int
}

// A Server is a fake MySQL server with a binary log in memory. Its clock is the clock of the process plus an offset.
type Server struct {
	// IsRandom is true if transactions contain random bytes, which cannot be compressed.
	IsRandom bool
	// Waits decides whether a commit waits until a transaction is acknowledged. If it is nil, the server has no
	// semi-synchronous replication.
	Waits func() bool
	// Acknowledged is called when a client acknowledges the transactions of a generation up to a position in its log. It may
	// be nil.
	Acknowledged func(g *Generation, end int)

	mu      sync.Mutex
	changed chan struct{}
	all     []*Generation
	offset  time.Duration
	counter uint64
	// hasNoChecksums is true if new transactions have no checksums.
	hasNoChecksums bool
	streams        map[*Stream]bool
}

// NewServer returns a server without transactions.
func NewServer() *Server {
	return &Server{changed: make(chan struct{}), streams: map[*Stream]bool{},
		all: []*Generation{{UUID: uuid.NewString(), Before: binlog.Set{}}}}
}

// Visit calls a function with all generations, the current one last.
func (s *Server) Visit(read func([]*Generation)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	read(s.all)
}

// Commit adds a transaction of about the given size. ago is the age of its commit time.
func (s *Server) Commit(size int, ago time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.current()
	s.counter++
	const most = 256 << 10
	bodies := [][]byte{}
	for left := max(size, 8); left > 0; left -= most {
		body := make([]byte, min(max(left, 8), most))
		if s.IsRandom {
			_, _ = rand.Read(body) // It returns no error.
		}
		binary.LittleEndian.PutUint64(body, s.counter) // It makes each transaction unique.
		bodies = append(bodies, body)
	}
	micros := s.now() - uint64(ago.Microseconds()) //nolint:gosec // It is positive.
	if s.offset >= 0 {
		micros = max(micros, g.Begun)
	}
	if n := len(g.Log); n > 0 && s.offset >= 0 {
		micros = max(micros, g.Log[n-1].Time) // Commit times in the log must not decrease.
	}
	next := binlog.GTID{Source: g.UUID, Number: int64(len(g.Log)) + 1}
	for all := g.Before[g.UUID]; len(all) > 0; all = nil {
		next.Number += all[len(all)-1].Last
	}
	checksum := checksumSize
	if s.hasNoChecksums {
		checksum = 0
	}
	g.Log = append(g.Log, newTransaction(next, micros, checksum, bodies...))
	s.announceChange()
}

// ChangeChecksum changes binlog_checksum from CRC32 to NONE or back.
func (s *Server) ChangeChecksum() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasNoChecksums = !s.hasNoChecksums
}

// Incident adds an incident event to the log, as if the server could not write a transaction.
func (s *Server) Incident() {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.current()
	g.incidents = withPosition(g.incidents, len(g.Log))
	s.announceChange()
}

// CommitLarge adds a transaction with an event that is too large for the client.
func (s *Server) CommitLarge() {
	s.mu.Lock()
	g := s.current()
	g.large = withPosition(g.large, len(g.Log))
	s.mu.Unlock()
	s.Commit(10, 0)
}

// withPosition returns a copy of a set with one more position.
func withPosition(all map[int]bool, position int) map[int]bool {
	out := map[int]bool{position: true}
	maps.Copy(out, all)
	return out
}

// HasIncident reports whether the log between two positions is incomplete. Either the server could not write
// transactions there, or a transaction is too large for the client.
func (g *Generation) HasIncident(begin, end int) bool {
	for i := range g.incidents {
		if begin < i && i < end {
			return true
		}
	}
	for i := range g.large {
		if begin <= i && i < end {
			return true
		}
	}
	return false
}

// executed returns all transactions up to a position in the log.
func (g *Generation) executed(end int) binlog.Set {
	out := g.Before.Clone()
	for i := range g.Log[:end] {
		out.Add(g.Log[i].GTID)
	}
	return out
}

// Executed returns all transactions of the server.
func (s *Server) Executed() binlog.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.current()
	return g.executed(len(g.Log))
}

// Purge deletes all transactions from the log except for the last ones. It breaks the streams that have not sent all of
// the deleted transactions.
func (s *Server) Purge(rest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.current()
	g.purged = max(g.purged, len(g.Log)-rest)
	for st := range s.streams {
		if st.next < g.purged {
			st.breakOff(errPurged)
		}
	}
}

// Reset deletes the whole log, like RESET BINARY LOGS AND GTIDS. Existing connections still send the old log, and after
// that only heartbeats.
func (s *Server) Reset() {
	s.replace(func(g *Generation) *Generation { return &Generation{UUID: g.UUID} })
}

// State returns the state that the server reports about its log.
func (s *Server) State() binlog.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stateOf(s.current())
}

// Replace simulates a restore from a backup: the server gets another server_uuid and an empty log.
func (s *Server) Replace() {
	s.replace(func(g *Generation) *Generation {
		return &Generation{UUID: uuid.NewString(), Before: g.executed(len(g.Log))}
	})
	s.Break()
}

// Rewind simulates a restore from a snapshot of the volume: the server loses its last transactions.
func (s *Server) Rewind(lost int) {
	s.replace(func(g *Generation) *Generation {
		end := max(len(g.Log)-lost, 0)
		return &Generation{UUID: g.UUID, Before: g.Before, Log: g.Log[:end:end], purged: min(g.purged, end),
			incidents: upTo(g.incidents, end), large: upTo(g.large, end-1)}
	})
	s.Break()
}

// upTo returns the positions that are at most last.
func upTo(all map[int]bool, last int) map[int]bool {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(i int, _ bool) bool { return i > last })
	return out
}

// StepClock changes the clock of the server.
func (s *Server) StepClock(step time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += step
}

// Break breaks all connections.
func (s *Server) Break() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakAll()
}

var (
	errBroken = errors.New("the connection is broken")
	errPurged = &mysql.MyError{Code: mysql.ER_MASTER_FATAL_ERROR_READING_BINLOG, Message: "purged"}
)

// Connect opens a Stream of the binary log, as a login to the server.
func (s *Server) Connect(context.Context) (*Stream, binlog.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.current()
	st := &Stream{server: s, generation: g, broken: make(chan struct{})}
	s.streams[st] = true
	return st, s.stateOf(g), nil
}

func (s *Server) stateOf(g *Generation) binlog.State {
	return binlog.State{ServerUUID: g.UUID, Executed: g.executed(len(g.Log)), Purged: g.executed(g.purged), Now: s.now()}
}

func (s *Server) current() *Generation { return s.all[len(s.all)-1] }

func (s *Server) now() uint64 { return uint64(time.Now().Add(s.offset).UnixMicro()) }

// announceChange wakes all streams.
func (s *Server) announceChange() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) replace(next func(*Generation) *Generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := next(s.current())
	if g.Before == nil {
		g.Before = binlog.Set{}
	}
	g.Begun = s.now()
	s.all = append(s.all, g)
}

func (s *Server) breakAll() {
	for st := range s.streams {
		st.breakOff(errBroken)
	}
}

// A Stream is a connection that reads the binary log of the fake server. It implements logarchive.Stream.
type Stream struct {
	server     *Server
	generation *Generation
	after      binlog.Set
	// next is the position of the next transaction in the log. part is the number of its parts that were already sent.
	next, part int
	// BreakAfter is the number of parts after which the connection breaks, or 0.
	BreakAfter int

	broken chan struct{}
	cause  error
}

// State returns the state that the server reports, but for the log that this connection reads.
func (st *Stream) State() binlog.State {
	st.server.mu.Lock()
	defer st.server.mu.Unlock()
	return st.server.stateOf(st.generation)
}

// Start implements logarchive.Stream.
func (st *Stream) Start(after binlog.Set) error {
	st.server.mu.Lock()
	defer st.server.mu.Unlock()
	st.after = after.Clone()
	executed := st.generation.executed(len(st.generation.Log))
	if !after.Contains(st.generation.executed(st.generation.purged)) || !executed.Contains(after) {
		st.breakOff(errPurged)
	}
	return nil
}

// Acknowledge implements logarchive.Stream.
func (st *Stream) Acknowledge(p binlog.Position) error {
	st.server.mu.Lock()
	cause, g, received := st.cause, st.generation, st.next
	st.server.mu.Unlock()
	if cause != nil {
		return cause
	}
	if p.File != g.UUID || p.Offset > uint64(received) { //nolint:gosec // It is not negative.
		panic("a transaction was acknowledged that was not sent")
	}
	if st.server.Acknowledged != nil {
		st.server.Acknowledged(g, int(p.Offset)) //nolint:gosec // At most the length of a log.
	}
	return nil
}

// Close implements logarchive.Stream.
func (st *Stream) Close() {
	st.server.mu.Lock()
	defer st.server.mu.Unlock()
	st.breakOff(errBroken)
}

// Next implements logarchive.Stream.
func (st *Stream) Next() (binlog.Part, error) {
	timer := time.NewTimer(Heartbeat)
	defer timer.Stop()
	for {
		p, ok, changed, err := st.take()
		if ok || err != nil {
			return p, err
		}
		select {
		case <-changed:
		case <-st.broken:
		case <-timer.C:
			return binlog.Part{}, nil
		}
	}
}

// breakOff ends the stream. The caller holds the lock of the server.
func (st *Stream) breakOff(cause error) {
	if st.server.streams[st] {
		delete(st.server.streams, st)
		st.cause = cause
		close(st.broken)
	}
}

// take returns the next part. If there is none, it returns a channel that is closed at the next change.
func (st *Stream) take() (p binlog.Part, ok bool, changed <-chan struct{}, err error) {
	st.server.mu.Lock()
	defer st.server.mu.Unlock()
	if st.BreakAfter > 0 {
		if st.BreakAfter--; st.BreakAfter == 0 {
			st.breakOff(errBroken)
		}
	}
	if st.cause != nil {
		return binlog.Part{}, false, nil, st.cause
	}
	log := st.generation.Log
	g := st.generation
	for st.next < len(log) && st.part == 0 && st.after.Has(log[st.next].GTID) {
		st.next++
	}
	switch {
	case g.incidents[st.next] && st.part == 0 && !st.after.Contains(g.executed(st.next)):
		st.breakOff(binlog.ErrIncident)
		return binlog.Part{}, false, nil, st.cause
	case g.large[st.next] && st.part > 0:
		st.breakOff(binlog.ErrLargeEvent)
		return binlog.Part{}, false, nil, st.cause
	}
	if st.next >= len(log) {
		return binlog.Part{}, false, st.server.changed, nil
	}
	t := &log[st.next]
	p = binlog.Part{Raw: t.Parts[st.part], IsEnd: st.part == len(t.Parts)-1, Format: t.Format}
	if st.part == 0 {
		begin := t.Begin
		p.Begin = &begin
	}
	p.IsMarked = st.server.Waits != nil
	if st.part++; p.IsEnd {
		st.next, st.part = st.next+1, 0
		if p.IsMarked && st.server.Waits() {
			p.Waits = &binlog.Position{File: g.UUID, Offset: uint64(st.next)} //nolint:gosec // It is not negative.
		}
	}
	return p, true, nil, nil
}
