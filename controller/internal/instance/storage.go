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

// DataVolumes contains the volume and the PVCs of the database.
type DataVolumes struct {
	// DataPVC and DataPV are the PVC and the volume of the database. If the Jobs run at another JobLocation, DataPVC
	// is the PVC that they use there. OriginalPVC is then the PVC that the server or an earlier Job used.
	DataPVC     *corev1.PersistentVolumeClaim
	DataPV      *corev1.PersistentVolume
	OriginalPVC *corev1.PersistentVolumeClaim
	// PVCNameConflict is true if a PVC with a different owner has the name of DataPVC.
	PVCNameConflict bool
	// Node is the hostname label of the node whose directory contains the data. It is set only for a hostPath volume
	// without a node affinity.
	Node string
}

// readDataVolumes reads the data PVC and its volume. If the volume is reserved for another PVC, it reads the data PVC
// again, because the PVC may have been created in between. Otherwise the controller would reserve the volume for the
// wrong PVC. The BackupRecords provide the namespace UID of the data if the volume is deleted.
func readDataVolumes(ctx context.Context, r client.Reader, subject *Subject,
	records []v1.BackupRecord) (DataVolumes, error) {
	basis := &Basis{Subject: *subject, Records: records}
	data, instanceID := &basis.DataVolumes, subject.Instance
	pvc, err := readPVC(ctx, r, instanceID.Namespace, instanceID.DataPVCName())
	for err == nil {
		if data.DataPVC = nil; pvc != nil && Owns(instanceID, pvc) {
			data.DataPVC = pvc
		}
		if data.DataPV, err = FindDataPV(volumesOf(ctx, r), subject, data.DataPVC); err != nil ||
			!basis.IsDataPVReservedElsewhere() {
			break
		}
		before := pvc
		if pvc, err = readPVC(ctx, r, instanceID.Namespace, instanceID.DataPVCName()); uidOf(pvc) == uidOf(before) {
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
	data.Node, err = findNode(ctx, r, instanceID, data)
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

// readRelocatedPVC reads the data PVC that Jobs use at another JobLocation. The previous data PVC becomes
// OriginalPVC.
func readRelocatedPVC(ctx context.Context, r client.Reader, found *Basis) (DataVolumes, error) {
	location, instanceID, out := found.JobLocation(), found.Instance, found.DataVolumes
	out.OriginalPVC, out.DataPVC = out.DataPVC, nil
	c, err := readPVC(ctx, r, location.Namespace, location.Data)
	switch {
	case c != nil && Owns(instanceID, c):
		out.DataPVC = c
	case c != nil:
		out.PVCNameConflict = true
	}
	if err != nil || out.OriginalPVC != nil || location.Namespace == instanceID.Namespace {
		return out, err
	}
	// If an instance lost its XR before its namespace was deleted, a Job used a PVC with this name in the namespace.
	if c, err = readPVC(ctx, r, instanceID.Namespace, location.Data); c != nil && Owns(instanceID, c) {
		out.OriginalPVC = c
	}
	return out, err
}

// findNode returns the hostname of the node on which a pod mounts the data PVC. It returns "" unless the data is on a
// hostPath volume without a node affinity, whose directory would be empty on another node.
func findNode(ctx context.Context, r client.Reader, instanceID v1.Instance, data *DataVolumes) (string, error) {
	if !data.HostPath() || data.DataPV.Spec.NodeAffinity != nil {
		return "", nil
	}
	l := &corev1.PodList{}
	if err := r.List(ctx, l, client.InNamespace(instanceID.Namespace)); err != nil {
		return "", fmt.Errorf("cannot list pods: %w", err)
	}
	for i := range l.Items {
		p := &l.Items[i]
		if p.Spec.NodeName == "" || !mountsPVC(p, instanceID.DataPVCName()) {
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

// Volumes contains the functions with which FindDataPV finds the data volume of an instance.
type Volumes struct {
	// ByName returns the volume with the given name, or nil.
	ByName func(name string) (*corev1.PersistentVolume, error)
	// OfInstance returns the volumes that are labeled with the given XR.
	OfInstance func(xr types.UID) ([]corev1.PersistentVolume, error)
}

// volumesOf returns Volumes that read from the API server.
func volumesOf(ctx context.Context, r client.Reader) Volumes {
	return Volumes{
		ByName:     func(name string) (*corev1.PersistentVolume, error) { return readVolume(ctx, r, name) },
		OfInstance: func(xr types.UID) ([]corev1.PersistentVolume, error) { return volumesOfInstance(ctx, r, xr) },
	}
}

// Volume returns a volume from the API server, or nil if it does not exist.
func (g *Gatherer) Volume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	return readVolume(ctx, g.Reader, name)
}

func readVolume(ctx context.Context, r client.Reader, name string) (*corev1.PersistentVolume, error) {
	return getObject(ctx, r, &corev1.PersistentVolume{}, "", name)
}

// volumesOfInstance returns the volumes that are labeled with the given XR.
func volumesOfInstance(ctx context.Context, r client.Reader, xr types.UID) ([]corev1.PersistentVolume, error) {
	l := &corev1.PersistentVolumeList{}
	if err := r.List(ctx, l, client.MatchingLabels{v1.LabelXR: string(xr)}); err != nil {
		return nil, fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	return l.Items, nil
}

// FindDataPV returns the volume that the data PVC of an instance is or was bound to. It returns nil if there is none,
// or if the volume is now bound to another PVC.
func FindDataPV(from Volumes, subject *Subject, pvc *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	bound := ""
	if pvc != nil {
		bound = pvc.Spec.VolumeName
	}
	if bound == "" && subject.Instance.XR == "" {
		return nil, nil //nolint:nilnil // A missing volume is not an error.
	}
	// The name of a hostPath volume is known even before the volume is bound, because the function creates it.
	v, err := from.ByName(cmp.Or(bound, identityOf(subject).Volume, subject.Instance.DataPVName()))
	if err != nil {
		return nil, err
	}
	if v == nil {
		return findMarkedVolume(from, subject, pvc)
	}
	if !ownsVolume(subject.Instance, pvc, v) {
		return nil, nil //nolint:nilnil // The volume belongs to a different owner.
	}
	return v, nil
}

// findMarkedVolume returns the volume that is labeled and retained for an instance that is being deleted. It returns
// nil if the PVC or the status names a volume.
func findMarkedVolume(from Volumes, subject *Subject,
	pvc *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	if !subject.IsDeleting() || identityOf(subject).Volume != "" {
		return nil, nil //nolint:nilnil // The volume is not needed.
	}
	all, err := from.OfInstance(subject.Instance.XR)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if v := &all[i]; HasFinalizer(v) && ownsVolume(subject.Instance, pvc, v) {
			return v, nil
		}
	}
	return nil, nil //nolint:nilnil // A missing volume is not an error.
}

// ownsVolume reports whether a volume is bound to this instance's data PVC, or was bound to it and is labeled with
// this instance. The PVC in the recovery namespace needs no label: its name belongs to exactly one instance, and only
// the controller creates PVCs there.
func ownsVolume(instanceID v1.Instance, pvc *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	ref := v.Spec.ClaimRef
	marked := instanceID.XR != "" && v.Labels[v1.LabelXR] == string(instanceID.XR) && HasFinalizer(v)
	switch {
	case !marked && instanceID.XR != "" && v.Labels[v1.LabelXR] != "" && HasFinalizer(v):
		return false // The volume belongs to another instance.
	case ref == nil:
		return marked
	case ref.Name == instanceID.RecoveryName("data") &&
		(ref.Namespace == v1.RecoveryNamespace || marked && ref.Namespace == instanceID.Namespace):
		return true
	case ref.Namespace != instanceID.Namespace || ref.Name != instanceID.DataPVCName():
		return false
	}
	return marked || pvc == nil || ref.UID == "" || ref.UID == pvc.UID
}
