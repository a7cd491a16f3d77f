// Package doctor says what protects the data of each instance, what is wrong with
// it, and what to do about it. It changes nothing.
package doctor

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// Lease that the running controller renews, in its own namespace.
const Lease = "controller." + v1.Group

// Kinds that one can do without.
const (
	kindJob       = "Job"
	kindNamespace = "Namespace"
	kindLease     = "Lease"
)

// A Cluster is what there was of ours in one, at one time.
type Cluster struct {
	// Now is when it was read.
	Now time.Time
	// SystemNamespace is the controller's own namespace.
	SystemNamespace string

	// Claims and XRs of all kinds that are installed.
	Claims, XRs []*instance.Composite
	// Volumes and PVCs are all of them: one of ours may have lost its labels.
	Volumes []corev1.PersistentVolume
	PVCs    []corev1.PersistentVolumeClaim
	Records []v1.MySQLBackup
	// Stores that backups go to.
	Stores []v1.BackupStore
	// Jobs of ours and all Namespaces. Nothing but metadata is
	// read of them.
	Jobs, Namespaces []metav1.PartialObjectMetadata
	// Lease of the controller; nil where there is none.
	Lease *coordinationv1.Lease

	// Absent kinds are not installed.
	Absent []string
	// Unread kinds may not be read, with the reason.
	Unread map[string]string
}

// A look at a cluster.
type look struct {
	client.Reader

	at *Cluster
}

// Look at a cluster. What holds data is read before the XRs: one that is made in
// between lacks a volume, and no volume lacks its XR.
func Look(ctx context.Context, r client.Reader, systemNamespace string, now time.Time) (*Cluster, error) {
	l := &look{Reader: r, at: &Cluster{Now: now, SystemNamespace: systemNamespace, Unread: map[string]string{}}}
	for _, read := range []func(context.Context) error{l.lookAtVolumes, l.lookAtRecords, l.lookAtStores, l.lookAtRest, l.lookAtComposites, l.lookAtLease} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	return l.at, nil
}

func (l *look) lookAtVolumes(ctx context.Context) error {
	volumes := &corev1.PersistentVolumeList{}
	if err := l.List(ctx, volumes); err != nil {
		return fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	pvcs := &corev1.PersistentVolumeClaimList{}
	if err := l.List(ctx, pvcs); err != nil {
		return fmt.Errorf("cannot list PersistentVolumeClaims: %w", err)
	}
	l.at.Volumes, l.at.PVCs = volumes.Items, pvcs.Items
	return nil
}

func (l *look) lookAtRecords(ctx context.Context) error {
	records := &v1.MySQLBackupList{}
	err := l.List(ctx, records)
	l.at.Records = records.Items
	return l.isInstalled(v1.KindMySQLBackup, err)
}

func (l *look) lookAtStores(ctx context.Context) error {
	stores := &v1.BackupStoreList{}
	err := l.List(ctx, stores)
	l.at.Stores = stores.Items
	if instance.IsNotInstalled(err) {
		return nil // Then no record is of a backup in one.
	}
	return l.isInstalled(v1.KindBackupStore, err)
}

// isInstalled turns the error of a kind that is not installed into a word about it.
func (l *look) isInstalled(kind string, err error) error {
	switch {
	case instance.IsNotInstalled(err):
		l.at.Absent = append(l.at.Absent, kind)
		return nil
	case err != nil:
		return fmt.Errorf("cannot list kind %s: %w", kind, err)
	}
	return nil
}

// lookAtRest of what an instance has or leaves.
func (l *look) lookAtRest(ctx context.Context) error {
	ours := client.MatchingLabels{v1.LabelManagedBy: v1.ManagedBy}
	for _, list := range []struct {
		kind schema.GroupVersionKind
		into *[]metav1.PartialObjectMetadata
		only []client.ListOption
	}{
		{batchv1.SchemeGroupVersion.WithKind(kindJob), &l.at.Jobs, []client.ListOption{ours}},
		{corev1.SchemeGroupVersion.WithKind(kindNamespace), &l.at.Namespaces, nil},
	} {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(list.kind.GroupVersion().WithKind(list.kind.Kind + "List"))
		if err := l.isAllowed(list.kind.Kind, l.List(ctx, found, list.only...)); err != nil {
			return err
		}
		*list.into = found.Items
	}
	return nil
}

// isAllowed turns a refusal into a word about it.
func (l *look) isAllowed(kind string, err error) error {
	switch {
	case kerrors.IsForbidden(err):
		l.at.Unread[kind] = err.Error()
		return nil
	case err != nil:
		return fmt.Errorf("cannot read kind %s: %w", kind, err)
	}
	return nil
}

func (l *look) lookAtComposites(ctx context.Context) error {
	for _, kind := range instance.Kinds() {
		var err error
		claims, err := l.listDecoded(ctx, kind.Claim)
		if err != nil {
			return err
		}
		xrs, err := l.listDecoded(ctx, kind.XR)
		if err != nil {
			return err
		}
		l.at.Claims, l.at.XRs = append(l.at.Claims, claims...), append(l.at.XRs, xrs...)
	}
	return nil
}

func (l *look) listDecoded(ctx context.Context, kind schema.GroupVersionKind) ([]*instance.Composite, error) {
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := l.isInstalled(kind.Kind, l.List(ctx, found)); err != nil {
		return nil, err
	}
	out := make([]*instance.Composite, 0, len(found.Items))
	for i := range found.Items {
		out = append(out, instance.Decode(&found.Items[i]))
	}
	return out, nil
}

func (l *look) lookAtLease(ctx context.Context) error {
	lease := &coordinationv1.Lease{}
	err := l.Get(ctx, client.ObjectKey{Namespace: l.at.SystemNamespace, Name: Lease}, lease)
	if kerrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		l.at.Lease = lease
	}
	return l.isAllowed(kindLease, err)
}
