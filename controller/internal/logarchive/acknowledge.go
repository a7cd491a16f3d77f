package logarchive

import (
	"context"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
)

// pieceDelay is the time from the first transaction that the server waits for until a piece is sent. Clients whose commits
// were acknowledged together commit again within this time, and share the next piece.
const pieceDelay = 2 * time.Millisecond

// An acknowledger stores the transactions for which the server waits as pieces of a tail, and acknowledges them. One piece
// at a time is being sent. The next one contains all transactions that arrive meanwhile.
type acknowledger struct {
	id tailID
	// last is the last piece that was sent, or the last segment, or nil. until are the transactions up to its end.
	last  *Last
	until binlog.Set
	// current contains the transactions after the last piece, or is nil.
	current *segment
	// isBroken is true if the current segment contains transactions that are in no piece.
	isBroken bool
	// waits is the position of the last transaction that must be acknowledged, or nil.
	waits *binlog.Position
	// due receives a time when the next piece must be sent. isDue is true after that.
	due   <-chan time.Time
	isDue bool
	// isSending is true while a piece is being sent. end is the end of its transactions. The result of the request is sent
	// to results.
	isSending bool
	end       binlog.Position
	results   chan error
	// stored contains the keys of the pieces after the last segment.
	stored []string
}

func newAcknowledger() acknowledger { return acknowledger{results: make(chan error, 1)} }

// await waits until the request that stores a piece has ended. A segment with its transactions was stored, or the archiver
// ends.
func (k *acknowledger) await() {
	if k.isSending {
		<-k.results
		k.isSending = false
	}
}

// beginTail begins a new tail after a segment was stored. It returns the keys of the pieces that are no longer needed.
func (s *session) beginTail() (unneeded []string) {
	k := &s.ack
	if end := k.end; k.isSending && k.waits == nil {
		k.waits = &end // The segment contains the transactions of the piece.
	}
	k.await()
	unneeded = k.stored
	k.id, k.last, k.until = tailID{numberAfter(s.last) - 1, randomText()}, s.last, s.until
	k.current, k.isBroken, k.stored = nil, false, nil
	return unneeded
}

// addToTail adds a part of a transaction to the next piece. If the server does not mark the transactions for which it
// waits, or the piece would be too large, the next segment acknowledges them.
func (s *session) addToTail(p binlog.Part) error {
	k := &s.ack
	isTooLarge := k.current != nil && k.current.file.Bytes > maxPieceBytes || p.Begin != nil && p.Begin.Length > maxPieceBytes
	if !p.IsMarked || isTooLarge || len(k.stored) >= maxTail {
		k.isBroken, k.current = true, nil
	}
	if k.isBroken {
		return nil
	}
	if k.current == nil {
		c, err := s.newSegment(newMemoryUpload(), p.Format, k.last, k.until)
		if err != nil {
			return err
		}
		k.current = c
	}
	return k.current.addPart(p)
}

// acknowledgeNext stores the transactions for which the server waits, if no piece is being sent. It must not be called
// within a transaction.
func (s *session) acknowledgeNext(ctx context.Context) error {
	k := &s.ack
	switch {
	case k.waits == nil:
		return nil
	case s.current == nil: // The segments contain all transactions.
		s.acknowledgeAll()
		return nil
	case k.isSending:
		return nil
	case k.isBroken:
		return s.publishSegment(ctx)
	case k.isDue:
		return s.sendPiece(ctx)
	case k.due == nil:
		k.due = time.After(pieceDelay)
	}
	return nil
}

// acknowledgeAll acknowledges all transactions for which the server waits. They are stored.
func (s *session) acknowledgeAll() {
	if p := s.ack.waits; p != nil {
		s.ack.waits = nil
		_ = s.stream.Acknowledge(*p) // If the connection is broken, Next returns an error, too.
	}
}

// sendPiece begins to store the transactions after the last piece.
func (s *session) sendPiece(ctx context.Context) error {
	k := &s.ack
	c, end := k.current, *k.waits
	k.current, k.waits, k.due, k.isDue = nil, nil, nil, false
	if err := c.finishSegment(ctx); err != nil {
		return err
	}
	until := k.until.Clone()
	until.AddAll(c.set)
	c.manifest.Until = until.String()
	p := piece{Manifest: c.manifest, Content: c.upload.buffer.Bytes()}
	key := s.line.pieceKey(k.id, p.Number)
	raw, err := s.Key.Sign(key, p)
	if err != nil {
		return err
	}
	k.last = &Last{Timeline: s.line, Manifest: &p.Manifest, Digest: Digest(raw), Time: p.LastTime}
	k.until, k.isSending, k.stored = until, true, append(k.stored, key)
	k.end = end
	go func() { k.results <- s.Bucket.Put(ctx, key, raw) }() // It never blocks, because one piece at a time is sent.
	return nil
}

// recordPiece evaluates the result of the request that stores a piece, and acknowledges its transactions.
func (s *session) recordPiece(err error) error {
	s.ack.isSending = false
	if err == nil {
		_ = s.stream.Acknowledge(s.ack.end) // See above.
	}
	return err
}

// deletePieces deletes pieces that are no longer needed in the background. Those that remain are deleted together with the
// timeline.
func (s *session) deletePieces(ctx context.Context, keys []string) {
	if len(keys) == 0 {
		return
	}
	s.deleting.Go(func() {
		for _, key := range keys {
			if err := s.Bucket.Delete(ctx, key); err != nil {
				return
			}
		}
	})
}

// deleteOldTails deletes the tails of earlier archivers, whose transactions are all in segments now.
func (s *session) deleteOldTails(ctx context.Context) error {
	all, err := s.tails(ctx, s.line)
	if err != nil {
		return err
	}
	keys := []string{}
	for id, numbers := range all {
		for _, number := range numbers {
			if id.base < s.ack.id.base {
				keys = append(keys, s.line.pieceKey(id, number))
			}
		}
	}
	s.deletePieces(ctx, keys)
	return nil
}
