package main

import (
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/crossplane-mysql/crossplane-mysql/fn/compose"
)

// TestRecordFetched checks that the context contains fetchedKey if the request lacks a required resource. Keys of other
// functions must be kept.
func TestRecordFetched(t *testing.T) {
	wanted := map[string]compose.Requirement{"platform": {}, "records": {}}
	resources := func(keys ...string) map[string]*fnv1.Resources {
		out := map[string]*fnv1.Resources{}
		for _, k := range keys {
			out[k] = &fnv1.Resources{}
		}
		return out
	}
	other, err := structpb.NewStruct(map[string]any{"other.example/key": "value"})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		req    *fnv1.RunFunctionRequest
		marked bool
	}{
		"First": {"Crossplane fetches the required resources only after this call.",
			&fnv1.RunFunctionRequest{Context: other}, true},
		"Partly": {"Crossplane has sent only one of the required resources.",
			&fnv1.RunFunctionRequest{Context: other, RequiredResources: resources("records")}, true},
		"Seeded": {"Crossplane has sent all required resources, and has reported missing ones.",
			&fnv1.RunFunctionRequest{Context: other, RequiredResources: resources("platform", "records", "old")}, false},
		"Legacy": {"Crossplane 1 sends the resources in the field extraResources.",
			&fnv1.RunFunctionRequest{Context: other, ExtraResources: resources("platform", "records")}, false},
		"Nothing": {"The request has no context.", &fnv1.RunFunctionRequest{}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := proto.CloneOf(tc.req)
			got := recordFetched(tc.req, wanted)
			if !proto.Equal(before, tc.req) {
				t.Error("the request was changed")
			}
			if hasFetched(&fnv1.RunFunctionRequest{Context: got}) != tc.marked {
				t.Errorf("%s Want a mark: %t, got %v", tc.reason, tc.marked, got)
			}
			if tc.req.GetContext() != nil && got.GetFields()["other.example/key"].GetStringValue() != "value" {
				t.Errorf("what others have put into the context is lost: %v", got)
			}
		})
	}
}
