package finalize

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/controller/instance"
)

// TestDropBackupClaim: a claim that got a volume since it was read may have a
// backup on it, and stays.
func TestDropBackupClaim(t *testing.T) {
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
			at := client.ObjectKey{Namespace: "default", Name: running().Life.BackupClaimName()}
			if err := w.Get(ctx, at, read); err != nil {
				t.Fatal(err)
			}
			if tc.since != nil {
				changed := read.DeepCopy()
				tc.since(changed)
				if err := w.Update(ctx, changed); err != nil {
					t.Fatal(err)
				}
			}
			err := (&Performer{Client: w, Reader: w}).Perform(ctx, &instance.State{BackupClaim: read}, Step{Action: DropBackupClaim})
			if kerrors.IsConflict(err) != tc.stays {
				t.Errorf("want a conflict: %t, got %v", tc.stays, err)
			}
			if err := w.Get(ctx, at, now); kerrors.IsNotFound(err) == tc.stays {
				t.Errorf("want it to stay: %t, got %v", tc.stays, err)
			}
		})
	}
}
