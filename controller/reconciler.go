package main

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
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

	mu   sync.Mutex
	said map[instance.Key]string
}

// Reconcile an instance.
func (r *Reconciler) Reconcile(ctx context.Context, k instance.Key) (reconcile.Result, error) {
	for range maxSteps {
		after, acted, err := r.pass(ctx, k)
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

// pass over all lives once.
func (r *Reconciler) pass(ctx context.Context, k instance.Key) (after time.Duration, acted bool, err error) {
	lives, err := r.gather.Gather(ctx, k)
	if err != nil {
		return 0, false, err
	}
	r.meter.observe(k, lives)
	for _, s := range lives {
		step := finalize.Next(s)
		r.say(ctx, k, s, step)
		if err := r.perform.Show(ctx, s, step); err != nil {
			return 0, false, err
		}
		if step.Action == finalize.Wait && (after == 0 || step.After < after) {
			after = step.After
		}
		if step.Action == finalize.Wait || step.Action == finalize.Rest {
			continue
		}
		if err := r.perform.Perform(ctx, s, step); err != nil {
			return 0, false, err
		}
		r.meter.did(s, step)
		acted = true
	}
	return after, acted, nil
}

// say what is done, once.
func (r *Reconciler) say(ctx context.Context, k instance.Key, s *instance.State, step finalize.Step) {
	if step.Message == "" && (step.Action == finalize.Rest || step.Action == finalize.Wait) {
		return
	}
	// Percentages are for the status.
	now := string(step.Action) + string(step.Phase) + step.Message
	if step.Action == finalize.Wait && step.Percent > 0 {
		now = string(step.Action) + string(step.Phase)
	}
	r.mu.Lock()
	again := r.said[k] == now
	r.said[k] = now
	r.mu.Unlock()
	if again {
		return
	}
	log.FromContext(ctx).Info(string(step.Action), "phase", step.Phase, "message", step.Message, "xr", s.Life.XR)
	if step.Message == "" || s.Claim == nil {
		return
	}
	kind := corev1.EventTypeNormal
	if step.Phase == finalize.PhaseHeld || step.Phase == finalize.PhaseFailed || step.Action == finalize.Rest {
		kind = corev1.EventTypeWarning
	}
	reason := string(step.Action)
	if step.Phase != "" {
		reason = string(step.Phase)
	}
	r.events.Eventf(s.Claim.Unstructured, nil, kind, reason, string(step.Action), "%s", clip(step.Message))
}

// maxNote in bytes of an event.
const maxNote = 1000

func clip(text string) string {
	if len(text) <= maxNote {
		return text
	}
	return text[:maxNote] + "…"
}
