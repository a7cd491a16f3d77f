package reconciler

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/recovery"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
)

const (
	// archiverID is the server_id of all archivers. No server of an instance uses it, and each server has only one
	// archiver.
	archiverID = 4294967294
	// untilInterval is the interval at which the time of the last archived transaction is written to the status. Each
	// write makes Crossplane call the function.
	untilInterval = 5 * time.Minute
	// baseInterval is the interval at which the controller looks for the first backup after the archive began.
	baseInterval = 20 * time.Second
	// firstRetry and longestRetry are the shortest and the longest delay before a failed archiver starts again.
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
	// unsupportedRetry is the delay before a server that could not archive its binary log is checked again.
	unsupportedRetry = 10 * time.Minute
	// maxChanged is the maximum number of instances of a kind that wait for a reconcile.
	maxChanged = 1000
)

// An archiveOffer creates and deletes the account of an archiver, which may read the binary log of a server.
type archiveOffer interface {
	OfferArchive(ctx context.Context, in *change.Server) (sql.Password, error)
	WithdrawArchive(ctx context.Context, in *change.Server) error
	SetCommitWait(ctx context.Context, in *change.Server, waits bool) (canWait bool, err error)
}

var _ archiveOffer = rotate.Donors{}

// An archivingReconciler archives the binary logs of instances with spec.backup.continuous. It runs one archiver for
// each of them.
type archivingReconciler struct {
	gather xrGatherer
	reader client.Reader
	writer writer
	offer  archiveOffer
	stores stores.Cluster
	dial   sql.Dial
	clock  func() time.Time
	events events.EventRecorder
	meter  *meter
	// changed receives the keys of instances whose archiver has failed or recovered. There is a channel for each kind.
	changed map[string]chan event.TypedGenericEvent[instance.Key]

	// ctx is the context of all archivers. It ends when the controller stops.
	ctx     context.Context //nolint:containedctx // Archivers run longer than a reconcile.
	mu      sync.Mutex
	running map[types.UID]*runningArchiver
}

// A runningArchiver archives the binary log of one instance.
type runningArchiver struct {
	key    instance.Key
	server change.Server
	origin v1.BackedUpInstance
	store  string
	// started is the time at which the archiver was started.
	started time.Time
	stop    context.CancelFunc
	ended   chan struct{}

	mu       sync.Mutex
	progress logarchive.Progress
	failure  string
	// isUnsupported is true if the archiver has failed because the server cannot archive its binary log.
	isUnsupported bool
	// retried is the first progress that the archiver has reported after its last failure, or nil.
	retried  *logarchive.Progress
	keepFrom time.Time
	// wait says whether commits wait until their transactions are in the store.
	wait commitWait
	// logRetention is the time for which the server keeps its binary log. 0 means that it is unknown or unlimited.
	logRetention time.Duration
}

// Reconcile starts and stops the archivers of all instances with a name, and reports their progress.
func (r *archivingReconciler) Reconcile(ctx context.Context, k instance.Key) (reconcile.Result, error) {
	instances, err := r.gather.GatherXRs(ctx, k)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.stopOthers(k, instances)
	r.startMissing(ctx, k, instances)
	r.observeArchivers(k, instances)
	out := reconcile.Result{}
	for _, s := range instances {
		if !mayArchive(s) {
			continue
		}
		after, err := r.reconcileInstance(ctx, s)
		if err != nil {
			return reconcile.Result{}, err
		}
		out.RequeueAfter = sooner(out.RequeueAfter, after)
	}
	return out, nil
}

// watchArchiving starts the controller that archives the binary logs of instances of this kind.
func (r *archivingReconciler) watchArchiving(mgr ctrl.Manager, c composites, kind instance.Kind, atOnce int) error {
	r.mu.Lock()
	changed := make(chan event.TypedGenericEvent[instance.Key], maxChanged)
	r.changed[kind.InstanceKind()] = changed
	r.mu.Unlock()
	return watchChanged(mgr, c, kind, "archiving", changed, atOnce, r)
}

// watchChanged starts a controller for a kind. It reconciles an instance after each change of its composite resource,
// and when its key is sent to the channel.
func watchChanged(mgr ctrl.Manager, c composites, kind instance.Kind, suffix string,
	changed chan event.TypedGenericEvent[instance.Key], atOnce int, r reconcile.TypedReconciler[instance.Key]) error {
	name := strings.ToLower(kind.InstanceKind()) + "-" + suffix
	keys := handler.TypedFuncs[instance.Key, instance.Key]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[instance.Key], q queueOf) { q.Add(e.Object) },
	}
	return builder.TypedControllerManagedBy[instance.Key](mgr).
		Named(name).
		WatchesRawSource(c.xrs(kind)).
		WatchesRawSource(source.TypedChannel(changed, keys)).
		WithOptions(controller.TypedOptions[instance.Key]{MaxConcurrentReconciles: atOnce}).
		WithLogConstructor(logFor(mgr, name)).
		Complete(r)
}

// wantsArchive reports whether the user requests an archive of the binary log.
func wantsArchive(xr *instance.Composite) bool {
	return xr != nil && !xr.Stale && xr.Type == v1.TypeMySQL && xr.Spec.AllowsArchive() && !xr.IsDeleting() &&
		(xr.Status.BackupStore != "" || xr.Spec.Backup.RequiresArchive())
}

// mayArchive reports whether an archiver for the instance must run: the user requests an archive, and the store and the
// certificate authorities are known. If the instance is being deleted, a running archiver continues until the server
// has stopped.
func mayArchive(s *instance.State) bool {
	return wantsArchive(s.XR) && s.XR.Status.BackupStore != "" && s.XR.Status.Authorities != ""
}

// isCurrent reports whether an archiver uses the current store and certificate authorities of the instance.
func (a *runningArchiver) isCurrent(s *instance.State) bool {
	return a.store == s.XR.Status.BackupStore && a.server.Authorities == s.XR.Status.Authorities
}

// stopOthers stops the archivers that are no longer needed or not up to date. The archiver of an instance that is being
// deleted continues until the server has stopped.
func (r *archivingReconciler) stopOthers(k instance.Key, instances []*instance.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, a := range r.running {
		if a.key != k {
			continue
		}
		keeps := slices.ContainsFunc(instances, func(s *instance.State) bool {
			return s.Instance.XR == uid && (mayArchive(s) && a.isCurrent(s) || s.XR != nil && s.XR.IsDeleting())
		})
		if keeps {
			continue
		}
		a.stop()
		delete(r.running, uid)
		if slices.ContainsFunc(instances, func(s *instance.State) bool { return s.Instance.XR == uid && !mayArchive(s) }) {
			go r.withdraw(a) // The server continues to run without an archive.
		}
	}
}

// startMissing starts the archivers of servers that have started.
func (r *archivingReconciler) startMissing(ctx context.Context, k instance.Key, instances []*instance.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range instances {
		if _, serving := servedSince(s.XR); serving && mayArchive(s) && r.running[s.Instance.XR] == nil {
			r.running[s.Instance.XR] = r.start(ctx, k, s)
		}
	}
}

// observeArchivers adds the archiver of the instance to the metrics. If there is none to observe, it removes the
// archiver from the metrics.
func (r *archivingReconciler) observeArchivers(k instance.Key, instances []*instance.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range instances {
		a := r.running[s.Instance.XR]
		if wantsArchive(s.XR) && s.XR.Status.Started && !s.XR.IsSuspended() &&
			(s.XR.Spec.Backup.RequiresArchive() || !a.isUnsuitable()) {
			r.meter.observeArchiver(k, a.observeProgress)
			return
		}
	}
	r.meter.observeArchiver(k, nil)
}

func (r *archivingReconciler) reconcileInstance(ctx context.Context, s *instance.State) (time.Duration, error) {
	r.mu.Lock()
	a := r.running[s.Instance.XR]
	r.mu.Unlock()
	if a == nil {
		return 0, nil // The server has not started yet. Its first start causes an event.
	}
	next, err := r.statusOf(ctx, s, a)
	if err != nil {
		return 0, err
	}
	previous := s.XR.Status.Archiving
	wait := withDurability(&s.XR.Spec.Backup, next, a.commitWait(), previous, isSuspensionShown(s.XR))
	if wait != waitUnknown {
		r.setCommitWait(ctx, a, wait)
	}
	after := untilInterval
	if next.OK && (next.From == nil || next.Until.Before(next.From)) {
		after = baseInterval
	}
	if !isArchivingNews(previous, next) {
		return after, nil
	}
	if err := r.writer.Apply(ctx, steps.PatchXRInternal(s, map[string]any{
		"archiving": archivingFields(next)})); err != nil {
		return 0, err
	}
	r.announceArchiving(ctx, s, previous, next, a)
	return after, nil
}

// isArchivingNews reports whether the status must be written. If only the time of the last transaction has changed, the
// status is written at intervals.
func isArchivingNews(previous, next *v1.ArchivingStatus) bool {
	switch {
	case previous == nil || previous.OK != next.OK || previous.Message != next.Message ||
		previous.Unsupported != next.Unsupported || previous.Suspended != next.Suspended ||
		!previous.Since.Equal(next.Since) || !previous.From.Equal(next.From):
		return true
	case next.Until == nil || previous.Until == nil:
		return next.Until != nil
	case previous.Until.Before(next.From) && !next.Until.Before(next.From):
		return true // The range of times to which a recovery is possible is no longer empty.
	}
	return next.Until.Sub(previous.Until.Time) >= untilInterval-time.Second
}

// archivingFields returns the fields for a merge patch. A merge patch removes a field only if it is null.
func archivingFields(a *v1.ArchivingStatus) map[string]any {
	out := map[string]any{"ok": a.OK, "message": steps.OrNil(a.Message)}
	for name, isSet := range map[string]bool{"unsupported": a.Unsupported, "suspended": a.Suspended} {
		out[name] = nil
		if isSet {
			out[name] = true
		}
	}
	for name, t := range map[string]*metav1.Time{"since": a.Since, "until": a.Until, "from": a.From} {
		out[name] = nil
		if t != nil {
			out[name] = t.UTC().Format(time.RFC3339)
		}
	}
	return out
}

// statusOf returns the status of an archiver. If no backup was taken since the archive began, it also requests one.
func (r *archivingReconciler) statusOf(ctx context.Context, s *instance.State, a *runningArchiver) (*v1.ArchivingStatus,
	error) {
	p, failure := a.state()
	if p.Timeline.Prefix == "" {
		out := statusAtStart(s.XR.Status.Archiving, failure, r.clock().Sub(a.started))
		out.Unsupported = a.isUnsuitable()
		return out, nil
	}
	out := &v1.ArchivingStatus{OK: failure == "", Message: withLossTime(failure, p.Until, a.retention()),
		Unsupported: a.isUnsuitable()}
	begun, err := p.Timeline.Begun()
	if err != nil {
		return nil, err
	}
	out.Since = &metav1.Time{Time: begun}
	if !p.Until.IsZero() {
		out.Until = &metav1.Time{Time: p.Until.Truncate(time.Second)}
	}
	from, ok, err := r.earliest(ctx, s, a, p.Timeline, begun)
	switch {
	case err != nil:
		return nil, err
	case ok:
		out.From = &metav1.Time{Time: from.Truncate(time.Second)}
		out.Message = cmp.Or(out.Message, shortRetention(a.retention()))
		return out, nil
	case failure == "":
		out.Message = "A recovery is possible after the next verified backup"
		err = r.requestBase(ctx, s, p.Timeline)
	}
	return out, err
}

// earliest returns the earliest time to which the instance can be recovered.
func (r *archivingReconciler) earliest(ctx context.Context, s *instance.State, a *runningArchiver, t logarchive.Timeline,
	begun time.Time) (time.Time, bool, error) {
	all := &v1.BackupRecordList{}
	if err := r.reader.List(ctx, all, client.MatchingLabels{v1.LabelInstance: s.Instance.Key()}); err != nil {
		return time.Time{}, false, fmt.Errorf("cannot list BackupRecords: %w", err)
	}
	own := slices.DeleteFunc(all.Items, func(b v1.BackupRecord) bool { return b.Spec.Instance.XR != s.Instance.XR })
	bases, _ := stores.BasesOf(own)
	a.keep(bases)
	out, ok := recovery.Earliest(bases, t, begun)
	return out, ok, nil
}

// requestBase creates a Backup, because a recovery needs a backup that was taken after the archive began. The name of
// the Backup contains the hour. There is at most one Backup per hour, and a failed one is repeated in the next hour.
func (r *archivingReconciler) requestBase(ctx context.Context, s *instance.State, t logarchive.Timeline) error {
	return r.writer.Apply(ctx, []change.Change{change.NewObject(&v1.Backup{
		TypeMeta: metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.KindBackup},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Instance.Namespace,
			Name: fmt.Sprintf("%.36s%s-%s", s.Instance.Name, recovery.RequestMark(t), r.clock().UTC().Format("15"))},
		Spec: v1.BackupObjectSpec{Instance: v1.InstanceReference{Kind: s.Instance.Kind, Name: s.Instance.Name},
			Method: v1.MethodOnline},
	})})
}

// start starts an archiver for an instance in the background.
func (r *archivingReconciler) start(ctx context.Context, k instance.Key, s *instance.State) *runningArchiver {
	running, stop := context.WithCancel(log.IntoContext(r.ctx, log.FromContext(ctx))) //nolint:gosec // stopOthers calls it.
	a := &runningArchiver{key: k, server: change.Server{Of: s.Instance, Authorities: s.XR.Status.Authorities},
		store: s.XR.Status.BackupStore, started: r.clock(), stop: stop, ended: make(chan struct{}),
		origin: v1.BackedUpInstance{Kind: s.Instance.Kind, Namespace: s.Instance.Namespace, NamespaceUID: s.NamespaceUID(),
			Name: s.Instance.Name, XR: s.Instance.XR}}
	go r.run(running, a) //nolint:contextcheck // An archiver runs longer than a reconcile.
	return a
}

// withdraw waits until an archiver has ended and deletes its account. If the deletion fails, the account remains with a
// password that is stored nowhere. It can only read the binary log.
func (r *archivingReconciler) withdraw(a *runningArchiver) {
	<-a.ended
	if err := r.offer.WithdrawArchive(r.ctx, &a.server); err != nil {
		log.FromContext(r.ctx).V(1).Info("The archive account was not deleted", "instance", a.key, "error", err)
	}
}

// run runs an archiver until it is stopped. After an error, it starts again.
func (r *archivingReconciler) run(ctx context.Context, a *runningArchiver) {
	defer close(a.ended)
	var password sql.Password
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		start := r.clock()
		err := r.archive(ctx, a, &password)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			err = errArchiverEnded
		}
		if r.clock().Sub(start) > longestRetry {
			pause = firstRetry
		}
		isUnsupported := errors.Is(err, binlog.ErrUnsuitable) || errors.Is(err, sql.ErrNoArchive)
		if isUnsupported {
			pause = unsupportedRetry
		}
		log.FromContext(ctx).Info("The archive of the binary log was interrupted", "after", pause, "error", err)
		if a.fail(v1.PrintableText(fmt.Sprint(err), v1.MaxForeignText), isUnsupported) {
			r.announce(a.key)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// errArchiverEnded is reported if an archiver has ended without an error.
var errArchiverEnded = errors.New("the archiver has ended")

// archive archives until an error occurs. It creates the account if the password is unknown or refused.
func (r *archivingReconciler) archive(ctx context.Context, a *runningArchiver, password *sql.Password) error {
	s, err := r.stores.Open(ctx, a.store)
	if err != nil {
		return err
	}
	if *password == "" {
		if *password, err = r.offer.OfferArchive(ctx, &a.server); err != nil {
			return err
		}
	}
	watch := &binlog.Watcher{Source: r.sourceOf(a, *password)}
	defer watch.Close()
	archiver := &logarchive.Archiver{
		Reader: s.LogOf(v1.StoreLogPrefix(a.origin)), Recipients: s.AgeRecipients(), Now: r.clock,
		Connect: func(ctx context.Context) (logarchive.Stream, binlog.State, error) {
			return r.connect(ctx, a, *password)
		},
		State: func(ctx context.Context) (binlog.State, error) {
			state, err := watch.ReadState(ctx)
			if err == nil && a.recordWait(commitWaitOf(state)) {
				r.announce(a.key)
			}
			return state, err
		},
		KeepFrom: a.neededFrom,
		Held:     func(ctx context.Context) error { return r.stores.Holders.Check(ctx, s) },
		Report: func(p logarchive.Progress) {
			if a.report(p) {
				r.announce(a.key)
			}
		},
	}
	err = archiver.Run(ctx)
	if binlog.IsServerError(err) {
		*password = "" // A restore or a user may have changed the account, or its password may have expired.
	}
	return err
}

// sourceOf returns the address and the account with which an archiver connects to a server.
func (r *archivingReconciler) sourceOf(a *runningArchiver, password sql.Password) binlog.Source {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(a.server.Authorities))
	host := a.server.Of.Host()
	return binlog.Source{
		Address: net.JoinHostPort(host, strconv.Itoa(v1.Port)), Dial: r.dial, ServerID: archiverID,
		TLS:  &tls.Config{RootCAs: pool, ServerName: host, MinVersion: tls.VersionTLS12},
		User: sql.ArchiveAccount, Password: string(password),
	}
}

// connect logs in to a server and returns the stream of its binary log.
func (r *archivingReconciler) connect(ctx context.Context, a *runningArchiver,
	password sql.Password) (logarchive.Stream, binlog.State, error) {
	s, err := binlog.Connect(ctx, r.sourceOf(a, password))
	if err != nil {
		return nil, binlog.State{}, err
	}
	a.mu.Lock()
	a.logRetention = s.State.ExpireAfter
	a.mu.Unlock()
	record := func(wait commitWait) {
		if a.recordWait(wait) {
			r.announce(a.key)
		}
	}
	record(commitWaitOf(s.State))
	if s.State.CanWait {
		return markedStream{s, record}, s.State, nil
	}
	return s, s.State, nil
}

// announce requests a reconcile of an instance. If too many requests are waiting, it does nothing, and the instance is
// reconciled some minutes later.
func (r *archivingReconciler) announce(k instance.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.changed[k.Kind] <- event.TypedGenericEvent[instance.Key]{Object: k}:
	default:
	}
}

// report stores the progress. It returns true if users must see it at once. A failure remains until the archiver has
// stored more than at the beginning of the retry. Otherwise the archive would seem to work after each retry, even if
// the store accepts no writes.
func (a *runningArchiver) report(p logarchive.Progress) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	isNew := a.progress.Timeline != p.Timeline
	if !isNew { // The first report after a new connection has no gap, and its time may be earlier.
		p.Until, p.Gap = laterOf(p.Until, a.progress.Until), cmp.Or(p.Gap, a.progress.Gap)
	}
	a.progress = p
	switch {
	case a.failure == "":
		return isNew
	case a.retried == nil:
		a.retried = &p
		return isNew
	case !p.Until.After(a.retried.Until) && p.Number <= a.retried.Number:
		return isNew
	}
	a.failure = ""
	return true
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// fail stores an error. It returns true if users must see it at once.
func (a *runningArchiver) fail(failure string, isUnsupported bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.retried, a.isUnsupported = nil, isUnsupported
	a.wait = waitUnknown // The server may restart before the archiver connects again.
	isNews := !instance.IsSameMessage(a.failure, failure)
	if isNews {
		a.failure = failure
	}
	return isNews
}

// isUnsuitable reports whether the server cannot archive its binary log. It returns false if a is nil.
func (a *runningArchiver) isUnsuitable() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure != "" && a.isUnsupported
}

// observeProgress returns the current state for the metrics. It returns the zero value if a is nil.
func (a *runningArchiver) observeProgress() observedArchiver {
	if a == nil {
		return observedArchiver{}
	}
	p, failure := a.state()
	return observedArchiver{isArchiving: failure == "" && p.Timeline.Prefix != "", until: p.Until}
}

// keep stores the time at which the oldest backup began. The archived log before that time is not needed. Without a
// backup, the whole log is kept.
func (a *runningArchiver) keep(bases []recovery.Base) {
	oldest := time.Time{}
	for _, b := range bases {
		if oldest.IsZero() || b.Begun.Before(oldest) {
			oldest = b.Begun
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keepFrom = oldest
}

func (a *runningArchiver) neededFrom() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keepFrom
}

func (a *runningArchiver) retention() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.logRetention
}

func (a *runningArchiver) state() (logarchive.Progress, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.progress, a.failure
}
