package stores

import (
	"context"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/recovery"
)

// A segmentSource reads the segments of an archived binary log for a plan.
type segmentSource struct{ *Store }

// Open implements recovery.Source.
func (s segmentSource) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	return s.Read(ctx, key, 0)
}

// Decrypt implements recovery.Source. A platform team can store the identity outside of the cluster until a restore.
func (s segmentSource) Decrypt(_ context.Context, _ string, raw io.Reader) (io.Reader, error) {
	if len(s.identities) == 0 {
		return nil, fmt.Errorf("%w, because BackupStore %s has no identity in this cluster. The recovery needs it, too: store "+
			"it in the Secret of keySecretRef, under the key identity", recovery.ErrNoKey, s.Name)
	}
	out, err := age.Decrypt(raw, s.identities...)
	if errors.As(err, new(*age.NoIdentityMatchError)) {
		return nil, fmt.Errorf("%w with the identity of BackupStore %s. The recovery needs the identity of the recipient that "+
			"it was encrypted for", recovery.ErrNoKey, s.Name)
	}
	return out, err
}

// planRecovery adds the plan of a recovery to the result of the search, and the last segment that the recovery reads. It
// uses an earlier plan for the same recovery again. If the recovery is not possible, the error has an exit code.
func (c Cluster) planRecovery(ctx context.Context, target recovery.Target, from *chosenBase, out,
	previous *v1.RecoverySource) error {
	name := from.record.Spec.Archive.Store
	err := c.ask(ctx, name, func(s *Store) error {
		log := s.LogOf(from.record.LogPrefix())
		if out.HasPlanOf(previous) {
			if isClear, err := recovery.IsStillClear(ctx, target, from.line, log); err != nil || isClear {
				out.Plan, out.Recovery = previous.Plan, previous.Recovery
				return err
			}
		}
		p, err := recovery.NewPreview(ctx, target, from.base, from.line, log, segmentSource{s})
		if err != nil {
			return err
		}
		out.Plan = newPlan(target, p, from.record)
		out.Recovery.Segment, out.Recovery.Digest = p.End.Number, p.End.Digest
		return nil
	})
	if err == nil || errors.As(err, new(*unopenedError)) {
		return err
	}
	return inStore(name, err)
}

// newPlan returns the plan of a recovery for the status.
func newPlan(target recovery.Target, p *recovery.Preview, r *v1.BackupRecord) *v1.RecoveryPlan {
	fetch := p.Size
	if size, err := v1.ParseQuantity(r.Spec.Archive.Size); err == nil {
		fetch += size.Value()
	}
	return &v1.RecoveryPlan{
		At: target.String(), Backup: r.BackupName(), BackupTime: metav1.NewTime(r.Status.CompletionTime.UTC()),
		Segments: p.Segments, Transactions: p.Transactions,
		FetchSize: v1.SizeText(fetch), ApplySize: v1.SizeText(p.Bytes),
		EstimatedDuration: p.Estimate(r.Spec.Archive.DataBytes).String(),
		LastTransaction:   plannedTransaction(p.Last), NextTransaction: plannedTransaction(p.Next),
		Message: v1.PrintableText(p.Unknown, v1.MaxForeignText),
	}
}

func plannedTransaction(b *binlog.Begin) *v1.PlannedTransaction {
	if b == nil {
		return nil
	}
	out := &v1.PlannedTransaction{}
	if b.GTID != (binlog.GTID{}) {
		out.GTID = b.GTID.String()
	}
	if b.Time > 0 {
		out.CommitTime = recovery.Target{Time: b.Time}.String()
	}
	return out
}
