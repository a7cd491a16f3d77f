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

// readDataVolumes reads the data PVC and its volume. Where the volume names another PVC, the PVC
// is looked for again: one that was bound in between would look gone, and its volume would be
// taken from it.
func (g *gathering) readDataVolumes(ctx context.Context) error {
	pvc, err := g.readPVC(ctx, g.Life.Namespace, g.Life.DataPVCName())
	for err == nil {
		if g.DataPVC = nil; pvc != nil && g.OwnsObject(pvc) {
			g.DataPVC = pvc
		}
		if g.DataPV, err = FindDataPV(g.volumes(ctx), g.State); err != nil || !g.IsDataPVReservedElsewhere() {
			break
		}
		before := pvc
		if pvc, err = g.readPVC(ctx, g.Life.Namespace, g.Life.DataPVCName()); uidOf(pvc) == uidOf(before) {
			break
		}
	}
	if err != nil {
		return err
	}
	g.PVCNameConflict = pvc != nil && g.DataPVC == nil && !g.isRelocated()
	if g.isRelocated() {
		if err := g.readRelocatedPVC(ctx); err != nil {
			return err
		}
	}
	g.Node, err = g.findNode(ctx)
	return err
}

func uidOf(c *corev1.PersistentVolumeClaim) types.UID {
	if c == nil {
		return ""
	}
	return c.UID
}

func (g *Gatherer) readPVC(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return getObject(ctx, g.Reader, &corev1.PersistentVolumeClaim{}, namespace, name)
}

// readRelocatedPVC of the data at another place than its own.
func (g *gathering) readRelocatedPVC(ctx context.Context) error {
	place := g.JobLocation()
	c, err := g.readPVC(ctx, place.Namespace, place.Data)
	g.OriginalPVC, g.DataPVC = g.DataPVC, nil
	switch {
	case c != nil && g.OwnsObject(c):
		g.DataPVC = c
	case c != nil:
		g.PVCNameConflict = true
	}
	if err != nil || g.OriginalPVC != nil || place.Namespace == g.Life.Namespace {
		return err
	}
	// A life that lost its XR before its namespace went had a PVC of this name in it.
	if c, err = g.readPVC(ctx, g.Life.Namespace, place.Data); c != nil && g.OwnsObject(c) {
		g.OriginalPVC = c
	}
	return err
}

// findNode that a hostPath volume was first used on. On another one its folder would
// be empty, and an empty folder looks like nothing to lose.
func (g *gathering) findNode(ctx context.Context) (string, error) {
	if !g.HostPath() || g.DataPV.Spec.NodeAffinity != nil {
		return "", nil
	}
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(g.Life.Namespace)); err != nil {
		return "", fmt.Errorf("cannot list pods: %w", err)
	}
	for i := range l.Items {
		p := &l.Items[i]
		if p.Spec.NodeName == "" || !mountsPVC(p, g.Life.DataPVCName()) {
			continue
		}
		n, err := getObject(ctx, g.Reader, metadataOf(corev1.SchemeGroupVersion.WithKind("Node")), "", p.Spec.NodeName)
		if n == nil || err != nil {
			return "", err
		}
		return n.Labels[corev1.LabelHostname], nil
	}
	return "", nil
}

// Volumes are where a life's own is looked for.
type Volumes struct {
	// ByName is the one of a name, or nil where there is none.
	ByName func(name string) (*corev1.PersistentVolume, error)
	// OfLife are those whose label names an XR.
	OfLife func(xr types.UID) ([]corev1.PersistentVolume, error)
}

// volumes of the API server.
func (g *Gatherer) volumes(ctx context.Context) Volumes {
	return Volumes{
		ByName: func(name string) (*corev1.PersistentVolume, error) { return g.Volume(ctx, name) },
		OfLife: func(xr types.UID) ([]corev1.PersistentVolume, error) { return g.volumesOfLife(ctx, xr) },
	}
}

// Volume of the API server, or nil where there is none.
func (g *Gatherer) Volume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	return getObject(ctx, g.Reader, &corev1.PersistentVolume{}, "", name)
}

// volumesOfLife by their label.
func (g *Gatherer) volumesOfLife(ctx context.Context, xr types.UID) ([]corev1.PersistentVolume, error) {
	l := &corev1.PersistentVolumeList{}
	if err := g.Reader.List(ctx, l, client.MatchingLabels{v1.LabelXR: string(xr)}); err != nil {
		return nil, fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	return l.Items, nil
}

// FindDataPV that the data PVC of a state is bound to, or was. One that another PVC has
// by now is not this life's.
func FindDataPV(from Volumes, s *State) (*corev1.PersistentVolume, error) {
	bound := ""
	if s.DataPVC != nil {
		bound = s.DataPVC.Spec.VolumeName
	}
	if bound == "" && s.Life.XR == "" {
		return nil, nil //nolint:nilnil // No volume, and no error.
	}
	// On hostPath it is made before it is bound.
	v, err := from.ByName(cmp.Or(bound, s.Identity().Volume, s.Life.DataPVName()))
	if err != nil {
		return nil, err
	}
	if v == nil {
		return findMarkedVolume(from, s)
	}
	if !ownsVolume(s, v) {
		return nil, nil //nolint:nilnil // Somebody else's.
	}
	return v, nil
}

// findMarkedVolume is one that is kept for this life, where PVC and status do not
// name it any more, or not yet.
func findMarkedVolume(from Volumes, s *State) (*corev1.PersistentVolume, error) {
	if !s.IsDeleting() || s.Identity().Volume != "" {
		return nil, nil //nolint:nilnil // Nobody asks.
	}
	all, err := from.OfLife(s.Life.XR)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if v := &all[i]; HasFinalizer(v) && ownsVolume(s, v) {
			return v, nil
		}
	}
	return nil, nil //nolint:nilnil // No volume, and no error.
}

// ownsVolume is true if a volume is bound to this life's data PVC, or was and is
// marked as this life's. In the namespace of rescues a PVC's name is of one life only,
// and nobody but the controller makes any: that is as good as a mark.
func ownsVolume(s *State, v *corev1.PersistentVolume) bool {
	ref := v.Spec.ClaimRef
	marked := s.Life.XR != "" && v.Labels[v1.LabelXR] == string(s.Life.XR) && HasFinalizer(v)
	switch {
	case !marked && s.Life.XR != "" && v.Labels[v1.LabelXR] != "" && HasFinalizer(v):
		return false // It is another life's.
	case ref == nil:
		return marked
	case ref.Name == s.Life.RescueName("data") && (ref.Namespace == v1.RescueNamespace || marked && ref.Namespace == s.Life.Namespace):
		return true
	case ref.Namespace != s.Life.Namespace || ref.Name != s.Life.DataPVCName():
		return false
	}
	return marked || s.DataPVC == nil || ref.UID == "" || ref.UID == s.DataPVC.UID
}
