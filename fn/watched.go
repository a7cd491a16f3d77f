package main

import (
	"maps"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/compose"
)

// Crossplane watches what functions require since 2.4, and only with realtime compositions. No capability says so: 2.4
// advertises the same ones as 2.2 (SupportedCapabilities in internal/xfn/capabilities.go). What shows it is how the
// required resources arrive. The tracker behind the watches remembers them, and Crossplane sends them with the first
// call of the next reconcile (composition_functions.go, "Seed the resources"). Without the tracker, the first call has
// none of them. Crossplane then fetches them and calls the function again, with the context that the function returned
// (FetchingFunctionRunner in internal/xfn/required_resources.go, since 1.15). So the function leaves a mark in the
// context when it asks for a resource that the request did not have.
//
// Each answer still follows from its request alone. After a restart of Crossplane the first answer has the mark, and the
// next one does not.

// fetchedKey of the context marks a reconcile in which the function had to ask for a resource.
const fetchedKey = v1.Group + "/fetched"

// hasFetched reports whether the function asked for resources earlier in this reconcile. Nothing watches these yet.
func hasFetched(req *fnv1.RunFunctionRequest) bool {
	_, found := req.GetContext().GetFields()[fetchedKey]
	return found
}

// noteFetched returns the context of the response, with the mark if the request lacks a required resource.
func noteFetched(req *fnv1.RunFunctionRequest, wanted map[string]compose.Requirement) *structpb.Struct {
	for key := range wanted {
		if !hasRequired(req, key) {
			out := &structpb.Struct{Fields: maps.Clone(req.GetContext().GetFields())} // The request is not ours to change.
			if out.Fields == nil {
				out.Fields = map[string]*structpb.Value{}
			}
			out.Fields[fetchedKey] = structpb.NewBoolValue(true)
			return out
		}
	}
	return req.GetContext()
}

// hasRequired reports whether a request has a required resource, in the field that the caller knows.
func hasRequired(req *fnv1.RunFunctionRequest, key string) bool {
	if _, found := req.GetRequiredResources()[key]; found {
		return true
	}
	_, found := req.GetExtraResources()[key] //nolint:staticcheck // Deprecated, and all that Crossplane 1 sends.
	return found
}
