package lifecycle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// Crossplane's condition of an XR that says whether it does its part, with two of its reasons,
// and what its message has where it could not compose (crossplane-runtime,
// apis/common/condition.go; crossplane, internal/controller/apiextensions/composite/reconciler.go).
const (
	conditionSynced = "Synced"
	reasonPaused    = "ReconcilePaused"
	reasonError     = "ReconcileError"
	cannotCompose   = "cannot compose resources"
)

// unsyncedFor is how long Crossplane may take to get over an error.
const unsyncedFor = 10 * time.Second

// whyUnsynced says why Crossplane does nothing for an instance, and since when. It then keeps the
// status that the function returns to itself, too: only the controller can say so. Empty where
// Crossplane does its part, or the function can speak for itself.
func whyUnsynced(xr *instance.Composite) (why string, since time.Time) {
	c := meta.FindStatusCondition(xr.Conditions, conditionSynced)
	if c == nil || c.Status != metav1.ConditionFalse {
		return "", time.Time{}
	}
	switch c.Reason {
	case reasonPaused:
		why = pausedAt(xr)
	case reasonError:
		message := c.Message
		if several, ok := strings.CutPrefix(message, "["); ok { // It puts several errors in brackets, and so does the function with what it refuses.
			message = strings.TrimSuffix(several, "]")
		}
		if _, text, ok := strings.Cut(message, cannotCompose+": "); ok {
			message = text
		}
		if !isAfterCompose(c.Message) {
			why = "Crossplane cannot make what this instance consists of: " + v1.PrintableText(message, maxUnsynced)
		}
	}
	return why, c.LastTransitionTime.Time
}

// afterCompose begins the errors that Crossplane meets after it has composed (internal/controller/apiextensions/composite/reconciler.go in
// v2.4.0). The function's status has been written by then, so the function writes the message.
var afterCompose = []string{unsyncedResources, "cannot publish connection details", "cannot watch resource for changes", "Invalid resources: "}

// unsyncedResources begins the message that names the resources which the API server calls invalid. Only events say why.
const unsyncedResources = "Unsynced resources: "

func isAfterCompose(message string) bool {
	return slices.ContainsFunc(afterCompose, func(begin string) bool { return strings.HasPrefix(message, begin) })
}

// crossplaneWarning says what Crossplane cannot do for a claim, or for its composite resource, although the function's status is written;
// empty if it can do all of it. An error counts once Crossplane has had its time to get over it.
func crossplaneWarning(s *instance.State) string {
	if name := publishedIn(s.Claim); name != "" && s.Life.IsOwnSecret(name) {
		return fmt.Sprintf("spec.writeConnectionSecretToRef.name: Secret %s/%s is one that this instance makes itself, so Crossplane cannot write connection details into it: name another Secret, or none and read %s", s.Life.Namespace, name, s.Life.ConnectionSecretName())
	}
	if s.Claim != nil {
		if text := lastingError(s, s.Claim); text != "" {
			return "Crossplane cannot do its part for the claim: " + v1.PrintableText(text, maxUnsynced)
		}
	}
	text := lastingError(s, s.XR)
	switch {
	case !isAfterCompose(text):
		return ""
	case s.Uncomposed != "":
		text += " (" + s.Uncomposed + ")"
	}
	return "Crossplane cannot do its part for the composite resource: " + v1.PrintableText(text, 2*maxUnsynced)
}

// publishedIn returns the name of the Secret into which a claim wants connection details, or "".
func publishedIn(claim *instance.Composite) string {
	if claim == nil {
		return ""
	}
	name, _, _ := unstructured.NestedString(claim.Object, "spec", "writeConnectionSecretToRef", "name")
	return name
}

// lastingError returns the message of the condition Synced if that has been an error for a while, or "".
func lastingError(s *instance.State, of *instance.Composite) string {
	c := meta.FindStatusCondition(of.Conditions, conditionSynced)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reasonError || s.Now.Before(c.LastTransitionTime.Add(unsyncedFor)) {
		return ""
	}
	return c.Message
}

// mayLast reports whether Crossplane has an error of which it is not known yet that it lasts.
func mayLast(s *instance.State, of *instance.Composite) bool {
	c := meta.FindStatusCondition(of.Conditions, conditionSynced)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reasonError && s.Now.Before(c.LastTransitionTime.Add(unsyncedFor))
}

// afterSync begins the errors that Crossplane meets after it has copied the status of the composite resource to the claim
// (internal/controller/apiextensions/claim/reconciler.go in v2.4.0).
const afterSync = "cannot propagate connection details"

// seesClaim is a step after which the claim says why Crossplane does not reach its composite resource, or makes none. Crossplane does not
// copy a status to the claim then, so only the controller can write its message.
func seesClaim(s *instance.State, step Step) Step {
	if step.Action != NoOp && (step.Action != Wait || step.Message != "") || s.Claim == nil || s.Claim.IsDeleting() {
		return step
	}
	text := lastingError(s, s.Claim)
	message := "Crossplane cannot do its part for the claim: " + v1.PrintableText(text, maxUnsynced)
	switch {
	case mayLast(s, s.Claim):
		return sooner(step, unsyncedFor)
	case text == "" || strings.HasPrefix(text, afterSync) || s.Claim.Status.Message == message:
		return step
	}
	return Step{Action: ReportHeldClaim, Message: message}
}

// warnOfCrossplane writes what the function adds to its message.
func warnOfCrossplane(s *instance.State, _ Step) []change.Change {
	return patchXRStatus(s, map[string]any{"crossplaneWarning": orNil(crossplaneWarning(s))})
}

// retryServiceAfter is how long a refused Service is left alone. Each try interrupts what Crossplane does for the instance for a moment.
const retryServiceAfter = 10 * time.Minute

// untilRetryOfService returns how long to wait before a refused Service is tried again: from the last time that Crossplane became synced.
func untilRetryOfService(s *instance.State) (after time.Duration, refused bool) {
	c := meta.FindStatusCondition(s.XR.Conditions, conditionSynced)
	if s.XR.Status.RefusedService == nil || c == nil || c.Status != metav1.ConditionTrue {
		return 0, false
	}
	return max(c.LastTransitionTime.Add(retryServiceAfter).Sub(s.Now), 0), true
}

// retryService removes what the function remembers of a refusal, so that it asks for the Service once more.
func retryService(s *instance.State, _ Step) []change.Change {
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured, map[string]any{"refusedService": nil}).WhoeverWrote()}
}

// maxUnsynced in bytes of what Crossplane says.
const maxUnsynced = 2 * v1.MaxForeignText

func pausedAt(c *instance.Composite) string {
	return fmt.Sprintf("Crossplane is paused for %s %s, and changes nothing there: kubectl annotate %s %s-", c.GetKind(), c.GetName(), inKubectl(c), instance.AnnotationPaused)
}

// inKubectl is what a command calls a claim or XR.
func inKubectl(c *instance.Composite) string {
	name := strings.ToLower(c.GetKind()) + " " + c.GetName()
	if c.GetNamespace() != "" {
		name += " --namespace " + c.GetNamespace()
	}
	return name
}

// awaitCrossplane, which deletes the XR of a claim that is deleted, unless somebody has paused it there: it says nothing in the claim's
// status then, and the function nothing that would come there.
func awaitCrossplane(s *instance.State) Step {
	message := "The deletion waits. " + pausedAt(s.Claim)
	if !s.Claim.IsPaused() || s.Claim.Status.Message == message {
		return Step{Action: NoOp}
	}
	return Step{Action: ReportHeldClaim, Message: message}
}

// reportHeldClaim writes a claim's message, which nobody else does.
func reportHeldClaim(s *instance.State, step Step) []change.Change {
	return writeMessage(s.Claim, step)
}

// isForsaken is true where Crossplane never does its part of a deletion: started while an XRD is being deleted, or is gone, it does not run the
// controllers of that XRD's kinds, which take its finalizers off (internal/controller/apiextensions/definition/reconciler.go in v2.4.0).
func isForsaken(s *instance.State) bool {
	c, _ := s.AwaitsCrossplane()
	return c != nil && s.Undefined && isLate(s)
}

// isLate is true where Crossplane has had its time for what it has not let go.
func isLate(s *instance.State) bool {
	if s.XR == nil {
		return s.CrossplaneAwaited >= requeueForPerson // It composes nothing for a claim alone.
	}
	return s.CrossplaneAwaited >= instance.CrossplaneMayTake
}

// standIn for Crossplane.
func standIn(s *instance.State, phase v1.DeletionPhase) Step {
	c, _ := s.AwaitsCrossplane()
	return Step{Action: StandIn, Phase: phase, Message: fmt.Sprintf(
		"The XRD of %s is being deleted or gone, and Crossplane has not let %q go in its time, nor does it where it was started meanwhile: its finalizer is taken off",
		c.GetKind(), c.GetName())}
}

// takeCrossplanesFinalizer off.
func takeCrossplanesFinalizer(s *instance.State, _ Step) []change.Change {
	c, finalizer := s.AwaitsCrossplane()
	return []change.Change{change.PatchObject(c.Unstructured, func(o *unstructured.Unstructured) { controllerutil.RemoveFinalizer(o, finalizer) }).OrGone()}
}

// awaitRelease of what nothing of ours holds any more, and no event tells of.
func awaitRelease(s *instance.State) Step {
	wait := Step{Action: Wait, After: requeueForPerson}
	switch c, finalizer := s.AwaitsCrossplane(); {
	case c == nil:
		return Step{Action: NoOp}
	case isForsaken(s):
		return standIn(s, "")
	case s.XR != nil || !isLate(s):
		return wait
	default:
		message := "All is released, and Crossplane has not let the claim go. See that it runs. Where it is gone for good: " + without(c, finalizer)
		if c.Status.Message == message {
			return wait
		}
		return Step{Action: ReportHeldClaim, Message: message}
	}
}

// finishForCrossplane is what a deletion does while Crossplane may still apply something.
func finishForCrossplane(s *instance.State) Step {
	if isForsaken(s) {
		return standIn(s, v1.DeletionStopping)
	}
	return Step{Action: Wait, After: requeueSoon, Phase: v1.DeletionStopping, Message: waitsForCrossplane(s)}
}

// waitsForCrossplane is what people read while a deletion waits for Crossplane.
func waitsForCrossplane(s *instance.State) string {
	const text = "Waiting for Crossplane to finish with the instance"
	switch {
	case s.XR.IsPaused():
		return text + ". " + pausedAt(s.XR)
	case isLate(s):
		return fmt.Sprintf("%s, and it has not begun. See that it runs. Where it is gone for good the deletion goes on, with the backup, after %s",
			text, without(s.XR, instance.FinalizerCrossplane))
	}
	return text
}

// without is the command that takes a finalizer off, and leaves the others.
func without(c *instance.Composite, finalizer string) string {
	quoted := []string{}
	for _, f := range c.GetFinalizers() {
		if f != finalizer {
			quoted = append(quoted, strconv.Quote(f))
		}
	}
	return fmt.Sprintf(`kubectl patch %s --type merge --patch '{"metadata":{"finalizers":[%s]}}'`, inKubectl(c), strings.Join(quoted, ","))
}

// seesUnsynced is a step after which there is another look where Crossplane does nothing: no
// event says that it still does not.
func seesUnsynced(s *instance.State, step Step) Step {
	if step.Action != NoOp && (step.Action != Wait || step.Message != "") {
		return step
	}
	why, since := whyUnsynced(s.XR)
	if held := heldByCopy(s.PredecessorCopy); why != "" && held != "" {
		why = held // What Crossplane says of a name that is taken is no way out.
	}
	switch {
	case why == "":
		return seesWarning(s, step)
	case s.Now.Before(since.Add(unsyncedFor)):
		return sooner(step, unsyncedFor)
	case s.XR.Status.Message != why:
		return Step{Action: ReportUnsynced, Message: why}
	}
	return step
}

// seesWarning is a step after which the function knows what it has to say of Crossplane, and has tried a refused Service again.
func seesWarning(s *instance.State, step Step) Step {
	if s.XR.Status.CrossplaneWarning != crossplaneWarning(s) {
		return Step{Action: WarnOfCrossplane}
	}
	after, refused := untilRetryOfService(s)
	switch {
	case refused && after == 0:
		return Step{Action: RetryService}
	case refused:
		step = sooner(step, after)
	}
	if mayLast(s, s.XR) {
		step = sooner(step, unsyncedFor)
	}
	return seesClaim(s, step)
}

// sooner returns a step that is followed by another look after that time at the latest.
func sooner(step Step, after time.Duration) Step {
	if step.Action == NoOp && step.After == 0 {
		return Step{Action: Wait, After: after}
	}
	step.After = min(step.After, after)
	return step
}

// reportUnsynced writes the function's message, which the function cannot.
func reportUnsynced(s *instance.State, step Step) []change.Change {
	return writeMessage(s.XR, step)
}

func writeMessage(c *instance.Composite, step Step) []change.Change {
	return []change.Change{change.PatchStatusFields(c.Unstructured, map[string]any{"message": step.Message}).WhoeverWrote()}
}
