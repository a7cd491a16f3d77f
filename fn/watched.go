package main

import (
	"maps"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/compose"
)

// Crossplane watches required resources since v2.4, but only with realtime compositions. No capability indicates
// this, because v2.4 advertises the same capabilities as v2.2 (SupportedCapabilities in
// internal/xfn/capabilities.go). The function therefore detects it from how required resources arrive. With watches,
// Crossplane remembers the requirements and sends the resources with the first call of the next reconcile
// (composition_functions.go, "Seed the resources"). Without watches, the first call contains none of them. Crossplane
// then fetches them and calls the function again with the context that the function returned (FetchingFunctionRunner
// in internal/xfn/required_resources.go, since v1.15). So the function adds a key to the context if the request lacks
// a required resource.
//
// Each response still depends only on its request. After a restart of Crossplane, the first response contains the
// key, and the next one does not.

// fetchedKey is a key in the context of a reconcile. It is set if a required resource was missing in the first call.
const fetchedKey = v1.Group + "/fetched"

// hasFetched reports whether Crossplane fetched resources during this reconcile, and therefore does not watch them
// yet.
func hasFetched(req *fnv1.RunFunctionRequest) bool {
	_, found := req.GetContext().GetFields()[fetchedKey]
	return found
}

// recordFetched returns the context of the response. It contains fetchedKey if the request lacks a required resource.
func recordFetched(req *fnv1.RunFunctionRequest, wanted map[string]compose.Requirement) *structpb.Struct {
	for key := range wanted {
		if !hasRequired(req, key) {
			out := &structpb.Struct{Fields: maps.Clone(req.GetContext().GetFields())} // The request must not change.
			if out.Fields == nil {
				out.Fields = map[string]*structpb.Value{}
			}
			out.Fields[fetchedKey] = structpb.NewBoolValue(true)
			return out
		}
	}
	return req.GetContext()
}

// hasRequired reports whether a request contains a required resource, in the field that the caller supports.
func hasRequired(req *fnv1.RunFunctionRequest, key string) bool {
	if _, found := req.GetRequiredResources()[key]; found {
		return true
	}
	_, found := req.GetExtraResources()[key] //nolint:staticcheck // It is deprecated, but Crossplane 1 sends nothing else.
	return found
}
