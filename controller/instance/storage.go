package instance

import (
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
func (g *Gatherer) readDataVolumes(ctx context.Context, s *State) error {
	claim, err := g.readPVC(ctx, s.Life.Namespace, s.Life.DataPVCName())
	for err == nil {
		if s.DataPVC = nil; claim != nil && s.ownsObject(claim) {
			s.DataPVC = claim
		}
		if s.DataPV, err = g.dataPV(ctx, s); err != nil || !s.IsDataPVReservedElsewhere() {
			break
		}
		before := claim
		if claim, err = g.readPVC(ctx, s.Life.Namespace, s.Life.DataPVCName()); uidOf(claim) == uidOf(before) {
			break
		}
	}
	if err != nil {
		return err
	}
	s.PVCNameConflict = claim != nil && s.DataPVC == nil && !s.Relocated()
	if s.Relocated() {
		if err := g.readRelocatedPVC(ctx, s); err != nil {
			return err
		}
	}
	s.Node, err = g.findNode(ctx, s)
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
func (g *Gatherer) readRelocatedPVC(ctx context.Context, s *State) error {
	place := s.JobLocation()
	c, err := g.readPVC(ctx, place.Namespace, place.Data)
	s.OriginalPVC, s.DataPVC = s.DataPVC, nil
	switch {
	case c != nil && s.ownsObject(c):
		s.DataPVC = c
	case c != nil:
		s.PVCNameConflict = true
	}
	if err != nil || s.OriginalPVC != nil || place.Namespace == s.Life.Namespace {
		return err
	}
	// A life that lost its XR before its namespace went had a PVC of this name in it.
	if c, err = g.readPVC(ctx, s.Life.Namespace, place.Data); c != nil && s.ownsObject(c) {
		s.OriginalPVC = c
	}
	return err
}

// findNode that a hostPath volume was first used on. On another one its folder would
// be empty, and an empty folder looks like nothing to lose.
func (g *Gatherer) findNode(ctx context.Context, s *State) (string, error) {
	if !s.HostPath() || s.DataPV.Spec.NodeAffinity != nil {
		return "", nil
	}
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(s.Life.Namespace)); err != nil {
		return "", fmt.Errorf("cannot list pods: %w", err)
	}
	for i := range l.Items {
		p := &l.Items[i]
		if p.Spec.NodeName == "" || !mountsPVC(p, s.Life.DataPVCName()) {
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

// dataPV that the data PVC is bound to, or was. One that another PVC has by
// now is not this life's.
func (g *Gatherer) dataPV(ctx context.Context, s *State) (*corev1.PersistentVolume, error) {
	var name string
	switch {
	case s.XR == nil && (s.DataPVC == nil || s.DataPVC.Spec.VolumeName == ""):
		return nil, nil //nolint:nilnil // No volume, and no error.
	case s.DataPVC != nil && s.DataPVC.Spec.VolumeName != "":
		name = s.DataPVC.Spec.VolumeName
	case s.XR.Status.Volume != "":
		name = s.XR.Status.Volume
	default:
		name = s.Life.DataPVName() // On hostPath it is made before it is bound.
	}
	v, err := getObject(ctx, g.Reader, &corev1.PersistentVolume{}, "", name)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return g.markedVolume(ctx, s)
	}
	if !s.ownsVolume(v) {
		return nil, nil //nolint:nilnil // Somebody else's.
	}
	return v, nil
}

// markedVolume is one that is kept for this life, where PVC and status do not
// name it any more, or not yet.
func (g *Gatherer) markedVolume(ctx context.Context, s *State) (*corev1.PersistentVolume, error) {
	if s.XR == nil || !s.XR.IsDeleting() || s.XR.Status.Volume != "" {
		return nil, nil //nolint:nilnil // Nobody asks.
	}
	l := &corev1.PersistentVolumeList{}
	if err := g.Reader.List(ctx, l, client.MatchingLabels{v1.LabelXR: string(s.XR.GetUID())}); err != nil {
		return nil, fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	for i := range l.Items {
		if v := &l.Items[i]; HasFinalizer(v) && s.ownsVolume(v) {
			return v, nil
		}
	}
	return nil, nil //nolint:nilnil // No volume, and no error.
}

// ownsVolume is true if a volume is bound to this life's data PVC, or was and is
// marked as this life's.
func (s *State) ownsVolume(v *corev1.PersistentVolume) bool {
	ref := v.Spec.ClaimRef
	marked := s.XR != nil && v.Labels[v1.LabelXR] == string(s.XR.GetUID()) && HasFinalizer(v)
	switch {
	case !marked && s.XR != nil && v.Labels[v1.LabelXR] != "" && HasFinalizer(v):
		return false // It is another life's.
	case ref == nil:
		return marked
	case marked && ref.Name == s.Life.RescueName("data") && (ref.Namespace == v1.RescueNamespace || ref.Namespace == s.Life.Namespace):
		return true
	case ref.Namespace != s.Life.Namespace || ref.Name != s.Life.DataPVCName():
		return false
	}
	return marked || s.DataPVC == nil || ref.UID == "" || ref.UID == s.DataPVC.UID
}
