package recovery

import (
	"fmt"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
)

// A Base is a verified backup with which a recovery can begin.
type Base struct {
	// Record is the name of the BackupRecord.
	Record string
	// Begun and Completed are the times between which the backup was taken. Its data is from a time between them.
	Begun, Completed time.Time
	// Request is the name of the Backup that requested it, or "".
	Request string
	// Lines are the timelines of the same instance in the same store, the oldest first.
	Lines []Line
}

// A Line is a timeline of an archived binary log.
type Line struct {
	*logarchive.Last

	// Begun is the time at which the timeline began.
	Begun time.Time
}

// continues reports whether the timeline contains all transactions after a backup. The backup must have begun after
// the timeline, because the transactions before the timeline are in no segment.
func (l Line) continues(b Base) bool { return isAfter(b, l.Timeline, l.Begun) }

// isAfter reports whether a backup was begun after a timeline. The clocks of the API server and of the controller may
// differ, but a backup that was requested for the timeline was begun after it.
func isAfter(b Base, t logarchive.Timeline, begun time.Time) bool {
	return b.Begun.After(begun) || strings.Contains(b.Request, RequestMark(t))
}

// RequestMark returns a part of the name of each Backup that is requested because of a timeline.
func RequestMark(t logarchive.Timeline) string {
	_, random, _ := strings.Cut(t.Name(), "-")
	return "-log-" + random
}

// Choose returns the backup and the timeline for a recovery to a time. The bases must be sorted, the newest first. If
// the recovery is not possible, the error says which times are.
func Choose(moment time.Time, bases []Base) (Base, Line, error) {
	for _, b := range bases {
		if b.Completed.After(moment) {
			continue
		}
		for i := len(b.Lines) - 1; i >= 0; i-- {
			if l := b.Lines[i]; l.continues(b) && !l.until().Before(moment) {
				return b, l, nil
			}
		}
	}
	return Base{}, Line{}, fmt.Errorf("%s is not possible. %s", moment.UTC().Format(time.RFC3339Nano), DescribeRanges(bases))
}

func (l Line) until() time.Time { return time.UnixMicro(int64(l.Time)) } //nolint:gosec // A time.

// maxRanges is the maximum number of ranges in a message.
const maxRanges = 3

// DescribeRanges returns the times to which a recovery is possible, the latest first.
func DescribeRanges(bases []Base) string {
	var text strings.Builder
	count := 0
	for i := range bases {
		from, until, ok := rangeOf(bases, i)
		if !ok || count == maxRanges {
			continue
		}
		count++
		fmt.Fprintf(&text, "Possible is %s to %s. ", from.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
	}
	if count == 0 {
		return "No backup has an archived binary log that continues it"
	}
	return strings.TrimSuffix(text.String(), ". ")
}

// rangeOf returns the times that are possible from a base, unless the range of an older base contains them.
func rangeOf(bases []Base, i int) (from, until time.Time, ok bool) {
	b := bases[i]
	for k := len(b.Lines) - 1; k >= 0; k-- {
		l := b.Lines[k]
		if !l.continues(b) || l.until().Before(b.Completed) {
			continue
		}
		for _, older := range bases[i+1:] {
			if hasLine(older, l) && l.continues(older) {
				return from, until, false
			}
		}
		return b.Completed, l.until(), true
	}
	return from, until, false
}

func hasLine(b Base, l Line) bool {
	for _, other := range b.Lines {
		if other.Timeline == l.Timeline {
			return true
		}
	}
	return false
}

// Earliest returns the earliest time to which a recovery with a timeline is possible, or false if there is none. The
// bases may be in any order.
func Earliest(bases []Base, t logarchive.Timeline, begun time.Time) (out time.Time, ok bool) {
	for _, b := range bases {
		if !isAfter(b, t, begun) || ok && !b.Completed.Before(out) {
			continue
		}
		out, ok = b.Completed, true
	}
	return out, ok
}
