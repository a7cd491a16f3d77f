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

// An orphan is a life whose XR is gone, by whatever way, while a volume or a PVC that has our
// finalizer still holds its data.
type orphan struct {
	uid types.UID
	// holders of the data, volumes first.
	holders []client.Object
}

// findOrphans of an instance.
func (g *Gatherer) findOrphans(ctx context.Context, k Key, found *foundComposites) ([]orphan, error) {
	holders, err := g.findHolders(ctx, k, found.kind)
	if err != nil {
		return nil, err
	}
	known := func(uid types.UID) bool {
		return slices.ContainsFunc(found.xrs, func(x *Composite) bool { return x.GetUID() == uid })
	}
	holders = slices.DeleteFunc(holders, func(o client.Object) bool { return known(XROf(o)) })
	if len(holders) == 0 {
		return nil, nil
	}
	// Labels are where to look. That there is no such XR must be certain.
	var all []metav1.PartialObjectMetadata
	if !found.withoutXRs {
		if all, err = AllXRs(ctx, g.Reader, found.kind); err != nil {
			return nil, g.explainUnlisted(ctx, found.kind, err)
		}
	}
	var out []orphan
	for _, h := range holders {
		uid := XROf(h)
		if slices.ContainsFunc(all, func(x metav1.PartialObjectMetadata) bool { return x.UID == uid }) {
			continue
		}
		n := slices.IndexFunc(out, func(o orphan) bool { return o.uid == uid })
		if n < 0 {
			n, out = len(out), append(out, orphan{uid: uid})
		}
		out[n].holders = append(out[n].holders, h)
	}
	return out, nil
}

// AllXRs of a kind, whosever they are. The error is the reader's own.
func AllXRs(ctx context.Context, from client.Reader, kind Kind) ([]metav1.PartialObjectMetadata, error) {
	l := &metav1.PartialObjectMetadataList{}
	l.SetGroupVersionKind(kind.XR.GroupVersion().WithKind(kind.XR.Kind + "List"))
	err := from.List(ctx, l)
	return l.Items, err
}

// XROf an object is the UID of the XR that it names; empty where it names none.
func XROf(o client.Object) types.UID { return types.UID(o.GetLabels()[v1.LabelXR]) }

// HoldsData is true of a volume or PVC that has our finalizer, names an XR, and is not for
// backups: what is on it goes with nobody's leave but the controller's.
func HoldsData(o client.Object) bool {
	return HasFinalizer(o) && XROf(o) != "" && !IsForBackups(o)
}

// IsForBackups is true of a volume or PVC that says so.
func IsForBackups(o client.Object) bool {
	return o.GetLabels()[v1.LabelComponent] == v1.ComponentBackup
}

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
		pvcs := &corev1.PersistentVolumeClaimList{}
		if err := g.Reader.List(ctx, pvcs, client.InNamespace(namespace), ours); err != nil {
			return nil, fmt.Errorf("cannot list PersistentVolumeClaims: %w", err)
		}
		for i := range pvcs.Items {
			out = append(out, &pvcs.Items[i])
		}
	}
	return slices.DeleteFunc(out, func(o client.Object) bool {
		return !HoldsData(o) || !slices.Contains(kind.OfAnnotated(o), k)
	}), nil
}
