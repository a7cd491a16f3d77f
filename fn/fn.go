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
}

// RunFunction parses, composes and writes. What is wrong is said in a Fatal
// result, which leaves all that exists as it is; it never returns an error.
func (f *Function) RunFunction(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	rsp := respond(req)
	out, err := run(req)
	if err == nil {
		err = writeOutput(rsp, req, out)
	}
	if err != nil {
		f.log.Debug("Refused", "tag", req.GetMeta().GetTag(), "error", err.Error())
		return refused(req, out, err), nil
	}
	rsp.Meta.Ttl = durationpb.New(ttlOf(req, out, time.Now())) // The only thing that depends on a clock.
	f.log.Debug("Composed", "tag", req.GetMeta().GetTag(), "resources", len(out.Resources), "ready", out.Ready, "message", out.Status.Message)
	return rsp, nil
}

// How long Crossplane may go without calling again: on the whole, for an instance to which nothing happens, where it
// watches all that this depends on, and at least for one that is on its way. The second is for what no watch tells, such as another release of this
// function. The third is since Crossplane drops events of an XR that has many, as one has that starts (circuitTime).
const (
	ttl        = time.Minute
	ttlSettled = 10 * time.Minute
	ttlMoving  = 5 * time.Second
)

// ttlOf a response.
func ttlOf(req *fnv1.RunFunctionRequest, out *compose.Output, now time.Time) time.Duration {
	switch {
	case out.Settled && hearsAll(req, now):
		return ttlSettled
	case !out.Ready: // As long again as nothing has become of it: a thousand that cannot start are asked for no more often than others.
		return min(max(now.Sub(lastChange(req, now)), ttlMoving), ttl)
	}
	return ttl
}

// lastChange of a condition of the XR; now, where none has been written yet.
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

// changedAt is when a condition changed; zero where it does not say.
func changedAt(c map[string]*structpb.Value) time.Time {
	t, err := time.Parse(time.RFC3339, c["lastTransitionTime"].GetStringValue())
	if err != nil {
		return time.Time{}
	}
	return t
}

// respond to a request, with what earlier functions of the pipeline want. The
// SDK's packages request and response would do it too, but bring all of client-go
// into a process that never talks to an API server.
func respond(req *fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse {
	return &fnv1.RunFunctionResponse{
		Meta:    &fnv1.ResponseMeta{Tag: req.GetMeta().GetTag(), Ttl: durationpb.New(ttl)},
		Desired: req.GetDesired(),
		Context: req.GetContext(),
	}
}

func run(req *fnv1.RunFunctionRequest) (*compose.Output, error) {
	in, err := parseRequest(req)
	if err != nil {
		return &compose.Output{}, err
	}
	return compose.Compose(*in)
}

// refused is the response that says why an XR cannot be carried out. Crossplane
// sets conditions that a Fatal response leaves out to Unknown: those that tell
// how the server is go on as they were. The requirements go on too, so that a change of
// what was looked up runs the function again.
func refused(req *fnv1.RunFunctionRequest, out *compose.Output, err error) *fnv1.RunFunctionResponse {
	rsp := respond(req)
	reason := v1.ReasonNotSupported
	if r := (*compose.Refusal)(nil); errors.As(err, &r) {
		reason = r.Reason
	}
	message := printableText(err.Error())
	rsp.Conditions = append(rsp.Conditions, condition(v1.ConditionAccepted, fnv1.Status_STATUS_CONDITION_FALSE, reason, message))
	rsp.Conditions = append(rsp.Conditions, keptConditions(req)...)
	rsp.Requirements = requirements(req, out.Requirements)
	// A Fatal result is an event of the XR alone, and ends the list.
	rsp.Results = append(rsp.Results, warningResult(reason, message), &fnv1.Result{Severity: fnv1.Severity_SEVERITY_FATAL, Message: message, Target: fnv1.Target_TARGET_COMPOSITE.Enum()})
	return rsp
}

// circuitTime is how long Crossplane's watch circuit breaker drops events once there were many, and as much again for one that is set to
// more (--circuit-breaker-cooldown, five minutes by default).
const circuitTime = 10 * time.Minute

// hearsAll is true unless Crossplane drops events of this XR, because there were many (condition Responsive): what is dropped is seen
// when it asks again. That it does so it goes on to say until the first event after that time, which is none where nothing happens
// (RecordEvent in internal/circuit/token_bucket.go of Crossplane): a condition that is older says nothing.
func hearsAll(req *fnv1.RunFunctionRequest, now time.Time) bool {
	return !slices.ContainsFunc(conditionsOf(req), func(c map[string]*structpb.Value) bool {
		return c["type"].GetStringValue() == "Responsive" && c["status"].GetStringValue() == "False" && now.Sub(changedAt(c)) < circuitTime
	})
}

// conditionsOf the observed XR.
func conditionsOf(req *fnv1.RunFunctionRequest) []map[string]*structpb.Value {
	status := req.GetObserved().GetComposite().GetResource().GetFields()["status"].GetStructValue()
	list := status.GetFields()["conditions"].GetListValue().GetValues()
	out := make([]map[string]*structpb.Value, 0, len(list))
	for _, v := range list {
		out = append(out, v.GetStructValue().GetFields())
	}
	return out
}

// keptConditions are those of the observed XR that go on.
func keptConditions(req *fnv1.RunFunctionRequest) []*fnv1.Condition {
	var out []*fnv1.Condition
	for _, c := range conditionsOf(req) {
		t := c["type"].GetStringValue()
		if !slices.Contains([]string{v1.ConditionRestored, v1.ConditionServing, v1.ConditionUpdated, v1.ConditionSettingsApplied}, t) || c["reason"].GetStringValue() == "" {
			continue
		}
		state := map[string]fnv1.Status{"True": fnv1.Status_STATUS_CONDITION_TRUE, "False": fnv1.Status_STATUS_CONDITION_FALSE}[c["status"].GetStringValue()]
		out = append(out, condition(t, state, c["reason"].GetStringValue(), c["message"].GetStringValue()))
	}
	return out
}
