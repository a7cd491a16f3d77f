package reconciler

import (
	"errors"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// maxSteps of one reconcile. A deletion has about twenty; more of them come from
// somebody who undoes what is done here.
const maxSteps = 40

// runPasses until there is nothing to do but wait. A write that was overtaken by somebody else's
// is no error: what is to be done now is seen at the next look.
func runPasses(run func() (after time.Duration, acted bool, err error), isOvertaken func(error) bool) (reconcile.Result, error) {
	for range maxSteps {
		after, acted, err := run()
		switch {
		case isOvertaken(err):
			return reconcile.Result{RequeueAfter: settle}, nil // Who wrote may not be done.
		case err != nil:
			return reconcile.Result{}, err
		case !acted:
			return reconcile.Result{RequeueAfter: after}, nil
		}
	}
	return reconcile.Result{}, errors.New("cannot come to an end: something undoes each step")
}

// isChangedOrGone is true of a write to an object that somebody has written or deleted since.
func isChangedOrGone(err error) bool { return kerrors.IsConflict(err) || kerrors.IsNotFound(err) }

// isRefused is true of a write that the API server does not take, as it is: by a quota, a policy or a schema.
func isRefused(err error) bool { return kerrors.IsForbidden(err) || kerrors.IsInvalid(err) }

// sooner of two looks; zero is for none.
func sooner(after, other time.Duration) time.Duration {
	if after == 0 || other != 0 && other < after {
		return other
	}
	return after
}
