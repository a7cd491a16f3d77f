package apis_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// database returns a Database with changes to its spec. A nil value removes a field.
func database(changes map[string]any) map[string]any {
	spec := map[string]any{"type": "mongo"}
	maps.Copy(spec, changes)
	maps.DeleteFunc(spec, func(_ string, v any) bool { return v == nil })
	return map[string]any{"apiVersion": "zalando.org/v1", "kind": "Database",
		"metadata": map[string]any{"name": "db", "namespace": "default"}, "spec": spec}
}

// stored returns the spec of a Database with a volume, with the given changes.
func stored(changes map[string]any) map[string]any {
	spec := map[string]any{"type": "mysql", "storageSize": "1Gi"}
	maps.Copy(spec, changes)
	return spec
}

// TestDatabaseSchema checks which Databases, and which changes of a Database, the API server accepts.
func TestDatabaseSchema(t *testing.T) {
	type m = map[string]any
	v := newValidator(t, xrdDatabase)
	secret := m{"name": "a", "key": "b"}
	cases := map[string]struct {
		reason string
		spec   m
		old    m
		update bool
		want   []string
	}{
		"Mongo": {reason: "A manifest of the original operator must be accepted (row 14)."},
		"MySQL": {reason: "A manifest of the original operator must be accepted (row 14).", spec: m{"type": "mysql"}},
		"NoType": {reason: "The error must list the possible types (row 14).", spec: m{"type": nil},
			want: []string{"type is required", "mongo", "mysql"}},
		"UnknownType": {reason: "The error must list the possible types (row 14).", spec: m{"type": "oracle"},
			want: []string{"spec.type", `"oracle"`, `"mongo", "mysql"`}},
		"EmptyType": {reason: "An empty type must be refused.", spec: m{"type": ""},
			want: []string{"spec.type", `"mongo", "mysql"`}},
		"OtherType": {reason: "The type must not change, because the data belongs to one type.",
			old: m{}, spec: m{"type": "mysql"}, update: true,
			want: []string{"type cannot change"}},
		"TypeUnset": {reason: "The type must not be changed in two steps, by removing it first.",
			old: m{}, spec: m{"type": nil},
			update: true, want: []string{"type is required"}},
		"Password": {reason: "A password in a Secret is safer than the legacy password.",
			spec: m{"type": "mysql", "passwordSecretRef": secret}},
		"MongoStored": {reason: "Stored data of MongoDB has no backup.", spec: m{"storageSize": "1Gi"},
			want: []string{"storageSize is supported only for type mysql", "remove storageSize"}},
		"MongoStoredWas": {reason: "An existing MongoDB with a volume must remain changeable, so that it can be deleted.",
			old: m{"storageSize": "1Gi"}, spec: m{"storageSize": "2Gi"}, update: true},
		"MongoStoredLate": {reason: "A volume must not be added to an existing MongoDB.",
			old: m{}, spec: m{"storageSize": "1Gi"},
			update: true, want: []string{"cannot be added or removed later"}},
		"MongoRestorable": {reason: "A MongoDB has no backup, so no restore test is possible.",
			spec: m{"backup": m{"finalBackup": m{"requireRestoreTest": true}}},
			want: []string{"without it the data is lost when the pod is deleted"}},
		"MongoPassword": {reason: "MongoDB runs without a password, so the field must be refused.",
			spec: m{"passwordSecretRef": secret}, want: []string{"has no password"}},
		"MongoMetrics": {reason: "The exporter supports only MySQL.", spec: m{"metrics": m{"enabled": true}},
			want: []string{"metrics are supported only for type mysql", "remove metrics"}},
		"MongoNoMetrics": {reason: "The metrics are disabled.", spec: m{"metrics": m{"enabled": false}}},
		"Metrics": {reason: "The type is mysql, for which metrics are supported.",
			spec: m{"type": "mysql", "metrics": m{"enabled": true}}},
		"Kept": {reason: "A Database of type mysql with a volume may have the backup options of a MySQL.",
			spec: stored(m{"deletionPolicy": "Discard", "backup": m{"retention": m{"count": int64(2)}, "finalBackup": m{"requireRestoreTest": true}},
				"restore": m{"policy": "Never"}})},
		"NothingToKeep": {reason: "Without a volume, there is no backup.", spec: m{"deletionPolicy": "Backup"},
			want: []string{"without it the data is lost when the pod is deleted"}},
		"NothingToBring": {reason: "Without a volume, there is no restore.", spec: m{"restore": m{"backup": "b"}},
			want: []string{"without it the data is lost when the pod is deleted"}},
		"RestoreBoth": {reason: "The policy Never and a named backup contradict each other.",
			spec: stored(m{"restore": m{"policy": "Never", "backup": "b"}}), want: []string{"policy Never, which forbids a " +
				"restore"}},
		"NotAQuantity": {reason: "The size must be a quantity.", spec: stored(m{"storageSize": "big"}),
			want: []string{"must be a quantity"}},
		"EndlessNumber": {reason: "The size must be refused, because it would take seconds to parse it as a quantity.",
			spec: stored(m{"storageSize": "1e-9999999"}), want: []string{"must be a quantity"}},
		"Grows": {reason: "The volume may grow.", old: stored(nil), spec: stored(m{"storageSize": "2Gi"}),
			update: true},
		"Shrinks": {reason: "The volume must not shrink.", old: stored(m{"storageSize": "2Gi"}), spec: stored(nil),
			update: true, want: []string{"cannot shrink"}},
		"StorageComes": {reason: "The data in the pod would be lost.", old: m{"type": "mysql"}, spec: stored(nil),
			update: true, want: []string{"cannot be added or removed later"}},
		"StorageGoes": {reason: "The data on the volume would be lost.", old: stored(nil), spec: m{"type": "mysql"},
			update: true, want: []string{"cannot be added or removed later"}},
		"BadStoredSize": {reason: "An invalid stored size must not make later patches fail.",
			old: stored(m{"storageSize": "big"}), spec: stored(nil), update: true},
		"Image": {reason: "The image may change, for an upgrade.",
			old: m{}, spec: m{"image": "mongo:8.2"}, update: true},
		"EmptyImage": {reason: "An empty image must be refused.", spec: m{"image": ""}, want: []string{"image"}},
		"Foreground": {reason: "With foreground deletion, the objects would be deleted before the backup.",
			spec: m{"compositeDeletePolicy": "Foreground"},
			want: []string{"must be Background"}},
		"DeletionPolicy": {reason: "The deletionPolicy must be Backup or Discard.", spec: stored(m{"deletionPolicy": "Keep"}),
			want: []string{"deletionPolicy"}},
		"NoServiceToPick": {reason: "The API server drops the unknown field service: a Database always has a NodePort.",
			spec: m{"service": m{"type": "ClusterIP"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var old m
			if tc.update {
				old = database(tc.old)
			}
			got := v.validate(database(tc.spec), old)
			if len(tc.want) == 0 && got != "" || len(tc.want) > 0 && got == "" {
				t.Errorf("%s\nwant %q, got %q", tc.reason, tc.want, got)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s\nwant %q, got %q", tc.reason, want, got)
				}
			}
		})
	}
}

// TestAsMySQL checks that AsMySQL copies each field that exists in both APIs.
func TestAsMySQL(t *testing.T) {
	database := v1.XDatabaseSpec{}
	fill(reflect.ValueOf(&database).Elem())
	both := fieldsOf(reflect.TypeFor[v1.XMySQLSpec](), "")
	want, got := jsonOf(t, database), jsonOf(t, database.AsMySQL())
	for name, value := range want {
		if diff := cmp.Diff(value, got[name]); slices.Contains(both, name) && diff != "" {
			t.Errorf("spec.%s of a Database is lost: copy it in AsMySQL (apis/v1/database.go). -want, +got:\n%s", name, diff)
		}
	}
}

// fill sets each field of a value to a value that is not zero, including nested fields.
func fill(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // A spec has no other kinds.
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for _, f := range v.Fields() {
			fill(f)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		item := reflect.New(v.Type().Elem()).Elem()
		fill(item)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("1").Convert(v.Type().Key()), item)
	case reflect.String:
		v.SetString("1")
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetInt(1)
	}
}

func jsonOf(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
