package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestParseXR checks that the function accepts the XRs of each API, but no other combination of API group and kind.
func TestParseXR(t *testing.T) {
	for name, tc := range map[string]struct {
		apiVersion, kind string
		want             v1.Instance
		dbType           v1.DatabaseType
	}{
		"MySQL": {apiVersion: "otus.homework/v1", kind: v1.KindXMySQL, dbType: v1.TypeMySQL,
			want: v1.Instance{Kind: v1.KindXMySQL, Namespace: "default", Name: "shop", XR: "uid"}},
		"Database": {apiVersion: "zalando.org/v1", kind: v1.KindXDatabase, dbType: v1.TypeMongo,
			want: v1.Instance{Kind: v1.KindXDatabase, Namespace: "default", Name: "shop", XR: "uid"}},
		"Namespaced": {apiVersion: "crossplane-mysql.io/v1alpha1", kind: v1.KindMySQL, dbType: v1.TypeMySQL,
			want: v1.Instance{Kind: "MySQL.crossplane-mysql.io", Namespace: "default", Name: "shop", XR: "uid"}},
		"Claim":        {apiVersion: "otus.homework/v1", kind: v1.KindMySQL},
		"OtherVersion": {apiVersion: "crossplane-mysql.io/v1", kind: v1.KindMySQL},
		"OtherGroup":   {apiVersion: "crossplane-mysql.io/v1alpha1", kind: v1.KindXMySQL},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := structpb.NewStruct(map[string]any{"apiVersion": tc.apiVersion, "kind": tc.kind,
				"metadata": map[string]any{"namespace": "default", "name": "shop", "uid": "uid"},
				"spec":     map[string]any{"type": "mongo"}})
			if err != nil {
				t.Fatal(err)
			}
			xr, dbType, err := parseXR(s)
			if tc.want == (v1.Instance{}) {
				if err == nil || !strings.Contains(err.Error(), "crossplane-mysql.io/v1alpha1") {
					t.Errorf("want a refusal that names what is composed, got %v, %v", xr, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := xr.Instance(); got != tc.want || dbType != tc.dbType {
				t.Errorf("want %+v of type %q, got %+v of type %q", tc.want, tc.dbType, got, dbType)
			}
		})
	}
}
