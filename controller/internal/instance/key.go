// Package instance reads the state of an instance: claim, composite resource, volumes, pods, Jobs and BackupRecords.
// It changes nothing.
//
// A State consists of parts. A function whose name begins with read reads one part and returns it. Its arguments are
// the parts that it needs, so these parts are always read first. Gatherer.readInstance calls the functions and assembles
// the State.
package instance

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Key identifies an instance as long as any of its objects exist. It contains the kind (v1.API.InstanceKind),
// namespace and name of the object that the user has created.
type Key struct{ Kind, Namespace, Name string }

// String returns the key as it appears in logs.
func (k Key) String() string { return k.Kind + "/" + k.Namespace + "/" + k.Name }

// Instance returns the instance with the given XR. If the XR is empty, it stands for all instances with this key.
func (k Key) Instance(xr types.UID) v1.Instance {
	return v1.Instance{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name, XR: xr}
}

// Labels of an XR with which Crossplane names the claim of the XR.
const (
	labelClaimNamespace = "crossplane.io/claim-namespace"
	labelClaimName      = "crossplane.io/claim-name"
)

// XRsOf selects the XRs of a claim by the labels that Crossplane adds. In an API without claims it selects all XRs of
// the namespace, and the caller must compare the name.
func (k Kind) XRsOf(key Key) []client.ListOption {
	if !k.HasClaims() {
		return []client.ListOption{k.xrsIn(key.Namespace)}
	}
	return []client.ListOption{client.MatchingLabels{labelClaimNamespace: key.Namespace, labelClaimName: key.Name}}
}

// xrsIn selects the XRs of all instances in a namespace.
func (k Kind) xrsIn(namespace string) client.ListOption {
	if !k.HasClaims() {
		return client.InNamespace(namespace)
	}
	return client.MatchingLabels{labelClaimNamespace: namespace}
}

// OfObject returns the key of an object that a user has created.
func (k Kind) OfObject(o client.Object) []Key {
	return []Key{{Kind: k.InstanceKind(), Namespace: o.GetNamespace(), Name: o.GetName()}}
}

// OfXR returns the key of an XR's instance, or none if the XR should have a claim and has none.
func (k Kind) OfXR(o client.Object) []Key {
	if !k.HasClaims() {
		return k.OfObject(o)
	}
	l := o.GetLabels()
	return k.knownKeys(Key{Kind: k.InstanceKind(), Namespace: l[labelClaimNamespace], Name: l[labelClaimName]})
}

// OfAnnotated returns the key in the annotations of a volume or Job. The object must be in the namespace of the key
// or in the recovery namespace, so that users of other namespaces cannot cause reconciles of this instance.
func (k Kind) OfAnnotated(o client.Object) []Key {
	a := o.GetAnnotations()
	key := Key{Kind: a[v1.AnnotationClaimKind], Namespace: a[v1.AnnotationClaimNamespace], Name: a[v1.AnnotationClaimName]}
	if in := o.GetNamespace(); in != "" && in != key.Namespace && in != v1.RecoveryNamespace {
		return nil
	}
	return k.knownKeys(key)
}

// OfRecord returns the key of the instance in a BackupRecord.
func (k Kind) OfRecord(o client.Object) []Key {
	r, ok := o.(*v1.BackupRecord)
	if !ok {
		return nil
	}
	i := r.Spec.Instance
	return k.knownKeys(Key{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name})
}

// OfBackup returns the key of the instance in a Backup object.
func (k Kind) OfBackup(o client.Object) []Key {
	b, ok := o.(*v1.Backup)
	if !ok || !isOpen(b) {
		return nil
	}
	return k.knownKeys(Key{Kind: b.KindOfInstance(), Namespace: b.Namespace, Name: b.Spec.Instance.Name})
}

// knownKeys returns a list with the key if the key has this kind, and nil otherwise. The key may come from an
// annotation or a label that a user has changed. This is safe, because the key only selects what is reconciled.
func (k Kind) knownKeys(key Key) []Key {
	if key.Kind != k.InstanceKind() || key.Namespace == "" || key.Name == "" {
		return nil
	}
	return []Key{key}
}
