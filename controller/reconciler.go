package main

import (
	"context"
	"errors"
	"sync"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/crossplane-mysql/crossplane-mysql/controller/finalize"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// maxSteps of one reconcile. A deletion has about twenty; more of them come from
// somebody who undoes what is done here.
const maxSteps = 40

// A Gatherer reads the lives of an instance.
type Gatherer interface {
	Gather(ctx context.Context, k instance.Key) ([]*instance.State, error)
}

// A Performer does what was decided, and writes what people see.
type Performer interface {
	Perform(ctx context.Context, s *instance.State, step finalize.Step) error
	Show(ctx context.Context, s *instance.State, step finalize.Step) error
}

// A Reconciler gathers, decides and acts until there is nothing to do but wait.
type Reconciler struct {
	gather  Gatherer
	perform Performer
	events  events.EventRecorder
	meter   *meter

	mu       sync.Mutex
	reported map[instance.Key]map[types.UID]lastReported
}

// lastReported of a life, in the log and in an event. What repeats is not said
// again.
type lastReported struct{ log, event string }

// Reconcile an instance.
func (r *Reconciler) Reconcile(ctx context.Context, k instance.Key) (reconcile.Result, error) {
	for range maxSteps {
		after, acted, err := r.runPass(ctx, k)
		switch {
		case kerrors.IsConflict(err):
			// Somebody else wrote first. What is to be done now is seen at the next look.
			return reconcile.Result{RequeueAfter: time.Second}, nil
		case err != nil:
			return reconcile.Result{}, err
		case !acted:
			return reconcile.Result{RequeueAfter: after}, nil
		}
	}
	return reconcile.Result{}, errors.New("cannot come to an end: something undoes each step")
}

// runPass over all lives once.
func (r *Reconciler) runPass(ctx context.Context, k instance.Key) (after time.Duration, acted bool, err error) {
	lives, err := r.gather.Gather(ctx, k)
	if err != nil {
		return 0, false, err
	}
	r.meter.observeLives(k, lives)
	r.forgetLives(k, lives)
	for _, s := range lives {
		step := finalize.Next(s)
		r.announceStep(ctx, k, s, step)
		if err := r.perform.Show(ctx, s, step); err != nil {
			return 0, false, err
		}
		if step.Action == finalize.Wait && (after == 0 || step.After < after) {
			after = step.After
		}
		if step.Action == finalize.Wait || step.Action == finalize.NoOp {
			continue
		}
		if err := r.perform.Perform(ctx, s, step); err != nil {
			return 0, false, err
		}
		r.meter.countStep(s, step)
		acted = true
	}
	return after, acted, nil
}

// forgetLives forgets what was said of lives that are over.
func (r *Reconciler) forgetLives(k instance.Key, lives []*instance.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := map[types.UID]lastReported{}
	for _, s := range lives {
		if last, ok := r.reported[k][s.Life.XR]; ok && (s.XR != nil || s.Claim != nil) {
			now[s.Life.XR] = last
		}
	}
	r.reported[k] = now
	if len(now) == 0 {
		delete(r.reported, k)
	}
}

// announceStep says what is done: each step in the log, and what is news to people
// in an event of the claim. Neither says the same twice in a row.
func (r *Reconciler) announceStep(ctx context.Context, k instance.Key, s *instance.State, step finalize.Step) {
	if step.Message == "" && (step.Action == finalize.NoOp || step.Action == finalize.Wait) {
		return
	}
	a := eventOf(step)
	news := lastReported{log: string(step.Action) + string(step.Phase) + step.Message, event: string(a.reason) + step.Message}
	if step.Action == finalize.Wait && step.Percent > 0 { // Percentages are for the status.
		news = lastReported{log: string(step.Action) + string(step.Phase), event: string(a.reason)}
	}
	r.mu.Lock()
	if r.reported[k] == nil {
		r.reported[k] = map[types.UID]lastReported{}
	}
	last := r.reported[k][s.Life.XR]
	r.reported[k][s.Life.XR] = news
	r.mu.Unlock()
	if news.log != last.log {
		log.FromContext(ctx).Info(string(step.Action), "phase", step.Phase, "message", step.Message, "xr", s.Life.XR)
	}
	if news.event != last.event && step.Message != "" && s.Claim != nil {
		sendEvent(r.events, s.Claim.Unstructured, a, string(step.Action), step.Message)
	}
}
