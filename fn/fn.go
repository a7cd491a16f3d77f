package main

import (
	"context"
	"slices"
	"time"

	"github.com/crossplane/function-sdk-go/errors"
	"github.com/crossplane/function-sdk-go/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/compose"
)

// A Function composes MySQL instances.
type Function struct {
	fnv1.UnimplementedFunctionRunnerServiceServer

	log logging.Logger
	// release is the release of this program, such as v0.1.0.
	release string
}

// RunFunction parses a request, composes the instance and writes the response. It never returns an error. It reports
// errors in a Fatal result, which leaves existing objects unchanged.
func (f *Function) RunFunction(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	rsp := respond(req)
	out, err := f.compose(req)
	if err == nil {
		err = writeOutput(rsp, req, out)
	}
	if err != nil {
		f.log.Debug("Refused", "tag", req.GetMeta().GetTag(), "error", err.Error())
		return refused(req, out, err), nil
	}
	rsp.Meta.Ttl = durationpb.New(ttlOf(req, out, time.Now())) // Only the TTL depends on a clock.
	f.log.Debug("Composed", "tag", req.GetMeta().GetTag(), "resources", len(out.Resources), "ready", out.Ready, "message",
		out.Status.Message)
	return rsp, nil
}

// The TTL of a response is the maximum time until Crossplane calls the function again. The default is ttl. ttlSettled
// applies to an instance without changes, if Crossplane watches all of its required resources. It is needed because
// no watch reports some changes, such as a new release of this function. ttlMoving is the minimum for an instance
// that is changing. It is short, because Crossplane drops events of an XR that has many, for example during a start
// (circuitTime).
const (
	ttl        = time.Minute
	ttlSettled = 10 * time.Minute
	ttlMoving  = 5 * time.Second
)

// ttlOf returns the TTL of a response: the maximum time until Crossplane calls the function again.
func ttlOf(req *fnv1.RunFunctionRequest, out *compose.Output, now time.Time) time.Duration {
	switch {
	case out.Settled && hearsAll(req, now):
		return ttlSettled
	// The TTL grows with the time since the last change, up to ttl. Instances that can never start then cause no more
	// calls than other instances.
	case !out.Ready:
		return min(max(now.Sub(lastChange(req, now)), ttlMoving), ttl)
	}
	return ttl
}

// lastChange returns the time of the last change of a condition of the XR, or now if the XR has no conditions.
func lastChange(req *fnv1.RunFunctionRequest, now time.Time) time.Time {
	var last time.Time
	for _, c := range conditionsOf(req) {
		if t := changedAt(c); t.After(last) {
			last = t
		}
	}
	if last.IsZero() {
		return now
	}
	return last
}

// changedAt returns the time of a condition's last change, or zero if it is unknown.
func changedAt(c map[string]*structpb.Value) time.Time {
	t, err := time.Parse(time.RFC3339, c["lastTransitionTime"].GetStringValue())
	if err != nil {
		return time.Time{}
	}
	return t
}

// respond returns a response that keeps the resources of earlier functions in the pipeline. The SDK's packages
// request and response would do the same, but link all of client-go into a process that never calls an API server.
func respond(req *fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse {
	return &fnv1.RunFunctionResponse{
		Meta:    &fnv1.ResponseMeta{Tag: req.GetMeta().GetTag(), Ttl: durationpb.New(ttl)},
		Desired: req.GetDesired(),
		Context: req.GetContext(),
	}
}

func (f *Function) compose(req *fnv1.RunFunctionRequest) (*compose.Output, error) {
	in, err := parseRequest(req)
	if err != nil {
		return &compose.Output{}, err
	}
	in.Release = f.release
	return compose.Compose(*in)
}

// refused returns a response that reports why an XR cannot be composed. It repeats the conditions of the server,
// because Crossplane sets conditions that a Fatal response omits to Unknown. It also repeats the requirements, so
// that a change of a required resource causes a new call.
func refused(req *fnv1.RunFunctionRequest, out *compose.Output, err error) *fnv1.RunFunctionResponse {
	rsp := respond(req)
	reason := v1.ReasonNotSupported
	if r := (*compose.Refusal)(nil); errors.As(err, &r) {
		reason = r.Reason
	}
	message := printableText(err.Error())
	rsp.Conditions = append(rsp.Conditions,
		condition(v1.ConditionAccepted, fnv1.Status_STATUS_CONDITION_FALSE, reason, message))
	rsp.Conditions = append(rsp.Conditions, keptConditions(req)...)
	rsp.Conditions = append(rsp.Conditions,
		condition(v1.ConditionStalled, fnv1.Status_STATUS_CONDITION_TRUE, reason, message),
		condition(v1.ConditionReconciling, fnv1.Status_STATUS_CONDITION_FALSE, v1.ReasonReconciled, ""))
	rsp.Requirements = requirements(req, out.Requirements)
	// A Fatal result must be the last one. Crossplane reports it only on the XR, so a warning reports the same error on
	// the claim.
	rsp.Results = append(rsp.Results, warningResult(reason, message),
		&fnv1.Result{Severity: fnv1.Severity_SEVERITY_FATAL, Message: message, Target: fnv1.Target_TARGET_COMPOSITE.Enum()})
	return rsp
}

// circuitTime is the maximum age of the condition Responsive that hearsAll considers. Crossplane's circuit breaker
// drops the events of an XR for five minutes by default (--circuit-breaker-cooldown). The constant is twice that
// time, in case the flag has a higher value.
const circuitTime = 10 * time.Minute

// hearsAll reports whether Crossplane delivers all events of the XR. If there are too many, Crossplane drops events
// and sets the condition Responsive to False. The function is then called only when the TTL expires. Crossplane
// updates the condition only with the first event after the cooldown, but an idle instance has no events (RecordEvent
// in internal/circuit/token_bucket.go of Crossplane). An old condition is therefore ignored.
func hearsAll(req *fnv1.RunFunctionRequest, now time.Time) bool {
	return !slices.ContainsFunc(conditionsOf(req), func(c map[string]*structpb.Value) bool {
		return c["type"].GetStringValue() == "Responsive" && c["status"].GetStringValue() == "False" &&
			now.Sub(changedAt(c)) < circuitTime
	})
}

// conditionsOf returns the conditions of the observed XR.
func conditionsOf(req *fnv1.RunFunctionRequest) []map[string]*structpb.Value {
	status := req.GetObserved().GetComposite().GetResource().GetFields()["status"].GetStructValue()
	list := status.GetFields()["conditions"].GetListValue().GetValues()
	out := make([]map[string]*structpb.Value, 0, len(list))
	for _, v := range list {
		out = append(out, v.GetStructValue().GetFields())
	}
	return out
}

// keptConditions returns all conditions of a refused XR except Accepted. It keeps the observed states of the server
// and its backups. Conditions that are not observed are Unknown, so that `kubectl wait` finds them.
func keptConditions(req *fnv1.RunFunctionRequest) []*fnv1.Condition {
	observed := map[string]map[string]*structpb.Value{}
	for _, c := range conditionsOf(req) {
		observed[c["type"].GetStringValue()] = c
	}
	delete(observed, v1.ConditionBlocked) // The cause of a block is not checked for a refused XR.
	var out []*fnv1.Condition
	for _, t := range []string{v1.ConditionRestored, v1.ConditionServing, v1.ConditionPendingRestart,
		v1.ConditionLastBackupSucceeded, v1.ConditionBlocked} {
		c := observed[t]
		if c["reason"].GetStringValue() == "" {
			out = append(out, condition(t, fnv1.Status_STATUS_CONDITION_UNKNOWN, v1.ReasonNotAccepted,
				"The spec is not accepted. See the condition Accepted"))
			continue
		}
		state := map[string]fnv1.Status{"True": fnv1.Status_STATUS_CONDITION_TRUE, "False": fnv1.Status_STATUS_CONDITION_FALSE,
			"Unknown": fnv1.Status_STATUS_CONDITION_UNKNOWN}[c["status"].GetStringValue()]
		out = append(out, condition(t, state, c["reason"].GetStringValue(), c["message"].GetStringValue()))
	}
	return out
}
