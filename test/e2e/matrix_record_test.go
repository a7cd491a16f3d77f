package e2e

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// deletesRecord deletes the BackupRecord as soon as it exists. The BackupRecord must remain until the instance is
// deleted, and must then be deleted without its archive.
func deletesRecord(t *testing.T, c *cell) {
	t.Helper()
	framework.Eventually(t, "the record", func(ctx context.Context) error {
		r, err := c.lifesRecord(ctx)
		if err != nil {
			return err
		}
		return framework.Suite.Kube.Delete(ctx, r)
	})
}

// asksForRecord annotates the backup volume or the store, as the claim's message advises, so that the controller
// creates the deleted BackupRecord again. Until then, no empty server is started for a new claim.
func asksForRecord(t *testing.T, c *cell) {
	t.Helper()
	framework.Eventually(t, "the record's end", func(ctx context.Context) error {
		r, err := c.lifesRecord(ctx)
		switch {
		case r != nil && r.GetDeletionTimestamp() != nil:
			return errors.New("it is still there")
		case r != nil:
			return framework.IsVerified(r)
		}
		return errors.Join(c.askForRecords(ctx), err)
	})
}

// askForRecords requests the BackupRecords of all backups of the instance.
func (c *cell) askForRecords(ctx context.Context) error {
	if c.usesStore() {
		return c.askStoreForRecord(ctx)
	}
	var all corev1.PersistentVolumeList
	if err := framework.Suite.Kube.List(ctx, &all,
		client.MatchingLabels{"app.kubernetes.io/component": "backup"}); err != nil {
		return err
	}
	for i := range all.Items {
		v := &all.Items[i]
		if a := v.Annotations; a["crossplane-mysql.io/claim-namespace"] != c.Namespace || a["crossplane-mysql.io/claim-name"] != c.Name {
			continue
		}
		patch := client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"crossplane-mysql.io/make-record":"all"}}}`))
		if err := framework.Suite.Kube.Patch(ctx, v, patch); err != nil {
			return err
		}
	}
	return nil
}
