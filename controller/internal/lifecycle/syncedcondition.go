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

// Crossplane's condition that reports whether it reconciles an XR, with two of its reasons, and the prefix of its
// message after a failed composition. They are defined in apis/common/condition.go of crossplane-runtime and in
// internal/controller/apiextensions/composite/reconciler.go of crossplane.
const (
	conditionSynced = "Synced"
	reasonPaused    = "ReconcilePaused"
	reasonError     = "ReconcileError"
	cannotCompose   = "cannot compose resources"
)

// unsyncedFor is the time after which an error of Crossplane is reported. Crossplane recovers from most errors
// earlier.
const unsyncedFor = 10 * time.Second

// whyUnsynced returns why Crossplane does not reconcile an instance, and since when. In this case Crossplane also
// discards the status that the function returns, so that only the controller can report the reason. It returns "" if
// Crossplane reconciles the instance or the function can report the reason itself.
func whyUnsynced(xr *instance.Composite) (reason string, since time.Time) {
	c := meta.FindStatusCondition(xr.Conditions, conditionSynced)
	if c == nil || c.Status != metav1.ConditionFalse {
		return "", time.Time{}
	}
	switch c.Reason {
	case reasonPaused:
		reason = pausedAt(xr)
	case reasonError:
		message := c.Message
		// Crossplane encloses several errors in brackets, and the function does the same.
		if several, ok := strings.CutPrefix(message, "["); ok {
			message = strings.TrimSuffix(several, "]")
		}
		if _, text, ok := strings.Cut(message, cannotCompose+": "); ok {
			message = text
		}
		if !isAfterCompose(c.Message) {
			reason = "Crossplane cannot create the objects of this instance: " + v1.PrintableText(message, maxUnsynced)
		}
	}
	return reason, c.LastTransitionTime.Time
}

// afterCompose lists the prefixes of errors that Crossplane reports after the composition. Crossplane has already
// written the function's status by then, so the function reports the error. Source:
// internal/controller/apiextensions/composite/reconciler.go of Crossplane v2.4.0.
var afterCompose = []string{unsyncedResources, "cannot publish connection details", "cannot watch resource for changes",
	"Invalid resources: "}

// unsyncedResources is the prefix of the message that names the resources which the API server rejects as invalid.
// Only events contain the reason.
const unsyncedResources = "Unsynced resources: "

func isAfterCompose(message string) bool {
	return slices.ContainsFunc(afterCompose, func(begin string) bool { return strings.HasPrefix(message, begin) })
}

// crossplaneWarning returns what Crossplane cannot do for a claim or its composite resource although the status of
// the function is written. It returns "" if there is no such failure. It ignores an error that Crossplane may still
// recover from.
func crossplaneWarning(s *instance.State) string {
	if name := publishedIn(s.Claim); name != "" && s.Instance.IsOwnSecret(name) {
		return fmt.Sprintf("spec.writeConnectionSecretToRef.name: the controller creates Secret %s/%s, so "+
			"Crossplane cannot write connection details into it. Name another Secret, or remove the field and read "+
			"Secret %s", s.Instance.Namespace,
			name, s.Instance.ConnectionSecretName())
	}
	if s.Claim != nil {
		if text := lastingError(s, s.Claim); text != "" {
			return "Crossplane cannot reconcile the claim: " + v1.PrintableText(text, maxUnsynced)
		}
	}
	text := lastingError(s, s.XR)
	switch {
	case !isAfterCompose(text):
		return ""
	case s.Uncomposed != "":
		text += " (" + s.Uncomposed + ")"
	}
	return "Crossplane cannot reconcile the composite resource: " + v1.PrintableText(text, 2*maxUnsynced)
}

// publishedIn returns the name of the Secret to which Crossplane writes the connection details of a claim. It returns
// "" if the claim names none.
func publishedIn(claim *instance.Composite) string {
	if claim == nil {
		return ""
	}
	name, _, _ := unstructured.NestedString(claim.Object, "spec", "writeConnectionSecretToRef", "name")
	return name
}

// lastingError returns the message of the condition Synced if it has been an error for longer than unsyncedFor, or
// "".
func lastingError(s *instance.State, composite *instance.Composite) string {
	c := meta.FindStatusCondition(composite.Conditions, conditionSynced)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reasonError ||
		s.Now.Before(c.LastTransitionTime.Add(unsyncedFor)) {
		return ""
	}
	return c.Message
}

// mayLast reports whether Crossplane reported an error so recently that the error may still disappear.
func mayLast(s *instance.State, composite *instance.Composite) bool {
	c := meta.FindStatusCondition(composite.Conditions, conditionSynced)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reasonError &&
		s.Now.Before(c.LastTransitionTime.Add(unsyncedFor))
}

// afterSync is the prefix of errors that Crossplane reports after it has copied the status of the composite resource
// to the claim. Source: internal/controller/apiextensions/claim/reconciler.go of Crossplane v2.4.0.
const afterSync = "cannot propagate connection details"

// seesClaim reports in the claim's status why Crossplane cannot find or create the composite resource. Crossplane
// does not copy a status to the claim in this case, so only the controller can write the message.
func seesClaim(s *instance.State, step steps.Step) steps.Step {
	if step.Action != steps.NoOp && (step.Action != steps.Wait || step.Message != "") || s.Claim == nil ||
		s.Claim.IsDeleting() {
		return step
	}
	text := lastingError(s, s.Claim)
	message := "Crossplane cannot reconcile the claim: " + v1.PrintableText(text, maxUnsynced)
	switch {
	case mayLast(s, s.Claim):
		return sooner(step, unsyncedFor)
	case text == "" || strings.HasPrefix(text, afterSync) || s.Claim.Status.Message == message:
		return step
	}
	return steps.Step{Action: steps.ReportBlockedClaim, Message: message}
}

// warnOfCrossplane stores a warning about Crossplane in the status. The function adds it to its message.
func warnOfCrossplane(s *instance.State, _ steps.Step) []change.Change {
	return steps.PatchXRInternal(s, map[string]any{"crossplaneWarning": steps.OrNil(crossplaneWarning(s))})
}

// retryServiceAfter is the time between two attempts to create a refused Service. During each attempt, Crossplane
// briefly stops reconciling the other resources of the instance.
const retryServiceAfter = 10 * time.Minute

// untilRetryOfService returns the time until the next attempt to create a refused Service. The interval begins when
// Crossplane becomes synced. refused is false if there is no such attempt.
func untilRetryOfService(s *instance.State) (after time.Duration, refused bool) {
	c := meta.FindStatusCondition(s.XR.Conditions, conditionSynced)
	if s.XR.Status.RefusedService == nil || c == nil || c.Status != metav1.ConditionTrue {
		return 0, false
	}
	return max(c.LastTransitionTime.Add(retryServiceAfter).Sub(s.Now), 0), true
}

// retryService removes the stored refusal, so that the function requests the Service again.
func retryService(s *instance.State, _ steps.Step) []change.Change {
	return []change.Change{change.PatchStatusFields(s.XR.Unstructured,
		steps.Internal(map[string]any{"refusedService": nil})).WhoeverWrote()}
}

// maxUnsynced is the maximum length in bytes of a Crossplane message.
const maxUnsynced = 2 * v1.MaxForeignText

func pausedAt(c *instance.Composite) string {
	return fmt.Sprintf("Crossplane does not reconcile %s %s, because it is paused. To resume it: kubectl annotate "+
		"%s %s-", c.GetKind(),
		c.GetName(), c.InKubectl(), instance.AnnotationPaused)
}

// awaitCrossplane waits until Crossplane deletes the XR of a claim that is being deleted. If the claim is paused,
// Crossplane does not reconcile it, and the function's status does not reach the claim. The controller then reports
// the pause in the claim's status.
func awaitCrossplane(s *instance.State) steps.Step {
	message := "The deletion waits. " + pausedAt(s.Claim)
	if !s.Claim.IsPaused() || s.Claim.Status.Message == message {
		return steps.Step{Action: steps.NoOp}
	}
	return steps.Step{Action: steps.ReportBlockedClaim, Message: message}
}

// reportBlockedClaim writes the message of a claim, because neither Crossplane nor the function can write it.
func reportBlockedClaim(s *instance.State, step steps.Step) []change.Change {
	return writeMessage(s.Claim, step)
}

// isLate reports whether Crossplane has had enough time to remove its finalizer, but has not removed it.
func isLate(s *instance.State) bool {
	if s.XR == nil {
		return s.CrossplaneAwaited >= steps.RequeueForPerson // Crossplane composes nothing for a claim without an XR.
	}
	return s.CrossplaneAwaited >= instance.CrossplaneMayTake
}

// blockedByCrossplane returns the message for a deletion that waits for Crossplane's finalizer. It contains the reason,
// what happens to the data, and the command that removes the finalizer. The controller does not remove the finalizer
// itself, because Crossplane owns it.
func blockedByCrossplane(s *instance.State) string {
	c, finalizer := s.AwaitsCrossplane()
	message := fmt.Sprintf("Crossplane has not removed its finalizer from %s %s. ", c.GetKind(), c.GetName())
	switch {
	case s.XR == nil:
		message += "All other objects of the instance are already deleted. "
		if d := s.Claim.Status.Deletion; d != nil && d.Phase == v1.DeletionReleasing && d.Message != "" {
			message += v1.PrintableText(d.Message, v1.MaxForeignText) + ". "
		}
	case s.XR.HasFinalizer() && NeedsBackup(s):
		message += "No data is deleted: the backup of the data starts when the finalizer is removed. "
	}
	if s.Undefined {
		message += "The XRD is being deleted or no longer exists. If Crossplane was started after that, it never removes " +
			"the finalizer. Remove it: "
	} else {
		message += "Check that Crossplane is running. If Crossplane was uninstalled permanently, remove the finalizer: "
	}
	return message + c.CommandToRemove(finalizer)
}

// awaitRelease waits until Crossplane removes its finalizer from a claim or composite resource that no longer has the
// controller's finalizer. It checks again later, because no event reports that Crossplane fails to do so.
func awaitRelease(s *instance.State) steps.Step {
	step := steps.Step{Action: steps.Wait, After: steps.RequeueForPerson}
	c, _ := s.AwaitsCrossplane()
	if c == nil {
		return steps.Step{Action: steps.NoOp}
	}
	if !isLate(s) {
		return step
	}
	message := blockedByCrossplane(s)
	switch {
	case s.XR != nil:
		step.Phase, step.Message = v1.DeletionBlocked, message
	case c.Status.Message != message:
		return steps.Step{Action: steps.ReportBlockedClaim, Message: message}
	}
	return step
}

// finishForCrossplane waits until Crossplane has removed its finalizer from the composite resource, because
// Crossplane may apply objects until then.
func finishForCrossplane(s *instance.State) steps.Step {
	step := steps.Step{Action: steps.Wait, After: steps.RequeueSoon, Phase: v1.DeletionStopping,
		Message: "Waiting for Crossplane to finish deleting the instance"}
	switch {
	case s.XR.IsPaused():
		step.Message += ". " + pausedAt(s.XR)
	case isLate(s):
		return steps.Step{Action: steps.Wait, After: steps.RequeueForPerson, Phase: v1.DeletionBlocked,
			Message: blockedByCrossplane(s)}
	}
	return step
}

// seesUnsynced reports that Crossplane does not reconcile the instance. It schedules another check, because no event
// reports that this state continues.
func seesUnsynced(s *instance.State, step steps.Step) steps.Step {
	if step.Action != steps.NoOp && (step.Action != steps.Wait || step.Message != "") {
		return step
	}
	reason, since := whyUnsynced(s.XR)
	if held := blockedByCopy(s.PredecessorCopy); reason != "" && held != "" {
		reason = held // The user cannot act on Crossplane's message about a name that is taken.
	}
	switch {
	case reason == "":
		return seesWarning(s, step)
	case s.Now.Before(since.Add(unsyncedFor)):
		return sooner(step, unsyncedFor)
	case s.XR.Status.Message != reason:
		return steps.Step{Action: steps.ReportUnsynced, Message: reason}
	}
	return step
}

// seesWarning stores a new warning about Crossplane for the function, and retries a refused Service.
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

// sooner limits the time until the next reconcile to the given duration.
func sooner(step steps.Step, after time.Duration) steps.Step {
	if step.Action == steps.NoOp && step.After == 0 {
		return steps.Step{Action: steps.Wait, After: after}
	}
	step.After = min(step.After, after)
	return step
}

// reportUnsynced writes the message and reason of the XR, because Crossplane discards the function's status.
func reportUnsynced(s *instance.State, step steps.Step) []change.Change {
	return writeMessage(s.XR, step)
}

func writeMessage(c *instance.Composite, step steps.Step) []change.Change {
	reason := v1.ReasonUnsynced
	if a := meta.FindStatusCondition(c.Conditions, v1.ConditionAccepted); a != nil && a.Status == metav1.ConditionFalse {
		reason = a.Reason
	}
	return []change.Change{change.PatchStatusFields(c.Unstructured,
		map[string]any{"message": step.Message, "reason": reason}).WhoeverWrote()}
}
