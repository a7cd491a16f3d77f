package v1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An API is a kind of object that users create to get an instance, with its composite resource.
//
// +kubebuilder:object:generate=false
type API struct {
	// Object is the kind that a user creates and deletes. It is a claim or, in the API without claims, the composite
	// resource itself.
	Object schema.GroupVersionKind
	// XR is the kind of the composite resource that the function composes.
	XR schema.GroupVersionKind
}

// APIs returns the APIs that the function and the controller serve.
func APIs() []API {
	return []API{
		{Object: GroupVersionClaims.WithKind(KindMySQL), XR: GroupVersionClaims.WithKind(KindXMySQL)},
		{Object: GroupVersionDatabase.WithKind(KindDatabase), XR: GroupVersionDatabase.WithKind(KindXDatabase)},
		{Object: GroupVersion.WithKind(KindMySQL), XR: GroupVersion.WithKind(KindMySQL)},
	}
}

// HasClaims reports whether Crossplane creates the composite resources of this API for claims.
func (a API) HasClaims() bool { return a.Object != a.XR }

// InstanceKind returns the value of Instance.Kind for this API. For an API without claims, it includes the group, in
// the form that kubectl accepts: MySQL.crossplane-mysql.io. Without the group, it could equal the kind of an API with
// claims.
func (a API) InstanceKind() string {
	if a.HasClaims() {
		return a.Object.Kind
	}
	return a.Object.GroupKind().String()
}

// APIOf returns the API whose composite resources have the given group and kind, in any version. It returns false if
// there is no such API.
func APIOf(xr schema.GroupKind) (API, bool) {
	return findAPI(func(a API) bool { return a.XR.GroupKind() == xr })
}

// APIOfInstances returns the API with the given value of Instance.Kind. It returns false if there is no such API.
func APIOfInstances(kind string) (API, bool) {
	return findAPI(func(a API) bool { return a.InstanceKind() == kind })
}

func findAPI(matches func(API) bool) (API, bool) {
	all := APIs()
	n := slices.IndexFunc(all, matches)
	if n < 0 {
		return API{}, false
	}
	return all[n], true
}

// PluralMySQL is the plural of a MySQL without a claim, as in the name of its XRD. With the plural mysqls, kubectl
// would find this group instead of the group of the claims, which comes later in the alphabet.
const PluralMySQL = "mysqlinstances"

// ResourceOf returns the resource of a kind: its plural, as in the name of its CustomResourceDefinition, and its group.
func ResourceOf(kind schema.GroupVersionKind) schema.GroupVersionResource {
	if kind.GroupKind() == GroupVersion.WithKind(KindMySQL).GroupKind() {
		return kind.GroupVersion().WithResource(PluralMySQL)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource
}
