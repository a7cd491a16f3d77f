package recovery

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
)

// A Target is the state to recover: after all transactions that were committed up to a time, or after or before a
// transaction. Exactly one of Time and GTID is set.
type Target struct {
	// Time is in microseconds since 1970, by the clock of the server that wrote the log.
	Time uint64
	GTID binlog.GTID
	// IsBefore is true if the transaction GTID is not recovered itself.
	IsBefore bool
}

// ParseTarget parses a time (RFC 3339, with up to six digits after the second), a GTID, or before: and a GTID.
func ParseTarget(text string) (Target, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	switch {
	case err == nil && t.Nanosecond()%1000 != 0:
		return Target{}, fmt.Errorf("%q has more than six digits after the second", text)
	case err == nil && t.UnixMicro() > 0:
		return Target{Time: uint64(t.UnixMicro())}, nil
	}
	id, isBefore := strings.CutPrefix(text, v1.MomentBefore)
	g, err := binlog.ParseGTID(id)
	if err != nil {
		return Target{}, fmt.Errorf("%.100q is neither a time, such as 2026-11-22T18:00:00.25Z, nor the GTID of a "+
			"transaction, such as 3e11fa47-71ca-11e1-9e33-c80aa9429562:23", text)
	}
	return Target{GTID: g, IsBefore: isBefore}, nil
}

// String returns the target in the format of ParseTarget.
func (t Target) String() string {
	if t.Time > 0 {
		return time.UnixMicro(int64(t.Time)).UTC().Format("2006-01-02T15:04:05.999999Z07:00") //nolint:gosec // A time.
	}
	if t.IsBefore {
		return v1.MomentBefore + t.GTID.String()
	}
	return t.GTID.String()
}

// chooseNeeded returns the segments up to the one with the first transaction that the target excludes.
func (t Target) chooseNeeded(all []logarchive.Manifest) []logarchive.Manifest {
	wasFound := false
	for i := range all {
		set, err := binlog.ParseSet(all[i].GTIDs)
		if t.Time > 0 && all[i].LastTime > t.Time || wasFound || err != nil {
			return all[:i+1]
		}
		if wasFound = t.Time == 0 && set.Has(t.GTID); wasFound && t.IsBefore {
			return all[:i+1]
		}
	}
	return all
}

// A cut decides which transactions of the log a recovery applies. It receives the transactions in the order of the
// log.
type cut struct {
	target Target
	// base contains the GTIDs of the backup, and included the GTIDs of the recovered data.
	base, included binlog.Set
	// logged contains the GTIDs of the log up to the cut.
	logged binlog.Set
	// applied is the number of transactions to apply.
	applied int64
	// last and next are the last transaction that is recovered, and the first one that is not.
	last, next *binlog.Begin
	isOver     bool
}

// newCut returns a cut for a backup with the GTIDs base. The log begins after the transactions in before.
func newCut(target Target, base, before binlog.Set) *cut {
	return &cut{target: target, base: base, included: base.Clone(), logged: before.Clone()}
}

// errStepped is the error for a time in a part of the log in which the clock of the server went backwards.
var errStepped = errors.New("the clock of the server went backwards there, so the time is ambiguous: recover to a " +
	"GTID instead of a time")

// decideNext decides whether the next transaction of the log is recovered, and returns the decision.
func (c *cut) decideNext(b binlog.Begin) (bool, error) {
	switch isPast := c.target.Time > 0 && b.Time > c.target.Time; {
	case c.isOver:
		return false, nil
	case (isPast || c.isAfterGTID(b)) && c.base.Has(b.GTID):
		return false, exit.With(agent.ExitTarget, "the backup already contains transaction %s, which is not part of the state "+
			"at %s. An older backup is required", b.GTID, c.target)
	case isPast || c.isAfterGTID(b):
		c.isOver, c.next = true, &b
		return false, nil
	}
	c.last = &b
	c.logged.Add(b.GTID)
	if !c.base.Has(b.GTID) {
		c.applied++
		c.included.Add(b.GTID)
	}
	return true, nil
}

// isAfterGTID reports whether the transaction is the first one that a target with a GTID excludes.
func (c *cut) isAfterGTID(b binlog.Begin) bool {
	if c.target.IsBefore {
		return b.GTID == c.target.GTID
	}
	return c.target.Time == 0 && c.last != nil && c.last.GTID == c.target.GTID && b.GTID != c.target.GTID
}

// checkEnd returns an error if the log ended before the target.
func (c *cut) checkEnd(until uint64) error {
	switch {
	case c.target.Time > 0 && !c.isOver && c.target.Time > until:
		return fmt.Errorf("the archive ends at %s, before %s: recover to an earlier time", Target{Time: until}, c.target)
	case c.target.IsBefore && c.base.Has(c.target.GTID):
		return fmt.Errorf("the backup already contains transaction %s. An older backup is required", c.target.GTID)
	case c.target.IsBefore && !c.isOver:
		return fmt.Errorf("transaction %s is not in the archive: recover to another transaction, or to a time", c.target.GTID)
	case c.target.IsBefore: // The cut is before the transaction.
	case c.target.Time == 0 && !c.included.Has(c.target.GTID):
		return fmt.Errorf("transaction %s is not in the archive: recover to another transaction, or to a time", c.target)
	case c.target.Time == 0 && (c.last == nil || c.last.GTID != c.target.GTID):
		return fmt.Errorf("the backup already contains transaction %s and later ones. An older backup is required",
			c.target)
	}
	if extra := c.base.Without(c.logged); !extra.IsEmpty() {
		return fmt.Errorf("the backup contains the transactions %.200s, which are not in the archived log up to %s. An older "+
			"backup is required", extra, c.target)
	}
	return nil
}

// checkBase returns an error unless the log continues the backup.
func checkBase(base binlog.Set, first *logarchive.Manifest) error {
	start, err := binlog.ParseSet(first.Start)
	switch {
	case err != nil:
		return err
	case !base.Contains(start):
		return fmt.Errorf("the backup does not contain the transactions %.200s, with which the archived log begins. A later "+
			"backup is required", start.Without(base))
	}
	return nil
}
