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

// An orphan is an instance whose XR no longer exists, but whose data is still held by a volume or PVC with the
// finalizer.
type orphan struct {
	uid types.UID
	// holders are the objects that hold the data, volumes first.
	holders []client.Object
}

// findOrphans returns the orphans of an instance.
func findOrphans(ctx context.Context, r client.Reader, k Key, found *foundComposites) ([]orphan, error) {
	holders, err := findHolders(ctx, r, k, found.kind)
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
	// The controller must be certain that there is no such XR, and labels only select candidates.
	var all []metav1.PartialObjectMetadata
	if !found.withoutXRs {
		if all, err = AllXRs(ctx, r, found.kind); err != nil {
			return nil, explainUnlisted(ctx, r, found.kind, err)
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

// AllXRs returns all XRs of a kind. It returns the error of the reader unchanged.
func AllXRs(ctx context.Context, from client.Reader, kind Kind) ([]metav1.PartialObjectMetadata, error) {
	l := &metav1.PartialObjectMetadataList{}
	l.SetGroupVersionKind(kind.XR.GroupVersion().WithKind(kind.XR.Kind + "List"))
	err := from.List(ctx, l)
	return l.Items, err
}

// XROf returns the UID of the XR that an object names, or "".
func XROf(o client.Object) types.UID { return types.UID(o.GetLabels()[v1.LabelXR]) }

// HoldsData reports whether a volume or PVC holds data of an instance: it has the finalizer, names an XR, and is not
// used for backups. Only the controller may release it.
func HoldsData(o client.Object) bool {
	return HasFinalizer(o) && XROf(o) != "" && !IsForBackups(o)
}

// IsForBackups reports whether a volume or PVC has the label for backups.
func IsForBackups(o client.Object) bool {
	return o.GetLabels()[v1.LabelComponent] == v1.ComponentBackup
}

// findHolders returns the volumes and then the PVCs that hold data of the instance.
func findHolders(ctx context.Context, r client.Reader, k Key, kind Kind) ([]client.Object, error) {
	ours := client.MatchingLabels{v1.LabelInstance: k.Instance("").Key()}
	volumes := &corev1.PersistentVolumeList{}
	if err := r.List(ctx, volumes, ours); err != nil {
		return nil, fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	var out []client.Object
	for i := range volumes.Items {
		out = append(out, &volumes.Items[i])
	}
	for _, namespace := range []string{k.Namespace, v1.RecoveryNamespace} {
		pvcs := &corev1.PersistentVolumeClaimList{}
		if err := r.List(ctx, pvcs, client.InNamespace(namespace), ours); err != nil {
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
