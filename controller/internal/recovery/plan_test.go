package recovery

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
)

const (
	uuidA = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	uuidB = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
)

func TestParseTarget(t *testing.T) {
	const second = 1_700_000_000_000_000
	for text, want := range map[string]Target{
		"2023-11-14T22:13:20Z":            {Time: second},
		"2023-11-14T22:13:20.25Z":         {Time: second + 250_000},
		"2023-11-14T22:13:20.000001Z":     {Time: second + 1},
		"2023-11-14T23:13:20+01:00":       {Time: second},
		"2023-11-14T22:13:20.0000001Z":    {},
		"2023-11-14T22:13:20":             {},
		"2023-11-14":                      {},
		"1960-11-14T22:13:20Z":            {},
		"yesterday":                       {},
		"":                                {},
		uuidA + ":23":                     {GTID: binlog.GTID{Source: uuidA, Number: 23}},
		uuidA + ":tag:23":                 {GTID: binlog.GTID{Source: uuidA + ":tag", Number: 23}},
		"before:" + uuidA + ":23":         {GTID: binlog.GTID{Source: uuidA, Number: 23}, IsBefore: true},
		"before:" + uuidA + ":tag:23":     {GTID: binlog.GTID{Source: uuidA + ":tag", Number: 23}, IsBefore: true},
		"before:before:" + uuidA + ":23":  {},
		"before:2023-11-14T22:13:20Z":     {},
		"before:":                         {},
		uuidA + ":1-23":                   {},
		uuidA + ":1," + uuidB + ":1":      {},
		strings.ToUpper(uuidA) + ":23":    {GTID: binlog.GTID{Source: uuidA, Number: 23}},
		strings.Repeat(uuidA+":1,", 1000): {},
	} {
		got, err := ParseTarget(text)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != Target{}) {
			t.Errorf("%.80s: error %v, -want +got:\n%s", text, err, diff)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("the error is %d bytes long", len(err.Error()))
		}
		if reparsed, err := ParseTarget(got.String()); want != (Target{}) && (err != nil || reparsed != got) {
			t.Errorf("%s becomes %s, error %v", text, reparsed, err)
		}
	}
}

// at returns a transaction of server A.
func at(number int64, micros uint64) binlog.Begin {
	return binlog.Begin{GTID: binlog.GTID{Source: uuidA, Number: number}, Time: micros}
}

// before returns a target that excludes a transaction of server A and all later ones.
func before(number int64) Target { return Target{GTID: at(number, 0).GTID, IsBefore: true} }

func set(t *testing.T, text string) binlog.Set {
	t.Helper()
	out, err := binlog.ParseSet(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCut(t *testing.T) {
	log := []binlog.Begin{at(4, 10), at(5, 20), at(6, 20), at(7, 30), at(8, 40)}
	stepped := []binlog.Begin{at(4, 10), at(5, 30), at(6, 20), at(7, 40)}
	swapped := []binlog.Begin{at(4, 10), at(6, 20), at(5, 20), at(7, 30)}
	gtid := func(n int64) Target { return Target{GTID: at(n, 0).GTID} }
	const until = 100
	for name, tc := range map[string]struct {
		log    []binlog.Begin
		target Target
		base   string
		// included, applied, last and next are the expected fields of the cut.
		included   string
		applied    int64
		last, next int64
		broken     string
	}{
		"Between":   {log: log, target: Target{Time: 25}, base: uuidA + ":1-3", included: uuidA + ":1-6", applied: 3, last: 6, next: 7},
		"Equal":     {log: log, target: Target{Time: 20}, base: uuidA + ":1-3", included: uuidA + ":1-6", applied: 3, last: 6, next: 7},
		"First":     {log: log, target: Target{Time: 10}, base: uuidA + ":1-3", included: uuidA + ":1-4", applied: 1, last: 4, next: 5},
		"BeforeAll": {log: log, target: Target{Time: 9}, base: uuidA + ":1-3", included: uuidA + ":1-3", next: 4},
		"AfterAll":  {log: log, target: Target{Time: 99}, base: uuidA + ":1-3", included: uuidA + ":1-8", applied: 5, last: 8},
		"Until":     {log: log, target: Target{Time: until}, base: uuidA + ":1-3", included: uuidA + ":1-8", applied: 5, last: 8},
		"AfterUntil": {log: log, target: Target{Time: until + 1}, base: uuidA + ":1-3",
			broken: "the archive ends at 1970-01-01T00:00:00.0001Z, before 1970-01-01T00:00:00.000101Z"},
		"Idle":     {target: Target{Time: until}, base: uuidA + ":1-3", included: uuidA + ":1-3"},
		"IdleLate": {target: Target{Time: until + 1}, base: uuidA + ":1-3", broken: "the archive ends"},
		"InBase": {log: log, target: Target{Time: 35}, base: uuidA + ":1-6", included: uuidA + ":1-7", applied: 1, last: 7,
			next: 8},
		"BaseIsTarget": {log: log, target: Target{Time: 20}, base: uuidA + ":1-6", included: uuidA + ":1-6", last: 6, next: 7},
		"BaseTooNew": {log: log, target: Target{Time: 15}, base: uuidA + ":1-6",
			broken: "the backup already contains transaction " + uuidA + ":5"},
		"BaseAfterArchive": {log: log, target: Target{Time: 99}, base: uuidA + ":1-9",
			broken: "the transactions " + uuidA + ":9, which are not in the archived log"},
		"BaseOfOtherServer": {log: log, target: Target{Time: 99}, base: uuidA + ":1-3," + uuidB + ":1",
			broken: "the transactions " + uuidB + ":1, which are not in the archived log"},
		"BaseWithHole": {log: log, target: Target{Time: 25}, base: uuidA + ":1-3:8",
			broken: "the transactions " + uuidA + ":8, which are not in the archived log"},
		"ClockBackwards": {log: stepped, target: Target{Time: 35}, base: uuidA + ":1-3", included: uuidA + ":1-6", applied: 3,
			last: 6, next: 7},
		"GTID":     {log: log, target: gtid(6), base: uuidA + ":1-3", included: uuidA + ":1-6", applied: 3, last: 6, next: 7},
		"LastGTID": {log: log, target: gtid(8), base: uuidA + ":1-3", included: uuidA + ":1-8", applied: 5, last: 8},
		"GTIDBackwards": {log: stepped, target: gtid(6), base: uuidA + ":1-3", included: uuidA + ":1-6", applied: 3, last: 6,
			next: 7},
		"BeforeGTID": {log: log, target: before(6), base: uuidA + ":1-3", included: uuidA + ":1-5", applied: 2, last: 5, next: 6},
		// The order of the log is not always the order of the GTID numbers.
		"BeforeGTIDOutOfOrder": {log: swapped, target: before(5), base: uuidA + ":1-3", included: uuidA + ":1-4:6", applied: 2,
			last: 6, next: 5},
		"BeforeFirst":    {log: log, target: before(4), base: uuidA + ":1-3", included: uuidA + ":1-3", next: 4},
		"BeforeInBase":   {log: log, target: before(5), base: uuidA + ":1-6", broken: "An older backup is required"},
		"BeforeBase":     {log: log, target: before(2), base: uuidA + ":1-3", broken: "An older backup is required"},
		"BeforeOverBase": {log: swapped, target: before(6), base: uuidA + ":1-5", broken: "An older backup is required"},
		"BeforeMissing":  {log: log, target: before(9), base: uuidA + ":1-3", broken: uuidA + ":9 is not in the archive"},
		"GTIDMissing":    {log: log, target: gtid(9), base: uuidA + ":1-3", broken: uuidA + ":9 is not in the archive"},
		"GTIDBeforeBase": {log: log, target: gtid(2), base: uuidA + ":1-3", broken: "An older backup is required"},
		"GTIDInBase":     {log: log, target: gtid(5), base: uuidA + ":1-6", broken: "An older backup is required"},
		"GTIDIsBase":     {log: log, target: gtid(6), base: uuidA + ":1-6", included: uuidA + ":1-6", last: 6, next: 7},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCut(tc.target, set(t, tc.base), set(t, uuidA+":1-3"))
			var err error
			for _, b := range tc.log {
				if _, err = c.decideNext(b); err != nil {
					break
				}
			}
			if err == nil {
				err = c.checkEnd(until)
			}
			switch {
			case tc.broken != "" && (err == nil || !strings.Contains(err.Error(), tc.broken)):
				t.Fatalf("error %v, want %q", err, tc.broken)
			case tc.broken != "":
				return
			case err != nil:
				t.Fatal(err)
			}
			number := func(b *binlog.Begin) int64 {
				if b == nil {
					return 0
				}
				return b.GTID.Number
			}
			if c.included.String() != tc.included || c.applied != tc.applied || number(c.last) != tc.last ||
				number(c.next) != tc.next {
				t.Errorf("%s, %d applied, last %v, next %v", c.included, c.applied, c.last, c.next)
			}
		})
	}
}

// TestClock checks which times are refused because the clock of the server went backwards.
func TestClock(t *testing.T) {
	// The commit times are 10, 30; 20, 25 (the clock went back); 28, 50.
	all := []logarchive.Manifest{
		{Number: 1, FirstTime: 10, LastTime: 30, MaxTime: 30},
		{Number: 2, FirstTime: 20, LastTime: 25, MaxTime: 30, SteppedAt: 2},
		{Number: 3, FirstTime: 28, LastTime: 50, MaxTime: 50, SteppedAt: 3},
		{Number: 4, FirstTime: 60, LastTime: 70, MaxTime: 70, SteppedAt: 3},
	}
	for micros, isRefused := range map[uint64]bool{5: false, 19: false, 20: true, 29: true, 49: true, 50: false, 65: false, 99: false} {
		if err := (Target{Time: micros}).checkClock(all); (err != nil) != isRefused {
			t.Errorf("%d: %v", micros, err)
		} else if isRefused && !strings.Contains(err.Error(), "recover to a GTID instead of a time") {
			t.Error(err)
		}
	}
	if err := (Target{GTID: at(3, 0).GTID}).checkClock(all); err != nil {
		t.Error(err)
	}
}

func TestChooseNeeded(t *testing.T) {
	all := []logarchive.Manifest{
		{Number: 1, GTIDs: uuidA + ":1-3", FirstTime: 10, LastTime: 30},
		{Number: 2, GTIDs: uuidA + ":4-6", FirstTime: 40, LastTime: 60},
		{Number: 3, GTIDs: uuidA + ":7-9", FirstTime: 70, LastTime: 90},
	}
	for target, want := range map[Target]int{
		{Time: 5}: 1, {Time: 25}: 1, {Time: 30}: 2, {Time: 60}: 3, {Time: 95}: 3,
		{GTID: at(2, 0).GTID}: 2, {GTID: at(3, 0).GTID}: 2, {GTID: at(6, 0).GTID}: 3, {GTID: at(9, 0).GTID}: 3,
		{GTID: at(12, 0).GTID}: 3,
		before(1):              1, before(3): 1, before(4): 2, before(9): 3, before(12): 3,
	} {
		if got := target.chooseNeeded(all); len(got) != want {
			t.Errorf("%s: %d segments, want %d", target, len(got), want)
		}
	}
}
