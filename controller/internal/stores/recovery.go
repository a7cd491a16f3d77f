package stores

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/recovery"
)

// LogOf returns a reader of the archived binary log below a prefix (v1.StoreLogPrefix).
func (s *Store) LogOf(dir string) logarchive.Reader {
	return logarchive.Reader{Bucket: s.Bucket, Key: s.Sign, Log: dir}
}

// BasesOf returns the verified backups among records that are in a store, without their timelines. The records must be
// sorted newest first.
func BasesOf(records []v1.BackupRecord) (bases []recovery.Base, backups []*v1.BackupRecord) {
	for i := range records {
		r := &records[i]
		if !r.IsVerified() || r.DeletionTimestamp != nil || r.LogPrefix() == "" || r.Status.CompletionTime == nil {
			continue
		}
		bases = append(bases, recovery.Base{Record: r.Name, Begun: r.Announced().Time, Completed: completionOf(r),
			Request: r.Spec.Request})
		backups = append(backups, r)
	}
	return bases, backups
}

// completionOf returns a time at which a backup was complete. The completion time in the status of a BackupRecord that was
// created again is the time of its creation.
func completionOf(r *v1.BackupRecord) time.Time {
	const rounding = time.Second // The times have whole seconds.
	if r.Spec.AnnouncedAt != nil && r.Spec.CompletedAt != nil {
		return r.Spec.CompletedAt.Add(rounding)
	}
	return r.Status.CompletionTime.Add(rounding) // By the clock of the controller.
}

// FindRecovery returns the backup and the part of the binary log for a recovery to a time or a GTID, with a plan. The
// records must be sorted newest first. If the recovery is not possible, the result says which times are. An error means
// that a store did not respond. previous is the result of the last call, or nil. Its plan is used again while the backup
// and the timeline are the same.
func (c Cluster) FindRecovery(ctx context.Context, choice, moment string, previous *v1.RecoverySource,
	records []v1.BackupRecord) (*v1.RecoverySource, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out := &v1.RecoverySource{Choice: choice}
	target, found, err := c.chooseBase(ctx, moment, records)
	if refused := new(refusedError); errors.As(err, &refused) {
		out.Message = refused.Error()
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	out.Backup = found.base.Record
	out.Recovery = &v1.Recovery{At: target.String(), Timeline: found.line.Prefix, Segment: found.line.Number,
		Digest: found.line.Digest, Until: recovery.Target{Time: found.line.Last.Time}.String()}
	err = c.planRecovery(ctx, target, found, out, previous)
	if coded := new(agent.ExitError); errors.As(err, &coded) {
		return &v1.RecoverySource{Choice: choice, Message: coded.Error()}, nil
	}
	return out, err
}

// A chosenBase is the backup and the timeline with which a recovery begins.
type chosenBase struct {
	base   recovery.Base
	line   recovery.Line
	record *v1.BackupRecord
}

// A refusedError is the reason why a recovery is not possible.
type refusedError struct{ error }

// chooseBase parses the text of a recovery target, and returns the target with the backup and the timeline for the recovery.
// If the recovery is not possible, it returns a refusedError.
func (c Cluster) chooseBase(ctx context.Context, moment string, records []v1.BackupRecord) (target recovery.Target, _ *chosenBase,
	_ error) {
	var err error
	if moment != v1.MomentLatest {
		if target, err = recovery.ParseTarget(moment); err != nil {
			return target, nil, &refusedError{err}
		}
	}
	bases, backups, err := c.basesWithLines(ctx, records)
	if err != nil {
		return target, nil, err
	}
	var b recovery.Base
	var l recovery.Line
	switch {
	case moment == v1.MomentLatest:
		b, l, target, err = recovery.ChooseLatest(bases)
	case target.Time > 0:
		b, l, err = recovery.Choose(time.UnixMicro(int64(target.Time)), bases) //nolint:gosec // A time.
	default:
		found, lerr := c.locate(ctx, target.GTID, bases, backups)
		if lerr != nil {
			return target, nil, lerr
		}
		b, l, err = chooseLocated(target.GTID, found, bases)
	}
	if err != nil {
		return target, nil, &refusedError{err}
	}
	i := slices.IndexFunc(bases, func(other recovery.Base) bool { return other.Record == b.Record })
	return target, &chosenBase{b, l, backups[i]}, nil
}

// basesWithLines returns the verified backups among records that are in a store, with their timelines.
func (c Cluster) basesWithLines(ctx context.Context, records []v1.BackupRecord) ([]recovery.Base, []*v1.BackupRecord, error) {
	bases, backups := BasesOf(records)
	logs := map[string][]recovery.Line{}
	for i, r := range backups {
		key := r.Spec.Archive.Store + "/" + r.LogPrefix()
		lines, known := logs[key]
		if !known {
			var err error
			if lines, err = c.linesOf(ctx, r); err != nil {
				return nil, nil, err
			}
			logs[key] = lines
		}
		bases[i].Lines = lines
	}
	return bases, backups, nil
}

// linesOf returns the timelines of the instance of a backup.
func (c Cluster) linesOf(ctx context.Context, r *v1.BackupRecord) ([]recovery.Line, error) {
	var out []recovery.Line
	name := r.Spec.Archive.Store
	err := c.ask(ctx, name, func(s *Store) error {
		log := s.LogOf(r.LogPrefix())
		all, err := log.Timelines(ctx)
		if err != nil {
			return err
		}
		for i, t := range all {
			last, damage, err := log.LastReadable(ctx, t)
			if errors.Is(err, logarchive.ErrDamaged) {
				return &refusedError{fmt.Errorf("no manifest of the archive that began at %s can be read: %w", t.Name(), err)}
			}
			if err == nil && damage == nil {
				last, damage, err = log.IncludeTail(ctx, t, last, i == len(all)-1)
			}
			if err != nil {
				return err
			}
			if last == nil {
				continue
			}
			begun, err := t.Begun()
			if err != nil {
				return err
			}
			out = append(out, recovery.Line{Last: last, Begun: begun, Damage: damage})
		}
		return nil
	})
	if errors.As(err, new(*unopenedError)) || errors.As(err, new(*refusedError)) {
		return nil, err
	}
	return out, inStore(name, err)
}

// A location says which segments contain the transaction of a recovery. There are several if the log of the server was
// reset, because the server then uses the same GTIDs again.
type location struct {
	found []located
	// isHidden is true if a part of the archive that cannot be read may contain the transaction.
	isHidden bool
}

// A located is a segment that contains the transaction of a recovery, with the timeline of the segment.
type located struct {
	line    logarchive.Timeline
	segment *logarchive.Manifest
}

// locate looks for a transaction in all timelines.
func (c Cluster) locate(ctx context.Context, g binlog.GTID, bases []recovery.Base, backups []*v1.BackupRecord) (location, error) {
	out, read := location{}, map[logarchive.Timeline]bool{}
	for i, b := range bases {
		for _, l := range b.Lines {
			until, perr := binlog.ParseSet(l.Until)
			start, serr := binlog.ParseSet(l.Start)
			if perr != nil || serr != nil || start.Has(g) || read[l.Timeline] {
				continue
			}
			read[l.Timeline] = true
			if !until.Has(g) {
				// The server uses its UUID also after a reset.
				out.isHidden = out.isHidden || l.Damage != nil && len(until[g.Source]) > 0
				continue
			}
			err := c.ask(ctx, backups[i].Spec.Archive.Store, func(s *Store) error {
				m, err := s.LogOf(backups[i].LogPrefix()).Find(ctx, l.Last, g)
				switch {
				case err != nil:
					return err
				case !recovery.Contains(m.Manifest, g):
					out.isHidden = true
				default:
					out.found = append(out.found, located{l.Timeline, m.Manifest})
				}
				return nil
			})
			if err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// chooseLocated returns the backup and the timeline for a recovery to a transaction.
func chooseLocated(g binlog.GTID, where location, bases []recovery.Base) (recovery.Base, recovery.Line, error) {
	switch {
	case len(where.found) == 0 && where.isHidden:
		return recovery.Base{}, recovery.Line{}, fmt.Errorf("no readable manifest of the archived binary log contains transaction "+
			"%s: its segment is damaged, missing, or was deleted because no backup needs it. %s", g, recovery.DescribeRanges(bases))
	case len(where.found) == 0:
		return recovery.Base{}, recovery.Line{}, fmt.Errorf("transaction %s is not in the archived binary log. %s", g,
			recovery.DescribeRanges(bases))
	case len(where.found) == 1 && where.isHidden:
		return recovery.Base{}, recovery.Line{}, fmt.Errorf("transaction %s may exist twice, because another part of the archived "+
			"binary log cannot be read: recover to a time instead. %s", g, recovery.DescribeRanges(bases))
	case len(where.found) == 1:
		return recovery.ChooseTransaction(g, where.found[0].line, where.found[0].segment, bases)
	}
	return recovery.Base{}, recovery.Line{}, fmt.Errorf("transaction %s exists twice in the archived binary log, because the "+
		"log of the server was reset: recover to a time instead. %s", g, recovery.DescribeRanges(bases))
}
