package apis_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	xapiextv1 "github.com/crossplane/crossplane/apis/v2/apiextensions/v1"
	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// functionName is the name of the Function that Crossplane's package manager installs if
// ghcr.io/crossplane-mysql/function-mysql is a dependency.
const functionName = "crossplane-mysql-function-mysql"

// connectionKeys are the keys of a claim's connection Secret.
var connectionKeys = []string{"username", "password", "host", "port", "database", "uri", "ca.crt", "endpoint", "type", "provider"} //nolint:gochecknoglobals // A constant list.

// xrd returns the XRD of the MySQL claims. It sets no scope, so that Crossplane 2 uses LegacyCluster, the only scope
// with claims.
func (g *generator) xrd(t *testing.T) *xapiextv1.CompositeResourceDefinition {
	t.Helper()
	background := xpv2.CompositeDeleteBackground
	return &xapiextv1.CompositeResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: xapiextv1.SchemeGroupVersion.String(),
			Kind: xapiextv1.CompositeResourceDefinitionKind},
		ObjectMeta: metav1.ObjectMeta{Name: "xmysqls." + v1.GroupClaims},
		Spec: xapiextv1.CompositeResourceDefinitionSpec{
			Group: v1.GroupClaims,
			Names: extv1.CustomResourceDefinitionNames{Kind: v1.KindXMySQL, ListKind: "XMySQLList",
				Plural: "xmysqls", Singular: "xmysql"},
			ClaimNames: &extv1.CustomResourceDefinitionNames{Kind: v1.KindMySQL, ListKind: "MySQLList",
				Plural: "mysqls", Singular: "mysql", ShortNames: []string{"ms"}},
			ConnectionSecretKeys:         connectionKeys,
			DefaultCompositeDeletePolicy: &background,
			DefaultCompositionRef:        &xapiextv1.CompositionReference{Name: "mysql"},
			Versions: []xapiextv1.CompositeResourceDefinitionVersion{{
				Name:          v1.VersionClaims,
				Served:        true,
				Referenceable: true,
				Schema:        g.xrSchema(t),
				AdditionalPrinterColumns: columns(
					extv1.CustomResourceColumnDefinition{Name: "IMAGE", JSONPath: ".status.image"},
					extv1.CustomResourceColumnDefinition{Name: "DATABASE", JSONPath: ".spec.database"}),
			}},
		},
	}
}

func (g *generator) xrSchema(t *testing.T) *xapiextv1.CompositeResourceValidation {
	t.Helper()
	return &xapiextv1.CompositeResourceValidation{OpenAPIV3Schema: raw(t, g.mysqlSchema(t))}
}

// mysqlSchema returns the schema of a MySQL claim.
func (g *generator) mysqlSchema(t *testing.T) extv1.JSONSchemaProps {
	t.Helper()
	spec := g.spec(t, "MySQLSpec")
	config := spec.Properties["config"]
	config.AdditionalProperties = &extv1.JSONSchemaPropsOrBool{Schema: settingSchema()}
	spec.Properties["config"] = config
	return extv1.JSONSchemaProps{
		Type: "object",
		Description: "A MySQL server with a data volume. When it is deleted, its data is backed up first. When it is " +
			"created again, the newest backup is restored.",
		Required:   []string{"spec"},
		Properties: map[string]extv1.JSONSchemaProps{"spec": spec, "status": g.schema(t, "MySQLStatus")},
	}
}

// spec returns the schema of the spec of an API, or of Settings. It allows a number or a string for each resource
// amount. The generator would allow only a string.
func (g *generator) spec(t *testing.T, name string) extv1.JSONSchemaProps {
	t.Helper()
	spec := g.schema(t, name)
	for field, p := range spec.Properties {
		switch {
		case field == "maxResources":
			p.AdditionalProperties.Schema.Type = ""
		case strings.HasSuffix(strings.ToLower(field), "resources"):
			p.Properties["limits"].AdditionalProperties.Schema.Type = ""
			p.Properties["requests"].AdditionalProperties.Schema.Type = ""
		}
		boundForeign(field, &p)
		spec.Properties[field] = p
	}
	return spec
}

// Error messages for a setting that is a map or a list. The API server adds "Required value" or "Unsupported value".
const (
	notASection = "a setting must be a string, a number or a boolean, and not a map. Write settings directly under " +
		"config"
	notAList = "a setting must be a string, a number or a boolean, and not a list. Write one string, such as " +
		"ANSI,TRADITIONAL"
)

// settingSchema returns the schema of a setting, which may be a string, a number or a boolean. It must refuse maps
// and lists. A structural schema can allow several types only by omitting the type. CEL rules do not see values
// without a type (SchemaDeclType in k8s.io/apiserver/pkg/cel/common). The schema therefore uses validations that no
// map and no list can pass. For example, no map has at least one and at most zero properties.
//
// For a missing property, the API server's error contains only the property's name. For a list item, it contains the
// allowed values. The schema therefore uses the messages for users as this name and as this value. The API server
// drops null by itself.
func settingSchema() *extv1.JSONSchemaProps {
	preserve := true
	return &extv1.JSONSchemaProps{
		XPreserveUnknownFields: &preserve,
		MaxLength:              new(int64(v1.MaxSettingLength)),
		MinProperties:          new(int64(1)), MaxProperties: new(int64(0)), Required: []string{notASection},
		MinItems: new(int64(1)), MaxItems: new(int64(0)),
		Items: &extv1.JSONSchemaPropsOrArray{
			Schema: &extv1.JSONSchemaProps{XPreserveUnknownFields: &preserve,
				Enum: []extv1.JSON{{Raw: []byte(strconv.Quote(notAList))}}}},
	}
}

// boundForeign limits the sizes of Kubernetes types and of map values. Markers in package v1 cannot limit them.
func boundForeign(field string, s *extv1.JSONSchemaProps) {
	lists := map[string]int64{
		"preferredDuringSchedulingIgnoredDuringExecution": 32, "requiredDuringSchedulingIgnoredDuringExecution": 32,
		"nodeSelectorTerms": 32, "matchExpressions": 32, "matchFields": 32, "values": 100, "claims": 16, "except": 32,
		"namespaces": 32, "matchLabelKeys": 32, "mismatchLabelKeys": 32,
	}
	texts := map[string]int64{
		"key": 317, "operator": 32, "effect": 32, "value": 253, "values[]": 253, "name": 253, "request": 253,
		"matchLabels{}": 253, "nodeSelector{}": 253, "annotations{}": 4096, "topologyKey": 317, "namespaces[]": 63,
		"matchLabelKeys[]": 317, "mismatchLabelKeys[]": 317, "cidr": 64, "except[]": 64, "whenUnsatisfiable": 32,
		"nodeAffinityPolicy": 32, "nodeTaintsPolicy": 32,
	}
	if limit, ok := lists[field]; ok && s.Type == typeArray && s.MaxItems == nil {
		s.MaxItems = &limit
	}
	if field == "matchLabels" && s.MaxProperties == nil {
		s.MaxProperties = new(int64(32))
	}
	if limit, ok := texts[field]; ok && s.Type == typeString && s.MaxLength == nil {
		s.MaxLength = &limit
	}
	if s.Items != nil && s.Items.Schema != nil {
		boundForeign(field+"[]", s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		boundForeign(field+"{}", s.AdditionalProperties.Schema)
	}
	for name, p := range s.Properties {
		boundForeign(name, &p)
		s.Properties[name] = p
	}
}

// xrdDatabase returns the XRD of the Database API.
func (g *generator) xrdDatabase(t *testing.T) *xapiextv1.CompositeResourceDefinition {
	t.Helper()
	xrd := g.xrd(t)
	xrd.Name = "xdatabases." + v1.GroupDatabase
	s := &xrd.Spec
	s.Group = v1.GroupDatabase
	s.Names = extv1.CustomResourceDefinitionNames{Kind: v1.KindXDatabase, ListKind: "XDatabaseList", Plural: "xdatabases",
		Singular: "xdatabase"}
	s.ClaimNames = &extv1.CustomResourceDefinitionNames{Kind: v1.KindDatabase, ListKind: "DatabaseList",
		Plural: "databases", Singular: "database", ShortNames: []string{"db", "dbs"}}
	s.DefaultCompositionRef = &xapiextv1.CompositionReference{Name: "database"}
	s.Versions[0].Schema = &xapiextv1.CompositeResourceValidation{OpenAPIV3Schema: raw(t, extv1.JSONSchemaProps{
		Type: "object",
		Description: "A MongoDB or MySQL server with a NodePort Service. With storageSize, the data of a MySQL server " +
			"is backed up when it is deleted, and restored when it is created again.",
		Required: []string{"spec"},
		Properties: map[string]extv1.JSONSchemaProps{"spec": g.spec(t, "DatabaseSpec"),
			"status": g.schema(t, "MySQLStatus")},
	})}
	s.Versions[0].AdditionalPrinterColumns = slices.Insert(
		columns(extv1.CustomResourceColumnDefinition{Name: "TYPE", JSONPath: ".spec.type"}), 2,
		extv1.CustomResourceColumnDefinition{Name: "NODEPORT", Type: "integer", JSONPath: ".status.endpoint.nodePort"})
	return xrd
}

// columns returns the columns that kubectl prints. The columns in wide are printed only with -o wide. Crossplane adds
// SYNCED, READY and AGE to all kinds, and CONNECTION-SECRET to claims (pkg/xcrd/schemas.go in crossplane-runtime
// v2.4.0).
func columns(wide ...extv1.CustomResourceColumnDefinition) []extv1.CustomResourceColumnDefinition {
	wide = append(wide, extv1.CustomResourceColumnDefinition{Name: "STORE", JSONPath: ".status.backups.store"},
		extv1.CustomResourceColumnDefinition{Name: "MESSAGE", JSONPath: ".status.message"})
	for i := range wide {
		wide[i].Type, wide[i].Priority = typeString, 1
	}
	return append([]extv1.CustomResourceColumnDefinition{
		{Name: "STATUS", Type: typeString, JSONPath: ".status.reason"},
		{Name: "ENDPOINT", Type: typeString, JSONPath: ".status.endpoint.host"},
		{Name: "LAST-BACKUP", Type: "date", JSONPath: ".status.backups.last.completionTime"},
	}, wide...)
}

// compositionDatabase returns the Composition of Databases. It does not support hostPath. A Database has a volume
// with a StorageClass, or its data is lost with its pod.
func compositionDatabase() *xapiextv1.Composition {
	c := composition("database", v1.VolumesStorageClass)
	c.Spec.CompositeTypeRef = xapiextv1.TypeReference{APIVersion: v1.GroupVersionDatabase.String(), Kind: v1.KindXDatabase}
	c.Spec.Pipeline[0].Step = "database"
	return c
}

// composition returns a Composition that calls the function with the given volume mode.
func composition(name string, mode v1.VolumeMode) *xapiextv1.Composition {
	namespace := "crossplane-system"
	input, _ := json.Marshal(map[string]any{ //nolint:errchkjson // Strings only.
		"apiVersion": v1.GroupVersion.String(),
		"kind":       v1.KindSettings,
		"volumes":    mode,
	})
	return &xapiextv1.Composition{
		TypeMeta:   metav1.TypeMeta{APIVersion: xapiextv1.SchemeGroupVersion.String(), Kind: xapiextv1.CompositionKind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.Group + "/volumes": string(mode)}},
		Spec: xapiextv1.CompositionSpec{
			CompositeTypeRef: xapiextv1.TypeReference{APIVersion: v1.GroupVersionClaims.String(),
				Kind: v1.KindXMySQL},
			Mode:                              xapiextv1.CompositionModePipeline,
			WriteConnectionSecretsToNamespace: &namespace,
			Pipeline: []xapiextv1.PipelineStep{{
				Step:        "mysql",
				FunctionRef: xapiextv1.FunctionReference{Name: functionName},
				Input:       &runtime.RawExtension{Raw: input},
			}},
		},
	}
}

func raw(t *testing.T, o any) runtime.RawExtension {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: b}
}
