package instance

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// findOrphans of an instance: lives whose XR is gone, by whatever way, while a volume or a PVC
// that has our finalizer still holds their data. Each is as if its XR were there and being
// deleted.
func (g *Gatherer) findOrphans(ctx context.Context, k Key, kind Kind, xrs []*Composite) ([]*Composite, error) {
	holders, err := g.findHolders(ctx, k, kind)
	if err != nil {
		return nil, err
	}
	known := func(uid types.UID) bool {
		return slices.ContainsFunc(xrs, func(x *Composite) bool { return x.GetUID() == uid })
	}
	holders = slices.DeleteFunc(holders, func(o client.Object) bool { return known(xrOf(o)) })
	if len(holders) == 0 {
		return nil, nil
	}
	// Labels are where to look. That there is no such XR must be certain.
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(kind.XR.GroupVersion().WithKind(kind.XR.Kind + "List"))
	if err := g.Reader.List(ctx, all); err != nil {
		return nil, fmt.Errorf("cannot list composite resources: %w", err)
	}
	var out []*Composite
	for _, o := range holders {
		uid := xrOf(o)
		if slices.ContainsFunc(all.Items, func(x metav1.PartialObjectMetadata) bool { return x.UID == uid }) ||
			slices.ContainsFunc(out, func(x *Composite) bool { return x.GetUID() == uid }) {
			continue
		}
		out = append(out, g.orphanOf(k, kind, holders, uid))
	}
	return out, nil
}

func xrOf(o client.Object) types.UID { return types.UID(o.GetLabels()[v1.LabelXR]) }

// findHolders of data of the instance: volumes, and then PVCs, that have our finalizer, say
// whose they are, and name an XR.
func (g *Gatherer) findHolders(ctx context.Context, k Key, kind Kind) ([]client.Object, error) {
	ours := client.MatchingLabels{v1.LabelInstance: k.Life("").Key()}
	volumes := &corev1.PersistentVolumeList{}
	if err := g.Reader.List(ctx, volumes, ours); err != nil {
		return nil, fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	var out []client.Object
	for i := range volumes.Items {
		out = append(out, &volumes.Items[i])
	}
	for _, namespace := range []string{k.Namespace, v1.RescueNamespace} {
		claims := &corev1.PersistentVolumeClaimList{}
		if err := g.Reader.List(ctx, claims, client.InNamespace(namespace), ours); err != nil {
			return nil, fmt.Errorf("cannot list PersistentVolumeClaims: %w", err)
		}
		for i := range claims.Items {
			out = append(out, &claims.Items[i])
		}
	}
	return slices.DeleteFunc(out, func(o client.Object) bool {
		return !HasFinalizer(o) || xrOf(o) == "" || !slices.Contains(kind.OfAnnotated(o), k) || o.GetLabels()[v1.LabelComponent] == v1.ComponentBackup
	}), nil
}

// orphanOf an XR that is gone: the XR, made up from what its volume and its PVCs say.
func (g *Gatherer) orphanOf(k Key, kind Kind, holders []client.Object, uid types.UID) *Composite {
	u := newObject(kind.XR)
	u.SetUID(uid)
	u.SetFinalizers([]string{v1.Finalizer})
	u.SetDeletionTimestamp(&metav1.Time{Time: g.Clock()})
	c := &Composite{Unstructured: u}
	c.Spec.ClaimRef = &v1.ClaimReference{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name}
	annotations := map[string]string{}
	for _, o := range holders {
		if xrOf(o) != uid {
			continue
		}
		if at := o.GetDeletionTimestamp(); at != nil && at.Before(u.GetDeletionTimestamp()) {
			u.SetDeletionTimestamp(at)
		}
		for key, value := range o.GetAnnotations() {
			if annotations[key] == "" {
				annotations[key] = value
			}
		}
		switch o := o.(type) {
		case *corev1.PersistentVolume:
			c.Status.Volume = o.Name
			c.Spec.StorageSize = storageText(o.Spec.Capacity)
		case *corev1.PersistentVolumeClaim:
			if c.Status.Volume == "" {
				c.Status.Volume = o.Spec.VolumeName
				c.Spec.StorageSize = storageText(o.Spec.Resources.Requests)
			}
		}
	}
	u.SetAnnotations(annotations)
	// A PVC that never had a volume has no data.
	c.Status.Started = c.Status.Volume != ""
	c.Status.Image = annotations[v1.AnnotationImage]
	c.Spec.DeletionPolicy = v1.DeletionPolicy(annotations[v1.AnnotationDeletionPolicy])
	return c
}

func storageText(of corev1.ResourceList) *string {
	q, ok := of[corev1.ResourceStorage]
	if !ok {
		return nil
	}
	return new(q.String())
}
