package reconciler

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// A commitWait says whether commits of a server wait until their transactions are in the store.
type commitWait string

const (
	// waitUnknown means that the server was not asked since the archiver started.
	waitUnknown commitWait = ""
	// waitOn and waitOff mean that commits wait, or do not wait.
	waitOn  commitWait = "On"
	waitOff commitWait = "Off"
	// waitImpossible means that the server was not started for durability Store.
	waitImpossible commitWait = "Impossible"
)

// commitWaitOf returns the commitWait in the state of a server.
func commitWaitOf(s binlog.State) commitWait {
	switch {
	case !s.CanWait:
		return waitImpossible
	case s.Waits:
		return waitOn
	}
	return waitOff
}

// Messages about durability Store. They follow the message about the archive.
const (
	commitsWait      = "Commits wait until the transactions are in the BackupStore"
	commitsDoNotWait = "Commits do not wait for the BackupStore (storeFailurePolicy: Continue)"
	waitAfterRestart = "Commits do not wait for the BackupStore, because the server was started before durability Store was " +
		"set, or rpl_semi_sync_source_timeout was changed. Restart the server"
	waitIsSwitchedOn = "Commits do not wait for the BackupStore. The controller switches the waiting on"
)

// withDurability completes the status of an archiver for the durability of the instance. It returns whether the controller
// must make commits wait (waitOn) or not wait (waitOff), or waitUnknown if nothing is to be changed. reported is the status
// that users see. Commits may stop waiting only after users can see it.
func withDurability(b *v1.BackupSpec, next *v1.ArchivingStatus, wait commitWait, reported *v1.ArchivingStatus,
	isShown bool) commitWait {
	next.Suspended = false
	switch {
	case !b.RequiresStoreDurability():
	case next.OK && wait == waitImpossible:
		next.OK, next.Suspended, next.Message = false, true, waitAfterRestart
	case next.OK && wait == waitOff:
		next.OK, next.Suspended, next.Message = false, true, waitIsSwitchedOn
		return waitOn
	case next.OK:
	case !b.ContinuesWithoutStore():
		next.Message = withSentence(next.Message, commitsWait)
	default:
		next.Suspended, next.Message = true, withSentence(next.Message, commitsDoNotWait)
		if isShown && reported != nil && reported.Suspended && wait != waitOff && wait != waitImpossible {
			return waitOff
		}
	}
	return waitUnknown
}

// withSentence appends a sentence to a message that may be empty, unless it is already there.
func withSentence(message, sentence string) string {
	switch {
	case message == "":
		return sentence
	case strings.HasSuffix(message, sentence):
		return message
	}
	return message + ". " + sentence
}

// hasWaitingCommits reports whether commits of the instance wait because its transactions are not archived.
func hasWaitingCommits(xr *instance.Composite) bool {
	a := xr.Status.Archiving
	return wantsArchive(xr) && xr.Spec.Backup.RequiresStoreDurability() && xr.Status.Started && !xr.IsSuspended() && a != nil &&
		!a.OK && !a.Suspended
}

// isSuspensionShown reports whether users can see that the archive is interrupted.
func isSuspensionShown(xr *instance.Composite) bool {
	c := meta.FindStatusCondition(xr.Conditions, v1.ConditionArchiving)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1.ReasonStoreDurabilitySuspended
}

// setCommitWait makes commits of a server wait, or not wait. If the server does not respond, the next reconcile tries again.
func (r *archivingReconciler) setCommitWait(ctx context.Context, a *runningArchiver, wait commitWait) {
	canWait, err := r.offer.SetCommitWait(ctx, &a.server, wait == waitOn)
	switch {
	case err != nil:
		log.FromContext(ctx).Info("Cannot set whether commits wait for the store", "wait", wait, "error", err)
		return
	case !canWait:
		wait = waitImpossible
	}
	log.FromContext(ctx).Info("Set whether commits wait for the store", "wait", wait)
	a.recordWait(wait)
	r.announce(a.key)
}

// recordWait stores whether commits wait. It returns true if this has changed.
func (a *runningArchiver) recordWait(wait commitWait) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	isNew := a.wait != wait
	a.wait = wait
	return isNew
}

func (a *runningArchiver) commitWait() commitWait {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wait
}

// A markedStream is the stream of a server with durability Store. It notices when the server begins or ceases to wait.
type markedStream struct {
	*binlog.Stream

	record func(commitWait)
}

// Next returns the next part of the binary log.
func (s markedStream) Next() (binlog.Part, error) {
	p, err := s.Stream.Next()
	switch {
	case err != nil || p.Begin == nil:
	case p.IsMarked:
		s.record(waitOn)
	default:
		s.record(waitOff)
	}
	return p, err
}
