// Package change represents the controller's writes as values. Decisions return changes, and a Writer applies them.
// The model checker in the tests applies the same changes.
package change

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Verb is the operation of a Change, such as Create or Patch.
type Verb string

// Verbs for objects in the API server.
const (
	Create      Verb = "Create"
	Patch       Verb = "Patch"
	PatchStatus Verb = "PatchStatus"
	// Scale sets the number of replicas, as kubectl scale does, and no other field.
	Scale  Verb = "Scale"
	Delete Verb = "Delete"

	// These verbs change a store instead of the API server. Each change can be repeated.

	// Publish publishes the catalog entry of a backup. The backup is verified from then on. If a different entry exists,
	// Publish is refused in the same way as a write with an outdated resource version.
	Publish Verb = "Publish"
	// RemoveLeftovers deletes the files of other attempts at a published backup. Files that the store does not allow
	// to be deleted are left until the backup is deleted.
	RemoveLeftovers Verb = "Tidy"
	// Remove deletes a backup and its catalog entry.
	Remove Verb = "Remove"
	// RemoveAttempts deletes the files of attempts at a backup that has no catalog entry. If there is a catalog entry,
	// nothing is deleted.
	RemoveAttempts Verb = "Discard"
	// GiveAccess creates or replaces the Secret that gives a Job access to a store.
	GiveAccess Verb = "GiveAccess"

	// These verbs change a running server. Each change can be repeated.

	// OfferClone creates an account that may clone the server's data. It also creates or replaces the Secret with which
	// the Job uses that account.
	OfferClone Verb = "OfferClone"
	// WithdrawClone deletes the account that OfferClone has created. The object of the change is only used in error
	// messages.
	WithdrawClone Verb = "WithdrawClone"
	// CheckData checks a server that is about to stop. It fails while the server stores data outside of its data
	// directory, because no backup would contain that data. It succeeds if the server does not respond. The object of
	// the change is only used in error messages.
	CheckData Verb = "CheckData"
)

// A Precondition is a condition for a write. If it is not met, the API server refuses the write, and the controller
// decides again.
type Precondition string

// Values of Precondition.
const (
	// OfName applies the change to any object with this name.
	OfName Precondition = ""
	// SameObject applies the change only to the object with this UID, and not to a later object with the same name. Only
	// a deletion and a change of a finalizer support it. For a patch of a status, the API server ignores the UID. It
	// replaces the patch's metadata by the stored metadata before it compares them (status_strategy.go of
	// k8s.io/apiextensions-apiserver).
	SameObject Precondition = "SameObject"
	// AsRead applies the change only if the object still has the resourceVersion that was read. Earlier changes in the
	// same list do not violate this precondition.
	AsRead Precondition = "AsRead"
)

// A Change is one write to an object in the API server, to a store, or to a running MySQL server.
type Change struct {
	Verb Verb
	// If is the precondition of the change.
	If Precondition
	// Object is the object to create or delete. For a patch, it is the object after the patch.
	Object client.Object
	// Read is the object as it was read before a patch.
	Read client.Object
	// Fields are the only fields of a status that are written. A nil value removes a field. Without Fields, a patch
	// contains the differences between Read and Object.
	Fields map[string]any
	// MayBeGone is true if a missing object counts as success.
	MayBeGone bool
	// Policy is the propagation policy for the dependents of a deleted object. If it is empty, the default of the
	// kind applies.
	Policy metav1.DeletionPropagation
	// Remote is set if the change is made in a store. Server is set if it is made in a running MySQL server.
	Remote *Remote
	Server *Server
	// MayFail is true if later changes are applied even if this one fails.
	MayFail bool
	// Otherwise is the change to apply instead if the API server or an admission webhook refuses the object.
	Otherwise *Change
}

// A Remote describes a change in a store.
type Remote struct {
	// Store is the name of the BackupStore.
	Store string
	// Entry is the catalog entry of the backup. It is used to publish the backup and to remove other files below its
	// prefix.
	Entry *v1.StoreEntry
	// Instance and Record identify the backup to delete.
	Instance v1.BackedUpInstance
	Record   string
	// Sum is the SHA-256 checksum of the archive to delete.
	Sum string
	// Prefix is the prefix below which a Job may write new archives. If it is empty, Archive is the archive that the
	// Job may read, and Manifest its manifest.
	Prefix, Archive string
	Manifest        []byte
	// Log is the prefix of an archived binary log that the Job may read in addition to the archive, or "".
	Log string
}

// A Server is the running MySQL server of an instance, in which a change is made.
type Server struct {
	Of v1.Instance
	// Authorities are the CA certificates for the verification of the server's certificate, as PEM. They are empty if
	// the server has no certificate that can be verified.
	Authorities string
}

// A ServerError is the error of a MySQL server or a store. If it is Final, a retry cannot succeed.
type ServerError struct {
	error

	Final bool
}

// A MissingError means that the store does not contain the archive that a Job has reported.
type MissingError struct{ error }

// NewMissingError wraps an error as a MissingError.
func NewMissingError(err error) *MissingError { return &MissingError{err} }

// Unwrap returns the wrapped error.
func (e *MissingError) Unwrap() error { return e.error }

// NewServerError wraps an error of a server or of the connection to it.
func NewServerError(err error, final bool) *ServerError { return &ServerError{err, final} }

// Unwrap returns the wrapped error.
func (e *ServerError) Unwrap() error { return e.error }

// InServer returns a change that is made in a running MySQL server, instead of in an object of the API server.
func InServer(verb Verb, object client.Object, server Server) Change {
	return Change{Verb: verb, Object: object, Server: &server}
}

// InStore returns a change that is made in a store. The object is the backup that errors name, or the Secret that gives
// access.
func InStore(verb Verb, object client.Object, remote Remote) Change {
	return Change{Verb: verb, Object: object, Remote: &remote}
}

// NewObject returns the creation of an object. If the object already exists, the change succeeds, and the next
// reconcile handles any differences.
func NewObject(o client.Object) Change { return Change{Verb: Create, Object: o} }

// PatchObject returns a patch of an object that was read. It does not modify read.
func PatchObject[T client.Object](read T, change func(T)) Change {
	return Change{Verb: Patch, If: AsRead, Object: changed(read, change), Read: read}
}

// AddFinalizer adds a finalizer to an object even if the object has changed since it was read. In the first second
// after a claim is created, Crossplane writes the claim and its XR ten times, and each conflict would cost another
// read. A JSON patch keeps the finalizers of other clients. If the object had no finalizer when it was read, the
// change is a merge patch that requires an unchanged object, because a merge patch replaces the whole list.
func AddFinalizer(read client.Object, finalizer string) Change {
	c := PatchObject(read, func(o client.Object) { controllerutil.AddFinalizer(o, finalizer) })
	if len(read.GetFinalizers()) > 0 {
		c.If = SameObject
	}
	return c
}

// PatchObjectStatus returns a patch of the status of an object that was read.
func PatchObjectStatus[T client.Object](read T, change func(T)) Change {
	return Change{Verb: PatchStatus, If: AsRead, Object: changed(read, change), Read: read}
}

// ScaleDeployment returns a change of the replicas of a Deployment that was read.
func ScaleDeployment(read *appsv1.Deployment, replicas int32) Change {
	return Change{Verb: Scale, If: AsRead,
		Object: changed(read, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas }), Read: read}
}

// PatchStatusFields returns a patch of the given status fields and no others.
func PatchStatusFields(o client.Object, fields map[string]any) Change {
	return Change{Verb: PatchStatus, If: AsRead, Object: o, Fields: fields}
}

// WhoeverWrote returns a copy of the change without a precondition. It is for fields for which concurrent changes do
// not matter.
func (c Change) WhoeverWrote() Change {
	c.If = OfName
	return c
}

// DeleteObject returns a change that deletes the given object, but not a later object with the same name.
func DeleteObject(o client.Object, policy metav1.DeletionPropagation) Change {
	return Change{Verb: Delete, If: SameObject, Object: o, Policy: policy, MayBeGone: true}
}

// OrGone returns a copy of the change that also succeeds if its object does not exist.
func (c Change) OrGone() Change {
	c.MayBeGone = true
	return c
}

// OrNot returns a copy of the change that may fail: if it does, the Writer still applies the later changes.
func (c Change) OrNot() Change {
	c.MayFail = true
	return c
}

func changed[T client.Object](o T, change func(T)) T {
	target, ok := o.DeepCopyObject().(T)
	if !ok {
		panic("the copy has a different type")
	}
	change(target)
	return target
}
