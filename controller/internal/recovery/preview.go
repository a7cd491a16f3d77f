package recovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// ErrNoKey is the error of a Source that lacks the key to decrypt a segment.
var ErrNoKey = errors.New("it cannot be decrypted")

// maxPreviewed is the maximum size in bytes of a segment that a preview reads. Only a segment with a single large
// transaction is larger.
const maxPreviewed = 32 << 20

// A Preview describes a recovery before it begins.
type Preview struct {
	// Segments, Transactions, Size and Bytes are the numbers of segments and transactions and their compressed and
	// uncompressed size, from the segment that was written when the backup began.
	Segments, Transactions, Size, Bytes int64
	// Last is the last transaction that is recovered, and Next the first one that is not. Both are nil if the archive has
	// none. A field of them is empty if it is unknown.
	Last, Next *binlog.Begin
	// Unknown describes what is unknown and why, or is "".
	Unknown string
	// End is the last segment that the recovery reads.
	End *logarchive.Last
}

// A previewing computes a Preview. cut follows the transactions that have been read.
type previewing struct {
	redact.All
	Target

	log    logarchive.Reader
	source Source
	last   *logarchive.Last
	cut    *cut
}

// NewPreview describes the recovery from a backup with a timeline. It reads some manifests, and the one or two segments
// that contain the end of the recovery. If the recovery is not possible, the error has an exit code. Damaged segments after
// the end do not matter.
func NewPreview(ctx context.Context, t Target, b Base, l Line, log logarchive.Reader, s Source) (*Preview, error) {
	p := &previewing{Target: t, log: log, source: s, last: l.Last, cut: newCut(t, binlog.Set{}, binlog.Set{})}
	first, err := log.FindAfter(ctx, l.Last, uint64(max(b.Begun.UnixMicro()-1, 0)))
	if err != nil {
		return nil, err
	}
	out := &Preview{}
	hasAllSteps := true
	var doubt error
	if t.Time > 0 {
		hasAllSteps, doubt, err = checkSteps(ctx, t, l, log)
		if err != nil {
			return nil, err
		}
	}
	end, err := p.findEnd(ctx, out, first.Number)
	switch {
	case err != nil:
		return nil, err
	case doubt != nil:
		return nil, out.refuseDoubtful(t, doubt)
	}
	if out.End = end; !hasAllSteps {
		out.addUnknown(fmt.Sprintf("The clock of the server went backwards more than %d times. Only the recovery itself checks "+
			"all of them", logarchive.MaxSteps))
		out.End = l.Last
	}
	if err := p.checkNext(ctx, out.End); err != nil {
		return nil, err
	}
	set, err := binlog.ParseSet(first.GTIDs)
	if err != nil {
		return nil, err
	}
	if end.Number < first.Number { // The recovery ends while the backup begins, by clocks that differ.
		first = end
	}
	out.Segments = end.Number - first.Number + 1
	out.Transactions = end.Transactions - first.Transactions + set.Count()
	out.Size = end.TotalSize - first.TotalSize + first.Size
	out.Bytes = end.TotalBytes - first.TotalBytes + first.Bytes
	return out, nil
}

// Begin implements binlog.Visitor.
func (p *previewing) Begin(b binlog.Begin) (bool, error) { return p.cut.decideNext(b) }

// Part implements binlog.Visitor.
func (*previewing) Part([]byte, bool) error { return nil }

// IsStillClear reports whether a target is as clear as it was when an earlier preview was made, although the archive has
// grown since then.
func IsStillClear(ctx context.Context, t Target, l Line, log logarchive.Reader) (bool, error) {
	if t.Time == 0 {
		return true, nil
	}
	isComplete, doubt, err := checkSteps(ctx, t, l, log)
	return isComplete && doubt == nil, err
}

// checkSteps returns an error if a time is ambiguous because the clock of the server went backwards. It returns false if the
// clock went backwards too often, so that not all of the segments were read. doubt is the damage of the archive because of
// which a step of the clock may be unknown, or nil.
func checkSteps(ctx context.Context, t Target, l Line, log logarchive.Reader) (isComplete bool, doubt, err error) {
	step, isComplete, err := log.FindStep(ctx, l.Last, t.Time)
	switch {
	case errors.Is(err, logarchive.ErrDamaged):
		return false, err, nil
	case err != nil:
		return false, nil, err
	case step != nil:
		return false, nil, exit.With(agent.ExitTarget, "%s is ambiguous, because the clock of the server went backwards there. Recover "+
			"to a GTID instead of a time. The transactions from %s to %s are %.300s", t, Target{Time: step.FirstTime},
			Target{Time: step.MaxTime}, step.GTIDs)
	}
	return isComplete, l.Damage, nil
}

// maxAfterEnd is the maximum number of manifests after the end of a recovery that are compared with the chain.
const maxAfterEnd = 20

// checkNext compares the checksum of the last segment that the recovery reads with the next manifests, if there are any.
// Manifests that were signed again may be consistent among each other, but the next one contains the checksum of the original.
// A manifest that cannot be read does not matter, because the recovery does not need it.
func (p *previewing) checkNext(ctx context.Context, end *logarchive.Last) error {
	for last := min(end.Number+maxAfterEnd, p.last.Number); end.Number < last; {
		next, err := p.segment(ctx, end.Number+1)
		switch {
		case next == nil || errors.Is(err, logarchive.ErrDamaged):
			return nil
		case err != nil:
			return err
		case next.Previous != end.Digest:
			return exit.Damaged("the manifest of segment %d was replaced: its checksum is %s, but the next manifest says %s. "+
				"Recover to an earlier time", end.Number, end.Digest, next.Previous)
		}
		end = next
	}
	return nil
}

// findEnd determines where the recovery ends, and stores the last and the next transaction in out. It returns the last
// segment that the recovery reads. first is the number of the first segment that it reads.
func (p *previewing) findEnd(ctx context.Context, out *Preview, first int64) (*logarchive.Last, error) {
	var end *logarchive.Last
	var err error
	switch {
	case p.Time == 0:
		end, err = p.log.Find(ctx, p.last, p.GTID)
	case p.Time >= p.last.MaxTime:
		out.Last = lastOf(p.last.Manifest)
		return p.last, nil
	default:
		end, err = p.log.FindAfter(ctx, p.last, p.Time)
	}
	if err != nil {
		return nil, err
	}
	if p.Time == 0 && !Contains(end.Manifest, p.GTID) {
		return nil, exit.Damaged("no readable manifest contains transaction %s", p.GTID)
	}
	before, err := p.segment(ctx, end.Number-1)
	switch {
	case err != nil && !errors.Is(err, logarchive.ErrDamaged):
		return nil, err
	case before == nil && first < end.Number:
		return nil, exit.Damaged("the manifest of segment %d of the archived log is damaged or missing, so it is unknown "+
			"whether %s is before its transactions. Recover to an earlier time, or to an earlier transaction", end.Number-1, p.Target)
	}
	end, isRead, err := p.readEnd(ctx, out, before, end)
	if err != nil || !isRead {
		return end, err
	}
	if err := p.cut.checkEnd(p.last.Time); err != nil {
		return nil, exit.With(agent.ExitTarget, "%w", err)
	}
	out.Last, out.Next = p.cut.last, p.cut.next
	if out.Last == nil && before != nil {
		out.Last = lastOf(before.Manifest)
	}
	return end, nil
}

// readEnd reads transactions from the segment end on, until the recovery ends. It returns the last segment that the
// recovery reads. If that segment cannot be read, but the recovery is possible, it completes out and returns false.
func (p *previewing) readEnd(ctx context.Context, out *Preview, before, end *logarchive.Last) (_ *logarchive.Last, isRead bool,
	_ error) {
	for {
		isReached := p.isReached(end.Manifest) // Not after a damaged segment was read.
		reason, err := p.readSegment(ctx, end.Manifest)
		if err != nil {
			err = fmt.Errorf("segment %d of the archived log, which begins at %s: %w", end.Number,
				Target{Time: end.FirstTime}, err)
			if !isDamage(err) || !isReached || before == nil {
				return nil, false, err
			}
			out.Last, out.Next = lastOf(before.Manifest), &binlog.Begin{Time: end.FirstTime}
			out.addUnknown(fmt.Sprintf("The first transaction that is not included cannot be read: %v", err))
			return before, false, nil
		}
		if reason != "" {
			p.estimateEnd(out, before, end.Manifest, reason)
			return end, false, nil
		}
		if p.cut.isOver || end.Number == p.last.Number {
			return end, true, nil
		}
		next, err := p.segment(ctx, end.Number+1)
		switch {
		case (next == nil || errors.Is(err, logarchive.ErrDamaged)) && p.hasGTID():
			out.addUnknown("The first transaction that is not included is unknown, because the next segment of the archived log " +
				"is damaged or missing")
			return end, true, nil
		case errors.Is(err, logarchive.ErrDamaged):
			return nil, false, exit.Damaged("segment %d of the archived log: %w", end.Number+1, err)
		case err != nil:
			return nil, false, err
		case next == nil:
			return nil, false, exit.With(agent.ExitMissing, "a segment of the archived log is missing")
		}
		before, end = end, next
	}
}

// Contains reports whether a segment contains a transaction.
func Contains(m *logarchive.Manifest, g binlog.GTID) bool {
	set, err := binlog.ParseSet(m.GTIDs)
	return err == nil && set.Has(g)
}

// hasGTID reports whether the target is a transaction, and that transaction was the last one that was read.
func (p *previewing) hasGTID() bool {
	return p.Time == 0 && !p.IsBefore && p.cut.last != nil && p.cut.last.GTID == p.GTID
}

// isReached reports whether the recovery ends before the segment with this manifest.
func (p *previewing) isReached(m *logarchive.Manifest) bool {
	return p.hasGTID() || p.Time > 0 && p.Time < m.FirstTime
}

// isDamage reports whether an error says that an object of the archive is damaged or missing.
func isDamage(err error) bool {
	coded := new(agent.ExitError)
	return errors.As(err, &coded) && (coded.Code == agent.ExitDamaged || coded.Code == agent.ExitMissing)
}

// segment returns the manifest of a segment, or nil if the archive has no such segment.
func (p *previewing) segment(ctx context.Context, number int64) (*logarchive.Last, error) {
	if number < 1 {
		return nil, nil //nolint:nilnil // There is none, which is no error.
	}
	m, err := p.log.Segment(ctx, p.last.Timeline, number)
	if store.Is(err, store.NotFound) { // It was pruned or lost.
		return nil, nil //nolint:nilnil // See above.
	}
	return m, err
}

// lastOf returns the last transaction of a segment. Its time is unknown if the clock went backwards in the segment.
func lastOf(m *logarchive.Manifest) *binlog.Begin {
	g, err := binlog.ParseGTID(m.LastGTID)
	if err != nil {
		return nil
	}
	out := &binlog.Begin{GTID: g, Time: m.LastTime}
	if m.SteppedAt == m.Number {
		out.Time = 0
	}
	return out
}

// estimateEnd describes the end of the recovery with the manifests alone.
func (p *previewing) estimateEnd(out *Preview, before *logarchive.Last, end *logarchive.Manifest, reason string) {
	from, until := Target{Time: end.FirstTime}, Target{Time: end.LastTime}
	text := fmt.Sprintf("Segment %d of the archived log was not read: %s. ", end.Number, reason)
	switch {
	case p.cut.last != nil: // The target is the last transaction of the previous segment.
		out.Last, out.Next = p.cut.last, &binlog.Begin{Time: end.FirstTime}
		text += "The first transaction that is not included is in that segment"
	case p.Time == 0 && end.LastGTID == p.GTID.String():
		out.Last = lastOf(end)
		text += "The first transaction that is not included is in the next one"
	case p.Time == 0:
		out.Last = &binlog.Begin{GTID: p.GTID}
		text += fmt.Sprintf("Its transactions were committed between %s and %s", from, until)
	case p.Time < end.FirstTime:
		if before != nil {
			out.Last = lastOf(before.Manifest)
		}
		out.Next = &binlog.Begin{Time: end.FirstTime}
		text += "The first transaction that is not included is in that segment"
	default:
		text += fmt.Sprintf("The last transaction that is included was committed between %s and %s, and the first one that is "+
			"not between %s and %s", from, p.Target, p.Target, until)
	}
	out.addUnknown(text)
}

// readSegment reads the transactions of a segment up to the end of the recovery. It verifies the checksum of the whole
// segment. It returns a reason if the segment cannot be read here, although the recovery can read it.
func (p *previewing) readSegment(ctx context.Context, m *logarchive.Manifest) (reason string, err error) {
	if m.Size > maxPreviewed || m.Bytes > maxPreviewed {
		return fmt.Sprintf("it is larger than %d MiB", maxPreviewed>>20), nil
	}
	key := p.last.SegmentKey(m)
	raw, err := openObject(ctx, p.source, key)
	if err != nil {
		return "", err
	}
	defer raw.Close() //nolint:errcheck // Nothing was written.
	sum := sha256.New()
	in := &counter{from: io.TeeReader(io.LimitReader(raw, m.Size+1), sum)}
	_, rerr := readTransactions(ctx, p.source, p.last.Timeline, m, in, func(*binlog.Reader) binlog.Visitor { return p })
	if errors.Is(rerr, ErrNoKey) {
		return rerr.Error(), nil
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return "", fmt.Errorf("cannot read %s: %w", key, err)
	}
	switch got := hex.EncodeToString(sum.Sum(nil)); {
	case in.err != nil:
		return "", fmt.Errorf("cannot read %s: %w", key, in.err)
	case got != m.SHA256 || in.size != m.Size:
		return "", exit.Damaged("its SHA-256 checksum is %s (%d bytes), but its manifest says %s (%d bytes). Recover to an "+
			"earlier time", got, in.size, m.SHA256, m.Size)
	case rerr != nil:
		return "", exit.Damaged("it cannot be read: %w. Recover to an earlier time", rerr)
	}
	return "", nil
}

// A counter counts the bytes that are read, and keeps the first error other than io.EOF.
type counter struct {
	from io.Reader
	size int64
	err  error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.size += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// The rates are from docs/reference/benchmarks.md and docs/decisions/archive-in-the-controller.md.
const (
	// startTime is the part of a recovery that does not depend on the data. From applying a claim to the first restored row,
	// 14.0 s were measured. A recovery starts two more servers.
	startTime = 20 * time.Second
	// unpackRate is the number of bytes of data that a restore from a store writes per second: 1,051 MiB in 3.88 s.
	unpackRate = 270 << 20
	// replayRate and replayedBytes are the numbers of transactions and of bytes that are applied per second: 60,000
	// transactions of 62.9 MB in 19 s.
	replayRate    = 3_150
	replayedBytes = 3_300_000
)

// Estimate returns the approximate duration of the recovery from a backup with a number of bytes of data. It uses the
// slower one of both rates for the replay, because only small transactions were measured.
func (p *Preview) Estimate(data int64) time.Duration {
	seconds := float64(data)/unpackRate + max(float64(p.Transactions)/replayRate, float64(p.Bytes)/replayedBytes)
	return (startTime + time.Duration(seconds*float64(time.Second))).Round(time.Second)
}

// addUnknown adds a sentence to the description of what is unknown.
func (p *Preview) addUnknown(text string) {
	if p.Unknown != "" {
		text = p.Unknown + ". " + text
	}
	p.Unknown = text
}

// refuseDoubtful returns the error for a time that may be ambiguous because of a damage of the archive.
func (p *Preview) refuseDoubtful(t Target, damage error) error {
	last := ""
	if p.Last != nil && p.Last.GTID != (binlog.GTID{}) {
		last = fmt.Sprintf(". If the clock did not go backwards, recover to the last transaction up to that time, %s", p.Last.GTID)
	}
	return exit.With(agent.ExitTarget, "%s may be ambiguous: %w. In that part, the clock of the server may have gone backwards%s",
		t, damage, last)
}
