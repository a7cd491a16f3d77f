package logarchive

import (
	"context"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// maxPruned is the maximum number of segments that are deleted in one call.
const maxPruned = 500

// Prune deletes the first segments of a timeline whose transactions were all committed before a time. It never deletes
// the last segment. A recovery that begins with a backup that was begun after that time does not need them. Prune
// returns the number of the first remaining segment. If it is interrupted, the next call continues.
func (r Reader) Prune(ctx context.Context, t Timeline, before time.Time, first int64, last *Last) (int64, error) {
	number := max(first, 1)
	for range maxPruned {
		if number >= last.Number {
			break
		}
		s, err := r.Segment(ctx, t, number)
		if store.Is(err, store.NotFound) { // An interrupted call has deleted it.
			number++
			continue
		}
		if err != nil {
			return number, err
		}
		if s.LastTime >= uint64(max(before.UnixMicro(), 0)) {
			break
		}
		// The manifest is deleted last, so that an interrupted call finds the segment again.
		if err := r.Bucket.Delete(ctx, t.SegmentKey(s.Manifest)); err != nil {
			return number, err
		}
		if err := r.Bucket.Delete(ctx, t.ManifestKey(number)); err != nil {
			return number, err
		}
		number++
	}
	return number, nil
}

// Remove deletes a timeline whose transactions were all committed before a time. A timeline with many segments is
// deleted in several calls.
func (r Reader) Remove(ctx context.Context, t Timeline, before time.Time) error {
	h, err := r.head(ctx, t)
	if err != nil {
		return err
	}
	last, err := r.Last(ctx, t)
	if err != nil || last == nil || last.MaxTime >= uint64(max(before.UnixMicro(), 0)) {
		return err
	}
	first, err := r.Prune(ctx, t, before, h.First, last)
	if err != nil || first < last.Number {
		return err
	}
	for _, key := range []string{t.SegmentKey(last.Manifest), t.headKey(), t.ManifestKey(last.Number)} {
		if err := r.Bucket.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
