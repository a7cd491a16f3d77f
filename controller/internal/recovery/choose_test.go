package recovery

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
)

// minute returns a time some minutes after a fixed one.
func minute(n int) time.Time {
	return time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Minute)
}

// line returns a timeline that begins and ends at the given minutes.
func line(name string, begun, until int) Line {
	return Line{Begun: minute(begun), Last: &logarchive.Last{Timeline: logarchive.Timeline{Prefix: name},
		Time: uint64(minute(until).UnixMicro())}}
}

// base returns a backup that was begun and completed at the given minutes.
func base(name string, begun, completed int, lines ...Line) Base {
	return Base{Record: name, Begun: minute(begun), Completed: minute(completed), Lines: lines}
}

// TestChooseTransaction checks which backup a recovery to a transaction begins with.
func TestChooseTransaction(t *testing.T) {
	one, two := line("one", 0, 60), line("two", 70, 120)
	g := binlog.GTID{Source: "3e11fa47-71ca-11e1-9e33-c80aa9429562", Number: 7}
	cases := map[string]struct {
		reason string
		// first and latest are the minutes of the first and of the latest transaction in the segment.
		first, latest int
		bases         []Base
		base          string
		refusal       string
	}{
		"Newest": {reason: "The newest backup needs the shortest log.", first: 50, latest: 51,
			bases: []Base{base("b2", 30, 31, one), base("b1", 10, 11, one)}, base: "b2"},
		"SameSegment": {reason: "The transaction may be after the backup.", first: 10, latest: 12,
			bases: []Base{base("b1", 9, 11, one)}, base: "b1"},
		"SameSegmentAsTheSecond": {reason: "Only the first backup is certain.", first: 29, latest: 32,
			bases: []Base{base("b2", 30, 31, one), base("b1", 10, 11, one)}, base: "b1"},
		"ClockBack": {reason: "The clock was set back before the transaction.", first: -20, latest: 40,
			bases: []Base{base("b2", 30, 31, one), base("b1", 10, 11, one)}, base: "b1"},
		"Before": {reason: "The backup contains the transaction.", first: 2, latest: 3,
			bases: []Base{base("b1", 10, 11, one)}, refusal: g.String() + " is not possible. Possible is"},
		"OtherTimeline": {reason: "The log of the backup does not have the transaction.", first: 50, latest: 51,
			bases: []Base{base("b1", 80, 81, two)}, refusal: "is not possible"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := &logarchive.Manifest{FirstTime: uint64(minute(tc.first).UnixMicro()),
				MaxTime: uint64(minute(tc.latest).UnixMicro())}
			b, l, err := ChooseTransaction(g, one.Timeline, m, tc.bases)
			switch {
			case tc.refusal != "" && (err == nil || !strings.Contains(err.Error(), tc.refusal)):
				t.Errorf("%s want the refusal %q, got %v", tc.reason, tc.refusal, err)
			case tc.refusal == "" && (err != nil || b.Record != tc.base || l.Prefix != "one"):
				t.Errorf("%s want %s, got %s, %+v, %v", tc.reason, tc.base, b.Record, l, err)
			}
		})
	}
}

// TestChoose checks which backup and which timeline a recovery begins with.
func TestChoose(t *testing.T) {
	one, two := line("one", 0, 60), line("two", 70, 120)
	cases := map[string]struct {
		reason     string
		moment     time.Time
		bases      []Base
		base, line string
		refusal    string
	}{
		"Newest": {reason: "The newest backup before the time needs the shortest log.", moment: minute(50),
			bases: []Base{base("b2", 30, 31, one), base("b1", 10, 11, one)}, base: "b2", line: "one"},
		"Older": {reason: "A later backup contains later transactions.", moment: minute(20),
			bases: []Base{base("b2", 30, 31, one), base("b1", 10, 11, one)}, base: "b1", line: "one"},
		"During": {reason: "A backup contains transactions up to its end.", moment: minute(30).Add(30 * time.Second),
			bases: []Base{base("b2", 30, 31, one), base("b1", 10, 11, one)}, base: "b1", line: "one"},
		"AtTheEnd": {reason: "The end of the archive is included.", moment: minute(60),
			bases: []Base{base("b1", 10, 11, one)}, base: "b1", line: "one"},
		"AfterTheEnd": {reason: "After the end of the archive, transactions may be missing.", moment: minute(61),
			bases: []Base{base("b1", 10, 11, one)}, refusal: "Possible is 2026-11-22T18:11:00Z to 2026-11-22T19:00:00Z"},
		"BeforeTheFirst": {reason: "All backups are later than the time.", moment: minute(5),
			bases: []Base{base("b1", 10, 11, one)}, refusal: "Possible is 2026-11-22T18:11:00Z"},
		"InTheGap": {reason: "The archive was interrupted.", moment: minute(65),
			bases: []Base{base("b2", 71, 72, one, two), base("b1", 10, 11, one, two)},
			refusal: "Possible is 2026-11-22T19:12:00Z to 2026-11-22T20:00:00Z. Possible is 2026-11-22T18:11:00Z to " +
				"2026-11-22T19:00:00Z"},
		"AcrossTheGap": {reason: "A backup before the gap cannot be continued after it.", moment: minute(80),
			bases: []Base{base("b1", 10, 11, one, two)}, refusal: "Possible is 2026-11-22T18:11:00Z to 2026-11-22T19:00:00Z"},
		"AfterTheGap": {reason: "There is a backup after the gap.", moment: minute(80),
			bases: []Base{base("b2", 71, 72, one, two), base("b1", 10, 11, one, two)}, base: "b2", line: "two"},
		"WithTheTimeline": {reason: "The backup may have begun before the timeline.", moment: minute(50),
			bases: []Base{base("b1", 0, 11, one)}, refusal: "No backup has an archived binary log"},
		"NoLog": {reason: "The instance is not archived.", moment: minute(50), bases: []Base{base("b1", 10, 11)},
			refusal: "No backup has an archived binary log"},
		"NoBackup": {reason: "A recovery requires a backup.", moment: minute(50), refusal: "No backup has"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b, l, err := Choose(tc.moment, tc.bases)
			switch {
			case tc.refusal != "" && (err == nil || !strings.Contains(err.Error(), tc.refusal)):
				t.Errorf("%s want the refusal %q, got %v", tc.reason, tc.refusal, err)
			case tc.refusal == "" && (err != nil || b.Record != tc.base || l.Prefix != tc.line):
				t.Errorf("%s want %s, %s, got %s, %+v, %v", tc.reason, tc.base, tc.line, b.Record, l, err)
			}
		})
	}
}

// TestChooseLatest checks which backup and which timeline the recovery of the last archived transaction begins with.
func TestChooseLatest(t *testing.T) {
	const last = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"
	lineTo := func(name string, begun, until int) Line {
		l := line(name, begun, until)
		l.Manifest = &logarchive.Manifest{LastGTID: last}
		return l
	}
	one, two := lineTo("one", 0, 60), lineTo("two", 70, 120)
	damaged := lineTo("two", 70, 120)
	damaged.Damage = errors.New("piece 5 is lost")
	for name, tc := range map[string]struct {
		reason     string
		bases      []Base
		base, line string
		refusal    string
	}{
		"Newest": {reason: "The newest backup needs the shortest log.",
			bases: []Base{base("b2", 30, 31, one), base("b1", 10, 11, one)}, base: "b2", line: "one"},
		"AfterTheGap": {reason: "There is a backup after the gap.",
			bases: []Base{base("b2", 71, 72, one, two), base("b1", 10, 11, one, two)}, base: "b2", line: "two"},
		"NoBackupAfterTheGap": {reason: "The transactions after the gap would be missing.",
			bases: []Base{base("b1", 10, 11, one, two)}, refusal: "after a gap at 2026-11-22T19:10:00Z"},
		"LaterBackup": {reason: "The backup has transactions that the archive lacks.",
			bases: []Base{base("b2", 61, 62, one), base("b1", 10, 11, one)}, refusal: "Remove at"},
		"DuringTheBackup": {reason: "The archive may have transactions that were committed while the backup was taken.",
			bases: []Base{base("b2", 59, 62, one), base("b1", 10, 11, one)}, base: "b2", line: "one"},
		"Damaged": {reason: "Acknowledged transactions are lost.",
			bases: []Base{base("b2", 71, 72, one, damaged)}, refusal: "piece 5 is lost"},
		"NoLog":    {reason: "The instance is not archived.", bases: []Base{base("b1", 10, 11)}, refusal: "No backup has"},
		"NoBackup": {reason: "A recovery requires a backup.", refusal: "No backup has"},
	} {
		t.Run(name, func(t *testing.T) {
			b, l, target, err := ChooseLatest(tc.bases)
			switch {
			case tc.refusal != "" && (err == nil || !strings.Contains(err.Error(), tc.refusal)):
				t.Errorf("%s want the refusal %q, got %v", tc.reason, tc.refusal, err)
			case tc.refusal == "" && (err != nil || b.Record != tc.base || l.Prefix != tc.line || target.String() != last):
				t.Errorf("%s want %s with %s, got %s, %+v, %s, %v", tc.reason, tc.base, tc.line, b.Record, l, target, err)
			}
		})
	}
}

// TestEarliest checks that only backups which were begun after the timeline count.
func TestEarliest(t *testing.T) {
	bases := []Base{base("b3", 30, 31), base("b2", 20, 21), base("b1", 10, 11)}
	if got, ok := Earliest(bases, logarchive.Timeline{}, minute(10)); !ok || !got.Equal(minute(21)) {
		t.Errorf("want the first backup after the beginning, got %s, %t", got, ok)
	}
	if _, ok := Earliest(bases, logarchive.Timeline{Prefix: "log/20261122180000-abcdefghij"}, minute(30)); ok {
		t.Error("want no backup")
	}
	bases[0].Request = "shop-log-abcdefghij-18"
	line := logarchive.Timeline{Prefix: "log/20261122180000-abcdefghij"}
	if got, ok := Earliest(bases, line, minute(30)); !ok || !got.Equal(minute(31)) {
		t.Errorf("want the backup that was requested for the timeline, got %s, %t", got, ok)
	}
}
