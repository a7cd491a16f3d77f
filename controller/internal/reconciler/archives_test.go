package reconciler

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// A lockedStores refuses deletions while a bucket policy forbids them.
type lockedStores struct {
	change.Stores

	locked bool
}

func (s *lockedStores) Remove(context.Context, string, v1.BackedUpInstance, string, string) error {
	if s.locked {
		return errors.New("object lock\x1b until 2030")
	}
	return nil
}

// TestRemoveFromStore checks that the deletion of an archive is retried if it is not allowed yet. Until then, the
// BackupRecord reports the reason.
func TestRemoveFromStore(t *testing.T) {
	instanceID := v1.Instance{Kind: v1.KindMySQL, Namespace: "shop", Name: "db", XR: "xr"}
	r := &v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: instanceID.RecordName(), UID: "record", Labels: instanceID.Labels(),
		Finalizers: []string{v1.Finalizer}, Annotations: map[string]string{v1.AnnotationDeleteArchive: "record"}}}
	r.Spec = v1.BackupRecordSpec{
		Instance: v1.BackedUpInstance{Kind: instanceID.Kind, Namespace: instanceID.Namespace, NamespaceUID: "ns", Name: instanceID.Name,
			XR: instanceID.XR},
		Archive: &v1.Archive{Store: "offsite", Path: "v1/ns/xr/" + instanceID.RecordName() + "/abcdefghij.tar.zst"},
	}
	r.Status.Phase = v1.BackupVerified
	kube := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithStatusSubresource(r).WithObjects(r).Build()
	if err := kube.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	all := &lockedStores{locked: true}
	reconciler := &archiveReconciler{writer: change.Writer{Client: kube, Stores: all}}
	erase := func() (bool, error) {
		t.Helper()
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			t.Fatal(err)
		}
		a := &instance.Archives{Instance: instanceID, Records: []v1.BackupRecord{*r}}
		next := catalog.NextOfArchives(a)
		if len(next) != 1 || next[0].Action != catalog.RemoveFromStore {
			t.Fatalf("want the archive removed, got %+v", next)
		}
		done, after, err := reconciler.remove(t.Context(), a, next[0])
		if !done && after == 0 {
			t.Error("nobody comes again")
		}
		return done, err
	}
	for range 2 {
		if done, err := erase(); done || err != nil {
			t.Errorf("want that it is there, got %t, %v", done, err)
		}
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil ||
		!strings.Contains(r.Status.Message, "object lock") || strings.Contains(r.Status.Message, "\x1b") {
		t.Errorf("want the reason, got %q, %v", r.Status.Message, err)
	}
	all.locked = false
	if done, err := erase(); !done || err != nil {
		t.Errorf("want it gone, got %t, %v", done, err)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(r), r); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("want the record gone, got %v", err)
	}
}
