package logarchive

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sort"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// ErrDamaged is the error for a manifest that was changed after it was written.
var ErrDamaged = errors.New("the archived binary log is damaged")

// A Reader reads the timelines of one instance.
type Reader struct {
	Bucket bucket
	Key    store.SealKey
	// Log is the prefix of all timelines.
	Log string
}

// maxTimelines is the maximum number of timelines of an instance.
const maxTimelines = 10_000

// Timelines returns the timelines of the instance that have a segment, the oldest first.
func (r Reader) Timelines(ctx context.Context) ([]Timeline, error) {
	found, hasMore, err := r.Bucket.Find(ctx, r.Log, maxTimelines, func(key string) bool {
		n, ok := numberOf(key)
		return ok && n == 1 && timelineName.MatchString(path.Base(path.Dir(key)))
	})
	switch {
	case err != nil:
		return nil, err
	case hasMore:
		return nil, fmt.Errorf("there are more than %d timelines below %q", maxTimelines, r.Log)
	}
	out := make([]Timeline, 0, len(found))
	for _, o := range found {
		out = append(out, Timeline{path.Dir(o.Key)})
	}
	sort.Slice(out, func(i, k int) bool { return out[i].Prefix < out[k].Prefix })
	return out, nil
}

// A Last is the last segment of a timeline.
type Last struct {
	Timeline

	*Manifest

	// Digest is the checksum of the manifest.
	Digest string
	// Time is a time up to which the segments contain all transactions.
	Time uint64
}

// Last returns the last segment of a timeline. It begins with the segment that the head mentions, and follows the
// numbers from there.
func (r Reader) Last(ctx context.Context, t Timeline) (*Last, error) {
	var h Head
	raw, err := r.Bucket.ReadSmall(ctx, t.headKey(), store.MaxSealed)
	switch {
	case err == nil:
		if err := r.Key.Open(t.headKey(), raw, &h); err != nil || h.Number < 0 {
			h = Head{} // It is only a hint, so it must not prevent a recovery. The archiver writes it again.
		}
	case !store.Is(err, store.NotFound):
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
	if err != nil {
		return nil, err
	}
	out.Time = max(h.Until, out.MaxTime)
	return out, nil
}

// Segment reads and verifies the manifest of a segment.
func (r Reader) Segment(ctx context.Context, t Timeline, number int64) (*Last, error) {
	raw, err := r.Bucket.ReadSmall(ctx, t.ManifestKey(number), store.MaxSealed)
	if err != nil {
		return nil, err
	}
	m, err := openManifest(r.Key, t, number, raw)
	if err != nil {
		return nil, err
	}
	return &Last{Timeline: t, Manifest: m, Digest: Digest(raw), Time: m.MaxTime}, nil
}

func (r Reader) hasSegment(ctx context.Context, t Timeline, number int64) (bool, error) {
	_, err := r.Bucket.Stat(ctx, t.ManifestKey(number))
	if store.Is(err, store.NotFound) {
		return false, nil
	}
	return err == nil, err
}
