package logarchive

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"filippo.io/age"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

const (
	// segmentTime is the maximum time from the first transaction of a segment until the segment is sent.
	segmentTime = 2 * time.Second
	// segmentBytes is the size of the transactions after which a segment is sent. Larger transactions get a segment of
	// their own, and are not kept in memory.
	segmentBytes = 4 << 20
	// headTime is the interval at which head.json of a timeline is written. heldTime is the interval at which the
	// archiver checks that it still owns the prefix, before the timeline has a segment.
	headTime = time.Minute
	heldTime = 10 * time.Second
	// commitDelay is the maximum time from the commit time of a transaction until it is in gtid_executed. The server
	// writes the transaction to its disk in this time.
	commitDelay = 4 * time.Second
	// stateTime is the interval at which an idle server is queried for its transactions. It is also the timeout of the
	// query.
	stateTime = 4 * time.Second
	// maxDoubts is how many consecutive queries of an idle server may fail to confirm that the archive is complete.
	maxDoubts = 15
	// pruneMargin is an additional time for which segments are kept, because the clock of the server may differ.
	pruneMargin = time.Hour
	// drainTime is the maximum time in which the last segments are sent when the archiver is stopped.
	drainTime = 20 * time.Second
)

// A Stream sends the binary log of a server. *binlog.Stream implements it.
type Stream interface {
	Start(after binlog.Set) error
	Next() (binlog.Part, error)
	Acknowledge(p binlog.Position) error
	Close()
}

// A Progress describes which transactions of a binary log an archiver has stored in the bucket.
type Progress struct {
	Timeline Timeline
	// Number is the number of the last segment. Until is a time up to which the segments contain all transactions.
	Number int64
	Until  time.Time
	// GTIDs is the set of all transactions up to the end of the last segment.
	GTIDs string
	// Gap is the reason why the timeline is new, or "" if it continues the previous archive.
	Gap string
}

// An Archiver stores the binary log of one MySQL server in a bucket.
type Archiver struct {
	Reader

	// Recipients are the recipients that segments are encrypted for. Without recipients, they are not encrypted.
	Recipients []age.Recipient
	// Connect logs in to the MySQL server. It returns the stream of the binary log, and the server's state at the
	// login.
	Connect func(ctx context.Context) (Stream, binlog.State, error)
	// State returns the present state of the server. It uses another connection, and is not called concurrently. Without
	// State, the archiver does not notice that the log of a connected server was reset.
	State func(ctx context.Context) (binlog.State, error)
	// Held returns an error if this archiver must not write to the prefix of the archive any more, because another
	// cluster or instance owns it. It is called before each write of the head. If it is nil, the prefix is not checked.
	Held func(ctx context.Context) error
	// KeepFrom returns the time before which transactions are no longer needed, or the zero time to keep all. If it is
	// nil, all are kept.
	KeepFrom func() time.Time
	// Report is called after each change of the progress.
	Report func(Progress)
	// Now returns the current time.
	Now func() time.Time
}

// errUnstored is the error for transactions that were received before an error of the connection but not stored.
var errUnstored = errors.New("the last transactions were not stored")

// errRival is the error for a segment that another archiver has written.
var errRival = errors.New("another archiver has written the next segment")

// Run archives the binary log until the context ends or an error occurs. The caller retries. Everything that a new run
// needs is in the store. If the context ends, Run first stores all transactions that it has received.
func (a *Archiver) Run(ctx context.Context) error {
	newest, last, damage, err := a.readNewest(ctx)
	if err != nil {
		return err
	}
	stream, state, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	s := &session{Archiver: a, state: state, newest: newest, last: last, nextHead: a.Now(), idle: newIdleCheck()}
	if damage == "" {
		s.isResumed, err = s.resumeStart(ctx)
	}
	switch gap := cmp.Or(damage, gapOf(last, state)); {
	case err != nil || s.isResumed:
	case gap != "":
		s.beginTimeline(gap)
	default:
		// The server sends the last archived transaction again, so that a log that was reset can be recognized.
		stream, err = s.resumeTimeline(ctx, stream)
	}
	if err = s.archive(ctx, stream, err); s.failure == nil {
		return err
	}
	// The server sends the same event after each reconnect. A timeline that begins after it can go on.
	reason := s.failure.Error()
	if stream, s.state, err = a.Connect(ctx); err != nil {
		return err
	}
	s.beginTimeline(reason)
	return s.archive(ctx, stream, nil)
}

// archive stores the transactions of a stream in the begun or resumed timeline. If err is not nil, it only returns err.
// It sets the session's failure if the log contains an event that cannot be archived.
func (s *session) archive(ctx context.Context, stream Stream, err error) error {
	defer stream.Close()
	if err == nil && s.last == nil && !s.isResumed {
		err = s.writeStart(ctx)
	}
	if err == nil && s.last == nil {
		err = stream.Start(s.until)
	}
	if err == nil {
		s.Report(s.progress())
		s.stream = stream
		err = s.followStream(ctx, stream)
	}
	s.failure = nil
	if ctx.Err() == nil && isUnarchivable(err) {
		s.failure = err
	}
	return err
}

// isUnarchivable reports whether an error says that the log contains an event that cannot be archived, and whether that
// is the only error.
func isUnarchivable(err error) bool {
	return !errors.Is(err, errUnstored) && (errors.Is(err, binlog.ErrIncident) || errors.Is(err, binlog.ErrLargeEvent))
}

// readNewest returns the newest timeline and its last segment, which are empty if there is none. If the last segment is
// damaged or missing, the timeline cannot be continued, and readNewest returns the reason.
func (a *Archiver) readNewest(ctx context.Context) (newest Timeline, last *Last, damage string, err error) {
	all, err := a.Timelines(ctx)
	if err != nil {
		return Timeline{}, nil, "", err
	}
	if len(all) > 0 {
		newest = all[len(all)-1]
	}
	for _, t := range slices.Backward(all) {
		if last, err = a.Last(ctx, t); err == nil {
			last, err = a.promoteTail(ctx, t, last)
		}
		if errors.Is(err, ErrDamaged) || store.Is(err, store.NotFound) {
			return newest, nil, "the end of the archive is damaged: " + err.Error(), nil
		}
		if last != nil || err != nil {
			return newest, last, "", err
		}
	}
	return newest, nil, "", nil
}

// promoteTail makes segments of the tail that an earlier archiver has left.
func (a *Archiver) promoteTail(ctx context.Context, t Timeline, last *Last) (*Last, error) {
	if hasTail, err := a.HasTail(ctx, t, last); err != nil || !hasTail {
		return last, err
	}
	if a.Held != nil {
		if err := a.Held(ctx); err != nil {
			return last, err
		}
	}
	return a.PromoteTail(ctx, t, last)
}

// gapOf returns why the archive cannot be continued with the log of a server, or "".
func gapOf(last *Last, state binlog.State) string {
	if last == nil {
		return "the archive has no segment yet"
	}
	until, err := binlog.ParseSet(last.Until)
	switch {
	case err != nil:
		return err.Error()
	case last.ServerUUID != state.ServerUUID:
		return fmt.Sprintf("the server has another server_uuid (%.36s instead of %s)", state.ServerUUID, last.ServerUUID)
	case !state.Executed.Contains(until):
		return fmt.Sprintf("the server does not have the archived transactions %.200s. Its binary log was reset, or its "+
			"data is older", until.Without(state.Executed))
	case !until.Contains(state.Purged):
		return fmt.Sprintf("the server has deleted the transactions %.200s from its binary log before they were archived",
			state.Purged.Without(until))
	}
	return ""
}

// A session archives the binary log that a MySQL server sends on one connection.
type session struct {
	*Archiver

	state binlog.State
	// newest is the newest timeline in the store, if there is one.
	newest Timeline
	// line is the current timeline. last is its last segment, or nil if the timeline has no segment yet.
	last *Last
	line Timeline
	// start is the set of transactions before the timeline. until also contains the archived transactions.
	start, until binlog.Set
	gap          string
	// isResumed is true if the session continues a timeline without segments.
	isResumed bool
	// failure is the error for an event that cannot be archived, or nil.
	failure error

	current *segment
	begun   time.Time
	// idle checks that the archive has all transactions of the server, while the server sends nothing.
	idle idleCheck
	// known is a time up to which the segments contain all transactions, in microseconds by the server's clock.
	known    uint64
	nextHead time.Time
	pruning  pruning

	stream Stream
	ack    acknowledger
	// deleting waits for the deletion of pieces.
	deleting sync.WaitGroup
}

// beginTimeline switches the session to a new timeline. gap is the reason why the previous one cannot be continued.
func (s *session) beginTimeline(gap string) {
	if s.line.Prefix > s.newest.Prefix {
		s.newest = s.line
	}
	s.gap, s.last, s.known, s.current, s.pruning, s.idle = gap, nil, 0, nil, pruning{}, newIdleCheck()
	s.line = newTimeline(s.Log, s.newest, s.Now(), randomText())
	s.start, s.until, s.isResumed = s.state.Executed, s.state.Executed.Clone(), false
}

func randomText() string { return strings.ToLower(rand.Text()[:10]) }

// resumeTimeline continues the timeline of the last segment. If the server's last archived transaction differs from the
// archive, it begins a new timeline on a new connection.
func (s *session) resumeTimeline(ctx context.Context, stream Stream) (Stream, error) {
	until, err1 := binlog.ParseSet(s.last.Until)
	start, err2 := binlog.ParseSet(s.last.Start)
	g, err3 := binlog.ParseGTID(s.last.LastGTID)
	if err := errors.Join(err1, err2, err3); err != nil {
		return stream, err
	}
	s.line, s.start, s.until, s.known = s.last.Timeline, start, until, s.last.Time
	var gap string
	if s.state.Purged.Has(g) {
		gap = fmt.Sprintf("the server has deleted the last archived transaction %s, so it cannot be compared", g)
	} else if err := stream.Start(until.Without(g.Set())); err != nil {
		return stream, err
	} else if gap, err = s.compareLast(ctx, stream, g); err != nil {
		return stream, err
	}
	if gap == "" {
		return stream, nil
	}
	stream.Close()
	fresh, state, err := s.Connect(ctx)
	if err != nil {
		return stream, err
	}
	s.state = state
	s.beginTimeline(gap)
	return fresh, nil
}

// compareLast reads the first transaction of a stream. It returns a reason for a gap if it is not the last archived one.
func (s *session) compareLast(ctx context.Context, stream Stream, want binlog.GTID) (gap string, err error) {
	digest := sha256.New()
	for {
		p, err := stream.Next()
		switch {
		case err != nil || ctx.Err() != nil:
			return "", errors.Join(err, ctx.Err())
		case len(p.Raw) == 0: // A heartbeat.
			continue
		case p.Begin != nil && p.Begin.GTID != want:
			p.Release()
			return fmt.Sprintf("the server sends transaction %s instead of %s, so its binary log was reset", p.Begin.GTID,
				want), nil
		}
		digest.Write(p.Raw)
		p.Release()
		if p.IsEnd {
			break
		}
	}
	if hex.EncodeToString(digest.Sum(nil)) != s.last.LastDigest {
		return fmt.Sprintf("transaction %s of the server differs from the archived one, so its binary log was reset", want),
			nil
	}
	return "", nil
}

// A received is a part of a transaction that the server has sent, or the error that ended the stream.
type received struct {
	binlog.Part

	err error
}

// receiveParts returns a channel with all parts of a stream. It ends with the stream, or when done is closed.
func receiveParts(stream Stream, done <-chan struct{}) <-chan received {
	parts := make(chan received)
	go func() {
		for {
			p, err := stream.Next()
			select {
			case parts <- received{p, err}:
			case <-done:
				p.Release()
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return parts
}

// followStream stores all parts of a stream until the context ends or an error occurs.
func (s *session) followStream(ctx context.Context, stream Stream) error {
	done := make(chan struct{})
	defer close(done)
	parts := receiveParts(stream, done)
	tick := time.NewTicker(segmentTime / 4)
	defer tick.Stop()
	running := ctx
	ctx, cancel := extendContext(running)
	defer s.deleting.Wait()
	defer func() { s.ack.await() }()
	defer s.idle.await()
	defer cancel()
	s.ack = newAcknowledger()
	s.beginTail()
	if err := s.deleteOldTails(ctx); err != nil {
		return err
	}
	for inTransaction := false; ; {
		var err, streamErr error
		ending := running.Done()
		if inTransaction {
			ending = nil // The rest of the transaction follows, or the connection breaks.
		}
		select {
		case <-ending:
			return s.storeRest(ctx)
		case p := <-parts:
			if streamErr = p.err; streamErr == nil && len(p.Raw) > 0 {
				inTransaction = !p.IsEnd
				err = s.storePart(ctx, p.Part)
				p.Release()
				s.idle.recordTransaction()
			}
		case r := <-s.idle.results:
			err = s.recordState(r)
		case err = <-s.ack.results:
			err = s.recordPiece(err)
		case <-s.ack.due:
			s.ack.isDue = true
		case <-tick.C:
			if !inTransaction && s.current != nil && s.Now().Sub(s.begun) >= segmentTime {
				err = s.publishSegment(ctx)
			} else if s.current == nil {
				s.askState(ctx)
			}
		}
		if streamErr != nil {
			return s.storeAtEnd(ctx, streamErr, inTransaction)
		}
		if err == nil && !inTransaction {
			err = s.acknowledgeNext(ctx)
		}
		if err == nil && !inTransaction && s.current == nil {
			if err = s.writeHead(ctx); err == nil {
				err = s.prune(ctx)
			}
		}
		if err != nil {
			return s.storeBeforeError(ctx, err, inTransaction)
		}
	}
}

// extendContext returns a context that ends some time after another one, so that requests to the store that have begun
// can end.
func extendContext(ctx context.Context) (context.Context, context.CancelFunc) {
	extended, cancel := context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // The caller calls it.
	unregister := context.AfterFunc(ctx, func() { time.AfterFunc(drainTime, cancel) })
	return extended, func() {
		unregister()
		cancel()
	}
}

// storeAtEnd stores what was received before the end of a stream, and the time up to which the archive is complete,
// because the server may have been stopped for good. If only that time cannot be stored, a recovery to a time after the
// last transaction is refused.
func (s *session) storeAtEnd(ctx context.Context, err error, inTransaction bool) error {
	if err = s.storeBeforeError(ctx, err, inTransaction); errors.Is(err, errUnstored) {
		return err
	}
	s.nextHead = time.Time{}
	_ = s.writeHead(ctx)
	return err
}

// storeBeforeError stores the complete transactions that were received before an error.
func (s *session) storeBeforeError(ctx context.Context, err error, inTransaction bool) error {
	if s.current == nil {
		return err
	}
	if inTransaction {
		s.current.upload.deleteParts(context.WithoutCancel(ctx))
		return err
	}
	if perr := s.publishSegment(ctx); perr != nil {
		return errors.Join(err, fmt.Errorf("%w: %w", errUnstored, perr))
	}
	return err
}

// storeRest publishes the current segment and the head when the archiver is stopped.
func (s *session) storeRest(ctx context.Context) error {
	if s.current != nil {
		if err := s.publishSegment(ctx); err != nil {
			return err
		}
	}
	s.nextHead = time.Time{}
	return s.writeHead(ctx)
}

// storePart appends a part of a transaction to the current segment, and publishes the segment if it is large. A large
// transaction, and one with another format, begin a segment.
func (s *session) storePart(ctx context.Context, p binlog.Part) error {
	if c := s.current; c != nil && p.Begin != nil && (p.Begin.Length > segmentBytes || !c.format.Fits(p.Format)) {
		if err := s.publishSegment(ctx); err != nil {
			return err
		}
	}
	if s.current == nil {
		if err := s.openSegment(ctx, p.Format); err != nil {
			return err
		}
	}
	err := s.current.addPart(p)
	if err == nil {
		err = s.addToTail(p)
	}
	if err != nil {
		s.current.upload.deleteParts(context.WithoutCancel(ctx))
		s.current = nil
		return err
	}
	if p.Waits != nil {
		s.ack.waits = p.Waits
	}
	if p.IsEnd && s.current.file.Bytes > segmentBytes {
		return s.publishSegment(ctx)
	}
	return nil
}

// openSegment creates the next segment of the timeline, before its first transaction is added.
func (s *session) openSegment(ctx context.Context, f binlog.Format) error {
	c, err := s.newSegment(newUpload(ctx, s.Bucket, ""), f, s.last, s.until)
	if err != nil {
		return err
	}
	c.upload.key = s.line.SegmentKey(&c.manifest)
	s.current, s.begun = c, s.Now()
	return nil
}

// newSegment returns an empty segment after the last one, which may be nil. before are all transactions before it.
func (s *session) newSegment(u *upload, f binlog.Format, last *Last, before binlog.Set) (*segment, error) {
	m := Manifest{Number: numberAfter(last), ServerUUID: s.state.ServerUUID, Start: s.start.String(), BeforeTime: s.state.Now,
		MaxTime: s.state.Now}
	if last != nil {
		m.Previous = last.Digest
		m.BeforeTime, m.MaxTime, m.SteppedAt, m.Transactions = last.MaxTime, last.MaxTime, last.SteppedAt, last.Transactions
		m.TotalBytes, m.TotalSize = last.TotalBytes, last.TotalSize
	}
	m.ServerVersion = f.Version()
	m.Segment = numberText(m.Number) + "-" + randomText() + segmentSuffix
	if len(s.Recipients) > 0 {
		m.Segment += encryptedSuffix
	}
	c, err := newSegment(u, f, before, s.Recipients)
	if err != nil {
		return nil, err
	}
	c.manifest, c.known = m, s.known
	return c, nil
}

// publishSegment stores the current segment and then its manifest. The transactions are durable when it returns.
func (s *session) publishSegment(ctx context.Context) error {
	c := s.current
	s.current = nil
	if err := c.finishSegment(ctx); err != nil {
		c.upload.deleteParts(context.WithoutCancel(ctx))
		return err
	}
	until := s.until.Clone()
	until.AddAll(c.set)
	c.manifest.Until = until.String()
	m := c.manifest // A pointer into the segment would keep its buffers in memory.
	digest, err := s.putManifest(ctx, s.line, &m)
	if err != nil {
		return err
	}
	s.last = &Last{Timeline: s.line, Manifest: &m, Digest: digest, Time: m.LastTime}
	s.until, s.known = until, max(s.known, m.LastTime)
	s.deletePieces(ctx, s.beginTail())
	s.acknowledgeAll()
	s.Report(s.progress())
	return nil
}

// writeHead writes head.json of the timeline if headTime has passed. Before that, it checks who owns the prefix (Held).
func (s *session) writeHead(ctx context.Context) error {
	if s.Now().Before(s.nextHead) {
		return nil
	}
	if s.Held != nil {
		if err := s.Held(ctx); err != nil {
			return err
		}
	}
	if s.last == nil {
		s.nextHead = s.Now().Add(heldTime)
		return nil
	}
	key := s.line.headKey()
	raw, err := s.Key.Sign(key, Head{Number: s.last.Number, Until: s.known, First: s.pruning.first})
	if err != nil {
		return err
	}
	if err := s.Bucket.Put(ctx, key, raw); err != nil {
		return err
	}
	s.nextHead, s.pruning.limit = s.Now().Add(headTime), s.last.Number
	return nil
}

func (s *session) progress() Progress {
	p := Progress{Timeline: s.line, GTIDs: s.until.String(), Gap: s.gap}
	if s.last != nil {
		p.Number = s.last.Number
	}
	if s.known > 0 {
		p.Until = time.UnixMicro(int64(s.known)).UTC() //nolint:gosec // A time.
	}
	return p
}
