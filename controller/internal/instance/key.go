// Package instance gathers what there is of an instance: claim, composite
// resource, volumes, pods, Jobs and records. It changes nothing.
package instance

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Key names an instance for as long as anything of it is left: the claim's
// kind, namespace and name.
type Key struct{ Kind, Namespace, Name string }

// String is the key as logs show it.
func (k Key) String() string { return k.Kind + "/" + k.Namespace + "/" + k.Name }

// Life of the instance that began with an XR. Without one it has the names that
// all lives share.
func (k Key) Life(xr types.UID) v1.Instance {
	return v1.Instance{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name, XR: xr}
}

// Labels that Crossplane gives an XR.
const (
	labelClaimNamespace = "crossplane.io/claim-namespace"
	labelClaimName      = "crossplane.io/claim-name"
)

// XRsOf selects the XRs of a claim, as Crossplane labels them.
func XRsOf(k Key) client.MatchingLabels {
	return client.MatchingLabels{labelClaimNamespace: k.Namespace, labelClaimName: k.Name}
}

// OfClaim is the key of a claim.
func (k Kind) OfClaim(o client.Object) []Key {
	return []Key{{Kind: k.Claim.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}}
}

// OfXR is the key of an XR's claim; none where it has no claim.
func (k Kind) OfXR(o client.Object) []Key {
	l := o.GetLabels()
	return k.knownKeys(Key{Kind: k.Claim.Kind, Namespace: l[labelClaimNamespace], Name: l[labelClaimName]})
}

// OfAnnotated is the key that a volume or Job carries in its annotations. What lies in a namespace is of that, or of one that is gone and
// lies with us: who may write there makes us look at nobody else's, and takes no turn of theirs.
func (k Kind) OfAnnotated(o client.Object) []Key {
	a := o.GetAnnotations()
	key := Key{Kind: a[v1.AnnotationClaimKind], Namespace: a[v1.AnnotationClaimNamespace], Name: a[v1.AnnotationClaimName]}
	if in := o.GetNamespace(); in != "" && in != key.Namespace && in != v1.RescueNamespace {
		return nil
	}
	return k.knownKeys(key)
}

// OfRecord is the key of the instance that was backed up.
func (k Kind) OfRecord(o client.Object) []Key {
	r, ok := o.(*v1.MySQLBackup)
	if !ok {
		return nil
	}
	i := r.Spec.Instance
	return k.knownKeys(Key{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name})
}

// knownKeys of this kind only: annotations and labels are a hint of what to look at, and
// whoever writes them can only make us look.
func (k Kind) knownKeys(key Key) []Key {
	if key.Kind != k.Claim.Kind || key.Namespace == "" || key.Name == "" {
		return nil
	}
	return []Key{key}
}
