package instance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// volumes of the data. What a volume says of its claim is true of claims that are
// looked for after it was read: one that was bound in between would look gone.
func (g *Gatherer) volumes(ctx context.Context, s *State) error {
	claim, err := g.claim(ctx, s.Life.Namespace, s.Life.DataPVCName())
	for err == nil {
		if s.DataPVC = nil; claim != nil && s.owns(claim) {
			s.DataPVC = claim
		}
		if s.DataPV, err = g.dataPV(ctx, s); err != nil || !s.Stale() {
			break
		}
		before := claim
		if claim, err = g.claim(ctx, s.Life.Namespace, s.Life.DataPVCName()); uidOf(claim) == uidOf(before) {
			break
		}
	}
	if err != nil {
		return err
	}
	s.Taken = claim != nil && s.DataPVC == nil && !s.Rescued()
	if s.Rescued() {
		if err := g.handle(ctx, s); err != nil {
			return err
		}
	}
	s.Node, err = g.node(ctx, s)
	return err
}

func uidOf(c *corev1.PersistentVolumeClaim) types.UID {
	if c == nil {
		return ""
	}
	return c.UID
}

func (g *Gatherer) claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return get(ctx, g.Reader, &corev1.PersistentVolumeClaim{}, namespace, name)
}

// handle of the data at another place than its own.
func (g *Gatherer) handle(ctx context.Context, s *State) error {
	place := s.Place()
	c, err := g.claim(ctx, place.Namespace, place.Data)
	s.Origin, s.DataPVC = s.DataPVC, nil
	switch {
	case c != nil && s.owns(c):
		s.DataPVC = c
	case c != nil:
		s.Taken = true
	}
	if err != nil || s.Origin != nil || place.Namespace == s.Life.Namespace {
		return err
	}
	// A life that lost its XR first had a handle beside its home.
	if c, err = g.claim(ctx, s.Life.Namespace, place.Data); c != nil && s.owns(c) {
		s.Origin = c
	}
	return err
}

// node that a hostPath volume was first used on. On another one its folder would
// be empty, and an empty folder looks like nothing to lose.
func (g *Gatherer) node(ctx context.Context, s *State) (string, error) {
	if !s.HostPath() || s.DataPV.Spec.NodeAffinity != nil {
		return "", nil
	}
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(s.Life.Namespace)); err != nil {
		return "", fmt.Errorf("cannot list pods: %w", err)
	}
	for i := range l.Items {
		p := &l.Items[i]
		if p.Spec.NodeName == "" || !mounts(p, s.Life.DataPVCName()) {
			continue
		}
		n, err := get(ctx, g.Reader, metadata(corev1.SchemeGroupVersion.WithKind("Node")), "", p.Spec.NodeName)
		if n == nil || err != nil {
			return "", err
		}
		return n.Labels[corev1.LabelHostname], nil
	}
	return "", nil
}

// dataPV that the claim is bound to, or was. One that another claim has by
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
	v, err := get(ctx, g.Reader, &corev1.PersistentVolume{}, "", name)
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

// markedVolume is one that is kept for this life, where claim and status do not
// name it any more, or not yet.
func (g *Gatherer) markedVolume(ctx context.Context, s *State) (*corev1.PersistentVolume, error) {
	if s.XR == nil || !s.XR.Dying() || s.XR.Status.Volume != "" {
		return nil, nil //nolint:nilnil // Nobody asks.
	}
	l := &corev1.PersistentVolumeList{}
	if err := g.Reader.List(ctx, l, client.MatchingLabels{v1.LabelXR: string(s.XR.GetUID())}); err != nil {
		return nil, fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	for i := range l.Items {
		if v := &l.Items[i]; Holds(v) && s.ownsVolume(v) {
			return v, nil
		}
	}
	return nil, nil //nolint:nilnil // No volume, and no error.
}

// ownsVolume is true if a volume is bound to this life's claim, or was and is
// marked as this life's.
func (s *State) ownsVolume(v *corev1.PersistentVolume) bool {
	ref := v.Spec.ClaimRef
	marked := s.XR != nil && v.Labels[v1.LabelXR] == string(s.XR.GetUID()) && Holds(v)
	switch {
	case !marked && s.XR != nil && v.Labels[v1.LabelXR] != "" && Holds(v):
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
