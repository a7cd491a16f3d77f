package instance

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// An Identity contains the facts about an instance that are needed even if its XR is deleted. They are read from the
// XR, or from the volume and the PVCs that still hold the data. The claim is not needed.
type Identity struct {
	// XR is the XR of the instance. Its name is empty if the XR is deleted.
	XR metav1.OwnerReference
	// DeletedAt is the time at which the deletion started or was discovered. It is nil if the instance is not being
	// deleted.
	DeletedAt *metav1.Time
	// Started is true if a server may have been started on the data.
	Started bool
	// Volume is the name of the data volume, Image the image of the server, and Size the size of the storage. They
	// are empty if they are unknown.
	Volume, Image, Size string
	// Store is the name of the BackupStore. It is empty if backups are written to a volume, or the store is unknown.
	Store string
	// BackupNumber is the number of the instance's next backup, or 0 if it is unknown.
	BackupNumber int64
	// FirstBackupNumber is the backup number at the start of the instance, or 0 if the number has not changed since.
	FirstBackupNumber int64
	// Choice is the restore source that the instance started with.
	Choice string
	// DeletionPolicy is the policy of the XR. The policy of a claim has priority.
	DeletionPolicy v1.DeletionPolicy
	// Annotations are the annotations of the XR, or of the objects that hold the data.
	Annotations map[string]string
	// Copy is an object that holds the data and was copied or restored from elsewhere, with the labels of the
	// original instance. It is nil if there is none, or if a user has requested to adopt the data.
	Copy client.Object
	// Left lists the objects with copied data that a user annotated as leave-alone.
	Left []client.Object
}

// Identity returns the identity of this instance. It is empty if there is no instance.
func (b *Basis) Identity() Identity {
	id := identityOf(&b.Subject)
	if b.XR == nil || b.DataPV == nil {
		return id
	}
	if b.XR.Unreadable.HasAny("spec.storageSize", "spec.storage_size") {
		id.Size = storageText(b.DataPV.Spec.Capacity)
	}
	if b.XR.Unreadable.Has("status.volume") {
		id.Volume = b.DataPV.Name
	}
	return id
}

// identityOf returns the identity from the XR or from the orphan.
func identityOf(s *Subject) Identity {
	switch {
	case s.XR != nil:
		return identityOfXR(s.XR)
	case s.Orphan != nil:
		return *s.Orphan
	}
	return Identity{}
}

// IsDeleting reports whether the instance is being deleted or its XR no longer exists.
func (s *Subject) IsDeleting() bool { return s.Orphan != nil || s.XR != nil && s.XR.IsDeleting() }

func identityOfXR(xr *Composite) Identity {
	return Identity{
		XR: metav1.OwnerReference{APIVersion: xr.GetAPIVersion(), Kind: xr.GetKind(), Name: xr.GetName(),
			UID: xr.GetUID()},
		DeletedAt:         xr.GetDeletionTimestamp(),
		Started:           xr.Status.Started,
		Volume:            xr.Status.Volume,
		Image:             xr.Status.Image,
		Store:             xr.Status.BackupStore,
		Size:              xr.Status.VolumeSize(&xr.Spec.MySQLSpec),
		BackupNumber:      xr.Status.BackupNumber,
		FirstBackupNumber: xr.Status.FirstBackupNumber,
		Choice:            xr.Status.Choice,
		DeletionPolicy:    xr.Spec.DeletionPolicy,
		Annotations:       xr.GetAnnotations(),
	}
}

// IdentityOfHolders returns the identity of an instance whose composite resource is deleted, from the volumes and
// PVCs that hold its data. If none of them is being deleted, DeletedAt is the given time.
func IdentityOfHolders(instanceID v1.Instance, holders []client.Object, found time.Time) Identity {
	kind, _ := kindOf(instanceID.Kind)
	id := Identity{
		XR:          metav1.OwnerReference{APIVersion: kind.XR.GroupVersion().String(), Kind: kind.XR.Kind, UID: instanceID.XR},
		DeletedAt:   &metav1.Time{Time: found},
		Annotations: map[string]string{},
	}
	for _, h := range holders {
		if deletedAt := h.GetDeletionTimestamp(); deletedAt != nil && deletedAt.Before(id.DeletedAt) {
			id.DeletedAt = deletedAt
		}
		if isCopy(h) && id.Copy == nil {
			id.Copy = h
		}
		for key, value := range h.GetAnnotations() {
			if id.Annotations[key] == "" && !describesOriginal(h, key) {
				id.Annotations[key] = value
			}
		}
		switch h := h.(type) {
		case *corev1.PersistentVolume:
			id.Volume, id.Size = h.Name, storageText(h.Spec.Capacity)
		case *corev1.PersistentVolumeClaim:
			if id.Volume == "" {
				id.Volume, id.Size = h.Spec.VolumeName, storageText(h.Spec.Resources.Requests)
			}
		}
	}
	switch {
	case slices.ContainsFunc(holders, isTakenOver):
		id.Copy = nil
	case id.Copy != nil && slices.ContainsFunc(holders, isLeftAlone):
		id.Left = holders
	}
	// A PVC that never had a volume has no data.
	id.Started = id.Volume != ""
	id.Image, id.Store = id.Annotations[v1.AnnotationImage], id.Annotations[v1.AnnotationBackupStore]
	id.BackupNumber, _ = strconv.ParseInt(id.Annotations[v1.AnnotationBackupNumber], 10, 64) // An unreadable number is unknown.
	id.FirstBackupNumber, _ = strconv.ParseInt(id.Annotations[v1.AnnotationFirstBackupNumber], 10, 64)
	id.Choice = id.Annotations[v1.AnnotationChoice]
	id.DeletionPolicy = v1.DeletionPolicy(id.Annotations[v1.AnnotationDeletionPolicy])
	return id
}

// isCopy reports whether an object is marked with the UID of another object. Such an object was copied, or restored
// from a backup of Kubernetes objects.
func isCopy(o client.Object) bool {
	marked := o.GetAnnotations()[v1.AnnotationMarkedUID]
	return marked != "" && marked != string(o.GetUID())
}

// isTakenOver reports whether a user has requested to adopt this copy. The data is then backed up, and its instance is
// deleted in this cluster.
func isTakenOver(o client.Object) bool {
	return o.GetAnnotations()[v1.AnnotationTakeOver] == string(o.GetUID())
}

// isLeftAlone reports whether a user annotated this copy as leave-alone.
func isLeftAlone(o client.Object) bool {
	return isCopy(o) && o.GetAnnotations()[v1.AnnotationLeaveAlone] == string(o.GetUID())
}

// describesOriginal reports whether an annotation allows deletion without a backup. On a copy, such an annotation comes
// from the original object, so it is ignored.
func describesOriginal(o client.Object, key string) bool {
	return isCopy(o) && slices.Contains([]string{v1.AnnotationSkipBackup, v1.AnnotationWithoutOutside,
		v1.AnnotationNothingToLose, v1.AnnotationDeletionPolicy}, key)
}

func storageText(resources corev1.ResourceList) string {
	q, ok := resources[corev1.ResourceStorage]
	if !ok {
		return ""
	}
	return q.String()
}
