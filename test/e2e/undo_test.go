package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestUndo runs the commands of docs/how-to/bring-back-rows.md. A DELETE without WHERE removes all rows of two tables, one of
// them by a cascade, while a client writes. Afterwards, all rows are back, and all later rows are still there. The temporary
// instances are deleted. A dropped table is then brought back by its GTID.
func TestUndo(t *testing.T) {
	t.Parallel()
	kubectl := newPlugin(t)
	s3 := startS3(t)
	b := offersStore(t, s3, newStoreKey(t, s3.namespace))
	s := framework.NewServer(t, framework.ClassComposition)
	s.Spec["image"] = newestImage
	s.Spec["backup"] = map[string]any{"storeRef": map[string]any{"name": b.GetName()}, "continuous": map[string]any{}}
	s.Begin(t)
	isRecoverable(t, s)
	query := func(text string) string { return strings.TrimSpace(s.Client().MustQuery(t, text)) }
	query("CREATE TABLE items (id INT PRIMARY KEY, test_id SMALLINT UNSIGNED NOT NULL, note VARCHAR(80), " +
		"FOREIGN KEY (test_id) REFERENCES test (id) ON DELETE CASCADE)")
	for n := range 5 {
		query(fmt.Sprintf(oneRow, 2000+n))
		query(fmt.Sprintf("INSERT INTO items VALUES (%d, %d, 'item''s')", n, 2000+n))
	}
	const items = "SELECT id, test_id, note FROM items ORDER BY id"
	rows, cascaded := query(framework.Rows), query(items)
	moment := query("SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ')")
	time.Sleep(time.Second)
	query("DELETE FROM test")
	if got := query(items); got != "" {
		t.Errorf("the cascade has left %s", got)
	}
	later := writeWhile(t, s, func() {
		out, err := kubectl.try(t.Context(), s, "mysql", "undo", s.Name, "--before", moment) // Standard input is not a terminal.
		if err != nil || !strings.Contains(out, "Nothing was changed.") || !strings.Contains(out, "INSERT INTO") {
			t.Fatalf("%v: %s", err, out)
		}
		out = kubectl.run(t, s, "mysql", "undo", s.Name, "--before", moment, "--yes")
		if !strings.Contains(out, "The transaction is committed.") {
			t.Error(out)
		}
	})
	if got := query("SELECT id, name FROM test WHERE id < 10000 ORDER BY id"); got != rows {
		t.Errorf("want the rows\n%s\ngot\n%s", rows, got)
	}
	if got := query(items); got != cascaded {
		t.Errorf("want the rows\n%s\ngot\n%s", cascaded, got)
	}
	if got := query("SELECT COUNT(*) FROM test WHERE id >= 10000"); got != strconv.Itoa(later) {
		t.Errorf("%s of %d later rows", got, later)
	}

	executed := query("SELECT REPLACE(@@gtid_executed, '\n', '')")
	query("DROP TABLE items")
	id := query("SELECT GTID_SUBTRACT(@@gtid_executed, '" + executed + "')")
	kubectl.run(t, s, "mysql", "undo", s.Name, "--before", id, "--table", s.Database+".items", "--yes")
	if got := query(items); got != cascaded {
		t.Errorf("want the rows\n%s\ngot\n%s", cascaded, got)
	}
	framework.Eventually(t, "the temporary instances are gone", func(ctx context.Context) error {
		out, err := kubectl.try(ctx, s, "mysql", "list")
		if err == nil && (strings.Contains(out, "-before-") || strings.Contains(out, "-after-")) {
			err = errors.New(out)
		}
		return err
	})
	s.Delete(t)
}

// writeWhile inserts rows with large IDs until during returns, and returns the number of these rows.
func writeWhile(t *testing.T, s *framework.Server, during func()) int {
	t.Helper()
	var group sync.WaitGroup
	over, count := make(chan struct{}), 0
	group.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(200 * time.Millisecond):
			}
			if err := framework.OnceConnected(t, func(ctx context.Context) error {
				_, err := s.Client().Query(ctx, s.Password, fmt.Sprintf(oneRow, 10000+count))
				return err
			}); err != nil {
				t.Error(err)
				return
			}
			count++
		}
	})
	func() {
		defer close(over)
		during()
	}()
	group.Wait()
	return count
}
