package logarchive

import (
	"context"
	"errors"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

const (
	// maxPruned is the maximum number of segments that are deleted in one call. The archiver stores nothing meanwhile.
	maxPruned = 10
	// pruneTime is the time until prune deletes again if there is more to delete.
	pruneTime = 5 * time.Second
	// othersTime is the interval at which older timelines are pruned.
	othersTime = time.Hour
	// maxRest is the maximum number of other objects of a timeline that are deleted in one call.
	maxRest = 30
)

// A pruning is the state of an archiver that prunes its timelines.
type pruning struct {
	// first is the number of the first segment that was not pruned, or 0 if it is unknown.
	first int64
	// limit is the number of the last segment in the written head. A reader begins with that segment, so neither this
	// segment nor later ones are deleted.
	limit int64
	// next is the time at which prune deletes again. nextOthers is the time at which it next deletes older timelines.
	next, nextOthers time.Time
}

// prune deletes some segments that no recovery needs any more. A store that does not permit it keeps them.
func (s *session) prune(ctx context.Context) error {
	p := &s.pruning
	if s.KeepFrom == nil || p.limit == 0 || s.Now().Before(p.next) || s.KeepFrom().IsZero() {
		return nil
	}
	p.next = s.Now().Add(headTime)
	before := s.KeepFrom().Add(-pruneMargin)
	if !s.Now().Before(p.nextOthers) {
		isDone, err := s.pruneOthers(ctx, before)
		if err == nil && !isDone {
			p.next = s.Now().Add(pruneTime)
			return nil
		}
		p.nextOthers = s.Now().Add(othersTime)
		if err != nil {
			return unlessDenied(err)
		}
	}
	if p.first == 0 {
		h, err := s.head(ctx, s.line)
		if err != nil {
			return err
		}
		p.first = max(h.First, 1)
	}
	first, err := s.Prune(ctx, s.line, before, p.first, p.limit)
	if first-p.first >= maxPruned {
		p.next = s.Now().Add(pruneTime)
	}
	p.first = first
	return unlessDenied(err)
}

// unlessDenied returns nil if the store permits no deletion, or if a manifest is damaged. The archiver must not stop
// then.
func unlessDenied(err error) error {
	if store.Is(err, store.Denied) || errors.Is(err, ErrDamaged) {
		return nil
	}
	return err
}

// pruneOthers deletes older timelines that end before a time. It returns false if it must be called again.
func (s *session) pruneOthers(ctx context.Context, before time.Time) (isDone bool, err error) {
	all, err := s.Timelines(ctx)
	if err != nil {
		return false, err
	}
	for _, t := range all {
		if t == s.line {
			break // The current timeline is the newest one.
		}
		isDone, err := s.Remove(ctx, t, before)
		if errors.Is(err, ErrDamaged) || store.Is(err, store.NotFound) {
			continue // A user must decide about a damaged timeline.
		}
		if err != nil || !isDone {
			return false, err
		}
	}
	return true, nil
}

// Prune deletes the first segments of a timeline whose transactions were all committed before a time. It deletes only
// segments before the limit. A recovery that begins with a backup that was begun after that time does not need them.
// Prune deletes only a few segments, and returns the number of the first remaining one. If it is interrupted, the next
// call continues.
func (r Reader) Prune(ctx context.Context, t Timeline, before time.Time, first, limit int64) (int64, error) {
	number := max(first, 1)
	for range maxPruned {
		if number >= limit {
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
		if s.LastTime >= microsOf(before) {
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

func microsOf(t time.Time) uint64 { return uint64(max(t.UnixMicro(), 0)) }

// Remove deletes a timeline whose transactions were all committed before a time. A timeline with many segments is
// deleted in several calls. Remove returns false if it must be called again.
func (r Reader) Remove(ctx context.Context, t Timeline, before time.Time) (isDone bool, err error) {
	last, err := r.Last(ctx, t)
	if err != nil {
		return false, err
	}
	if last == nil {
		begun, err := t.Begun()
		if err != nil || !begun.Before(before) {
			return err == nil, err
		}
		return r.removeRest(ctx, t)
	}
	if last.MaxTime >= microsOf(before) {
		return true, nil
	}
	h, err := r.head(ctx, t)
	if err != nil {
		return false, err
	}
	first, err := r.firstNumber(ctx, t, max(h.First, 1), last.Number)
	if err != nil {
		return false, err
	}
	if first, err = r.Prune(ctx, t, before, first, last.Number); err != nil || first < last.Number {
		return false, err
	}
	for _, key := range []string{t.SegmentKey(last.Manifest), t.headKey(), t.ManifestKey(last.Number)} {
		if err := r.Bucket.Delete(ctx, key); err != nil {
			return false, err
		}
	}
	return r.removeRest(ctx, t)
}

// removeRest deletes objects of a timeline without manifests, such as segments that were never published.
func (r Reader) removeRest(ctx context.Context, t Timeline) (isDone bool, err error) {
	all, hasMore, err := r.Bucket.Find(ctx, t.Prefix, maxRest, func(string) bool { return true })
	if err != nil {
		return false, err
	}
	for _, o := range all {
		if err := r.Bucket.Delete(ctx, o.Key); err != nil {
			return false, err
		}
	}
	return !hasMore, nil
}
