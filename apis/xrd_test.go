package apis_test

import (
	"encoding/json"
	"testing"

	xapiextv1 "github.com/crossplane/crossplane/apis/v2/apiextensions/v1"
	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// functionName is the name that Crossplane's package manager gives a Function
// that is installed as a dependency of ghcr.io/crossplane-mysql/function-mysql.
const functionName = "crossplane-mysql-function-mysql"

// connectionKeys are what a claim's connection Secret holds.
var connectionKeys = []string{"username", "password", "host", "port", "database", "uri", "ca.crt", "endpoint", "type", "provider"} //nolint:gochecknoglobals // A constant list.

// xrd has no scope: on Crossplane 2 that means LegacyCluster, the only scope
// with claims.
func (g *generator) xrd(t *testing.T) *xapiextv1.CompositeResourceDefinition {
	t.Helper()
	background := xpv2.CompositeDeleteBackground
	return &xapiextv1.CompositeResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: xapiextv1.SchemeGroupVersion.String(), Kind: xapiextv1.CompositeResourceDefinitionKind},
		ObjectMeta: metav1.ObjectMeta{Name: "xmysqls." + v1.Group},
		Spec: xapiextv1.CompositeResourceDefinitionSpec{
			Group:                        v1.Group,
			Names:                        extv1.CustomResourceDefinitionNames{Kind: v1.KindXMySQL, ListKind: "XMySQLList", Plural: "xmysqls", Singular: "xmysql"},
			ClaimNames:                   &extv1.CustomResourceDefinitionNames{Kind: v1.KindMySQL, ListKind: "MySQLList", Plural: "mysqls", Singular: "mysql", ShortNames: []string{"ms"}},
			ConnectionSecretKeys:         connectionKeys,
			DefaultCompositeDeletePolicy: &background,
			DefaultCompositionRef:        &xapiextv1.CompositionReference{Name: "mysql"},
			Versions: []xapiextv1.CompositeResourceDefinitionVersion{{
				Name:          v1.Version,
				Served:        true,
				Referenceable: true,
				Schema:        g.xrSchema(t),
				AdditionalPrinterColumns: []extv1.CustomResourceColumnDefinition{
					{Name: "IMAGE", Type: "string", JSONPath: ".status.image"},
					{Name: "DATABASE", Type: "string", JSONPath: ".spec.database"},
					{Name: "ENDPOINT", Type: "string", JSONPath: ".status.endpoint.host"},
					{Name: "STORE", Type: "string", JSONPath: ".status.backupStore", Priority: 1},
					{Name: "LAST-BACKUP", Type: "date", JSONPath: ".status.backups[0].provenAt", Priority: 1},
					{Name: "MESSAGE", Type: "string", JSONPath: ".status.message"},
				},
			}},
		},
	}
}

func (g *generator) xrSchema(t *testing.T) *xapiextv1.CompositeResourceValidation {
	t.Helper()
	spec := g.spec(t, "MySQLSpec")
	// A setting may be a string, a number or a boolean, which a structural
	// schema can only say by not saying a type.
	preserve := true
	config := spec.Properties["config"]
	config.AdditionalProperties = &extv1.JSONSchemaPropsOrBool{Schema: &extv1.JSONSchemaProps{XPreserveUnknownFields: &preserve}}
	spec.Properties["config"] = config
	root := extv1.JSONSchemaProps{
		Type:        "object",
		Description: "A MySQL server whose data outlives it: deleting it takes a proven backup first, and creating it again brings every row back.",
		Required:    []string{"spec"},
		Properties:  map[string]extv1.JSONSchemaProps{"spec": spec, "status": g.schema(t, "MySQLStatus")},
	}
	return &xapiextv1.CompositeResourceValidation{OpenAPIV3Schema: raw(t, root)}
}

// spec of either API. An amount may be a number or a text, and the generator
// makes a text of it wherever it is used.
func (g *generator) spec(t *testing.T, name string) extv1.JSONSchemaProps {
	t.Helper()
	spec := g.schema(t, name)
	for _, of := range []string{"limits", "requests"} {
		spec.Properties["resources"].Properties[of].AdditionalProperties.Schema.Type = ""
	}
	return spec
}

// xrdDatabase of the second API.
func (g *generator) xrdDatabase(t *testing.T) *xapiextv1.CompositeResourceDefinition {
	t.Helper()
	xrd := g.xrd(t)
	xrd.Name = "xdatabases." + v1.GroupDatabase
	s := &xrd.Spec
	s.Group = v1.GroupDatabase
	s.Names = extv1.CustomResourceDefinitionNames{Kind: v1.KindXDatabase, ListKind: "XDatabaseList", Plural: "xdatabases", Singular: "xdatabase"}
	s.ClaimNames = &extv1.CustomResourceDefinitionNames{Kind: v1.KindDatabase, ListKind: "DatabaseList", Plural: "databases", Singular: "database", ShortNames: []string{"db", "dbs"}}
	s.DefaultCompositionRef = &xapiextv1.CompositionReference{Name: "database"}
	s.Versions[0].Schema = &xapiextv1.CompositeResourceValidation{OpenAPIV3Schema: raw(t, extv1.JSONSchemaProps{
		Type:        "object",
		Description: "A MongoDB or MySQL server behind a port of every node. With storageSize the data of a MySQL outlives it.",
		Required:    []string{"spec"},
		Properties:  map[string]extv1.JSONSchemaProps{"spec": g.spec(t, "DatabaseSpec"), "status": g.schema(t, "MySQLStatus")},
	})}
	s.Versions[0].AdditionalPrinterColumns = []extv1.CustomResourceColumnDefinition{
		{Name: "TYPE", Type: "string", JSONPath: ".spec.type"},
		{Name: "ENDPOINT", Type: "string", JSONPath: ".status.endpoint.host"},
		{Name: "NODEPORT", Type: "integer", JSONPath: ".status.endpoint.nodePort"},
		{Name: "STORE", Type: "string", JSONPath: ".status.backupStore", Priority: 1},
		{Name: "LAST-BACKUP", Type: "date", JSONPath: ".status.backups[0].provenAt", Priority: 1},
		{Name: "MESSAGE", Type: "string", JSONPath: ".status.message"},
	}
	return xrd
}

// compositionDatabase has no hostPath: its volumes are of a StorageClass, or go
// with the pod.
func compositionDatabase() *xapiextv1.Composition {
	c := composition("database", v1.VolumesStorageClass)
	c.Spec.CompositeTypeRef = xapiextv1.TypeReference{APIVersion: v1.GroupVersionDatabase.String(), Kind: v1.KindXDatabase}
	c.Spec.Pipeline[0].Step = "database"
	return c
}

// composition that calls the function with the settings of a volume mode.
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
			CompositeTypeRef:                  xapiextv1.TypeReference{APIVersion: v1.GroupVersion.String(), Kind: v1.KindXMySQL},
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
