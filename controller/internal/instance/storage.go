package instance

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// DataVolumes contains the volumes and PVCs of the database.
type DataVolumes struct {
	// DataPVC and DataPV hold the database. OriginalPVC is the previous PVC of the data if DataPVC is another one at
	// the JobLocation. It is the server's PVC, or a PVC that a Job used in the same namespace.
	DataPVC     *corev1.PersistentVolumeClaim
	DataPV      *corev1.PersistentVolume
	OriginalPVC *corev1.PersistentVolumeClaim
	// PVCNameConflict is true if a PVC of another owner has the name of DataPVC.
	PVCNameConflict bool
	// Node is the node whose directory contains the data, as the value of the hostname label. It is set only for a
	// hostPath volume without a node affinity.
	Node string
}

// readDataVolumes reads the data PVC and its volume. If the volume names another PVC, the PVC is read again.
// Otherwise a PVC that was bound in between would look deleted, and the controller would reserve its volume for
// another PVC. The BackupRecords contain the namespace UID of the data when the volume is deleted.
func readDataVolumes(ctx context.Context, r client.Reader, subject *Subject,
	records []v1.BackupRecord) (DataVolumes, error) {
	basis := &Basis{Subject: *subject, Records: records}
	data, life := &basis.DataVolumes, subject.Life
	pvc, err := readPVC(ctx, r, life.Namespace, life.DataPVCName())
	for err == nil {
		if data.DataPVC = nil; pvc != nil && Owns(life, pvc) {
			data.DataPVC = pvc
		}
		if data.DataPV, err = FindDataPV(volumesOf(ctx, r), subject, data.DataPVC); err != nil ||
			!basis.IsDataPVReservedElsewhere() {
			break
		}
		before := pvc
		if pvc, err = readPVC(ctx, r, life.Namespace, life.DataPVCName()); uidOf(pvc) == uidOf(before) {
			break
		}
	}
	if err != nil {
		return *data, err
	}
	data.PVCNameConflict = pvc != nil && data.DataPVC == nil && !isRelocated(basis)
	if isRelocated(basis) {
		if *data, err = readRelocatedPVC(ctx, r, basis); err != nil {
			return *data, err
		}
	}
	data.Node, err = findNode(ctx, r, life, data)
	return *data, err
}

func uidOf(c *corev1.PersistentVolumeClaim) types.UID {
	if c == nil {
		return ""
	}
	return c.UID
}

func readPVC(ctx context.Context, r client.Reader, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return getObject(ctx, r, &corev1.PersistentVolumeClaim{}, namespace, name)
}

// readRelocatedPVC reads the data PVC at another JobLocation. The PVC that was found before becomes the original PVC.
func readRelocatedPVC(ctx context.Context, r client.Reader, found *Basis) (DataVolumes, error) {
	location, life, out := found.JobLocation(), found.Life, found.DataVolumes
	out.OriginalPVC, out.DataPVC = out.DataPVC, nil
	c, err := readPVC(ctx, r, location.Namespace, location.Data)
	switch {
	case c != nil && Owns(life, c):
		out.DataPVC = c
	case c != nil:
		out.PVCNameConflict = true
	}
	if err != nil || out.OriginalPVC != nil || location.Namespace == life.Namespace {
		return out, err
	}
	// An instance that lost its XR before its namespace was deleted had a PVC of this name there.
	if c, err = readPVC(ctx, r, life.Namespace, location.Data); c != nil && Owns(life, c) {
		out.OriginalPVC = c
	}
	return out, err
}

// findNode returns the node that a hostPath volume was first used on. On another node its directory would be empty,
// and the controller would conclude that there is no data.
func findNode(ctx context.Context, r client.Reader, life v1.Instance, data *DataVolumes) (string, error) {
	if !data.HostPath() || data.DataPV.Spec.NodeAffinity != nil {
		return "", nil
	}
	l := &corev1.PodList{}
	if err := r.List(ctx, l, client.InNamespace(life.Namespace)); err != nil {
		return "", fmt.Errorf("cannot list pods: %w", err)
	}
	for i := range l.Items {
		p := &l.Items[i]
		if p.Spec.NodeName == "" || !mountsPVC(p, life.DataPVCName()) {
			continue
		}
		n, err := getObject(ctx, r, metadataOf(corev1.SchemeGroupVersion.WithKind("Node")), "", p.Spec.NodeName)
		if n == nil || err != nil {
			return "", err
		}
		return n.Labels[corev1.LabelHostname], nil
	}
	return "", nil
}

// Volumes reads the volumes among which an instance's own is searched.
type Volumes struct {
	// ByName returns the volume with a name, or nil.
	ByName func(name string) (*corev1.PersistentVolume, error)
	// OfLife returns the volumes with the label of an XR.
	OfLife func(xr types.UID) ([]corev1.PersistentVolume, error)
}

// volumesOf returns Volumes that reads from the API server.
func volumesOf(ctx context.Context, r client.Reader) Volumes {
	return Volumes{
		ByName: func(name string) (*corev1.PersistentVolume, error) { return readVolume(ctx, r, name) },
		OfLife: func(xr types.UID) ([]corev1.PersistentVolume, error) { return volumesOfLife(ctx, r, xr) },
	}
}

// Volume returns a volume from the API server, or nil if it does not exist.
func (g *Gatherer) Volume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	return readVolume(ctx, g.Reader, name)
}

func readVolume(ctx context.Context, r client.Reader, name string) (*corev1.PersistentVolume, error) {
	return getObject(ctx, r, &corev1.PersistentVolume{}, "", name)
}

// volumesOfLife returns the volumes with the label of an XR.
func volumesOfLife(ctx context.Context, r client.Reader, xr types.UID) ([]corev1.PersistentVolume, error) {
	l := &corev1.PersistentVolumeList{}
	if err := r.List(ctx, l, client.MatchingLabels{v1.LabelXR: string(xr)}); err != nil {
		return nil, fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	return l.Items, nil
}

// FindDataPV returns the volume that the data PVC of an instance is or was bound to. It ignores a volume that is now
// bound to another PVC.
func FindDataPV(from Volumes, subject *Subject, pvc *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	bound := ""
	if pvc != nil {
		bound = pvc.Spec.VolumeName
	}
	if bound == "" && subject.Life.XR == "" {
		return nil, nil //nolint:nilnil // A missing volume is not an error.
	}
	// A hostPath volume is created before it is bound.
	v, err := from.ByName(cmp.Or(bound, identityOf(subject).Volume, subject.Life.DataPVName()))
	if err != nil {
		return nil, err
	}
	if v == nil {
		return findMarkedVolume(from, subject, pvc)
	}
	if !ownsVolume(subject.Life, pvc, v) {
		return nil, nil //nolint:nilnil // The volume belongs to another owner.
	}
	return v, nil
}

// findMarkedVolume returns a volume that is retained for this instance, if neither the PVC nor the status names it.
func findMarkedVolume(from Volumes, subject *Subject,
	pvc *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	if !subject.IsDeleting() || identityOf(subject).Volume != "" {
		return nil, nil //nolint:nilnil // The volume is not needed.
	}
	all, err := from.OfLife(subject.Life.XR)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if v := &all[i]; HasFinalizer(v) && ownsVolume(subject.Life, pvc, v) {
			return v, nil
		}
	}
	return nil, nil //nolint:nilnil // A missing volume is not an error.
}

// ownsVolume reports whether a volume is bound to this instance's data PVC, or was bound to it and is labeled with
// this instance. In the recovery namespace, a PVC name belongs to exactly one instance, and only the controller
// creates PVCs. The name is therefore as good as a label.
func ownsVolume(life v1.Instance, pvc *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	ref := v.Spec.ClaimRef
	marked := life.XR != "" && v.Labels[v1.LabelXR] == string(life.XR) && HasFinalizer(v)
	switch {
	case !marked && life.XR != "" && v.Labels[v1.LabelXR] != "" && HasFinalizer(v):
		return false // The volume belongs to another instance.
	case ref == nil:
		return marked
	case ref.Name == life.RescueName("data") &&
		(ref.Namespace == v1.RescueNamespace || marked && ref.Namespace == life.Namespace):
		return true
	case ref.Namespace != life.Namespace || ref.Name != life.DataPVCName():
		return false
	}
	return marked || pvc == nil || ref.UID == "" || ref.UID == pvc.UID
}
