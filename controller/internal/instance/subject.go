package instance

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/clock"
)

// A Request is a Backup object whose backup has not been taken yet.
type Request struct {
	// Name and UID identify the Backup object.
	Name string
	UID  types.UID
	// Method is the requested backup method, Cold or Online.
	Method v1.BackupMethod
}

// A Subject identifies the instance of a State. It contains what the controller must know before it reads any other
// object.
type Subject struct {
	// Settings are the settings of the controller.
	Settings Settings

	// Instance identifies the instance by kind, namespace, name and the UID of its XR. The UID is empty if there is no
	// XR.
	Instance v1.Instance

	// Now is the time of the read. Skew is the difference between the clocks of the controller and the API server.
	// Expired backups are deleted only if the clocks agree.
	Now  time.Time
	Skew clock.Skew
	// ReadAt is the time of the read on the monotonic clock of this process. Only the difference between two such times
	// is meaningful.
	ReadAt time.Time

	// Namespace is the namespace of the claim, or nil if it does not exist.
	Namespace *corev1.Namespace
	// Claim is the claim, if it exists and is bound to this instance's XR.
	Claim *Composite
	// XR is the composite resource, or nil if it does not exist.
	XR *Composite
	// Requested is the Backup object that requests a backup now. Its name is empty if there is none.
	Requested Request
	// Orphan is the identity of an instance whose XR is deleted but whose data still exists. Otherwise it is nil.
	Orphan *Identity
	// PredecessorTerminating is true if a previous instance with this name still exists.
	PredecessorTerminating bool
	// PredecessorCopy is a copied object that blocks the deletion of a previous instance with this name. See
	// Identity.Copy.
	PredecessorCopy client.Object
	// OrphanedFromClaim is true if this XR is not being deleted and has permanently lost its claim. Either the claim
	// is bound to another XR, or the claim was deleted and its namespace is being deleted.
	OrphanedFromClaim bool
}
