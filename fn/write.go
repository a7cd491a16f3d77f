package main

import (
	"maps"
	"slices"

	"github.com/crossplane/function-sdk-go/errors"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/compose"
)

// writeOutput writes the composed resources of an instance to the response. It keeps the resources of earlier
// functions in the pipeline.
func writeOutput(rsp *fnv1.RunFunctionResponse, req *fnv1.RunFunctionRequest, out *compose.Output) error {
	// The function must not change the request.
	rsp.Desired = proto.CloneOf(rsp.GetDesired())
	if rsp.GetDesired() == nil {
		rsp.Desired = &fnv1.State{}
	}
	if rsp.Desired.Resources == nil {
		rsp.Desired.Resources = map[string]*fnv1.Resource{}
	}
	for name, r := range out.Resources {
		// A function must not set the status of a composed resource.
		s, err := encodeObject(r.Object, "status")
		if err != nil {
			return errors.Wrapf(err, "cannot write the composed resource %q", name)
		}
		if r.AsObserved != nil {
			copyField(s, req.GetObserved().GetResources()[name].GetResource(), r.AsObserved)
		}
		rsp.Desired.Resources[name] = &fnv1.Resource{Resource: s, Ready: ready(r.Ready)}
	}
	for _, c := range out.Conditions {
		state := fnv1.Status_STATUS_CONDITION_FALSE
		switch {
		case c.True:
			state = fnv1.Status_STATUS_CONDITION_TRUE
		case c.Unknown:
			state = fnv1.Status_STATUS_CONDITION_UNKNOWN
		}
		rsp.Conditions = append(rsp.Conditions, condition(c.Type, state, c.Reason, c.Message))
		if isWarning(&c) {
			rsp.Results = append(rsp.Results, warningResult(c.Reason, c.Message))
		}
	}
	rsp.Requirements = requirements(req, out.Requirements)
	rsp.Context = recordFetched(req, out.Requirements)
	return writeXR(rsp, req, out)
}

// isWarning reports whether users get an event for a condition. Stalled only repeats another condition.
func isWarning(c *compose.Condition) bool {
	switch c.Type {
	case v1.ConditionAccepted:
		return !c.True
	case v1.ConditionRestored:
		return c.Reason == v1.ReasonRestoreFailed
	case v1.ConditionPendingRestart:
		return c.Reason == v1.ReasonSettingsRefused || c.Reason == v1.ReasonSettingsTakenBack
	}
	return false
}

// copyField copies the field at a path from one object to another. The parents of the field must exist in both.
func copyField(dst, from *structpb.Struct, path []string) {
	for len(path) > 1 {
		dst, from, path = dst.GetFields()[path[0]].GetStructValue(), from.GetFields()[path[0]].GetStructValue(), path[1:]
	}
	dst.Fields[path[0]] = from.GetFields()[path[0]]
}

// writeXR writes the function's fields of the XR's status. It omits the controller's fields, so that the function
// does not own them.
func writeXR(rsp *fnv1.RunFunctionResponse, req *fnv1.RunFunctionRequest, out *compose.Output) error {
	out.Status.Message = printableText(out.Status.Message)
	status, err := encodeObject(&out.Status)
	if err != nil {
		return errors.Wrap(err, "cannot write the status")
	}
	xr := rsp.GetDesired().GetComposite()
	if xr == nil {
		xr = &fnv1.Resource{}
		rsp.Desired.Composite = xr
	}
	if xr.GetResource() == nil {
		xr.Resource = &structpb.Struct{}
	}
	if xr.GetResource().GetFields() == nil {
		xr.Resource.Fields = map[string]*structpb.Value{}
	}
	f := xr.GetResource().GetFields()
	for _, name := range []string{"apiVersion", "kind"} {
		f[name] = structpb.NewStringValue(req.GetObserved().GetComposite().GetResource().GetFields()[name].GetStringValue())
	}
	merged := map[string]*structpb.Value{}
	maps.Copy(merged, f["status"].GetStructValue().GetFields())
	maps.Copy(merged, status.GetFields())
	f["status"] = structpb.NewStructValue(&structpb.Struct{Fields: merged})
	xr.Ready = ready(out.Ready)
	if out.Connection != nil {
		xr.ConnectionDetails = out.Connection
	}
	return nil
}

// requirements returns the requirements in the field that the caller supports. Crossplane before v2.2, which does not
// advertise capabilities, gets extra_resources only. Crossplane up to v1.16 treats the other field as unknown bytes,
// whose order changes from call to call. The requirements would then never become stable.
func requirements(req *fnv1.RunFunctionRequest, wanted map[string]compose.Requirement) *fnv1.Requirements {
	selectors := make(map[string]*fnv1.ResourceSelector, len(wanted))
	for key, n := range wanted {
		selectors[key] = selector(n)
	}
	if slices.Contains(req.GetMeta().GetCapabilities(), fnv1.Capability_CAPABILITY_CAPABILITIES) {
		return &fnv1.Requirements{Resources: selectors}
	}
	return &fnv1.Requirements{ExtraResources: selectors}
}

func selector(n compose.Requirement) *fnv1.ResourceSelector {
	s := &fnv1.ResourceSelector{ApiVersion: n.APIVersion, Kind: n.Kind}
	if n.Namespace != "" {
		s.Namespace = &n.Namespace
	}
	if n.Labels != nil {
		s.Match = &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{Labels: n.Labels}}
		return s
	}
	s.Match = &fnv1.ResourceSelector_MatchName{MatchName: n.Name}
	return s
}

func condition(t string, state fnv1.Status, reason, message string) *fnv1.Condition {
	c := &fnv1.Condition{Type: t, Status: state, Reason: reason, Target: fnv1.Target_TARGET_COMPOSITE_AND_CLAIM.Enum()}
	if message != "" {
		c.Message = new(printableText(message))
	}
	return c
}

// warningResult returns a warning event for the XR and the claim about a problem that a user must fix.
func warningResult(reason, message string) *fnv1.Result {
	return &fnv1.Result{Severity: fnv1.Severity_SEVERITY_WARNING, Reason: &reason, Message: printableText(message),
		Target: fnv1.Target_TARGET_COMPOSITE_AND_CLAIM.Enum()}
}

func ready(r bool) fnv1.Ready {
	if r {
		return fnv1.Ready_READY_TRUE
	}
	return fnv1.Ready_READY_FALSE
}

// maxMessage is the maximum length of a message in a condition, an event or the status, in bytes. A claim can have
// errors in many fields.
const maxMessage = 8 << 10

// printableText makes a string valid UTF-8, because otherwise the response could not be sent. It also removes control
// sequences, which may occur in messages from a webhook or a kubelet, and in claims.
func printableText(s string) string { return v1.PrintableText(s, maxMessage) }
