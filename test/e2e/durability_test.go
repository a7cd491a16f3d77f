package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestStoreDurability checks that a commit waits while the store cannot be written, and returns when it can be written
// again. With storeFailurePolicy Continue, the condition says that the protection is suspended before a commit returns. At
// the end, the data is deleted without a backup, and the last commit is recovered from the archive.
func TestStoreDurability(t *testing.T) {
	t.Parallel()
	framework.Repeats(t, "fn/compose tests the arguments, and the controller tests the acknowledgements")
	s3 := startS3(t)
	b := offersStore(t, s3, newStoreKey(t, s3.namespace))
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["image"] = newestImage
	durable := map[string]any{"durability": "Store"}
	backup := map[string]any{"storeRef": map[string]any{"name": b.GetName()}, "continuous": durable}
	s.Spec["backup"] = backup
	s.Begin(t)
	isRecoverable(t, s)
	const waits = "SELECT @@rpl_semi_sync_source_enabled, @@rpl_semi_sync_source_wait_no_replica"
	if got := s.Client().MustQuery(t, waits); strings.Join(strings.Fields(got), " ") != "1 1" {
		t.Fatalf("want the server to wait for the archive, got %q", got)
	}

	moveBucket(t, s3, "backups", "hidden")
	done := insertRow(t, s, 5000)
	commitWaits(t, s)
	archivingIs(t, s, "False", "ArchiveFailing")
	select {
	case err := <-done:
		t.Fatalf("the commit returned while the store could not be written: %v", err)
	default:
	}
	moveBucket(t, s3, "hidden", "backups")
	returns(t, done)
	archivingIs(t, s, "True", "Archived")

	pod := s.Pods().MustFindServer(t).UID
	durable["storeFailurePolicy"] = "Continue"
	s.Set(t, map[string]any{"backup": backup})
	moveBucket(t, s3, "backups", "hidden")
	done = insertRow(t, s, 5001)
	archivingIs(t, s, "False", "StoreDurabilitySuspended")
	returns(t, done)
	moveBucket(t, s3, "hidden", "backups")
	archivingIs(t, s, "True", "Archived")
	s.Eventually(t, "a server that waits again", func(ctx context.Context) error {
		got, err := s.Client().Query(ctx, s.Password, waits)
		if err == nil && strings.Join(strings.Fields(got), " ") != "1 1" {
			err = fmt.Errorf("it has %q", got)
		}
		return err
	})
	returns(t, insertRow(t, s, 5002))
	if now := s.Pods().MustFindServer(t).UID; now != pod {
		t.Errorf("want no restart after a change of storeFailurePolicy, got pod %s instead of %s", now, pod)
	}
	rows := s.Client().MustQuery(t, framework.Rows)
	s.Discard(t)
	s.Gone(t)
	s.Spec["restore"] = map[string]any{"at": "Latest"}
	s.Create(t)
	if got := s.Client().FirstAnswer(t, framework.Rows); got != rows {
		t.Errorf("want the rows of the last acknowledged commit\n%s\ngot\n%s", rows, got)
	}
	s.Delete(t)
}

// insertRow inserts a row in the background, and sends the result when the commit has returned.
func insertRow(t *testing.T, s *framework.Server, number int) <-chan error {
	t.Helper()
	ctx, done := t.Context(), make(chan error, 1)
	go func() {
		_, err := s.Client().Query(ctx, s.Password, fmt.Sprintf(oneRow, number))
		done <- err
	}()
	return done
}

// returns waits until the commit has returned without an error.
func returns(t *testing.T, done <-chan error) {
	t.Helper()
	framework.Eventually(t, "a commit that returns", func(context.Context) error {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return nil
		default:
			return errors.New("it waits")
		}
	})
}

// commitWaits waits until a session of the server waits for the archive.
func commitWaits(t *testing.T, s *framework.Server) {
	t.Helper()
	s.Eventually(t, "a commit that waits", func(ctx context.Context) error {
		out, err := s.Client().Query(ctx, s.Password, "SHOW PROCESSLIST")
		if err == nil && !strings.Contains(out, "Waiting for semi-sync ACK from replica") {
			err = fmt.Errorf("no session waits: %s", out)
		}
		return err
	})
}

// archivingIs waits until the condition Archiving has a status and a reason.
func archivingIs(t *testing.T, s *framework.Server, status, reason string) {
	t.Helper()
	s.Eventually(t, "the condition Archiving", func(ctx context.Context) error {
		out, err := framework.Kubectl(ctx, "get", "mysql", s.Name, "--namespace", s.Namespace, "--output",
			`jsonpath={.status.conditions[?(@.type=="Archiving")]}`)
		if err == nil && (!strings.Contains(out, `"status":"`+status+`"`) || !strings.Contains(out, `"reason":"`+reason+`"`)) {
			err = fmt.Errorf("it is %s", out)
		}
		return err
	})
}
