package logarchive

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// ErrDamaged is the error for a manifest that was changed after it was written.
var ErrDamaged = errors.New("the archived binary log is damaged")

// A Reader reads from a bucket the timelines of one instance's archived binary log.
type Reader struct {
	Bucket bucket
	Key    store.SigningKey
	// Log is the prefix of all timelines in the bucket.
	Log string
}

// maxTimelines is the maximum number of timelines of an instance.
const maxTimelines = 10_000

// Timelines returns the timelines of the instance, the oldest first. A timeline may have no segment yet.
func (r Reader) Timelines(ctx context.Context) ([]Timeline, error) {
	names, err := r.Bucket.Prefixes(ctx, r.Log, maxTimelines)
	if err != nil {
		return nil, err
	}
	out := make([]Timeline, 0, len(names))
	for _, name := range slices.Sorted(slices.Values(names)) {
		if timelineName.MatchString(name) {
			out = append(out, Timeline{path.Join(r.Log, name)})
		}
	}
	return out, nil
}

// A Last is a segment with its timeline and manifest. In most cases, it is the last segment of the timeline.
type Last struct {
	Timeline

	*Manifest

	// Digest is the checksum of the manifest.
	Digest string
	// Time is a time up to which the segments contain all transactions.
	Time uint64
}

// Last returns the last segment of a timeline, or nil if the timeline has no manifest. It begins with the segment that
// the head mentions, and follows the numbers from there. The head may be missing, or so old that the segment was pruned.
func (r Reader) Last(ctx context.Context, t Timeline) (*Last, error) {
	h, err := r.head(ctx, t)
	if err != nil {
		return nil, err
	}
	number := max(h.Number, 1)
	for {
		exists, err := r.hasSegment(ctx, t, number+1)
		if err != nil {
			return nil, err
		}
		if !exists {
			break
		}
		number++
	}
	out, err := r.Segment(ctx, t, number)
	if store.Is(err, store.NotFound) {
		listed, lerr := r.lastNumber(ctx, t)
		if lerr != nil || listed == 0 { // An archiver has only begun the timeline, or its manifests were deleted.
			return nil, lerr
		}
		if listed > number { // Otherwise, the manifests at the end of the timeline are missing.
			out, err = r.Segment(ctx, t, listed)
		}
	}
	if err != nil {
		return nil, err
	}
	out.Time = max(h.Until, out.LastTime)
	return out, nil
}

// maxUnreadable is the maximum number of damaged manifests at the end of a timeline that LastReadable skips.
const maxUnreadable = 100

// LastReadable returns the last segment whose manifest is neither damaged nor lost, or nil if the timeline has no
// manifest. If a later segment exists, damage says why it cannot be read. Time is then the time of the segment's last
// transaction.
func (r Reader) LastReadable(ctx context.Context, t Timeline) (last *Last, damage, err error) {
	last, err = r.Last(ctx, t)
	if !isUnreadable(err) {
		return last, nil, err
	}
	damage = err
	number, err := r.lastNumber(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	for range maxUnreadable {
		last, err = r.Segment(ctx, t, number)
		switch {
		case err == nil:
			return last, damage, nil
		case !isUnreadable(err):
			return nil, nil, err
		}
		damage = err
		if number--; number < 1 {
			break
		}
	}
	return nil, nil, damage
}

// Segment reads and verifies the manifest of a segment.
func (r Reader) Segment(ctx context.Context, t Timeline, number int64) (*Last, error) {
	raw, err := r.Bucket.ReadSmall(ctx, t.ManifestKey(number), store.MaxSigned)
	if err != nil {
		return nil, err
	}
	m, err := openManifest(r.Key, t, number, raw)
	if err != nil {
		return nil, err
	}
	return &Last{Timeline: t, Manifest: m, Digest: Digest(raw), Time: m.LastTime}, nil
}

// Find returns the segment of a timeline that contains a transaction, which must not be in a segment that was pruned. If
// the manifest of that segment is damaged or lost, Find returns the next segment. The recovery then reports the damage.
// The last segment must contain the transaction or follow it.
func (r Reader) Find(ctx context.Context, last *Last, g binlog.GTID) (*Last, error) {
	return r.findFirst(ctx, last, func(m *Manifest) (bool, error) {
		until, err := binlog.ParseSet(m.Until)
		return until.Has(g), err
	})
}

// FindAfter returns the first segment of a timeline that contains a transaction after a time, or the last segment.
func (r Reader) FindAfter(ctx context.Context, last *Last, micros uint64) (*Last, error) {
	return r.findFirst(ctx, last, func(m *Manifest) (bool, error) { return m.MaxTime > micros, nil })
}

// MaxSteps is the maximum number of segments that FindStep reads. In each of them, the server's clock went backwards.
const MaxSteps = 100

// FindStep returns the segment of a timeline in which a time is ambiguous because the clock of the server went
// backwards, or nil. It reads only the segments with a step, from the last one back to the first one that ends before
// the time. It returns false if there are too many of them.
func (r Reader) FindStep(ctx context.Context, last *Last, micros uint64) (step *Manifest, isComplete bool, err error) {
	number := last.SteppedAt
	for range MaxSteps {
		if number < 1 {
			return nil, true, nil
		}
		m, err := r.neededSegment(ctx, last.Timeline, number)
		switch {
		case err != nil:
			return nil, false, err
		case m == nil: // It was pruned, so that the earlier ones were pruned, too.
			return nil, true, nil
		case m.MakesAmbiguous(micros):
			return m.Manifest, true, nil
		case m.MaxTime <= micros || number == 1:
			return nil, true, nil
		}
		before, err := r.neededSegment(ctx, last.Timeline, number-1)
		if err != nil || before == nil {
			return nil, err == nil, err
		}
		number = before.SteppedAt
	}
	return nil, false, nil
}

// neededSegment returns a segment, or nil if it was pruned. If its manifest is lost, the error is ErrDamaged.
func (r Reader) neededSegment(ctx context.Context, t Timeline, number int64) (*Last, error) {
	m, err := r.Segment(ctx, t, number)
	if !store.Is(err, store.NotFound) {
		return m, err
	}
	h, err := r.head(ctx, t)
	if err != nil {
		return nil, err
	}
	first, err := r.firstNumber(ctx, t, max(h.First, 1), number)
	if err != nil || first == number { // No earlier segment exists.
		return nil, err
	}
	return nil, fmt.Errorf("%w: the manifest of segment %d is missing", ErrDamaged, number)
}

// findFirst returns the first segment of a timeline for which a condition is true, or the last segment. The condition
// must be true for all segments after that one.
func (r Reader) findFirst(ctx context.Context, last *Last, isWanted func(*Manifest) (bool, error)) (*Last, error) {
	h, err := r.head(ctx, last.Timeline)
	if err != nil {
		return nil, err
	}
	low, err := r.firstNumber(ctx, last.Timeline, max(h.First, 1), last.Number)
	if err != nil {
		return nil, err
	}
	found := last
	for high := last.Number; low < high; {
		middle := (low + high) / 2
		m, err := r.readableFrom(ctx, last.Timeline, middle, high)
		if err != nil {
			return nil, err
		}
		if m == nil { // All manifests from here to the segment found last are damaged or lost.
			high = middle
			continue
		}
		switch ok, err := isWanted(m.Manifest); {
		case err != nil:
			return nil, err
		case ok:
			found, high = m, middle // A segment between middle and m has a damaged manifest, so it cannot be returned.
		default:
			low = m.Number + 1
		}
	}
	return found, nil
}

// readableFrom returns the first segment between two numbers whose manifest is neither damaged nor lost, or nil.
func (r Reader) readableFrom(ctx context.Context, t Timeline, from, before int64) (*Last, error) {
	for number := from; number < before; number++ {
		m, err := r.Segment(ctx, t, number)
		if !isUnreadable(err) {
			return m, err
		}
	}
	return nil, nil //nolint:nilnil // There is none, which is no error.
}

// isUnreadable reports whether a manifest is damaged or lost.
func isUnreadable(err error) bool { return errors.Is(err, ErrDamaged) || store.Is(err, store.NotFound) }

// head returns the head of a timeline. It is empty if it was not written yet or is damaged. It is only a hint, so a
// damaged head must not prevent a recovery. The archiver writes it again.
func (r Reader) head(ctx context.Context, t Timeline) (Head, error) {
	var h Head
	raw, err := r.Bucket.ReadSmall(ctx, t.headKey(), store.MaxSigned)
	switch {
	case store.Is(err, store.NotFound):
		return Head{}, nil
	case err != nil:
		return Head{}, err
	}
	if err := r.Key.Open(t.headKey(), raw, &h); err != nil || h.Number < 0 || h.First < 0 {
		return Head{}, nil //nolint:nilerr // See above.
	}
	return h, nil
}

// lastNumber returns the number of the last manifest of a timeline, or 0 if there is none. It lists all objects, and is
// needed only if the head is missing or outdated.
func (r Reader) lastNumber(ctx context.Context, t Timeline) (last int64, err error) {
	_, _, err = r.Bucket.Find(ctx, t.Prefix, 0, func(key string) bool {
		if n, ok := numberOf(key); ok {
			last = max(last, n)
		}
		return false
	})
	return last, err
}

// maxProbed is the maximum number of segments that may have been pruned since the head was written. Beyond it, firstNumber
// bisects, and takes a lost manifest for a pruned one.
const maxProbed = 3 * maxPruned

// firstNumber returns the number of the first segment from low to high. Segments are deleted in the order of their
// numbers, and segment high must exist. If segment low exists, low is the result even if later manifests are lost.
func (r Reader) firstNumber(ctx context.Context, t Timeline, low, high int64) (int64, error) {
	for range maxProbed {
		if exists, err := r.hasSegment(ctx, t, low); err != nil || exists || low >= high {
			return low, err
		}
		low++
	}
	for low < high {
		middle := (low + high) / 2
		exists, err := r.hasSegment(ctx, t, middle)
		switch {
		case err != nil:
			return 0, err
		case exists:
			high = middle
		default:
			low = middle + 1
		}
	}
	return low, nil
}

func (r Reader) hasSegment(ctx context.Context, t Timeline, number int64) (bool, error) {
	_, err := r.Bucket.Stat(ctx, t.ManifestKey(number))
	if store.Is(err, store.NotFound) {
		return false, nil
	}
	return err == nil, err
}
