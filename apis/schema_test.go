package apis_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	k8sschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Files of the XRDs.
const (
	xrdMySQL      = "xrd-xmysqls.yaml"
	xrdDatabase   = "xrd-xdatabases.yaml"
	xrdNamespaced = "xrd-mysqls.yaml"
)

// A validator validates objects with the API server's own code: it sets defaults, and checks OpenAPI schemas and CEL
// rules with their cost limits.
type validator struct {
	structural *schema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

// claimCRD returns the CRD that Crossplane creates from an XRD, without the fields that Crossplane adds. It is the
// CRD of the claim, or of the XR if the API has no claims.
func claimCRD(t *testing.T, file string) *extv1.CustomResourceDefinition {
	t.Helper()
	xrd := map[string]any{}
	read(t, file, &xrd)
	spec, _ := xrd["spec"].(map[string]any)
	version, _ := spec["versions"].([]any)[0].(map[string]any)
	delete(version, "referenceable")
	version["storage"] = true
	names, ok := spec["claimNames"].(map[string]any)
	if !ok {
		names, _ = spec["names"].(map[string]any)
	}
	crd := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": fmt.Sprintf("%s.%s", names["plural"], spec["group"])},
		"spec":     map[string]any{"group": spec["group"], "names": names, "scope": "Namespaced", "versions": []any{version}},
	}
	out := &extv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(crd, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, path string, target any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, target); err != nil {
		t.Fatal(path, err)
	}
}

// established returns the CRD as the API server stores it. The test fails if the API server would refuse it.
func established(t *testing.T, crd *extv1.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	t.Helper()
	extv1.SetDefaults_CustomResourceDefinition(crd)
	extv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
	internal := &apiextensions.CustomResourceDefinition{}
	if err := extv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal,
		nil); err != nil {
		t.Fatal(err)
	}
	if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), internal); len(errs) > 0 {
		t.Fatalf("the API server would refuse the CRD: %v", errs.ToAggregate())
	}
	return internal
}

// TestEstablish checks that the API server accepts all CRDs, including the cost of their rules.
func TestEstablish(t *testing.T) {
	established(t, claimCRD(t, xrdMySQL))
	established(t, claimCRD(t, xrdDatabase))
	established(t, claimCRD(t, xrdNamespaced))
	for _, file := range []string{"crd-backuprecords.yaml", "crd-backupstores.yaml"} {
		crd := &extv1.CustomResourceDefinition{}
		read(t, file, crd)
		established(t, crd)
	}
}

func newValidator(t *testing.T, file string) *validator {
	t.Helper()
	return newCRDValidator(t, claimCRD(t, file))
}

func newCRDValidator(t *testing.T, raw *extv1.CustomResourceDefinition) *validator {
	t.Helper()
	crd := established(t, raw)
	props := crd.Spec.Validation.OpenAPIV3Schema
	structural, err := schema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	openAPI, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		t.Fatal(err)
	}
	return &validator{structural: structural, openAPI: openAPI,
		rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}
}

// validate validates a new object, or a change of an existing one, as the API server does.
func (v *validator) validate(object, old map[string]any) string {
	for _, o := range []map[string]any{object, old} {
		if o != nil { // As unstructuredDefaulter does (k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go).
			defaulting.PruneNonNullableNullsWithoutDefaults(o, v.structural)
			defaulting.Default(o, v.structural)
		}
	}
	errs := validation.ValidateCustomResource(nil, object, v.openAPI)
	ctx := context.Background()
	if old == nil {
		extra, _ := v.rules.Validate(ctx, field.NewPath(""), v.structural, object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, extra...)
	} else {
		extra, _ := v.rules.Validate(ctx, field.NewPath(""), v.structural, object, old, celconfig.RuntimeCELCostBudget)
		errs = append(errs, extra...)
	}
	if len(errs) == 0 {
		return ""
	}
	return errs.ToAggregate().Error()
}

// claim returns a valid claim with changes to its spec. A nil value removes a field.
func claim(changes map[string]any) map[string]any {
	spec := map[string]any{"image": "mysql:8.4", "database": "shop", "password": "secret", "storageSize": "2Gi"}
	maps.Copy(spec, changes)
	maps.DeleteFunc(spec, func(_ string, v any) bool { return v == nil })
	return map[string]any{"apiVersion": "otus.homework/v1", "kind": "MySQL",
		"metadata": map[string]any{"name": "db", "namespace": "default"}, "spec": spec}
}

// TestSchema checks which claims, and which changes of a claim, the API server accepts.
func TestSchema(t *testing.T) {
	type m = map[string]any
	v := newValidator(t, xrdMySQL)
	cases := map[string]struct {
		reason string
		spec   m
		old    m
		update bool
		want   string
	}{
		"Good": {reason: "The claim has only the required fields."},
		"Original": {reason: "A manifest of the original operators must be accepted (row 1).",
			spec: m{"image": "mysql:latest", "database": "otus-database", "password": "0tusP@ssword", "storageSize": nil,
				"storage_size": "1Gi"}},
		"NoDatabase": {reason: "The database is required (row 2).", spec: m{"database": nil},
			want: "database"},
		"NoPassword": {reason: "One of the two password fields is required.", spec: m{"password": nil},
			want: "exactly one of password and passwordSecretRef"},
		"TwoPasswords": {reason: "Only one of the two password fields may be set.",
			spec: m{"passwordSecretRef": m{"name": "a", "key": "b"}},
			want: "exactly one of password"},
		"FromSecret": {reason: "The password may be in a Secret.",
			spec: m{"password": nil, "passwordSecretRef": m{"name": "a", "key": "b"}}},
		"NoSize": {reason: "One of the two spellings of the size is required.", spec: m{"storageSize": nil},
			want: "exactly one of storage_size and storageSize"},
		"TwoSizes": {reason: "Only one of the two spellings of the size may be set.", spec: m{"storage_size": "2Gi"},
			want: "exactly one of storage_size"},
		"OriginalSpelling": {reason: "The original manifests have the spelling storage_size.",
			spec: m{"storageSize": nil, "storage_size": "1Gi"}},
		"NotAQuantity": {reason: "The size must be a quantity.", spec: m{"storageSize": "big"},
			want: "must be a quantity"},
		"EndlessNumber": {reason: "The size must be refused, because it would take seconds to parse it as a quantity.",
			spec: m{"storageSize": "1e-9999999"}, want: "must be a quantity"},
		"SizeZero":    {reason: "The size must not be zero.", spec: m{"storageSize": "0"}, want: "must be a quantity"},
		"SizeAbsurd":  {reason: "The size exceeds the maximum.", spec: m{"storageSize": "3Ei"}, want: "must be a quantity"},
		"SizeDecimal": {reason: "A fraction is a valid quantity.", spec: m{"storageSize": "1.5Gi"}},
		"Grows":       {reason: "The volume may grow.", old: m{}, spec: m{"storageSize": "3Gi"}, update: true},
		"GrowsByItself": {reason: "Only the limit is required, because the other fields have defaults.",
			spec: m{"storageAutogrow": m{"to": "100Gi"}}},
		"GrowsByQuantity": {reason: "The growth step may be a percentage or a quantity.",
			spec: m{"storageAutogrow": m{"below": "90%", "by": "1.5Gi", "to": "2Gi"}}},
		"GrowsLegacy": {reason: "Automatic growth is possible with both spellings of the size.",
			spec: m{"storageSize": nil, "storage_size": "1Gi", "storageAutogrow": m{"to": "1Gi"}}},
		"GrowsToNothing": {reason: "Automatic growth requires a limit.", spec: m{"storageAutogrow": m{}},
			want: "storageAutogrow.to"},
		"GrowsToLess": {reason: "The volume must not shrink.", spec: m{"storageAutogrow": m{"to": "1Gi"}},
			want: "storageAutogrow.to must be at least"},
		"GrowsToLessLegacy": {reason: "The volume must not shrink with the other spelling either.",
			spec: m{"storageSize": nil, "storage_size": "2Gi", "storageAutogrow": m{"to": "1Gi"}},
			want: "storageAutogrow.to must be at least"},
		"OutgrowsTo": {reason: "The size that a user sets must not exceed the limit of automatic growth.",
			old:  m{"storageAutogrow": m{"to": "3Gi"}},
			spec: m{"storageSize": "4Gi", "storageAutogrow": m{"to": "3Gi"}}, update: true, want: "at least the storage size"},
		"GrowsNever": {reason: "At 0%, the volume would be full before it grows.",
			spec: growing("below", "0%"), want: "below must be a percentage"},
		"GrowsAlways": {reason: "At 100%, even an empty volume would grow.",
			spec: growing("below", "100%"), want: "below must be a percentage"},
		"GrowsNumber": {reason: "A percentage must end in a percent sign.",
			spec: growing("below", "15"), want: "below must be a percentage"},
		"GrowsByZero": {reason: "The growth step must not be zero.",
			spec: growing("by", "0"), want: "by must be a percentage"},
		"GrowsByZeroP": {reason: "The growth step must not be zero.",
			spec: growing("by", "0%"), want: "by must be a percentage"},
		"GrowsByTwice": {reason: "The growth step must not exceed 100%, which doubles the volume.",
			spec: growing("by", "101%"), want: "by must be a percentage"},
		"GrowsByLess": {reason: "The growth step must not be negative.",
			spec: growing("by", "-1Gi"), want: "by must be a percentage"},
		"GrowsByText": {reason: "The growth step must be a percentage or a quantity.",
			spec: growing("by", "some"), want: "by must be a percentage"},
		"GrowsToText": {reason: "The growth limit must be a quantity.",
			spec: growing("to", "some"), want: "to must be a quantity"},
		"GrowsToAbsurd": {reason: "The growth limit exceeds the maximum size of a volume.",
			spec: growing("to", "3Ei"), want: "to must be a quantity"},
		"GrowsToEndless": {reason: "The API server must not calculate with such a number.", spec: growing("to", "1e-9999999"),
			want: "to must be a quantity"},
		"Shrinks": {reason: "The volume must not shrink.", old: m{}, spec: m{"storageSize": "1Gi"}, update: true,
			want: "cannot shrink"},
		"ShrinksSpelling": {reason: "The volume must not shrink by using the other spelling.", old: m{},
			spec: m{"storageSize": nil, "storage_size": "1Gi"}, update: true, want: "cannot shrink"},
		"GrowsSpelling": {reason: "The spelling of the size may change, because both fields are the same setting.", old: m{},
			spec: m{"storageSize": nil, "storage_size": "2Gi"}, update: true},
		"Unset": {reason: "The size must not be changed in two steps, by removing it first.", old: m{},
			spec: m{"storageSize": nil}, update: true, want: "exactly one of storage_size"},
		"BadStoredSize": {reason: "An invalid stored size must not make later patches fail.",
			old: m{"storageSize": "big"}, spec: m{}, update: true},
		"OtherClass": {reason: "The StorageClass must not change.", old: m{"storageClassName": "a"},
			spec: m{"storageClassName": "b"}, update: true, want: "storageClassName cannot change"},
		"ClassUnset": {reason: "The StorageClass must not be removed.",
			old: m{"storageClassName": "a"}, spec: m{}, update: true,
			want: "storageClassName cannot change"},
		"ClassSet": {reason: "The StorageClass must not be added.", old: m{}, spec: m{"storageClassName": "a"}, update: true,
			want: "storageClassName cannot change"},
		"SameClass": {reason: "The StorageClass stays the same.", old: m{"storageClassName": "a"},
			spec: m{"storageClassName": "a", "password": "other"}, update: true},
		"Foreground": {reason: "With foreground deletion, the objects would be deleted before the backup.",
			spec: m{"compositeDeletePolicy": "Foreground"}, want: "must be Background"},
		"Background": {reason: "Background deletion is the default.", spec: m{"compositeDeletePolicy": "Background"}},
		"ServiceType": {reason: "The Service type ExternalName is not supported.",
			spec: m{"service": m{"type": "ExternalName"}},
			want: "service.type"},
		"ToNodePort": {reason: "The Service type may change.", old: m{}, spec: m{"service": m{"type": "NodePort"}},
			update: true},
		"ToHeadless": {reason: "The Service must not lose its cluster IP.", old: m{}, spec: m{"service": m{"headless": true}},
			update: true, want: "headless cannot change"},
		"FromHeadless": {reason: "A headless Service must not get a cluster IP.",
			old: m{"service": m{"headless": true}}, spec: m{}, update: true,
			want: "headless cannot change"},
		"HeadlessPort": {reason: "A NodePort Service requires a cluster IP.",
			spec: m{"service": m{"headless": true, "type": "NodePort"}},
			want: "set type to ClusterIP"},
		"TwoPlaces": {reason: "Backups are stored in either a store or a volume.",
			spec: m{"backup": m{"storeRef": m{"name": "a"}, "volume": m{}}},
			want: "storeRef and volume cannot be combined"},
		"Durability": {reason: "The archive of the binary log is on by default.",
			spec: m{"backup": m{"continuous": m{"durability": "Store", "storeFailurePolicy": "Continue"}}}},
		"DurabilityServer": {reason: "Without an archive, the server acknowledges commits.",
			spec: m{"backup": m{"continuous": m{"enabled": false, "durability": "Server"}}}},
		"DurabilityDisabled": {reason: "Without an archive, no commit would be acknowledged.",
			spec: m{"backup": m{"continuous": m{"enabled": false, "durability": "Store"}}},
			want: "durability Store requires the archive"},
		"FailurePolicyAlone": {reason: "Commits do not wait for the store.",
			spec: m{"backup": m{"continuous": m{"storeFailurePolicy": "Wait"}}},
			want: "storeFailurePolicy requires durability Store"},
		"FailurePolicyServer": {reason: "Commits do not wait for the store.",
			spec: m{"backup": m{"continuous": m{"durability": "Server", "storeFailurePolicy": "Continue"}}},
			want: "storeFailurePolicy requires durability Store"},
		"Config": {reason: "A setting may be a string, a number or a boolean.",
			spec: m{"config": m{"a": "b", "c": int64(1), "d": true}}},
		"ConfigSection": {reason: "A section of my.cnf must be refused, because the controller could not read it.",
			spec: m{"config": m{"mysqld": m{"max_connections": int64(200)}}},
			want: "Write settings directly under config"},
		"ConfigEmptyMap": {reason: "An empty section must be refused.",
			spec: m{"config": m{"mysqld": m{}}}, want: "spec.config.mysqld"},
		"ConfigTrick": {reason: "The name of the property in the message must not make a section valid.",
			spec: m{"config": m{"mysqld": m{notASection: "a"}}}, want: "spec.config.mysqld"},
		"ConfigList": {reason: "A setting must not be a list.",
			spec: m{"config": m{"sql_mode": []any{"ANSI", "TRADITIONAL"}}},
			want: "Write one string, such as ANSI,TRADITIONAL"},
		"ConfigEmptyList": {reason: "An empty list must be refused.", spec: m{"config": m{"sql_mode": []any{}}},
			want: "spec.config.sql_mode"},
		"ConfigListTrick": {reason: "The item in the message must not make a list valid.",
			spec: m{"config": m{"sql_mode": []any{notAList}}}, want: "spec.config.sql_mode"},
		"ConfigNull": {reason: "The API server drops null values.",
			spec: m{"config": m{"max_connections": nil}}},
		"ConfigNumbers": {reason: "A setting may be any number.",
			spec: m{"config": m{"a": 1.5, "b": int64(-1), "c": 1e300, "d": ""}}},
		"ConfigLong": {reason: "The length of a setting is limited.",
			spec: m{"config": m{"a": strings.Repeat("x", v1.MaxSettingLength+1)}}, want: "spec.config.a"},
		"ConfigStored": {reason: "An invalid stored setting must not make later patches fail.",
			old: m{"config": m{"mysqld": m{"a": "b"}}}, spec: m{"config": m{}}, update: true},
		"Metrics": {reason: "metrics.enabled is a boolean.", spec: m{"metrics": m{"enabled": true}}},
		"MetricsText": {reason: "metrics.enabled must not be a string.",
			spec: m{"metrics": m{"enabled": "true"}}, want: "spec.metrics.enabled"},
		"MetricsBare": {reason: "metrics must be an object, so that it can have other fields later.",
			spec: m{"metrics": true},
			want: "spec.metrics"},
		"SystemDatabase": {reason: "A system schema must be refused.", spec: m{"database": "MySQL"}, want: "system schema"},
		"DatabaseQuote": {reason: "The name is quoted with backticks in SQL, so it must not contain one.",
			spec: m{"database": "a`b"}, want: "database"},
		"DatabaseDollars": {reason: "Kubernetes replaces $$ with $ in the environment of a container.",
			spec: m{"database": "a$$b"},
			want: "database"},
		"DatabaseNotBMP": {reason: "MySQL supports only characters of the Basic Multilingual Plane in names.",
			spec: m{"database": "a\U00020000"},
			want: "database"},
		"DatabaseNoBreakSpace": {reason: "The name must not contain special space characters.",
			spec: m{"database": "a\u00a0b"},
			want: "database"},
		"DatabaseEndsInSpace": {reason: "A space at the end of the name is invisible.", spec: m{"database": "shop "},
			want: "database"},
		"DatabaseIdeographicSpace": {reason: "The name must not contain special space characters.",
			spec: m{"database": "a\u3000b"},
			want: "database"},
		"DatabaseLineSeparator": {reason: "The name must not contain line separators.", spec: m{"database": "a\u2028b"},
			want: "database"},
		"DatabaseZeroWidth": {reason: "The name must not contain invisible characters.", spec: m{"database": "a\u200bb"},
			want: "database"},
		"DatabaseBidi": {reason: "The name must not contain invisible characters.", spec: m{"database": "a\u202eb"},
			want: "database"},
		"DatabaseSoftHyphen": {reason: "The name must not contain invisible characters.", spec: m{"database": "a\u00adb"},
			want: "database"},
		"DatabaseByteOrderMark": {reason: "The name must not contain invisible characters.", spec: m{"database": "\ufeffa"},
			want: "database"},
		"DatabaseC1Control": {reason: "The name must not contain control characters.", spec: m{"database": "a\u0085b"},
			want: "database"},
		"DatabaseFiller": {reason: "The name must not contain invisible characters.", spec: m{"database": "\u3164"},
			want: "database"},
		"DatabasePrivateUse": {reason: "The name must not contain private-use characters.", spec: m{"database": "a\ue000"},
			want: "database"},
		"DatabaseLoneSurrogate": {reason: "A lone surrogate is decoded as U+FFFD, which must be refused.",
			spec: m{"database": "a\ufffdb"},
			want: "database"},
		"DatabaseFolder": {reason: "The directory of this database would have a name of 260 bytes.",
			spec: m{"database": strings.Repeat("\u6f22", 52)}, want: "255 bytes"},
		"DatabaseHyphens": {reason: "MySQL encodes each hyphen as 5 bytes in the name of the directory.",
			spec: m{"database": strings.Repeat("-", 52)},
			want: "255 bytes"},
		"DatabaseLongest": {reason: "The directory of this database has a name of 255 bytes.",
			spec: m{"database": strings.Repeat("\u6f22", 51)}},
		"DatabaseLongASCII": {reason: "MySQL encodes an ASCII letter as one byte in the name of the directory.",
			spec: m{"database": strings.Repeat("a", 64)}},
		"DatabaseUnicode": {reason: "The name may contain letters of other scripts.", spec: m{"database": "магазин"}},
		"DatabaseHyphen":  {reason: "The original manifests contain a hyphen.", spec: m{"database": "otus-database"}},
		"EmptyImage":      {reason: "An empty image must be refused.", spec: m{"image": ""}, want: "image"},
		"Keep": {reason: "The number of retained backups must be at least 1.",
			spec: m{"backup": m{"retention": m{"count": int64(0)}}}, want: "count"},
		"RestoreBoth": {reason: "The policy Never and a named backup contradict each other.",
			spec: m{"restore": m{"policy": "Never", "backup": "b"}}, want: "policy Never, which forbids a restore"},
		"RestoreNamed": {reason: "The name of a backup is sufficient.", spec: m{"restore": m{"backup": "b"}}},
		"DeletionPolicy": {reason: "The deletionPolicy must be Backup or Discard.",
			spec: m{"deletionPolicy": "Keep"}, want: "deletionPolicy"},
		"LongName": {reason: "The schema must not limit the length of names.", spec: m{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var old m
			if tc.update {
				old = claim(tc.old)
			}
			object := claim(tc.spec)
			if name == "LongName" {
				object["metadata"].(m)["name"] = strings.Repeat("x", 200)
			}
			got := v.validate(object, old)
			if tc.want == "" && got != "" || tc.want != "" && !strings.Contains(got, tc.want) {
				t.Errorf("%s\nwant %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

// TestManifests checks that the API server accepts the claim of every example, and the manifests for the original
// operators, without changing them.
func TestManifests(t *testing.T) {
	validators := map[k8sschema.GroupKind]*validator{}
	for _, a := range v1.APIs() {
		validators[a.Object.GroupKind()] = newValidator(t, map[string]string{v1.KindXMySQL: xrdMySQL,
			v1.KindXDatabase: xrdDatabase, v1.KindMySQL: xrdNamespaced}[a.XR.Kind])
	}
	var files []string
	for _, name := range []string{"claim.yaml", "mysql.yaml"} {
		found, err := filepath.Glob("../examples/*/" + name)
		if err != nil || len(found) == 0 {
			t.Fatalf("no example has %s: %v", name, err)
		}
		files = append(files, found...)
	}
	for _, f := range files {
		object, xr := map[string]any{}, map[string]any{}
		read(t, f, &object)
		kind := (&unstructured.Unstructured{Object: object}).GroupVersionKind().GroupKind()
		v := validators[kind]
		if v == nil {
			t.Fatalf("%s is of an unknown kind, %s", f, kind)
		}
		if got := v.validate(integers(object), nil); got != "" {
			t.Errorf("%s: %s", f, got)
		}
		read(t, filepath.Join(filepath.Dir(f), "xr.yaml"), &xr)
		if got := v.validate(integers(xr), nil); got != "" {
			t.Errorf("%s: %s", filepath.Join(filepath.Dir(f), "xr.yaml"), got)
		}
	}
}

// integers converts whole numbers to integers, as the API server does. YAML that is decoded through JSON contains
// only floats.
func integers(m map[string]any) map[string]any {
	for k, v := range m {
		switch v := v.(type) {
		case float64:
			m[k] = int64(v)
		case map[string]any:
			m[k] = integers(v)
		}
	}
	return m
}

// growing returns a spec with one field of storageAutogrow. The limit is valid unless the field is the limit.
func growing(field, value string) map[string]any {
	out := map[string]any{"to": "100Gi"}
	out[field] = value
	return map[string]any{"storageAutogrow": out}
}
