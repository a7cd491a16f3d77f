package reconciler

import (
	"errors"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// maxSteps is the maximum number of steps in one reconcile. A deletion has about twenty. If there are more, another
// client probably reverts the controller's changes.
const maxSteps = 40

// runPasses runs passes until there is nothing to do but wait. A conflict with another client's write is not an
// error, because the next pass reads the current state.
func runPasses(run func() (after time.Duration, acted bool, err error), isOvertaken func(error) bool) (reconcile.Result,
	error) {
	for range maxSteps {
		after, acted, err := run()
		switch {
		case isOvertaken(err):
			return reconcile.Result{RequeueAfter: settle}, nil // The other client may still be writing.
		case err != nil:
			return reconcile.Result{}, err
		case !acted:
			return reconcile.Result{RequeueAfter: after}, nil
		}
	}
	return reconcile.Result{}, errors.New("the reconcile does not finish, because another client reverts each change")
}

// isChangedOrGone reports whether a write failed because another client has changed or deleted the object.
func isChangedOrGone(err error) bool { return kerrors.IsConflict(err) || kerrors.IsNotFound(err) }

// isRefused reports whether the API server refused a write because of a quota, a policy or a schema.
func isRefused(err error) bool { return kerrors.IsForbidden(err) || kerrors.IsInvalid(err) }

// sooner returns the shorter of two delays. Zero means that no delay is set.
func sooner(after, other time.Duration) time.Duration {
	if after == 0 || other != 0 && other < after {
		return other
	}
	return after
}
