package instance

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// An Identity is what must be known of a life whether its XR is there or not. It is read from
// the XR or, where that is gone, from the volume and the PVCs that still hold the data.
// Nothing of it needs a claim.
type Identity struct {
	// XR that the life is of; of one that is gone the name is not known, and empty.
	XR metav1.OwnerReference
	// DeletedAt is when the deletion began, or was found; nil while the life goes on.
	DeletedAt *metav1.Time
	// Started is true if a server may have been started.
	Started bool
	// Volume of the data, Image of its server and Size of its storage; empty where they are
	// not known.
	Volume, Image, Size string
	// Store that its backups go to, by name; empty where they go to a volume, or it is not known.
	Store string
	// BackupNumber is that of its backup; 0 where it is not known.
	BackupNumber int64
	// FirstBackupNumber is what that was when the life began; 0 where it is that still.
	FirstBackupNumber int64
	// Choice of what to start from that it began with.
	Choice string
	// DeletionPolicy of the XR; a claim's counts before it.
	DeletionPolicy v1.DeletionPolicy
	// Annotations of the XR, or of what holds the data.
	Annotations map[string]string
	// Copy is what holds the data and was copied or restored from elsewhere, with the labels of
	// the life that it had there; nil where there is none, or where a person said that it is to be
	// taken over.
	Copy client.Object
	// Left is all that holds such data where a person said that it is nobody's.
	Left []client.Object
}

// Identity of this life; empty where there is none.
func (s *State) Identity() Identity {
	switch {
	case s.XR != nil:
		id := identityOfXR(s.XR)
		if s.DataPV != nil && s.XR.Unreadable.HasAny("spec.storageSize", "spec.storage_size") {
			id.Size = storageText(s.DataPV.Spec.Capacity)
		}
		if s.DataPV != nil && s.XR.Unreadable.Has("status.volume") {
			id.Volume = s.DataPV.Name
		}
		return id
	case s.Orphan != nil:
		return *s.Orphan
	}
	return Identity{}
}

// IsDeleting is true once the life is to end: its XR is being deleted, or is gone.
func (s *State) IsDeleting() bool { return s.Orphan != nil || s.XR != nil && s.XR.IsDeleting() }

func identityOfXR(xr *Composite) Identity {
	size, _ := xr.Spec.Size()
	return Identity{
		XR:                metav1.OwnerReference{APIVersion: xr.GetAPIVersion(), Kind: xr.GetKind(), Name: xr.GetName(), UID: xr.GetUID()},
		DeletedAt:         xr.GetDeletionTimestamp(),
		Started:           xr.Status.Started,
		Volume:            xr.Status.Volume,
		Image:             xr.Status.Image,
		Store:             xr.Status.BackupStore,
		Size:              size,
		BackupNumber:      xr.Status.BackupNumber,
		FirstBackupNumber: xr.Status.FirstBackupNumber,
		Choice:            xr.Status.Choice,
		DeletionPolicy:    xr.Spec.DeletionPolicy,
		Annotations:       xr.GetAnnotations(),
	}
}

// identityOfHolders is that of an XR that is gone, by what the holders of its data say.
func (g *Gatherer) identityOfHolders(kind Kind, o orphan) Identity {
	id := Identity{
		XR:          metav1.OwnerReference{APIVersion: kind.XR.GroupVersion().String(), Kind: kind.XR.Kind, UID: o.uid},
		DeletedAt:   &metav1.Time{Time: g.Clock()},
		Annotations: map[string]string{},
	}
	for _, h := range o.holders {
		if at := h.GetDeletionTimestamp(); at != nil && at.Before(id.DeletedAt) {
			id.DeletedAt = at
		}
		if isCopy(h) && id.Copy == nil {
			id.Copy = h
		}
		for key, value := range h.GetAnnotations() {
			if id.Annotations[key] == "" && !isSaidOfOriginal(h, key) {
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
	case slices.ContainsFunc(o.holders, isTakenOver):
		id.Copy = nil
	case id.Copy != nil && slices.ContainsFunc(o.holders, isLeftAlone):
		id.Left = o.holders
	}
	// A PVC that never had a volume has no data.
	id.Started = id.Volume != ""
	id.Image, id.Store = id.Annotations[v1.AnnotationImage], id.Annotations[v1.AnnotationBackupStore]
	id.BackupNumber, _ = strconv.ParseInt(id.Annotations[v1.AnnotationBackupNumber], 10, 64) // Else it is not known.
	id.FirstBackupNumber, _ = strconv.ParseInt(id.Annotations[v1.AnnotationFirstBackupNumber], 10, 64)
	id.Choice = id.Annotations[v1.AnnotationChoice]
	id.DeletionPolicy = v1.DeletionPolicy(id.Annotations[v1.AnnotationDeletionPolicy])
	return id
}

// IsHeldCopy is true of what holds data, is a copy, and nobody has said that it is to be taken over.
func IsHeldCopy(o client.Object) bool { return isCopy(o) && !isTakenOver(o) }

// isCopy is true of an object that says that it was another one: it was copied, or restored from a
// backup of a cluster's objects.
func isCopy(o client.Object) bool {
	marked := o.GetAnnotations()[v1.AnnotationMarkedUID]
	return marked != "" && marked != string(o.GetUID())
}

// isTakenOver is true if a person said of this very copy that its life is to end here.
func isTakenOver(o client.Object) bool {
	return o.GetAnnotations()[v1.AnnotationTakeOver] == string(o.GetUID())
}

// isLeftAlone is true if a person said of this very copy that it is nobody's.
func isLeftAlone(o client.Object) bool {
	return isCopy(o) && o.GetAnnotations()[v1.AnnotationLeaveAlone] == string(o.GetUID())
}

// isSaidOfOriginal is true of what lets data go without a backup: of a copy nobody has said that.
func isSaidOfOriginal(o client.Object, key string) bool {
	return isCopy(o) && slices.Contains([]string{v1.AnnotationSkipBackup, v1.AnnotationWithoutOutside, v1.AnnotationNothingToLose, v1.AnnotationDeletionPolicy}, key)
}

func storageText(of corev1.ResourceList) string {
	q, ok := of[corev1.ResourceStorage]
	if !ok {
		return ""
	}
	return q.String()
}
