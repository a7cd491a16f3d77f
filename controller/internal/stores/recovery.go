package stores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/recovery"
)

// LogOf returns a reader of the archived binary log with a prefix (v1.StoreLogPrefix).
func (s *Store) LogOf(dir string) logarchive.Reader {
	return logarchive.Reader{Bucket: s.Bucket, Key: s.Sign, Log: dir}
}

// longestBackup is the assumed duration of a backup whose completion time is unknown. If the backup took longer, the
// recovery finds transactions after the target in it, and is refused.
const longestBackup = time.Hour

// BasesOf returns the verified backups among records that are in a store, without their timelines. The records must be
// sorted newest first.
func BasesOf(records []v1.BackupRecord) (bases []recovery.Base, backups []*v1.BackupRecord) {
	for i := range records {
		r := &records[i]
		if !r.IsVerified() || r.DeletionTimestamp != nil || r.LogPrefix() == "" || r.Status.CompletionTime == nil {
			continue
		}
		completed := r.Status.CompletionTime.Add(time.Second) // The time has whole seconds.
		if r.Spec.AnnouncedAt != nil && completed.After(r.Spec.AnnouncedAt.Add(longestBackup)) {
			// The BackupRecord was created again, so its completion time is the time of its creation.
			completed = r.Spec.AnnouncedAt.Add(longestBackup)
		}
		bases = append(bases, recovery.Base{Record: r.Name, Begun: r.Announced().Time, Completed: completed,
			Request: r.Spec.Request})
		backups = append(backups, r)
	}
	return bases, backups
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
	target, err := recovery.ParseTarget(moment)
	if err != nil {
		out.Message = err.Error()
		return out, nil
	}
	bases, backups := BasesOf(records)
	logs := map[string][]recovery.Line{}
	until := time.UnixMicro(int64(target.Time)) //nolint:gosec // A time.
	for i, r := range backups {
		key := r.Spec.Archive.Store + "/" + r.LogPrefix()
		lines, known := logs[key]
		if !known {
			if lines, err = c.linesOf(ctx, r); err != nil {
				return nil, err
			}
			logs[key] = lines
		}
		bases[i].Lines = lines
	}
	if target.Time == 0 {
		if until, err = c.momentOf(ctx, target.GTID, bases, backups); err != nil {
			return nil, err
		}
		if until.IsZero() {
			out.Message = fmt.Sprintf("transaction %s is not in the archived binary log. %s", target.GTID,
				recovery.DescribeRanges(bases))
			return out, nil
		}
	}
	b, l, err := recovery.Choose(until, bases)
	if err != nil {
		out.Message = err.Error()
		return out, nil
	}
	out.Backup = b.Record
	out.Recovery = &v1.Recovery{At: moment, Timeline: l.Prefix, Segment: l.Number, Digest: l.Digest,
		Until: recovery.Target{Time: l.Last.Time}.String()}
	if out.HasPlanOf(previous) {
		out.Plan = previous.Plan
		return out, nil
	}
	for i, r := range backups {
		if bases[i].Record != b.Record {
			continue
		}
		out.Plan, err = c.planRecovery(ctx, target, b, l, r)
		if coded := new(agent.ExitError); errors.As(err, &coded) {
			return &v1.RecoverySource{Choice: choice, Message: coded.Error()}, nil
		}
	}
	return out, err
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
		for _, t := range all {
			last, err := log.Last(ctx, t)
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
			out = append(out, recovery.Line{Last: last, Begun: begun})
		}
		return nil
	})
	if errors.As(err, new(*unopenedError)) {
		return nil, err
	}
	return out, inStore(name, err)
}

// momentOf returns a time shortly before a transaction was committed, or the zero time if it is in no timeline. A
// backup that was completed before that time does not contain the transaction.
func (c Cluster) momentOf(ctx context.Context, g binlog.GTID, bases []recovery.Base,
	backups []*v1.BackupRecord) (out time.Time, err error) {
	for i, b := range bases {
		for _, l := range b.Lines {
			until, perr := binlog.ParseSet(l.Until)
			start, serr := binlog.ParseSet(l.Start)
			if perr != nil || serr != nil || !until.Has(g) || start.Has(g) {
				continue
			}
			err := c.ask(ctx, backups[i].Spec.Archive.Store, func(s *Store) error {
				m, err := s.LogOf(backups[i].LogPrefix()).Find(ctx, l.Last, g)
				if err == nil {
					out = time.UnixMicro(int64(m.FirstTime)) //nolint:gosec // A time.
				}
				return err
			})
			return out, err
		}
	}
	return out, nil
}
