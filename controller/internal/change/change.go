// Package change has what the controller writes as values: decisions return them, one Writer
// carries them out, and the model checker carries out the very same.
package change

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Verb is what is done to an object.
type Verb string

// Verbs.
const (
	Create      Verb = "Create"
	Patch       Verb = "Patch"
	PatchStatus Verb = "PatchStatus"
	// Scale is what `kubectl scale` does: it changes how many pods there are to be, and can change
	// nothing else.
	Scale  Verb = "Scale"
	Delete Verb = "Delete"

	// Those below are done in a store, beside the API server. Each can be done again.

	// Publish the note of a backup: from then on that is proven, whoever did it. It is refused, as a stale write
	// is, where there is another one.
	Publish Verb = "Publish"
	// Tidy what other attempts at a published backup have left, as far as it may be deleted.
	Tidy Verb = "Tidy"
	// Remove a backup with its note.
	Remove Verb = "Remove"
	// Discard what attempts at a backup have left of which there is no note. Where there is one, all stays.
	Discard Verb = "Discard"
	// GiveAccess to a store makes the Secret that a Job has for it, in the place of an earlier one.
	GiveAccess Verb = "GiveAccess"

	// Those below are done in a server that runs. Each can be done again.

	// OfferClone makes an account that may clone the server's data, and the Secret with which a Job has it, in the place of
	// an earlier one.
	OfferClone Verb = "OfferClone"
	// WithdrawClone takes that account away. The object is what it is done for.
	WithdrawClone Verb = "WithdrawClone"
	// CheckData of a server that is about to stop. It is refused while the server stores data outside of its data directory,
	// which no backup would hold. A server that does not answer is not asked again. The object is what it is done for.
	CheckData Verb = "CheckData"
)

// A Precondition is what must hold for a write. The API server refuses it otherwise, and what
// is to be done is decided anew.
type Precondition string

// Preconditions.
const (
	// OfName: whatever has the object's name.
	OfName Precondition = ""
	// SameObject: this object, and no later one of its name. That is its UID. Only a deletion and
	// a finalizer can have it: of a patch of a status the API server takes no UID for it (it puts the
	// stored object's metadata over the patch's before it compares, see status_strategy.go of
	// k8s.io/apiextensions-apiserver).
	SameObject Precondition = "SameObject"
	// AsRead: this object, and nobody has written it since it was read. That is its
	// resourceVersion. What an earlier change of the same list wrote does not count.
	AsRead Precondition = "AsRead"
)

// A Change is one write to one object.
type Change struct {
	Verb Verb
	// If this holds.
	If Precondition
	// Object to make or to delete; of a patch, as it is to be.
	Object client.Object
	// Read is the object of a patch as it was read.
	Read client.Object
	// Fields of a status that are written as they are, and no others; a nil value removes a
	// field. Without them a patch is what differs between Read and Object.
	Fields map[string]any
	// MayBeGone is true where an object that is not there is as good.
	MayBeGone bool
	// Policy says what becomes of what a deleted object owns; empty for its kind's default.
	Policy metav1.DeletionPropagation
	// Remote says what is done in a store, and Server in which server.
	Remote *Remote
	Server *Server
	// MayFail is true where what follows does not wait for it.
	MayFail bool
	// Otherwise is what is done where the API server or an admission refuses the object
	// as it would be.
	Otherwise *Change
}

// A Remote is what is done in a store.
type Remote struct {
	// Store is the name of the BackupStore.
	Store string
	// Note of the backup, to publish it, and to tidy up beside it.
	Note *v1.StoreNote
	// Instance and Record of a backup that is removed, or discarded.
	Instance v1.BackedUpInstance
	Record   string
	// Sum of the archive that is removed, with SHA-256.
	Sum string
	// Folder that a Job may write new archives into or, where there is none, the Archive that one may read, which the
	// Manifest is of.
	Folder, Archive string
	Manifest        []byte
}

// A Server of an instance, which runs.
type Server struct {
	Of v1.Instance
	// Authorities by which it is known, as PEM; empty where it is not.
	Authorities string
}

// A ServerError is why a server, or a store, does not do what was asked of it. It is Final where it will not, whenever it is asked.
type ServerError struct {
	error

	Final bool
}

// A MissingError says that a store has not got what a Job has reported.
type MissingError struct{ error }

// NewMissingError of what is missing.
func NewMissingError(err error) *MissingError { return &MissingError{err} }

// Unwrap it.
func (e *MissingError) Unwrap() error { return e.error }

// NewServerError of what a server, or the way to it, says.
func NewServerError(err error, final bool) *ServerError { return &ServerError{err, final} }

// Unwrap it.
func (e *ServerError) Unwrap() error { return e.error }

// InServer is what is done there, about an object.
func InServer(verb Verb, about client.Object, where Server) Change {
	return Change{Verb: verb, Object: about, Server: &where}
}

// InStore is what is done in a store, for an object that is said where it fails, and that access is given as.
func InStore(verb Verb, about client.Object, what Remote) Change {
	return Change{Verb: verb, Object: about, Remote: &what}
}

// NewObject is made; one that is there already is as good, and what else was to be done to it
// is left to the next look.
func NewObject(o client.Object) Change { return Change{Verb: Create, Object: o} }

// PatchObject as it was read, which stays as it is.
func PatchObject[T client.Object](read T, how func(T)) Change {
	return Change{Verb: Patch, If: AsRead, Object: changed(read, how), Read: read}
}

// AddFinalizer to an object, whoever has written it since it was read: each conflict costs a look, and Crossplane writes a new claim
// and its XR ten times in their first second. Nobody's finalizer is lost by it, as by a merge patch, which has all of them. Where there is
// none yet, it is such a patch of the object as it was read.
func AddFinalizer(read client.Object, finalizer string) Change {
	c := PatchObject(read, func(o client.Object) { controllerutil.AddFinalizer(o, finalizer) })
	if len(read.GetFinalizers()) > 0 {
		c.If = SameObject
	}
	return c
}

// PatchObjectStatus as it was read.
func PatchObjectStatus[T client.Object](read T, how func(T)) Change {
	return Change{Verb: PatchStatus, If: AsRead, Object: changed(read, how), Read: read}
}

// ScaleDeployment as it was read.
func ScaleDeployment(read *appsv1.Deployment, replicas int32) Change {
	return Change{Verb: Scale, If: AsRead, Object: changed(read, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas }), Read: read}
}

// PatchStatusFields of an object as it was read: these, and no others.
func PatchStatusFields(o client.Object, fields map[string]any) Change {
	return Change{Verb: PatchStatus, If: AsRead, Object: o, Fields: fields}
}

// WhoeverWrote is the same change where it matters to nobody what else was written since.
func (c Change) WhoeverWrote() Change {
	c.If = OfName
	return c
}

// DeleteObject deletes this object, and no later one of its name.
func DeleteObject(o client.Object, policy metav1.DeletionPropagation) Change {
	return Change{Verb: Delete, If: SameObject, Object: o, Policy: policy, MayBeGone: true}
}

// OrGone is the same change where the object may be gone by then.
func (c Change) OrGone() Change {
	c.MayBeGone = true
	return c
}

// OrNot is the same change where what follows does not wait for it.
func (c Change) OrNot() Change {
	c.MayFail = true
	return c
}

func changed[T client.Object](o T, how func(T)) T {
	to, ok := o.DeepCopyObject().(T)
	if !ok {
		panic("a copy is of another type")
	}
	how(to)
	return to
}
