package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// The controller takes a backup before a server of a different release series starts on existing data. The tests have
// only one version of MySQL, so its image has several tags, which simulate different release series. An image that
// does not exist simulates a failed start.

// oneRow is a statement that inserts another row with a given ID.
const oneRow = "INSERT INTO test (id, name) VALUES (%d, 'more')"

// TestImageChange changes the image to one that does not start, and reverts this change. Then it changes the image to
// one that starts, and restores the backup that was taken before this change.
func TestImageChange(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestImageChange of package lifecycle has each step, and TestChangeInPlace an image that "+
		"needs none of them")
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["image"] = "mysql:8.4"
	before := s.Begin(t)

	s.Set(t, map[string]any{"image": missingImage})
	s.Says(t, "To revert the change, set spec.image to mysql:8.4. If that image no longer starts on the data, delete "+
		"the claim and create it again with spec.image: mysql:8.4 and spec.restore.backup: ")
	s.Says(t, "ErrImagePull")
	s.Backups().AreVerified(t, 1)
	if r := s.Backups().Only(t); originOf(r) != "ImageChange" {
		t.Errorf("want it to say why it was taken, got %q", originOf(r))
	}
	s.HasEvents(t, "ImageChangeBegun", "ImageAllowed")
	s.Set(t, map[string]any{"image": "mysql:8.4"})
	runsImage(t, s, "mysql:8.4")
	s.Client().SeesRows(t, before)

	s.Client().MustQuery(t, fmt.Sprintf(oneRow, 1000))
	before = s.Client().MustQuery(t, framework.Rows)
	s.Set(t, map[string]any{"image": newestImage})
	runsImage(t, s, newestImage)
	s.Client().SeesRows(t, before)
	s.Backups().AreVerified(t, 2)
	back := s.Backups().Newest(t).GetName()

	s.Client().MustQuery(t, fmt.Sprintf(oneRow, 1001))
	s.Delete(t)
	s.Backups().AreVerified(t, 3)
	if last := s.Backups().Newest(t); originOf(last) != ofDeletion || last.GetName() == back {
		t.Errorf("want the newest to be that of the deletion, got %s, of a %s", last.GetName(), originOf(last))
	}

	s.Spec["image"], s.Spec["restore"] = "mysql:8.4", map[string]any{"backup": back}
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != before {
		t.Errorf("want the rows of the time before the change\n%s\ngot\n%s", before, got)
	}
}

// TestDeletionOvertakesImageChange deletes a claim during a version upgrade. The deletion must wait only for its own
// backup.
func TestDeletionOvertakesImageChange(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "TestImageChange of package lifecycle has each step, and the model who overtakes whom")
	s := framework.NewServer(t, framework.ClassComposition)
	before := s.Begin(t)
	s.Set(t, map[string]any{"image": "mysql:latest"})
	s.Eventually(t, "a backup that has begun", func(ctx context.Context) error {
		all, err := s.Backups().List(ctx)
		if err == nil && len(all) == 0 {
			return errors.New("there is none")
		}
		return err
	})
	s.Delete(t)
	for _, r := range s.Backups().MustList(t) {
		if err := framework.IsVerified(&r); err != nil {
			t.Error(err)
		}
	}
	if last := s.Backups().Newest(t); originOf(last) != ofDeletion {
		t.Errorf("want the newest to be that of the deletion, got that of a %s", originOf(last))
	}
	s.Create(t)
	s.Client().SeesRows(t, before)
}

// ofDeletion is the value of spec.origin of a BackupRecord for the final backup of a deletion.
const ofDeletion = "Deletion"

func originOf(record *unstructured.Unstructured) string {
	origin, _, _ := unstructured.NestedString(record.Object, "spec", "origin")
	return origin
}

// runsImage waits until the server accepts clients with the given image, and the status no longer reports the image
// change.
func runsImage(t *testing.T, s *framework.Server, image string) {
	t.Helper()
	framework.Eventually(t, "a server of "+image, func(ctx context.Context) error {
		p, err := s.Pods().FindServer(ctx)
		if err != nil {
			return err
		}
		if got := p.Spec.Containers[0].Image; got != image {
			return fmt.Errorf("pod %s runs %s", p.Name, got)
		}
		xr, err := s.XR(ctx)
		if err != nil {
			return err
		}
		served, _, _ := unstructured.NestedString(xr.Object, "status", "internal", "servedImage")
		if left, ok, _ := unstructured.NestedMap(xr.Object, "status", "internal", "imageChange"); ok || served != image {
			return fmt.Errorf("%s is noted, and %v is left", served, left)
		}
		return framework.HasCondition(ctx, s.Claim, "Ready")
	})
}
