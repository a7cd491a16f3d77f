// Package doctor reports how the data of each instance is protected, what is wrong, and how to fix it. It changes
// nothing.
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

// Lease is the name of the lease that the running controller renews in its namespace.
const Lease = "controller." + v1.Group

// These kinds may be missing in a cluster, or the user may not be allowed to read them.
const (
	kindJob       = "Job"
	kindNamespace = "Namespace"
	kindLease     = "Lease"
)

// A Cluster contains all objects of the product in a cluster at one time.
type Cluster struct {
	// Now is the time at which the cluster was read.
	Now time.Time
	// SystemNamespace is the controller's own namespace.
	SystemNamespace string

	// Claims and XRs are the objects of all installed kinds.
	Claims, XRs []*instance.Composite
	// Volumes and PVCs are all volumes and PVCs of the cluster, because a volume of the product may have lost its
	// labels.
	Volumes []corev1.PersistentVolume
	PVCs    []corev1.PersistentVolumeClaim
	Records []v1.BackupRecord
	// Stores are the BackupStores.
	Stores []v1.BackupStore
	// Jobs are the product's Jobs, and Namespaces are all namespaces. Only their metadata is read.
	Jobs, Namespaces []metav1.PartialObjectMetadata
	// Lease is the lease of the controller, or nil.
	Lease *coordinationv1.Lease

	// Absent lists kinds that are not installed.
	Absent []string
	// Unread maps the kinds that the user may not read to the error.
	Unread map[string]string
}

// A clusterReader fills a Cluster with objects from the API server, and records which kinds it could not read.
type clusterReader struct {
	client.Reader

	cluster *Cluster
}

// Look reads a cluster. It reads the objects that hold data before it reads the XRs. If an XR is created in between,
// its volume may be missing, but a volume never lacks its XR.
func Look(ctx context.Context, r client.Reader, systemNamespace string, now time.Time) (*Cluster, error) {
	l := &clusterReader{Reader: r,
		cluster: &Cluster{Now: now, SystemNamespace: systemNamespace, Unread: map[string]string{}}}
	for _, read := range []func(context.Context) error{l.readVolumes, l.readRecords, l.readStores, l.readRest,
		l.readComposites, l.readLease} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	return l.cluster, nil
}

func (l *clusterReader) readVolumes(ctx context.Context) error {
	volumes := &corev1.PersistentVolumeList{}
	if err := l.List(ctx, volumes); err != nil {
		return fmt.Errorf("cannot list PersistentVolumes: %w", err)
	}
	pvcs := &corev1.PersistentVolumeClaimList{}
	if err := l.List(ctx, pvcs); err != nil {
		return fmt.Errorf("cannot list PersistentVolumeClaims: %w", err)
	}
	l.cluster.Volumes, l.cluster.PVCs = volumes.Items, pvcs.Items
	return nil
}

func (l *clusterReader) readRecords(ctx context.Context) error {
	records := &v1.BackupRecordList{}
	err := l.List(ctx, records)
	l.cluster.Records = records.Items
	return l.isInstalled(v1.KindBackupRecord, err)
}

func (l *clusterReader) readStores(ctx context.Context) error {
	stores := &v1.BackupStoreList{}
	err := l.List(ctx, stores)
	l.cluster.Stores = stores.Items
	if instance.IsNotInstalled(err) {
		return nil // In this case no BackupRecord can refer to a store.
	}
	return l.isInstalled(v1.KindBackupStore, err)
}

// isInstalled handles the error of a read. It records a kind that is not installed, and returns other errors.
func (l *clusterReader) isInstalled(kind string, err error) error {
	switch {
	case instance.IsNotInstalled(err):
		l.cluster.Absent = append(l.cluster.Absent, kind)
		return nil
	case err != nil:
		return fmt.Errorf("cannot list kind %s: %w", kind, err)
	}
	return nil
}

// readRest reads Jobs and namespaces, including the Jobs of deleted instances.
func (l *clusterReader) readRest(ctx context.Context) error {
	ours := client.MatchingLabels{v1.LabelManagedBy: v1.ManagedBy}
	for _, list := range []struct {
		kind   schema.GroupVersionKind
		target *[]metav1.PartialObjectMetadata
		only   []client.ListOption
	}{
		{batchv1.SchemeGroupVersion.WithKind(kindJob), &l.cluster.Jobs, []client.ListOption{ours}},
		{corev1.SchemeGroupVersion.WithKind(kindNamespace), &l.cluster.Namespaces, nil},
	} {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(list.kind.GroupVersion().WithKind(list.kind.Kind + "List"))
		if err := l.isAllowed(list.kind.Kind, l.List(ctx, found, list.only...)); err != nil {
			return err
		}
		*list.target = found.Items
	}
	return nil
}

// isAllowed handles the error of a read. It records a kind that the user may not read, and returns other errors.
func (l *clusterReader) isAllowed(kind string, err error) error {
	switch {
	case kerrors.IsForbidden(err):
		l.cluster.Unread[kind] = err.Error()
		return nil
	case err != nil:
		return fmt.Errorf("cannot read kind %s: %w", kind, err)
	}
	return nil
}

func (l *clusterReader) readComposites(ctx context.Context) error {
	for _, kind := range instance.Kinds() {
		var claims []*instance.Composite
		var err error
		if kind.HasClaims() {
			if claims, err = l.listDecoded(ctx, kind.Object, kind.Object.Kind); err != nil {
				return err
			}
		}
		name := kind.XR.Kind
		if !kind.HasClaims() { // A claim may have the same kind in a different API group.
			name = kind.InstanceKind()
		}
		xrs, err := l.listDecoded(ctx, kind.XR, name)
		if err != nil {
			return err
		}
		l.cluster.Claims, l.cluster.XRs = append(l.cluster.Claims, claims...), append(l.cluster.XRs, xrs...)
	}
	return nil
}

// listDecoded lists the objects of a kind. The name is used in the report if the kind is not installed.
func (l *clusterReader) listDecoded(ctx context.Context, kind schema.GroupVersionKind,
	name string) ([]*instance.Composite, error) {
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := l.isInstalled(name, l.List(ctx, found)); err != nil {
		return nil, err
	}
	out := make([]*instance.Composite, 0, len(found.Items))
	for i := range found.Items {
		out = append(out, instance.Decode(&found.Items[i]))
	}
	return out, nil
}

func (l *clusterReader) readLease(ctx context.Context) error {
	lease := &coordinationv1.Lease{}
	err := l.Get(ctx, client.ObjectKey{Namespace: l.cluster.SystemNamespace, Name: Lease}, lease)
	if kerrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		l.cluster.Lease = lease
	}
	return l.isAllowed(kindLease, err)
}
