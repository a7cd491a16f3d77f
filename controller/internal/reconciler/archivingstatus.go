package reconciler

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

const (
	// archiveBegins is the message until the first archiver of an instance has connected to the server and the store.
	archiveBegins = "The archive of the binary log begins"
	// noSegmentYet is the reason that package logarchive reports for the first timeline. It is not a real gap, because
	// no archived transaction is lost.
	noSegmentYet = "the archive has no segment yet"
)

// statusAtStart returns the status while an archiver has stored nothing yet. The controller may just have restarted, so
// the last status of the previous archiver is kept. waited is the time since the start of the archiver.
func statusAtStart(previous *v1.ArchivingStatus, failure string, waited time.Duration) *v1.ArchivingStatus {
	out := &v1.ArchivingStatus{}
	if previous != nil {
		out = previous.DeepCopy()
	}
	switch {
	case failure != "":
		out.OK, out.Message = false, failure
	case previous == nil || waited >= untilInterval:
		out.OK, out.Message = false, archiveBegins
	}
	return out
}

// leastRetention is the time for which a server should keep its binary log, so that a store can be repaired meanwhile.
const leastRetention = 24 * time.Hour

// shortRetention returns a warning if a server keeps its binary log for a short time only. 0 means that the time is unknown
// or unlimited.
func shortRetention(kept time.Duration) string {
	if kept == 0 || kept >= leastRetention {
		return ""
	}
	return fmt.Sprintf("The server deletes its binary log after %s (binlog_expire_logs_seconds). If the archive is interrupted "+
		"for longer, transactions are lost for a recovery. Set at least %.0f", kept, leastRetention.Seconds())
}

// withLossTime adds the time at which the server deletes the first transaction that is not archived.
func withLossTime(failure string, until time.Time, kept time.Duration) string {
	if failure == "" || kept == 0 || until.IsZero() {
		return failure
	}
	return fmt.Sprintf("%s. From %s on, the server deletes transactions that are not archived (binlog_expire_logs_seconds)",
		failure, until.Add(kept).UTC().Format(time.RFC3339))
}

// An archivingEvent is an event about the archive of a binary log.
type archivingEvent struct {
	announcement

	message string
}

// archivingEvents returns the events for a change of the status. gap is the reason why the newest timeline began.
// isStopped is true if the server is stopped on purpose, so that no transaction is expected.
func archivingEvents(previous, next *v1.ArchivingStatus, gap string, isStopped bool) (out []archivingEvent) {
	if previous == nil {
		return nil
	}
	hasArchived := previous.Since != nil
	if hasArchived && !previous.Since.Equal(next.Since) && gap != "" && gap != noSegmentYet {
		out = append(out, archivingEvent{archiveGap, fmt.Sprintf("The archive of the binary log has a gap, and continues at %s: "+
			"%s. A recovery to a later time requires a backup that begins after the gap. The controller takes this backup now",
			next.Since.UTC().Format(time.RFC3339), gap)})
	}
	switch {
	case previous.OK && !next.OK && !isStopped:
		out = append(out, archivingEvent{archivingInterrupted, "Transactions are no longer archived. The server keeps them " +
			"in its binary log, and the controller retries: " + next.Message})
	case hasArchived && !previous.OK && next.OK:
		out = append(out, archivingEvent{archivingResumed, "Transactions are archived again"})
	}
	return out
}

// isStoppedOnPurpose reports whether the server is suspended, or stopped for a cold backup.
func isStoppedOnPurpose(xr *instance.Composite) bool {
	c := meta.FindStatusCondition(xr.Conditions, v1.ConditionServing)
	return c != nil && c.Status == metav1.ConditionFalse && (c.Reason == v1.ReasonSuspended || c.Reason == v1.ReasonFenced)
}

// announceArchiving sends the events of a status that was written.
func (r *archivingReconciler) announceArchiving(ctx context.Context, s *instance.State, previous,
	next *v1.ArchivingStatus, a *runningArchiver) {
	p, _ := a.state()
	for _, e := range archivingEvents(previous, next, p.Gap, isStoppedOnPurpose(s.XR)) {
		log.FromContext(ctx).Info("The archive of the binary log changed state", "event", e.reason, "message", e.message)
		if s.Claim != nil {
			sendEvent(r.events, s.Claim.Unstructured, e.announcement, "Archive", e.message)
		}
	}
}
