package recovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
)

// A Base is a verified backup with which a recovery can begin.
type Base struct {
	// Record is the name of the BackupRecord.
	Record string
	// Begun and Completed are the times between which the backup was taken. Its data is from a time between them.
	Begun, Completed time.Time
	// Request is the name of the Backup object that requested this backup, or "".
	Request string
	// Lines are the timelines in which the binary log of the same instance is archived in the same store, the oldest
	// first.
	Lines []Line
}

// A Line is a timeline of an archived binary log: a part of the log without a gap.
type Line struct {
	*logarchive.Last

	// Begun is the time at which the timeline began.
	Begun time.Time
	// Damage describes why the segment after the last one cannot be read, or is nil if there is none.
	Damage error
}

// continues reports whether the timeline contains all transactions after a backup. The backup must have begun after
// the timeline, because the transactions before the timeline are in no segment.
func (l Line) continues(b Base) bool { return isAfter(b, l.Timeline, l.Begun) }

// isAfter reports whether a backup was begun after a timeline. The clocks of the API server and of the controller may
// differ. A backup whose name shows that it was requested for the timeline was therefore always begun after it.
func isAfter(b Base, t logarchive.Timeline, begun time.Time) bool {
	return b.Begun.After(begun) || strings.Contains(b.Request, RequestMark(t))
}

// RequestMark returns a part of the name of each Backup that the controller creates because of a new timeline.
func RequestMark(t logarchive.Timeline) string {
	_, random, _ := strings.Cut(t.Name(), "-")
	return "-log-" + random
}

// Choose returns the backup and the timeline for a recovery to a time. The bases must be sorted, the newest first. If
// the recovery is not possible, the error lists the times to which a recovery is possible.
func Choose(moment time.Time, bases []Base) (Base, Line, error) {
	hasLog := func(l Line) bool { return !l.until().Before(moment) }
	isPossible := func(Base) bool { return false } // A later backup contains transactions after the time.
	b, l, ok := chooseBase(bases, moment, hasLog, isPossible)
	if !ok {
		return b, l, fmt.Errorf("%s is not possible. %s", moment.UTC().Format(time.RFC3339Nano), DescribeRanges(bases))
	}
	return b, l, nil
}

// ChooseTransaction is like Choose for a transaction in a segment of a timeline. The time of the transaction itself is
// unknown, and the clock of the server may have stepped back before it.
func ChooseTransaction(g binlog.GTID, t logarchive.Timeline, segment *logarchive.Manifest, bases []Base) (Base, Line, error) {
	hasLog := func(l Line) bool { return l.Timeline == t }
	isPossible := func(b Base) bool { return !b.Begun.After(timeOf(segment.MaxTime)) }
	b, l, ok := chooseBase(bases, timeOf(segment.FirstTime), hasLog, isPossible)
	if !ok {
		return b, l, fmt.Errorf("transaction %s is not possible. %s", g, DescribeRanges(bases))
	}
	return b, l, nil
}

// ChooseLatest returns the backup and the timeline with which the last archived transaction can be recovered, and that
// transaction. The bases must be sorted, the newest first. The recovery is refused if it would lack known transactions: those
// of a later backup, of a damaged part of the archive, or of a timeline without a backup.
func ChooseLatest(bases []Base) (b Base, l Line, t Target, err error) {
	if len(bases) == 0 || len(bases[0].Lines) == 0 {
		return b, l, t, errors.New(DescribeRanges(bases))
	}
	l = bases[0].Lines[len(bases[0].Lines)-1]
	i := slices.IndexFunc(bases, l.continues)
	switch {
	case l.Damage != nil:
		return b, l, t, fmt.Errorf("the last transactions of the archived binary log are lost: %w. %s", l.Damage,
			DescribeRanges(bases))
	case l.until().Before(bases[0].Begun):
		return b, l, t, fmt.Errorf("the newest backup is later than the archived binary log, which ends at %s. Remove at to "+
			"restore that backup", l.until().UTC().Format(time.RFC3339))
	case i < 0:
		return b, l, t, fmt.Errorf("no backup precedes the last part of the archived binary log, which begins after a gap at %s. %s",
			l.Begun.UTC().Format(time.RFC3339), DescribeRanges(bases))
	}
	t.GTID, err = binlog.ParseGTID(l.LastGTID)
	return bases[i], l, t, err
}

// chooseBase returns the newest backup that was complete at a time, with a timeline that continues it. Without such a
// backup, it returns the oldest possible one. The recovery is refused if that backup contains a transaction after the
// target.
func chooseBase(bases []Base, moment time.Time, hasLog func(Line) bool, isPossible func(Base) bool) (Base, Line, bool) {
	find := func(b Base) (Line, bool) {
		for _, l := range slices.Backward(b.Lines) {
			if l.continues(b) && hasLog(l) {
				return l, true
			}
		}
		return Line{}, false
	}
	for _, b := range bases {
		if l, ok := find(b); ok && !b.Completed.After(moment) {
			return b, l, true
		}
	}
	for _, b := range slices.Backward(bases) {
		if l, ok := find(b); ok && isPossible(b) {
			return b, l, true
		}
	}
	return Base{}, Line{}, false
}

func (l Line) until() time.Time { return timeOf(l.Time) }

func timeOf(micros uint64) time.Time { return time.UnixMicro(int64(micros)) } //nolint:gosec // A time.

// maxRanges is the maximum number of time ranges that DescribeRanges lists.
const maxRanges = 3

// DescribeRanges returns a message with the time ranges to which a recovery is possible, the latest first.
func DescribeRanges(bases []Base) string {
	var text strings.Builder
	count := 0
	for i := range bases {
		r, ok := rangeOf(bases, i)
		if !ok || count == maxRanges {
			continue
		}
		count++
		fmt.Fprintf(&text, "Possible is %s to %s. ", r.from.UTC().Format(time.RFC3339), r.until.UTC().Format(time.RFC3339))
		if r.damage != nil {
			fmt.Fprintf(&text, "After that, %v. ", r.damage)
		}
	}
	if count == 0 {
		return "No backup has an archived binary log that continues it"
	}
	return strings.TrimSuffix(text.String(), ". ")
}

// A timeRange is a range of times to which a recovery is possible. damage is the damage of the archive that makes later
// times impossible, or nil.
type timeRange struct {
	from, until time.Time
	damage      error
}

// rangeOf returns the range of times to which a recovery can begin with a base. It returns false if the range of an
// older base contains this range.
func rangeOf(bases []Base, i int) (out timeRange, ok bool) {
	b := bases[i]
	for k := len(b.Lines) - 1; k >= 0; k-- {
		l := b.Lines[k]
		if !l.continues(b) || l.until().Before(b.Completed) {
			continue
		}
		for _, older := range bases[i+1:] {
			if hasLine(older, l) && l.continues(older) {
				return out, false
			}
		}
		return timeRange{b.Completed, l.until(), l.Damage}, true
	}
	return out, false
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
