package reconciler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/lifecycle"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A gatherer reads the state of an instance.
type gatherer interface {
	Gather(ctx context.Context, k instance.Key) ([]*instance.State, error)
}

// A writer applies the changes of a step to the API server, to servers and to stores.
type writer interface {
	Apply(ctx context.Context, changes []change.Change) error
}

// An instanceReconciler reads the state of an instance and applies the next step, until the instance only has to
// wait.
type instanceReconciler struct {
	gather gatherer
	writer writer
	events events.EventRecorder
	meter  *meter
	turns  *turns

	mu       sync.Mutex
	reported map[instance.Key]map[types.UID]lastReported
}

// lastReported is the last report about an instance in the log and in an event. The same message is not reported
// again.
type lastReported struct {
	log, event string
	// action is the action of the last step, even if that step was not reported.
	action steps.Action
	// refusal is the refusal of the last step, or nil. refused is the time at which the action was first refused.
	refusal *instance.Refusal
	refused time.Time
	// waits is the phase in which the instance waits, and since is the time at which it started to wait.
	waits string
	since time.Time
	// crossplane is the time at which the deletion started to wait for Crossplane.
	crossplane time.Time
}

// whileRefused is the delay before a refused write is retried.
const whileRefused = 10 * time.Second

// slowest is the maximum delay between two reconciles of an instance that waits for the cluster.
const slowest = 30 * time.Second

// checkShare is the delay that each waiting instance of a namespace adds to the delay of all others there. All
// waiting instances of a namespace together are therefore reconciled at most twice a second. This takes about fifty
// requests per second, half of the controller's limit.
const checkShare = 500 * time.Millisecond

// pace returns the delay until the next reconcile of a waiting instance. The delay is a quarter of the time that it
// has waited, or more if the step requests it. An instance that waits forever then costs almost nothing. Many waiting
// instances in one namespace do not delay other namespaces. Usually an event ends the waiting time, and triggers a
// reconcile without this delay.
func pace(asked, waited time.Duration, crowd int) time.Duration {
	return max(asked, min(waited/4, slowest), time.Duration(crowd)*checkShare)
}

// Reconcile reconciles an instance if its namespace has a free worker.
func (r *instanceReconciler) Reconcile(ctx context.Context, k instance.Key) (reconcile.Result, error) {
	if !r.turns.takeTurn(k.Namespace) {
		logNoTurn(ctx)
		return reconcile.Result{RequeueAfter: nextTurn}, nil
	}
	defer r.turns.giveTurn(k.Namespace)
	return runPasses(func() (time.Duration, bool, error) { return r.runPass(ctx, k) }, kerrors.IsConflict)
}

// paceOf returns and logs the delay until the next reconcile of a waiting instance.
func (r *instanceReconciler) paceOf(ctx context.Context, k instance.Key, step steps.Step, asked,
	waited time.Duration) time.Duration {
	crowd := r.crowdOf(k.Namespace)
	after := pace(asked, waited, crowd)
	log.FromContext(ctx).V(1).Info("The instance waits", "action", step.Action, "phase", step.Phase, "waited", waited,
		"after", after, "waitingInNamespace", crowd)
	return after
}

// runPass reads the state of all instances with this name, and applies the next step of each of them.
func (r *instanceReconciler) runPass(ctx context.Context, k instance.Key) (after time.Duration, acted bool, err error) {
	instances, err := logReads(ctx, func(ctx context.Context) ([]*instance.State, error) { return r.gather.Gather(ctx, k) })
	if err != nil {
		return 0, false, err
	}
	if from, after := r.meter.observeInstances(k, instances); from != after {
		log.FromContext(ctx).Info("The instance changed state", "from", from, "to", after)
	}
	r.forgetInstances(k, instances)
	for _, s := range instances {
		s.Refusal, s.CrossplaneAwaited = r.refusalOf(k, s), r.recordCrossplane(k, s)
		step := lifecycle.Next(s)
		r.announceStep(ctx, k, s, step)
		err := r.writer.Apply(ctx, step.Changes)
		refusal := steady(refusalBy(err, step), s.Refusal)
		refused := r.recordRefusal(k, s, refusal)
		acted = acted || isNews(refusal, s.Refusal) // The next pass shows the refusal to users.
		switch {
		case refusal != nil:
			log.FromContext(ctx).V(1).Info("The step was refused", "action", step.Action, "passing", refusal.Passing,
				"refusedFor", refused, "error", err)
			after = sooner(after, r.paceOf(ctx, k, step, whileRefused, refused))
			continue
		case err != nil:
			return 0, false, fmt.Errorf("cannot %s: %w", step.Action, err)
		}
		if waited := r.recordWait(k, s, step); step.Action == steps.Wait {
			after = sooner(after, r.paceOf(ctx, k, step, step.After, waited))
		} else if step.Action == steps.NoOp {
			after = sooner(after, step.After)
		}
		if step.Action == steps.Wait || step.Action == steps.NoOp {
			continue
		}
		r.meter.countStep(s, step)
		acted = true
	}
	return after, acted, nil
}

// refusalBy returns the refusal of a step by the API server, a server or a store, or nil for any other error. The
// owner of a quota or policy does not see the error, so the instance must report it to its users.
func refusalBy(err error, step steps.Step) *instance.Refusal {
	if missing, ok := errors.AsType[*change.MissingError](err); ok {
		return &instance.Refusal{Of: string(step.Action), Message: v1.PrintableText(missing.Error(), maxEntry), Missing: true}
	}
	if serverError, ok := errors.AsType[*change.ServerError](err); ok {
		return &instance.Refusal{Of: string(step.Action), Message: v1.PrintableText(serverError.Error(), maxEntry),
			Passing: !serverError.Final}
	}
	if !kerrors.IsForbidden(err) && !kerrors.IsInvalid(err) && !kerrors.IsBadRequest(err) ||
		kerrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return &instance.Refusal{Of: string(step.Action), Message: v1.PrintableText(err.Error(), maxEntry)}
}

// steady returns the previous refusal if the new one differs only in words with a digit, such as a port or a request
// ID. The status is then not updated unnecessarily.
func steady(now, last *instance.Refusal) *instance.Refusal {
	if isNews(now, last) || now == nil || !instance.IsSameMessage(now.Message, last.Message) {
		return now
	}
	return last
}

// isNews reports whether the action or the kind of a refusal differs from the last one. If only the message differs,
// the refusal is reported in the next reconcile. Otherwise a webhook that returns a different message each time would
// cause endless passes.
func isNews(now, last *instance.Refusal) bool {
	if now == nil || last == nil {
		return now != last
	}
	return now.Of != last.Of || now.Passing != last.Passing || now.Missing != last.Missing
}

// refusalOf returns the refusal of the instance's last step, or nil.
func (r *instanceReconciler) refusalOf(k instance.Key, s *instance.State) *instance.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reported[k][s.Instance.XR].refusal
}

// recordRefusal stores the refusal of a step, or that there was none. It returns for how long this action has been
// refused.
func (r *instanceReconciler) recordRefusal(k instance.Key, s *instance.State, refusal *instance.Refusal) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.reported[k][s.Instance.XR]
	if last.refusal == nil && refusal == nil {
		return 0
	}
	if refusal != nil && (last.refusal == nil || last.refusal.Of != refusal.Of) {
		last.refused = s.Now
	}
	last.refusal = refusal
	r.remember(k, s.Instance.XR, last)
	return s.Now.Sub(last.refused)
}

// remember stores what was reported about an instance. The caller holds the lock.
func (r *instanceReconciler) remember(k instance.Key, xr types.UID, last lastReported) {
	if r.reported[k] == nil {
		r.reported[k] = map[types.UID]lastReported{}
	}
	r.reported[k][xr] = last
}

// recordWait stores that an instance waits. It returns how long the instance has waited in the current phase.
func (r *instanceReconciler) recordWait(k instance.Key, s *instance.State, step steps.Step) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.reported[k][s.Instance.XR]
	waited := !last.since.IsZero()
	switch {
	case step.Action != steps.Wait && !waited:
		return 0
	case step.Action != steps.Wait:
		last.since = time.Time{}
		r.remember(k, s.Instance.XR, last)
		return 0
	case !waited || last.waits != step.PhaseText():
		last.waits, last.since = step.PhaseText(), s.ReadAt
		r.remember(k, s.Instance.XR, last)
	}
	return s.ReadAt.Sub(last.since)
}

// recordCrossplane stores that a deletion waits for Crossplane. It returns for how long this has been observed.
func (r *instanceReconciler) recordCrossplane(k instance.Key, s *instance.State) time.Duration {
	awaited, _ := s.AwaitsCrossplane()
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.reported[k][s.Instance.XR]
	switch {
	case awaited == nil && last.crossplane.IsZero():
		return 0
	case awaited == nil:
		last.crossplane = time.Time{}
	case last.crossplane.IsZero():
		last.crossplane = s.ReadAt
	default:
		return s.ReadAt.Sub(last.crossplane)
	}
	r.remember(k, s.Instance.XR, last)
	return 0
}

// crowdOf returns how many instances of a namespace are waiting or have a refused step.
func (r *instanceReconciler) crowdOf(namespace string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for k, instances := range r.reported {
		if k.Namespace != namespace {
			continue
		}
		for _, last := range instances {
			if !last.since.IsZero() || last.refusal != nil {
				n++
			}
		}
	}
	return n
}

// forgetInstances removes what was stored about deleted instances.
func (r *instanceReconciler) forgetInstances(k instance.Key, instances []*instance.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := map[types.UID]lastReported{}
	for _, s := range instances {
		if last, ok := r.reported[k][s.Instance.XR]; ok && (s.Instance.XR != "" || s.Claim != nil) {
			now[s.Instance.XR] = last
		}
	}
	r.reported[k] = now
	if len(now) == 0 {
		delete(r.reported, k)
	}
}

// recordSilent stores the action of a step that is not reported.
func (r *instanceReconciler) recordSilent(k instance.Key, s *instance.State, step steps.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.reported[k][s.Instance.XR]; ok {
		last.action = step.Action
		r.remember(k, s.Instance.XR, last)
	}
}

// announceStep logs each step, and sends an event of the claim for each change that matters to users. It does not
// repeat the last log line or event.
func (r *instanceReconciler) announceStep(ctx context.Context, k instance.Key, s *instance.State, step steps.Step) {
	if step.Message == "" && (step.Action == steps.NoOp || step.Action == steps.Wait) {
		r.recordSilent(k, s, step)
		return
	}
	a := eventOf(step)
	message := step.Message
	if step.Action == steps.Wait && step.Percent > 0 { // Only the status shows percentages.
		message = ""
	}
	r.mu.Lock()
	last := r.reported[k][s.Instance.XR]
	news := last
	news.action = step.Action
	news.log, news.event = string(step.Action)+step.PhaseText()+message, string(a.reason)+message
	r.remember(k, s.Instance.XR, news)
	r.mu.Unlock()
	if news.log != last.log {
		log.FromContext(ctx).Info("The next step of the instance changed", "xr", s.Instance.XR, "from", last.action, "to",
			step.Action, "phase", step.PhaseText(), "message", step.Text())
	}
	if news.event != last.event && step.Message != "" && a.reason != "" && s.Claim != nil {
		sendEvent(r.events, s.Claim.Unstructured, a, string(step.Action), step.Message)
	}
}
