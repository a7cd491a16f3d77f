package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
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
func seesClaim(s *instance.State, step steps.Step) steps.Step {
	if step.Action != steps.NoOp && (step.Action != steps.Wait || step.Message != "") || s.Claim == nil || s.Claim.IsDeleting() {
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
	return steps.Step{Action: steps.ReportHeldClaim, Message: message}
}

// warnOfCrossplane writes what the function adds to its message.
func warnOfCrossplane(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRStatus(s, map[string]any{"crossplaneWarning": steps.OrNil(crossplaneWarning(s))})
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
func retryService(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured, map[string]any{"refusedService": nil}).WhoeverWrote()}
}

// maxUnsynced in bytes of what Crossplane says.
const maxUnsynced = 2 * v1.MaxForeignText

func pausedAt(c *instance.Composite) string {
	return fmt.Sprintf("Crossplane is paused for %s %s, and changes nothing there: kubectl annotate %s %s-", c.GetKind(), c.GetName(), c.InKubectl(), instance.AnnotationPaused)
}

// awaitCrossplane, which deletes the XR of a claim that is deleted, unless somebody has paused it there: it says nothing in the claim's
// status then, and the function nothing that would come there.
func awaitCrossplane(s *instance.State) steps.Step {
	message := "The deletion waits. " + pausedAt(s.Claim)
	if !s.Claim.IsPaused() || s.Claim.Status.Message == message {
		return steps.Step{Action: steps.NoOp}
	}
	return steps.Step{Action: steps.ReportHeldClaim, Message: message}
}

// reportHeldClaim writes a claim's message, which nobody else does.
func reportHeldClaim(s *instance.State, step steps.Step) []change.Change {
	return writeMessage(s.Claim, step)
}

// isLate reports whether Crossplane has had enough time to remove its finalizer.
func isLate(s *instance.State) bool {
	if s.XR == nil {
		return s.CrossplaneAwaited >= steps.RequeueForPerson // Crossplane composes nothing for a claim alone.
	}
	return s.CrossplaneAwaited >= instance.CrossplaneMayTake
}

// heldByCrossplane says that Crossplane has not removed its finalizer, and why; what becomes of the data; and the command that removes that
// finalizer. The controller does not run the command itself, because the finalizer is not its own.
func heldByCrossplane(s *instance.State) string {
	c, finalizer := s.AwaitsCrossplane()
	message := fmt.Sprintf("Crossplane has not removed its finalizer from %s %s. ", c.GetKind(), c.GetName())
	switch {
	case s.XR == nil:
		message += "Nothing else of the instance is left. "
		if d := s.Claim.Status.Deletion; d != nil && d.Phase == v1.DeletionReleasing && d.Message != "" {
			message += v1.PrintableText(d.Message, v1.MaxForeignText) + ". "
		}
	case s.XR.HasFinalizer() && NeedsBackup(s):
		message += "No data is deleted: the backup of the data begins when the finalizer is removed. "
	}
	if s.Undefined {
		message += "The XRD is being deleted or no longer exists, and a Crossplane that starts after that never removes the finalizer. Remove it: "
	} else {
		message += "Check that Crossplane runs. If Crossplane is uninstalled for good, remove the finalizer: "
	}
	return message + c.CommandToRemove(finalizer)
}

// awaitRelease waits until Crossplane removes the last finalizer of a claim or composite resource that the controller does not hold. No event
// reports that Crossplane fails to do so.
func awaitRelease(s *instance.State) steps.Step {
	step := steps.Step{Action: steps.Wait, After: steps.RequeueForPerson}
	c, _ := s.AwaitsCrossplane()
	if c == nil {
		return steps.Step{Action: steps.NoOp}
	}
	if !isLate(s) {
		return step
	}
	message := heldByCrossplane(s)
	switch {
	case s.XR != nil:
		step.Phase, step.Message = v1.DeletionHeld, message
	case c.Status.Message != message:
		return steps.Step{Action: steps.ReportHeldClaim, Message: message}
	}
	return step
}

// finishForCrossplane waits until Crossplane has removed its finalizer from the composite resource: until then it may still apply something.
func finishForCrossplane(s *instance.State) steps.Step {
	step := steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Phase: v1.DeletionStopping, Message: "Waiting for Crossplane to finish with the instance"}
	switch {
	case s.XR.IsPaused():
		step.Message += ". " + pausedAt(s.XR)
	case isLate(s):
		return steps.Step{Action: steps.Wait, After: steps.RequeueForPerson, Phase: v1.DeletionHeld, Message: heldByCrossplane(s)}
	}
	return step
}

// seesUnsynced is a step after which there is another look where Crossplane does nothing: no
// event says that it still does not.
func seesUnsynced(s *instance.State, step steps.Step) steps.Step {
	if step.Action != steps.NoOp && (step.Action != steps.Wait || step.Message != "") {
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
		return steps.Step{Action: steps.ReportUnsynced, Message: why}
	}
	return step
}

// seesWarning is a step after which the function knows what it has to say of Crossplane, and has tried a refused Service again.
func seesWarning(s *instance.State, step steps.Step) steps.Step {
	if s.XR.Status.CrossplaneWarning != crossplaneWarning(s) {
		return steps.Step{Action: steps.WarnOfCrossplane}
	}
	after, refused := untilRetryOfService(s)
	switch {
	case refused && after == 0:
		return steps.Step{Action: steps.RetryService}
	case refused:
		step = sooner(step, after)
	}
	if mayLast(s, s.XR) {
		step = sooner(step, unsyncedFor)
	}
	return seesClaim(s, step)
}

// sooner returns a step that is followed by another look after that time at the latest.
func sooner(step steps.Step, after time.Duration) steps.Step {
	if step.Action == steps.NoOp && step.After == 0 {
		return steps.Step{Action: steps.Wait, After: after}
	}
	step.After = min(step.After, after)
	return step
}

// reportUnsynced writes the function's message, which the function cannot.
func reportUnsynced(s *instance.State, step steps.Step) []change.Change {
	return writeMessage(s.XR, step)
}

func writeMessage(c *instance.Composite, step steps.Step) []change.Change {
	return []change.Change{change.PatchStatusFields(c.Unstructured, map[string]any{"message": step.Message}).WhoeverWrote()}
}
