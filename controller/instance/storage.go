package instance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// volumes of the data and of the backups.
func (g *Gatherer) volumes(ctx context.Context, s *State) error {
	c, err := get(ctx, g.Reader, &corev1.PersistentVolumeClaim{}, s.Life.Namespace, s.Life.DataClaimName())
	if err != nil {
		return err
	}
	if c != nil && s.owns(c) {
		s.DataClaim = c
	}
	if s.DataVolume, err = g.dataVolume(ctx, s); err != nil {
		return err
	}
	if s.Node, err = g.node(ctx, s); err != nil {
		return err
	}
	if s.BackupClaim, err = get(ctx, g.Reader, &corev1.PersistentVolumeClaim{}, s.Life.Namespace, s.Life.BackupClaimName()); err != nil || s.BackupClaim != nil {
		return err
	}
	s.BackupVolume, err = g.backupVolume(ctx, s)
	return err
}

// node that a hostPath volume was first used on. On another one its folder would
// be empty, and an empty folder looks like nothing to lose.
func (g *Gatherer) node(ctx context.Context, s *State) (string, error) {
	if !s.HostPath() || s.DataVolume.Spec.NodeAffinity != nil {
		return "", nil
	}
	l := &corev1.PodList{}
	if err := g.Reader.List(ctx, l, client.InNamespace(s.Life.Namespace)); err != nil {
		return "", fmt.Errorf("cannot list pods: %w", err)
	}
	for i := range l.Items {
		p := &l.Items[i]
		if p.Spec.NodeName == "" || !mounts(p, s.Life.DataClaimName()) {
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

// dataVolume that the claim is bound to, or was. One that another claim has by
// now is not this life's.
func (g *Gatherer) dataVolume(ctx context.Context, s *State) (*corev1.PersistentVolume, error) {
	var name string
	switch {
	case s.DataClaim != nil && s.DataClaim.Spec.VolumeName != "":
		name = s.DataClaim.Spec.VolumeName
	case s.XR != nil && s.XR.Status.Volume != "":
		name = s.XR.Status.Volume
	case s.XR != nil:
		name = s.Life.DataVolumeName() // On hostPath it is made before it is bound.
	default:
		return nil, nil //nolint:nilnil // No volume, and no error.
	}
	v, err := get(ctx, g.Reader, &corev1.PersistentVolume{}, "", name)
	if v == nil || err != nil {
		return nil, err
	}
	ref := v.Spec.ClaimRef
	if ref == nil || ref.Namespace != s.Life.Namespace || ref.Name != s.Life.DataClaimName() || s.DataClaim != nil && ref.UID != "" && ref.UID != s.DataClaim.UID {
		return nil, nil //nolint:nilnil // Somebody else's.
	}
	return v, nil
}

// backupVolume that waits for a claim: what an earlier backup claim of the same
// namespace was bound to.
func (g *Gatherer) backupVolume(ctx context.Context, s *State) (*corev1.PersistentVolume, error) {
	l := &corev1.PersistentVolumeList{}
	if err := g.Reader.List(ctx, l, client.MatchingLabels{v1.LabelInstance: s.Life.Key(), v1.LabelComponent: v1.ComponentBackup}); err != nil {
		return nil, fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	for i := range l.Items {
		v := &l.Items[i]
		ref := v.Spec.ClaimRef
		if v.Annotations[v1.AnnotationNamespaceUID] == string(s.NamespaceUID()) && ref != nil && ref.Namespace == s.Life.Namespace && ref.Name == s.Life.BackupClaimName() {
			return v, nil
		}
	}
	return nil, nil //nolint:nilnil // No volume, and no error.
}
