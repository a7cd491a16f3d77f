//go:build mysqld

package recovery_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
)

// A target is a time or a transaction to recover to, with the expected result.
type target struct {
	text string
	// epoch is the period of the history that contains the target. index is the position in the epoch of the last
	// transaction that the recovered data must contain. It is -1 if the target is a time.
	epoch *epoch
	index int
	// moment is the time to recover to, by the true clock. The clock of the server may differ.
	moment time.Time
	// refusal is a pattern for the reason why the recovery is refused, or "" if it must succeed. mayBeRefused is a pattern
	// for the reason why a recovery may be refused that can also succeed.
	refusal, mayBeRefused string
}

// Patterns of the errors with which a recovery is refused.
const (
	namesRanges  = `Possible is \d{4}-\d\d-\d\dT.* to \d{4}-`
	namesSegment = `^segment \d+ of the archived log, which begins at \d{4}-`
	namesChain   = `the archived binary log is damaged: |manifest of segment \d+ was replaced|/\d{10}\.json does not exist, but a later part`
	namesHidden  = `no readable manifest`
	hidesTime    = `manifest of segment \d+ of the archived log is damaged or missing, so it is unknown`
	namesTwice   = `exists twice in the archived binary log.*` + namesRanges
	namesClock   = `clock of the server went backwards`
)

// A kind is a kind of target, such as the last transaction before the fault.
type kind struct {
	name string
	// applies reports whether a history with this fault can have such a target. choose returns the target of a
	// finished history, or false if the history has none.
	applies func(f *fault) bool
	choose  func(h *prepared) (target, bool)
}

func always(*fault) bool { return true }

func hasAfter(f *fault) bool { return !f.isLast }

func hasGap(f *fault) bool { return f.makesGap }

func hasDamage(f *fault) bool { return f.damages }

// kinds lists all kinds of targets. The ones that detect most errors are first.
var kinds = []kind{
	{"last transaction before the fault", always, func(h *prepared) (target, bool) {
		return h.transaction(h.before, h.before.until)
	}},
	{"first transaction after the fault", hasAfter, func(h *prepared) (target, bool) {
		return h.transaction(h.after, h.after.from)
	}},
	{"last transaction", hasAfter, func(h *prepared) (target, bool) { return h.transaction(h.after, h.after.until) }},
	{"transaction in the gap", hasGap, func(h *prepared) (target, bool) {
		return h.lost(h.gap, "", namesRanges+"|An older backup is required")
	}},
	{"transaction in the damage", hasDamage, func(h *prepared) (target, bool) {
		return h.lost(h.gap, "", namesSegment+"|"+namesChain+"|"+hidesTime+"|"+namesHidden)
	}},
	{"time in the gap", hasGap, func(h *prepared) (target, bool) { return h.lost(h.gap, "time", namesRanges) }},
	{"time in the damage", hasDamage, func(h *prepared) (target, bool) {
		return h.lost(h.gap, "time", namesSegment+"|"+namesChain+"|"+hidesTime+"|"+namesHidden)
	}},
	{"time before the fault", always, func(h *prepared) (target, bool) { return h.time(h.before, -1) }},
	{"time after the fault", hasAfter, func(h *prepared) (target, bool) { return h.time(h.after, -1) }},
	{"first transaction after the backup", always, func(h *prepared) (target, bool) {
		return h.transaction(h.before, h.before.from)
	}},
	{"some transaction before the fault", always, func(h *prepared) (target, bool) {
		return h.transaction(h.before, h.before.choose(h))
	}},
	{"some transaction after the fault", hasAfter, func(h *prepared) (target, bool) {
		return h.transaction(h.after, h.after.choose(h))
	}},
	{"time at which a commit returned", always, func(h *prepared) (target, bool) {
		return h.time(h.before, h.before.choose(h))
	}},
	{"time at which a transaction began", hasAfter, func(h *prepared) (target, bool) {
		return h.timeOfBegin(h.after, h.after.choose(h))
	}},
	{"transaction that creates a table", always, func(h *prepared) (target, bool) {
		return h.transaction(h.before, h.before.find(func(w, n int) bool { return isDefinition(n) }))
	}},
	{"transaction before one that creates a table", hasAfter, func(h *prepared) (target, bool) {
		return h.transaction(h.after, h.after.find(func(w, n int) bool { return isDefinition(n) })-1)
	}},
	{"large transaction", always, func(h *prepared) (target, bool) {
		return h.transaction(h.before, h.before.find(isLarge))
	}},
	{"transaction before a large one", always, func(h *prepared) (target, bool) {
		return h.transaction(h.before, h.before.find(isLarge)-1)
	}},
	{"end of the archive", hasAfter, func(h *prepared) (target, bool) { return h.end() }},
	{"time after the archive", always, func(h *prepared) (target, bool) {
		return h.refused(h.textOf(time.Now().Add(time.Hour)), namesRanges), true
	}},
	{"time before the first backup", always, func(h *prepared) (target, bool) {
		return h.refused(h.textOf(h.firstBegun.Add(-10*time.Second)), namesRanges), true
	}},
	{"transaction of the first backup", always, func(h *prepared) (target, bool) {
		return h.refused(h.epochs[0].txns[1].gtid, namesRanges), true
	}},
	{"unknown transaction", always, func(h *prepared) (target, bool) {
		return h.refused(uuid.NewString()+":7", namesRanges), true
	}},
	{"number that exists twice", hasGap, func(h *prepared) (target, bool) { return h.ambiguous() }},
}

// A span is a range of transactions in an epoch, from the position from up to and including the position until.
type span struct {
	*epoch

	from, until int
}

func (s span) isEmpty() bool { return s.epoch == nil || s.from < 0 || s.until < s.from }

// choose returns a random position in the span. The seed of the test determines it.
func (s span) choose(h *prepared) int {
	if s.isEmpty() {
		return -1
	}
	return s.from + h.random.IntN(s.until-s.from+1)
}

// find returns the position of the first transaction in the span for which isWanted returns true, or -1.
func (s span) find(isWanted func(w, n int) bool) int {
	for i := s.from + 1; !s.isEmpty() && i < s.until; i++ {
		if w, n, ok := parseID(s.txns[i].id); ok && isWanted(w, n) {
			return i
		}
	}
	return -1
}

// sameSegment is the time after a backup after which transactions are no longer in the segment of its end. A recovery
// to an earlier transaction begins with the previous backup.
const sameSegment = 6 * time.Second

// A prepared is a finished history, with the ranges of transactions to which a recovery must be possible or
// impossible.
type prepared struct {
	*history

	fault *fault
	// before and after are the ranges before and after the fault to which a recovery must be possible. gap is the
	// range to which it must be impossible.
	before, after, gap span
	// firstBegun is the time at which the first backup began.
	firstBegun time.Time
	// twice contains the GTIDs that two timelines contain for different transactions.
	twice  binlog.Set
	places []destination
}

// prepare computes which transactions must be recoverable, from what the clients and the server say, from the times of
// the backups, and from what the archiver has reported as stored.
func (h *history) prepare(f *fault, hasData bool) *prepared {
	h.Helper()
	out := &prepared{history: h, fault: f}
	all := h.allRecords()
	bases, _ := stores.BasesOf(all)
	first, newest := all[len(all)-1], all[0]
	out.firstBegun = bases[len(bases)-1].Begun
	done := first.Status.CompletionTime.Add(time.Second)
	lines := h.archiver.allLines()
	stored, err := binlog.ParseSet(lines[0].GTIDs)
	must(h.T, err)
	one := h.epochs[0]
	out.before = span{one, h.begunAfter(one, done), h.acknowledgedBefore(one, h.begun)}
	last := h.last()
	out.after = span{last, h.begunAfter(last, h.over), len(last.txns) - 1}
	switch {
	case f.isLast:
		out.before.until, out.after = lastStored(one, stored), span{}
	case f.makesGap:
		out.before.until = lastStored(one, stored)
		// The last backup is the first one of the new timeline, or a later one.
		bases, backups := stores.BasesOf(all)
		for i := range bases {
			if strings.Contains(backups[i].Spec.Request, "-log-") && backups[i].Name != first.Name {
				newest = *backups[i]
			}
		}
		out.after.from = h.begunAfter(last, newest.Status.CompletionTime.Add(time.Second))
		out.gap = span{last, max(last.inherited, 0), h.acknowledgedBefore(last, newest.CreationTimestamp.Time)}
		if last == one {
			out.gap.from = out.before.until + 1
		}
	case f.damages:
		damaged := slices.IndexFunc(one.txns, func(x txn) bool { return hasGTID(h.damaged, x.gtid) })
		out.before.until = min(out.before.until, damaged-1)
		out.after.from = h.begunAfter(last, newest.Status.CompletionTime.Add(sameSegment))
		out.gap = span{one, damaged, h.acknowledgedBefore(one, newest.CreationTimestamp.Time)}
	}
	if len(lines) > 1 && len(h.epochs) > 1 {
		out.twice = h.storedTwice(lines)
	}
	out.places = h.destinations(hasData)
	return out
}

// storedTwice returns the GTIDs that both timelines contain.
func (h *history) storedTwice(lines []logarchive.Progress) binlog.Set {
	h.Helper()
	sets := make([]binlog.Set, 2)
	for i := range sets {
		start, err := binlog.ParseSet(h.segment(lines[i].Timeline, 1).Start)
		must(h.T, err)
		until, err := binlog.ParseSet(lines[i].GTIDs)
		must(h.T, err)
		sets[i] = until.Without(start)
	}
	return sets[0].Without(sets[0].Without(sets[1]))
}

func hasGTID(s binlog.Set, text string) bool {
	g, err := binlog.ParseGTID(text)
	return err == nil && s.Has(g)
}

// lastStored returns the position of the last transaction of an epoch whose GTID is in the set stored.
func lastStored(e *epoch, stored binlog.Set) int {
	for i := len(e.txns) - 1; i >= 0; i-- {
		if hasGTID(stored, e.txns[i].gtid) {
			return i
		}
	}
	return -1
}

// begunAfter returns the first position in an epoch from which on all transactions were begun after a time.
func (h *history) begunAfter(e *epoch, moment time.Time) int {
	for i := len(e.txns) - 1; i >= e.inherited; i-- {
		if id := e.txns[i].id; id != "" && !h.clients.noteOf(id).begun.After(moment) {
			return i + 1
		}
	}
	return e.inherited
}

// acknowledgedBefore returns the last position in an epoch up to which all transactions were acknowledged before a
// time.
func (h *history) acknowledgedBefore(e *epoch, moment time.Time) int {
	for i := e.inherited; i < len(e.txns); i++ {
		id := e.txns[i].id
		if id == "" {
			continue
		}
		if n := h.clients.noteOf(id); n.begun.After(moment) || !n.acknowledged.IsZero() && n.acknowledged.After(moment) {
			return i - 1
		}
	}
	return len(e.txns) - 1
}

// refusalOf returns the pattern of the expected error for a target in a span, or "" if the recovery must succeed. Only
// the properties of the injected fault determine it.
func (h *prepared) refusalOf(s span, isTime bool) string {
	switch {
	case h.fault.stepsClock && isTime:
		return namesClock + "|" + namesRanges
	}
	return ""
}

// mayRefuse returns the pattern for a refusal that depends on how far a target is from the damaged segment.
func (h *prepared) mayRefuse(s span, isTime bool) string {
	switch {
	case s != h.before:
		return ""
	case h.fault.forges:
		return namesChain
	case h.fault.hidesTimes && isTime:
		return hidesTime
	}
	return ""
}

func (h *prepared) transaction(s span, index int) (target, bool) {
	if s.isEmpty() || index < s.from || index > s.until {
		return target{}, false
	}
	out := target{text: s.txns[index].gtid, epoch: s.epoch, index: index, refusal: h.refusalOf(s, false),
		mayBeRefused: h.mayRefuse(s, false)}
	if hasGTID(h.twice, out.text) {
		out.refusal = namesTwice
	}
	return out, true
}

// textOf formats a time as a target of a recovery. It converts the time to the clock of the server.
func (h *prepared) textOf(moment time.Time) string {
	offset := time.Duration(0)
	if moment.After(h.begun) {
		offset = h.clock.difference()
	}
	return moment.Add(offset).UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}

// time returns a target with a time in the span. It is the time at which the commit of the transaction index returned,
// or a random time if index is -1.
func (h *prepared) time(s span, index int) (target, bool) {
	if s.isEmpty() || s.until-s.from < 2 {
		return target{}, false
	}
	moment := time.Time{}
	if index >= 0 {
		moment = h.clients.noteOf(s.txns[index].id).acknowledged
	} else {
		low, high := h.clients.noteOf(s.txns[s.from].id).acknowledged, h.clients.noteOf(s.txns[s.until].id).acknowledged
		if low.IsZero() || !high.After(low) {
			return target{}, false
		}
		moment = low.Add(time.Duration(h.random.Int64N(int64(high.Sub(low)))))
	}
	if moment.IsZero() {
		return target{}, false
	}
	out := target{text: h.textOf(moment), epoch: s.epoch, index: -1,
		moment: moment.Truncate(time.Microsecond), refusal: h.refusalOf(s, true), mayBeRefused: h.mayRefuse(s, true)}
	if h.fault.isLast && moment.After(h.archiver.state().Until) {
		out.mayBeRefused = namesRanges // The last transaction was acknowledged after it was committed.
	}
	return out, true
}

// timeOfBegin returns a target with the time at which the transaction at a position began.
func (h *prepared) timeOfBegin(s span, index int) (target, bool) {
	if s.isEmpty() || index <= s.from || s.txns[index].id == "" {
		return target{}, false
	}
	moment := h.clients.noteOf(s.txns[index].id).begun
	if moment.Before(h.clients.noteOf(s.txns[s.from].id).acknowledged) {
		return target{}, false
	}
	return target{text: h.textOf(moment), epoch: s.epoch, index: -1,
		moment: moment.Truncate(time.Microsecond), refusal: h.refusalOf(s, true), mayBeRefused: h.mayRefuse(s, true)}, true
}

// end returns a target with the last time up to which the archive is complete.
func (h *prepared) end() (target, bool) {
	until := h.archiver.state().Until
	if h.after.isEmpty() || until.IsZero() || h.fault.stepsClock {
		return target{}, false
	}
	return target{text: h.textOf(until), epoch: h.after.epoch, index: -1, moment: until}, true
}

func (h *prepared) refused(text, refusal string) target {
	return target{text: text, index: -1, refusal: refusal}
}

// lost returns a target in the middle of a span that cannot be recovered: a time, or a transaction if form is "".
func (h *prepared) lost(s span, form, refusal string) (target, bool) {
	if s.isEmpty() {
		return target{}, false
	}
	middle := s.from + (s.until-s.from)/2
	if form == "" {
		text := s.txns[middle].gtid
		// After a reset of the binary log, an archived transaction may have the same GTID.
		return h.refused(text, refusal), s.epoch == h.epochs[0] || h.epochs[0].index(text) < 0
	}
	moment := h.clients.noteOf(s.txns[middle].id).acknowledged
	if moment.IsZero() {
		return target{}, false
	}
	return h.refused(h.textOf(moment), refusal), true
}

// ambiguous returns a target with a GTID that two epochs use for different transactions. The recovery must be refused.
func (h *prepared) ambiguous() (target, bool) {
	if h.before.isEmpty() || len(h.epochs) < 2 {
		return target{}, false
	}
	for i := h.before.until; i >= 0; i-- {
		if text := h.epochs[0].txns[i].gtid; hasGTID(h.twice, text) {
			return h.refused(text, namesTwice), true
		}
	}
	return target{}, false
}

// tryOnce recovers to the target and checks the outcome. If another destination has already used the same backup and
// the same part of the log, it returns the earlier result, because the recovery would have the same input.
func (h *prepared) tryOnce(d destination, goal target, tried map[string]error) error {
	found := h.find(d, goal.text)
	raw, err := json.Marshal(found)
	must(h.T, err)
	if err, known := tried[string(raw)]; known && found.Message == "" {
		h.Log("another destination has the same backup and log")
		return err
	}
	err = h.check(h.recoverTo(d, found), goal)
	tried[string(raw)] = err
	return err
}

// check compares the outcome of a recovery with its target, and returns an error if they do not match.
func (h *prepared) check(out outcome, goal target) error {
	switch {
	case goal.mayBeRefused != "" && regexp.MustCompile(goal.mayBeRefused).MatchString(out.refusal):
		return nil
	case goal.refusal == "" && out.refusal != "":
		return fmt.Errorf("it was refused: %s", out.refusal)
	case goal.refusal != "" && out.refusal == "":
		return fmt.Errorf("it was not refused, but recovered to %v", out.result.Last)
	case goal.refusal != "":
		if !regexp.MustCompile(goal.refusal).MatchString(out.refusal) {
			return fmt.Errorf("it was refused with %q, want %s", out.refusal, goal.refusal)
		}
		return nil
	case out.result.Last == nil:
		return fmt.Errorf("the result has no last transaction: %+v", out.result)
	}
	index := slices.IndexFunc(goal.epoch.txns, func(one txn) bool { return one.gtid == out.result.Last.GTID.String() })
	if k := goal.epoch.index(out.result.Last.GTID.String()); k >= 0 {
		index = k // Earlier epochs may have the same GTID.
	}
	if goal.index >= 0 && index != goal.index {
		return fmt.Errorf("the last transaction is %s (%d), want %s (%d)", out.result.Last.GTID, index, goal.text, goal.index)
	}
	b := h.serve(out.data)
	defer b.Kill()
	if diff := cmp.Diff(contentOf(goal.epoch.txns[:index+1]), b.content(h.T)); diff != "" {
		return fmt.Errorf("the rows differ, -want +got:\n%.3000s", diff)
	}
	if got := b.text(h.T, "SELECT @@gtid_executed"); !sameSet(got, out.result.GTIDs) {
		return fmt.Errorf("the server has %s, but the result says %s", got, out.result.GTIDs)
	}
	if err := h.checkPassword(b, goal.epoch.txns, index); err != nil {
		return err
	}
	if goal.index < 0 {
		return h.checkMoment(goal, index)
	}
	return nil
}

func sameSet(a, b string) bool {
	one, err1 := binlog.ParseSet(a)
	two, err2 := binlog.ParseSet(b)
	return err1 == nil && err2 == nil && one.Equal(two)
}

// checkPassword checks that the account app has the password that it had after the transaction at a position.
func (h *prepared) checkPassword(b *box, all []txn, index int) error {
	changed := slices.IndexFunc(all, func(one txn) bool { return one.isPassword })
	want := "first"
	if changed >= 0 && changed <= index {
		want = "second"
	}
	db := b.open(h.T, "app", want)
	if err := db.PingContext(h.Context()); err != nil {
		return fmt.Errorf("the password %q of the account app does not work: %w", want, err)
	}
	return nil
}

// checkMoment checks a recovery to a time. The data must contain all transactions that were acknowledged before that
// time, and none that began after it.
func (h *prepared) checkMoment(goal target, index int) error {
	for i, one := range goal.epoch.txns {
		if one.id == "" {
			continue
		}
		n := h.clients.noteOf(one.id)
		switch {
		case i > index && !n.acknowledged.IsZero() && n.acknowledged.Before(goal.moment):
			return fmt.Errorf("transaction %s (%s) was acknowledged %s before the time, but is missing", one.gtid, one.id,
				goal.moment.Sub(n.acknowledged))
		case i <= index && i >= goal.epoch.inherited && n.begun.After(goal.moment):
			return fmt.Errorf("transaction %s (%s) began %s after the time, but is there", one.gtid, one.id,
				n.begun.Sub(goal.moment))
		}
	}
	return nil
}
