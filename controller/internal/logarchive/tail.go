package logarchive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

const (
	// tailName is the name of the directory with the tails of a timeline, and pieceSuffix the suffix of their pieces.
	tailName    = "tail"
	pieceSuffix = ".tail"
	// maxPieceBytes is the maximum size in bytes of the transactions in a piece. maxPiece is the maximum size of the object.
	maxPieceBytes = 256 << 10
	maxPiece      = 1 << 20
	// maxTail is the maximum number of pieces after a segment.
	maxTail = 100
	// maxTailKeys is the maximum number of objects of all tails of a timeline. Only a store that permits no deletion has
	// more than a few hundred.
	maxTailKeys = 100_000
)

// A piece contains transactions after the last segment. The server waits for them, and a piece needs only one request to
// the store. It consists of the manifest and the content of a segment. The next segment contains the same transactions, so
// pieces are needed only if the archiver ends before it has stored that segment.
//
// The field Previous is the checksum of the previous piece, or of the manifest of the last segment.
type piece struct {
	Manifest

	Content []byte `json:"content"`

	// digest is the checksum of the piece. before and until are the transactions before and up to the end of the piece.
	digest        string
	before, until binlog.Set
}

// A tailID identifies the pieces that one archiver has stored after a segment.
type tailID struct {
	// base is the number of the segment, or 0.
	base   int64
	random string
}

func (t Timeline) tailDir() string { return path.Join(t.Prefix, tailName) }

func (t Timeline) pieceKey(id tailID, number int64) string {
	return path.Join(t.tailDir(), numberText(id.base), id.random+"-"+numberText(number)+pieceSuffix)
}

// parsePieceKey returns the tail and the number of a piece, or false for other objects.
func (t Timeline) parsePieceKey(key string) (id tailID, number int64, ok bool) {
	random, text, _ := strings.Cut(strings.TrimSuffix(path.Base(key), pieceSuffix), "-")
	number, err1 := strconv.ParseInt(text, 10, 64)
	base, err2 := strconv.ParseInt(path.Base(path.Dir(key)), 10, 64)
	id = tailID{base, random}
	return id, number, err1 == nil && err2 == nil && t.pieceKey(id, number) == key
}

// tails returns the numbers of the pieces of each tail of a timeline, in ascending order.
func (r Reader) tails(ctx context.Context, t Timeline) (map[tailID][]int64, error) {
	all, _, err := r.Bucket.Find(ctx, t.tailDir(), maxTailKeys, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	out := map[tailID][]int64{}
	for _, o := range all {
		if id, number, ok := t.parsePieceKey(o.Key); ok {
			out[id] = append(out[id], number)
		}
	}
	for _, numbers := range out {
		slices.Sort(numbers)
	}
	return out, nil
}

// mayContinue reports whether a tail may have transactions after the last segment, which may be nil. PromoteTail may have
// been interrupted after it stored some segments of the tail.
func (id tailID) mayContinue(last *Last) bool { return id.base >= numberAfter(last)-1-maxTail }

// numberAfter returns the number of the segment after the last one, which may be nil.
func numberAfter(last *Last) int64 {
	if last == nil {
		return 1
	}
	return last.Number + 1
}

// HasTail reports whether a timeline has a tail that may have transactions after the last segment, which may be nil.
func (r Reader) HasTail(ctx context.Context, t Timeline, last *Last) (bool, error) {
	all, err := r.tails(ctx, t)
	for id := range all {
		if id.mayContinue(last) {
			return true, err
		}
	}
	return false, err
}

// tailTime is the time after which IncludeTail considers an archiver as ended. A running archiver stores a segment, which
// replaces the tail, within segmentTime.
const tailTime = 3 * segmentTime

// IncludeTail promotes the tail of a timeline if its archiver has ended. Only the newest timeline can have a running archiver.
// For that timeline, IncludeTail waits some seconds to find out. last is the last segment, or nil. damage says which
// transactions of the tail are lost or cannot be promoted.
func (r Reader) IncludeTail(ctx context.Context, t Timeline, last *Last, isNewest bool) (_ *Last, damage, err error) {
	if hasTail, err := r.HasTail(ctx, t, last); err != nil || !hasTail {
		return last, nil, err
	}
	now := last
	if isNewest {
		select {
		case <-ctx.Done():
			return last, nil, ctx.Err()
		case <-time.After(tailTime):
		}
		now, err = r.Last(ctx, t)
		if err != nil || numberAfter(now) != numberAfter(last) {
			return now, nil, err
		}
	}
	now, err = r.PromoteTail(ctx, t, now)
	switch {
	case store.Is(err, store.Denied):
		return now, fmt.Errorf("the acknowledged transactions cannot be read without the permission to write: %w", err), nil
	case errors.Is(err, ErrDamaged):
		return now, err, nil
	}
	return now, nil, err
}

// PromoteTail makes segments of the pieces after the last segment of a timeline, and returns the new last segment. last is
// nil if there is none. The archiver of the timeline must have ended. If PromoteTail is interrupted, the next call
// continues. The error is ErrDamaged if transactions of a tail are lost. The result is then the last segment before them.
func (r Reader) PromoteTail(ctx context.Context, t Timeline, last *Last) (*Last, error) {
	all, err := r.tails(ctx, t)
	if err != nil {
		return last, err
	}
	var best []*piece
	var damage error
	byBase := func(a, b tailID) int { return cmp.Or(cmp.Compare(a.base, b.base), cmp.Compare(a.random, b.random)) }
	for _, id := range slices.SortedFunc(maps.Keys(all), byBase) {
		if !id.mayContinue(last) {
			continue
		}
		pieces, lost, err := r.readTail(ctx, t, id, all[id], last)
		if err != nil {
			return last, err
		}
		// All tails are from the same log, so the longest one contains the others.
		if damage = errors.Join(damage, lost); countOf(pieces) > countOf(best) {
			best = pieces
		}
	}
	for _, p := range best {
		if last, err = r.promotePiece(ctx, t, p, last); err != nil {
			return last, err
		}
	}
	return last, damage
}

// countOf returns the number of transactions up to the end of some pieces.
func countOf(pieces []*piece) int64 {
	if len(pieces) == 0 {
		return 0
	}
	return pieces[len(pieces)-1].until.Count()
}

// readTail returns the pieces of a tail that continue the last segment, which may be nil. lost describes the transactions
// of the tail that cannot continue it.
func (r Reader) readTail(ctx context.Context, t Timeline, id tailID, numbers []int64, last *Last) (out []*piece, lost,
	err error) {
	newest, err := r.readPiece(ctx, t, id, numbers[len(numbers)-1])
	if err != nil && !isUnreadable(err) {
		return nil, nil, err
	}
	text := ""
	if last != nil {
		text = last.Until
	} else if newest != nil {
		text = newest.Start
	}
	end, err := binlog.ParseSet(text)
	if err != nil || newest != nil && end.Contains(newest.until) {
		return nil, nil, err // The segments contain all transactions of the tail.
	}
	previous := ""
	if id.base > 0 {
		base, err := r.Segment(ctx, t, id.base)
		switch {
		case isUnreadable(err):
			return nil, fmt.Errorf("%w: the manifest of segment %d is missing", ErrDamaged, id.base), nil
		case err != nil:
			return nil, nil, err
		}
		previous = base.Digest
	}
	for number := id.base + 1; number <= numbers[len(numbers)-1]; number++ {
		p, err := r.readPiece(ctx, t, id, number)
		switch {
		case isUnreadable(err):
			return out, fmt.Errorf("%w: piece %d of the acknowledged transactions after segment %d cannot be read", ErrDamaged,
				number, id.base), nil
		case err != nil:
			return nil, nil, err
		case p.Previous != previous:
			return out, fmt.Errorf("%w: piece %d of the acknowledged transactions after segment %d was replaced", ErrDamaged,
				number, id.base), nil
		}
		if previous = p.digest; end.Contains(p.until) {
			continue
		}
		if !p.before.Equal(end) {
			return out, fmt.Errorf("%w: the acknowledged transactions %.200s do not continue its last segment", ErrDamaged,
				p.until.Without(end)), nil
		}
		out, end = append(out, p), p.until
	}
	return out, nil, nil
}

// readPiece reads and verifies a piece.
func (r Reader) readPiece(ctx context.Context, t Timeline, id tailID, number int64) (*piece, error) {
	key := t.pieceKey(id, number)
	raw, err := r.Bucket.ReadSmall(ctx, key, maxPiece)
	if err != nil {
		return nil, err
	}
	p := &piece{digest: Digest(raw)}
	if err := r.Key.Open(key, raw, p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	err = p.checkFields(number)
	if sum := sha256.Sum256(p.Content); err == nil && hex.EncodeToString(sum[:]) != p.SHA256 {
		err = errors.New("its content has another checksum")
	}
	if err == nil {
		p.before, err = p.BeforeSegment()
	}
	if err == nil {
		p.until, err = binlog.ParseSet(p.Until)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: piece %d is wrong: %w", ErrDamaged, number, err)
	}
	return p, nil
}

// promotePiece stores a piece as the segment after the last one, which may be nil.
func (r Reader) promotePiece(ctx context.Context, t Timeline, p *piece, last *Last) (*Last, error) {
	m, number := p.Manifest, numberAfter(last)
	m.Segment = numberText(number) + strings.TrimPrefix(m.Segment, numberText(m.Number))
	isStepped := m.SteppedAt == m.Number
	set, err := binlog.ParseSet(m.GTIDs)
	if err != nil {
		return last, err
	}
	m.Number, m.Previous, m.SteppedAt = number, "", 0
	m.TotalBytes, m.TotalSize, m.Transactions = m.Bytes, m.Size, set.Count()
	if last != nil {
		m.Previous, m.BeforeTime, m.MaxTime = last.Digest, last.MaxTime, max(last.MaxTime, m.MaxTime)
		m.SteppedAt = last.SteppedAt
		m.TotalBytes, m.TotalSize = last.TotalBytes+m.Bytes, last.TotalSize+m.Size
		m.Transactions = last.Transactions + set.Count()
	}
	if isStepped {
		m.SteppedAt = number
	}
	if err := r.Bucket.Put(ctx, t.SegmentKey(&m), p.Content); err != nil {
		return last, err
	}
	digest, err := r.putManifest(ctx, t, &m)
	if err != nil {
		return last, err
	}
	return &Last{Timeline: t, Manifest: &m, Digest: digest, Time: m.LastTime}, nil
}

// putManifest signs and stores the manifest of a segment, and returns its checksum.
func (r Reader) putManifest(ctx context.Context, t Timeline, m *Manifest) (digest string, err error) {
	if err := m.checkFields(m.Number); err != nil { // A reader would refuse it.
		return "", err
	}
	key := t.ManifestKey(m.Number)
	raw, err := r.Key.Sign(key, m)
	if err != nil {
		return "", err
	}
	return Digest(raw), r.putOnce(ctx, key, raw)
}

// putOnce writes a manifest and reads it back. A request may reach the store although it has failed, so an existing
// manifest is compared. A store without conditional writes may overwrite the manifest of another archiver, and both
// archivers read the same manifest afterwards.
func (r Reader) putOnce(ctx context.Context, key string, raw []byte) error {
	if err := r.Bucket.PutIf(ctx, key, raw, ""); err != nil && !store.Is(err, store.Exists) {
		return err
	}
	found, rerr := r.Bucket.ReadSmall(ctx, key, store.MaxSigned)
	switch {
	case rerr != nil:
		return rerr
	case string(found) != string(raw):
		return fmt.Errorf("%w (%s)", errRival, path.Base(key))
	}
	return nil
}
