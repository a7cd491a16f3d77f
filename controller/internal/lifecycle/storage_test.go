package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// TestDropBackupPVC checks that a PVC is not deleted if it was bound since it was read, because its volume may
// contain a backup.
func TestDropBackupPVC(t *testing.T) {
	cases := map[string]struct {
		since func(*corev1.PersistentVolumeClaim)
		stays bool
	}{
		"AsRead":     {},
		"BoundSince": {since: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pvc-3" }, stays: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, w := context.Background(), newWorld(t, -1, false, byClaim)
			read, now := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
			key := client.ObjectKey{Namespace: "default", Name: running().Instance.BackupPVCName()}
			if err := w.Get(ctx, key, read); err != nil {
				t.Fatal(err)
			}
			if tc.since != nil {
				changed := read.DeepCopy()
				tc.since(changed)
				if err := w.Update(ctx, changed); err != nil {
					t.Fatal(err)
				}
			}
			err := w.apply(ctx, backup.DeleteBackupPVC(&instance.State{BackupVolumes: instance.BackupVolumes{BackupPVC: read}},
				steps.Step{}))
			if kerrors.IsConflict(err) != tc.stays {
				t.Errorf("want a conflict: %t, got %v", tc.stays, err)
			}
			if err := w.Get(ctx, key, now); kerrors.IsNotFound(err) == tc.stays {
				t.Errorf("want it to stay: %t, got %v", tc.stays, err)
			}
		})
	}
}

// TestRetainBackupPV checks that the volume in a backup PVC is retained only if the volume also refers to that PVC. A
// user can name any volume in a PVC.
func TestRetainBackupPV(t *testing.T) {
	for name, tc := range map[string]struct {
		ref     *corev1.ObjectReference
		refused bool
	}{
		"Bound":     {ref: steps.ReservedFor(home, "backup-db-pvc")},
		"Another's": {ref: steps.ReservedFor("another", "backup-db-pvc"), refused: true},
		"Earlier":   {ref: &corev1.ObjectReference{Namespace: home, Name: "backup-db-pvc", UID: "earlier"}, refused: true},
		"Nobody's":  {refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, objects := context.Background(), deleted(byClaim)
			for _, o := range objects {
				if v, ok := o.(*corev1.PersistentVolume); ok && v.Name == "pvc-2" {
					v.Annotations[v1.AnnotationNamespaceUID], v.Spec.ClaimRef = earlierUID, tc.ref
				}
			}
			w := newWorldOf(t, -1, false, objects)
			instances, err := gathererFrom(w).Gather(ctx, key())
			if err != nil {
				t.Fatal(err)
			}
			step := withChanges(instances[0], backup.KeepBackupPV(instances[0], steps.Step{Phase: v1.DeletionBackingUp}))
			if refused := step.Action == steps.Wait && strings.Contains(step.Message, "is not bound"); refused != tc.refused {
				t.Errorf("want it refused: %t, got %+v", tc.refused, step)
			}
			v := &corev1.PersistentVolume{}
			if err := errors.Join(w.apply(ctx, step.Changes), w.Get(ctx, client.ObjectKey{Name: "pvc-2"}, v)); err != nil {
				t.Fatal(err)
			}
			if got := instance.NamespaceOf(v); (got == earlierUID) != tc.refused {
				t.Errorf("the volume is of namespace %q", got)
			}
		})
	}
}

// TestGoesWith checks that a hostPath data volume has its XR as an owner, even if a deletion has orphaned the volume.
// The garbage collector then deletes the volume after the XR.
func TestGoesWith(t *testing.T) {
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n"}
	mine := func(name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "otus.homework/v1", Kind: "XMySQL", Name: name, UID: xrUID}
	}
	composed := mine("db-x")
	composed.Controller = new(true)
	cases := map[string]struct {
		reason       string
		nameless     bool
		owners, want []metav1.OwnerReference
	}{
		"Composed": {reason: "Crossplane has already set the XR as the owner.", owners: []metav1.OwnerReference{composed},
			want: []metav1.OwnerReference{composed}},
		"Orphaned": {reason: "An orphaning deletion has removed the XR from the owners, so it must be added again.",
			owners: []metav1.OwnerReference{other},
			want:   []metav1.OwnerReference{other, mine("db-x")}},
		"Lost": {reason: "The name of a deleted XR is unknown, but an owner reference needs a name.",
			nameless: true, want: []metav1.OwnerReference{mine("gone")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := fenced(hostPath)
			s.XR.SetAPIVersion("otus.homework/v1")
			if tc.nameless {
				s.XR.SetName("")
			}
			s.DataPV.OwnerReferences = tc.owners
			addOwnerXR(s.DataPV, s.Identity().XR)
			if diff := cmp.Diff(tc.want, s.DataPV.OwnerReferences); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
